//! Targets about API servers that answer as they like: the memory that their `ConfigMap`s hold, their discovery, their
//! lists. One server on loopback answers all inputs; each input has a path of its own below it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use federate_apiserver_model::lists::{ListPage, read_item};
use federate_apiserver_model::managed_fields::read_fields;
use federate_dialect::ClusterReads;
use federate_engine::previous;
use federate_kubernetes::Object;
use federate_live::compression::{PART_BYTES, compress_text};
use federate_live::import::{ImportScope, ImportSource, fetch_objects};
use federate_live::snapshot::{read_inventory, read_status};
use federate_live::{Access, FoundPlan, Kubeconfig, SurveyOptions, survey_clusters};
use federate_reconcile::ApplySet;
use federate_reconcile::listed_object::ListedObject;
use federate_sync::hub::{RecordStoreError, RecordStoreIndex};
use federate_sync_api::record::{SyncRecord, compute_digest};
use federate_sync_api::status::SyncStatus;
use federate_sync_api::{NamespacedName, Sync};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::BETWEEN;

/// The most requests that are answered by an input; all others have no object.
const MAX_ANSWERS: usize = 200;

/// What the server answers to one input, and what it was asked for.
#[derive(Default)]
struct Script {
    /// Answers to the paths that start with a text; the longest text counts. Several answers are given one after the other.
    answers: BTreeMap<&'static str, Vec<String>>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    /// The status and the body of the answer to a path.
    fn answer(&self, path: &str) -> (u16, String) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.answers.iter().rev().find(|(start, _)| path.starts_with(**start));
        let before =
            known.map_or(0, |(start, _)| asked.iter().filter(|path| path.starts_with(start)).count());
        asked.push(path.to_owned());
        let body = known.and_then(|(_, answers)| answers.get(before.min(answers.len().saturating_sub(1))));
        let Some(body) = body.filter(|_| asked.len() <= MAX_ANSWERS && before < 8) else {
            return (404, "{}".to_owned());
        };
        for code in [301, 403, 404, 410] {
            if let Some(rest) = body.strip_prefix(&format!("!{code}\n")) {
                return (code, rest.to_owned());
            }
        }
        (200, body.clone())
    }
}

/// The scripts of the inputs that are under way, by the first segment of their paths.
static SCRIPTS: Mutex<BTreeMap<usize, Arc<Script>>> = Mutex::new(BTreeMap::new());

/// Answers the requests of a connection.
fn serve(connection: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut writer = connection;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        // The requests of these targets have no bodies.
        let mut header = String::new();
        while reader.read_line(&mut header)? > 2 {
            header.clear();
        }
        let target = first.split(' ').nth(1).unwrap_or_default();
        let (id, path) = target.trim_start_matches('/').split_once('/').unwrap_or_default();
        let id = id.parse().unwrap_or(usize::MAX);
        let script = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let (code, body) = script.map_or((404, String::new()), |script| script.answer(&format!("/{path}")));
        write!(
            writer,
            "HTTP/1.1 {code} X\r\nlocation: http://127.0.0.1:1/\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
    }
}

/// The address of the server.
fn address() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                std::thread::spawn(move || serve(connection));
            }
        });
        address
    })
}

/// Runs something with access to a server that follows a script, and returns the paths that it was asked for.
fn run_against(answers: BTreeMap<&'static str, Vec<String>>, run: impl FnOnce(&Access)) -> Vec<String> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let script = Arc::new(Script { answers, ..Script::default() });
    SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner).insert(id, script.clone());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "m1", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("{}/{id}", address())}}],
        "contexts": [{"name": "m1", "context": {"cluster": "c", "user": "u"}}],
    });
    let given = Kubeconfig::self_contained(kubeconfig.to_string().as_bytes()).unwrap();
    run(&Access { given: Some(given), timeout: Some(Duration::from_secs(8)), ..Access::default() });
    SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    std::mem::take(&mut *script.asked.lock().unwrap_or_else(PoisonError::into_inner))
}

/// No path that a server had federate ask for leads elsewhere.
fn check_paths(asked: &[String]) {
    for path in asked {
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        let elsewhere = |segment: &str| {
            let decoded = segment.to_lowercase();
            ["", ".", ".."].contains(&segment)
                || ["%2e", "%2f", "%5c", "%25", "%00"].iter().any(|code| decoded.contains(code))
        };
        assert!(!path.split('/').skip(1).any(elsewhere), "{path}");
        assert!(path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\#;&".contains(&byte)), "{path}");
    }
}

/// The parts of an input.
fn sections(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).split(BETWEEN).map(str::to_owned).collect()
}

/// The bytes that a `ConfigMap` of a memory holds: text is packed, unless it starts with `=`.
fn packed(text: &str) -> Vec<u8> {
    text.strip_prefix('=')
        .map_or_else(|| compress_text(text.as_bytes()), |raw| raw.chars().map(|c| c as u8).collect())
}

/// A memory is read or refused, and nothing is read but its parts. The input has the keys of the index and the memory; a digest
/// `@` becomes the right one.
pub(crate) fn memory(bytes: &[u8]) {
    let sections = sections(bytes);
    let data: Value = serde_json::from_str(&sections[0]).unwrap_or_default();
    let packed = packed(sections.get(1).map_or("", String::as_str));
    plan_of_sync(&data, &packed);
    plan_of_cluster(&data, &packed);
    if let Some(stored) = sections.get(2) {
        record(stored);
    }
}

/// What a memory contains is a plan, or is refused.
fn check_plan(text: &[u8]) {
    if let Ok(plan) = previous::read_own(text) {
        let written = previous::serialize_plan(&plan);
        let again =
            previous::read_own(written.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(previous::serialize_plan(&again), written);
    }
}

fn plan_of_sync(data: &Value, packed: &[u8]) {
    let right = compute_digest([packed]);
    let data = data.to_string().replace("\"@\"", &format!("\"{right}\"")).replace('@', &right[..12]);
    let object = json!({"data": serde_json::from_str::<Value>(&data).unwrap_or_default()});
    let index = RecordStoreIndex { name: "federate.web", object: &object };
    let mut read = 0;
    let found = index.read_parts("", |name| {
        let own = name.strip_prefix("federate.web.");
        assert!(own.is_some() && !name.contains(['/', '%', '?']) && name != "..", "{name}");
        let part = packed.chunks(PART_BYTES).nth(read).map(|part| k8s_openapi::ByteString(part.to_vec()));
        read += 1;
        assert!(read <= 256);
        Ok(part.map(|part| json!({"binaryData": {"part": part}})))
    });
    match found {
        Ok(Some(text)) => check_plan(&text),
        Ok(None) | Err(RecordStoreError::Contents(_)) => {}
        Err(RecordStoreError::Server(error)) => panic!("{error}"),
    }
}

fn plan_of_cluster(data: &Value, packed: &[u8]) {
    let right = Sha256::digest(packed).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let data = data.to_string().replace("\"@\"", &format!("\"{right}\""));
    let data: Value = serde_json::from_str(&data).unwrap_or_default();
    let part = k8s_openapi::ByteString(packed.to_vec());
    let inline = data["parts"].as_str().is_none_or(|parts| parts == "0");
    let mut index = json!({"kind": "ConfigMap", "data": data});
    if inline {
        index["binaryData"] = json!({"plan": part});
    }
    let answers = BTreeMap::from([
        ("/api/v1/namespaces/default/configmaps/federate.plan", vec![index.to_string()]),
        (
            "/api/v1/namespaces/default/configmaps/federate.plan.",
            vec![json!({"binaryData": {"plan": part}}).to_string()],
        ),
    ]);
    let asked = run_against(answers, |access| {
        let set = ApplySet { namespace: "default".to_owned(), name: "federate".to_owned() };
        let survey_of = SurveyOptions { stores_plan: Some(&set), reads: &ClusterReads::default() };
        for cluster in survey_clusters(access, &["m1".into()], &survey_of).unwrap() {
            if let Ok(found) = cluster.found
                && let FoundPlan::Plan(plan) = found.plan
            {
                check_plan(&plan.text);
            }
        }
    });
    check_paths(&asked);
    let own = "/api/v1/namespaces/default/configmaps/federate.plan";
    assert!(asked.len() <= 257 && asked.iter().all(|path| path.starts_with(own)), "{asked:?}");
}

/// A record is restored or ignored; what is kept of it is restored again.
fn record(stored: &str) {
    let spec = json!({"source": {"url": "https://git.example.com/r"}, "interval": "1m"});
    let metadata = json!({"name": "web", "namespace": "shop"});
    let sync =
        json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "metadata": metadata, "spec": spec});
    let sync = Sync::parse(sync).unwrap();
    let mut record = SyncRecord::new(&sync, 1, SyncStatus::default());
    record.restore_stored(stored);
    let kept = record.to_stored();
    let mut again = SyncRecord::new(&sync, 1, SyncStatus::default());
    again.restore_stored(&kept);
    assert_eq!(again.to_stored(), kept);
    record.follow_spec(&sync, false);
    assert_eq!(record.metadata.name, NamespacedName { name: "web".to_owned(), namespace: "shop".to_owned() });
}

/// Discovery of a hostile server leads to its own kinds, or to an error. The input has the groups, the kinds of a version, and
/// the definitions and documents about them.
pub(crate) fn discovery(bytes: &[u8]) {
    let sections = sections(bytes);
    let section = |number: usize| vec![sections.get(number).cloned().unwrap_or_default()];
    let answers = || {
        BTreeMap::from([
            ("/apis", section(0)),
            ("/apis/", section(1)),
            ("/api/v1", section(1)),
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", section(2)),
            ("/openapi", section(3)),
            ("/version", vec![json!({"gitVersion": "v1.30.0"}).to_string()]),
        ])
    };
    let widgets = || ImportScope::All { kind: "widgets.v1.example.com".to_owned() };
    check_paths(&run_against(answers(), |access| {
        let place = ImportSource { context: "m1".to_owned(), everywhere: true, ..ImportSource::default() };
        let _ = fetch_objects(access, &place, &[widgets()]);
    }));
    check_paths(&run_against(answers(), |access| {
        let _ = read_status(access, &["m1".into()], jiff::Timestamp::UNIX_EPOCH);
    }));
    let kinds = BTreeSet::from([("example.com".to_owned(), "Widget".to_owned())]);
    check_paths(&run_against(answers(), |access| {
        let _ = read_inventory(access, "m1", &kinds);
    }));
}

/// Pages of lists are read to the end or refused. An item that is read as text is the same object as when its values are read.
pub(crate) fn lists(bytes: &[u8]) {
    let pages = sections(bytes);
    for page in &pages {
        let Ok(page) = ListPage::parse(page.as_bytes()) else { continue };
        for item in page.items {
            let Ok(mut body) = read_item(item.as_bytes()) else { continue };
            read_fields(&mut body);
            let object = Object::from_manifest(body, "m1");
            let Ok(listed) = ListedObject::from_json(item.as_bytes()) else { continue };
            let id = listed.object_ref(object.id.api_version.clone(), object.id.kind.clone());
            assert_eq!((&id.name, &id.namespace), (&object.id.name, &object.id.namespace), "{item}");
        }
    }
    let answers = BTreeMap::from([
        ("/api/v1/pods", pages.clone()),
        ("/api/v1/nodes", pages.clone()),
        ("/apis/apps/v1", pages),
    ]);
    let asked = run_against(answers.clone(), |access| {
        let place = ImportSource { context: "m1".to_owned(), everywhere: true, ..ImportSource::default() };
        let scopes = ["pods", "deployments"].map(|kind| ImportScope::All { kind: kind.to_owned() });
        if let Ok(fetched) = fetch_objects(access, &place, &scopes) {
            let known = ["Pod", "Deployment"];
            assert!(fetched.found.iter().all(|found| known.contains(&found.object.id.kind.as_str())));
        }
    });
    check_paths(&asked);
    check_paths(&run_against(answers, |access| {
        let _ = read_status(access, &["m1".into()], jiff::Timestamp::UNIX_EPOCH);
    }));
}
