//! What a cluster holds of what concerns us, in few requests: a list for each kind, by the label of our
//! inventory, and what is wanted but not among them by one more list for a kind and namespace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::task::{JoinError, JoinHandle};

use super::call::Call;
use super::client::Client;
use super::kinds::{self, Kinds, path, path_of};
use super::{Error, Job};
use federate_apiserver::Kind;
use federate_engine::actions::Inventory;
use federate_engine::actions::inventory::Members;
use federate_engine::actions::ownership::{PART_OF, is_member};
use federate_kubernetes::{ClusterName, Live, Object, ObjectRef};

/// How many objects a page of a list has.
const PAGE: &str = "500";
/// How often a list is begun anew because its pages expired.
const LISTS: usize = 3;

/// What was found in a cluster.
#[derive(Debug)]
pub struct Seen {
    /// What is wanted, and what we own, as far as it is there.
    pub live: Live,
    /// The kinds of all of them.
    pub kinds: Kinds,
    /// The inventory's parent.
    pub parent: Option<Value>,
    /// What we applied.
    pub members: Vec<ObjectRef>,
}

/// What an object is whatever its version.
type Key = (String, String, Option<String>, String);

fn key(object: &ObjectRef) -> Key {
    (object.group().to_owned(), object.kind.clone(), object.namespace.clone(), object.name.clone())
}

/// Reads a cluster.
pub(super) async fn read(client: &Client, job: &Job<'_>, inventory: &Inventory) -> Result<Seen, Error> {
    let parent = client.find(&Call::get(parent_path(inventory))).await?;
    let members = parent.as_ref().map(Members::of).unwrap_or_default();
    let kinds = kinds::find(client, job, &members).await?;
    let selector = format!("{PART_OF}={}", inventory.id());
    let versions: BTreeMap<Key, &str> =
        job.wanted.iter().map(|(object, _)| (key(object), object.api_version.as_str())).collect();

    let lists = kinds.served().map(|kind| List {
        kind: kind.clone(),
        namespace: None,
        selector: Some(selector.clone()),
    });
    let mut objects = objects(client, lists, &job.cluster).await?;
    objects.retain(|object| {
        versions.get(&key(&object.id)).is_none_or(|version| *version == object.id.api_version)
    });
    let mut found: BTreeSet<Key> = BTreeSet::new();
    // An object that is not wanted is read once, in whatever version.
    objects.retain(|object| found.insert(key(&object.id)));
    let ours = objects.iter().filter(|object| is_member(&object.body, &inventory.id()));
    let members = ours.map(|object| object.id.clone()).collect();

    objects.extend(missing(client, job, &kinds, &found).await?);
    let mut live = Live::default();
    live.insert(job.cluster.clone(), objects);
    Ok(Seen { live, kinds, parent, members })
}

/// The path of the inventory's parent.
pub(super) fn parent_path(inventory: &Inventory) -> String {
    use super::call::encoded;
    format!("/api/v1/namespaces/{}/configmaps/{}", encoded(&inventory.namespace), encoded(&inventory.name))
}

/// What is wanted and was not found: alone it is asked for by name, with others by their namespace.
async fn missing(
    client: &Client,
    job: &Job<'_>,
    kinds: &Kinds,
    found: &BTreeSet<Key>,
) -> Result<Vec<Object>, Error> {
    let mut places: BTreeMap<(&str, &str, Option<&str>), Vec<&ObjectRef>> = BTreeMap::new();
    for (object, _) in &job.wanted {
        if kinds.serves(object) && !found.contains(&key(object)) {
            let place = (object.api_version.as_str(), object.kind.as_str(), object.namespace.as_deref());
            places.entry(place).or_default().push(object);
        }
    }
    let (mut lists, mut gets) = (Vec::new(), Vec::new());
    for wanted in places.values() {
        let Some(kind) = wanted.first().and_then(|first| kinds.of(first)) else { continue };
        match wanted.as_slice() {
            [one] => gets.push((kind.clone(), Call::get(path_of(kind, one)))),
            several => {
                let namespace = several.first().and_then(|object| object.namespace.clone());
                lists.push(List { kind: kind.clone(), namespace, selector: None });
            }
        }
    }
    let gets = gets.into_iter().map(|(kind, call)| {
        let client = client.clone();
        tokio::spawn(async move { client.find(&call).await.map(|found| (kind, found)) })
    });
    let gets: Vec<JoinHandle<_>> = gets.collect();
    let mut all = objects(client, lists.into_iter(), &job.cluster).await?;
    let wanted: BTreeSet<&ObjectRef> = job.wanted.iter().map(|(object, _)| *object).collect();
    all.retain(|object| wanted.contains(&object.id));
    for get in gets {
        let (kind, found) = finished(get.await)??;
        all.extend(found.map(|body| object(&kind, body, &job.cluster)));
    }
    Ok(all)
}

/// Objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) kind: Kind,
    pub(super) namespace: Option<String>,
    pub(super) selector: Option<String>,
}

/// What is in several lists.
pub(super) async fn objects(
    client: &Client,
    lists: impl Iterator<Item = List>,
    cluster: &ClusterName,
) -> Result<Vec<Object>, Error> {
    let under_way = lists.map(|list| {
        let (client, cluster) = (client.clone(), cluster.clone());
        tokio::spawn(async move {
            let items = items(&client, &list).await?;
            Ok(items.into_iter().map(|item| object(&list.kind, item, &cluster)).collect::<Vec<_>>())
        })
    });
    let under_way: Vec<JoinHandle<Result<Vec<Object>, Error>>> = under_way.collect();
    let mut all = Vec::new();
    for task in under_way {
        all.extend(finished(task.await)??);
    }
    Ok(all)
}

/// The result of a task that was waited for.
pub(super) fn finished<T>(task: Result<T, JoinError>) -> Result<T, Error> {
    task.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Error::Unreachable(error.to_string()),
    })
}

/// All pages of a list; none where the cluster does not know the kind.
async fn items(client: &Client, list: &List) -> Result<Vec<Value>, Error> {
    let mut begun = 1;
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let mut call = Call::get(path(&list.kind, list.namespace.as_deref()));
        // Where pages expire faster than they are read, all is asked for at once.
        if begun < LISTS {
            call = call.query("limit", PAGE);
        }
        if let Some(selector) = &list.selector {
            call = call.query("labelSelector", selector);
        }
        if !token.is_empty() {
            call = call.query("continue", &token);
        }
        let mut page = match client.find(&call).await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(all),
            Err(Error::Refused(refusal)) if refusal.code == 410 && begun < LISTS => {
                begun += 1;
                all.clear();
                token.clear();
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            all.extend(items);
        }
        page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().clone_into(&mut token);
        if token.is_empty() {
            return Ok(all);
        }
    }
}

/// An object of a list, whose items need not say what they are.
pub(super) fn object(kind: &Kind, mut body: Value, cluster: &ClusterName) -> Object {
    if let Some(map) = body.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(kind.api_version()));
        map.insert("kind".to_owned(), json!(kind.kind));
    }
    Object::of(body, cluster.clone())
}
