//! An OCI registry on loopback, in memory, with one thread per connection and faults on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};

/// `user:hunter2`, as `Authorization` has it.
const BASIC: &str = "Basic dXNlcjpodW50ZXIy";

/// What a registry has, and what it does next.
#[derive(Default)]
pub(crate) struct State {
    /// By repository and digest.
    pub(crate) blobs: BTreeMap<(String, String), Vec<u8>>,
    /// By repository and digest.
    pub(crate) manifests: BTreeMap<(String, String), Vec<u8>>,
    /// The digests, by repository and tag.
    pub(crate) tags: BTreeMap<(String, String), String>,
    /// The requests since the last look, without those that were refused for now.
    pub(crate) requests: Vec<String>,
    /// Whether requests need a token, for which the server of tokens wants user and password.
    pub(crate) wants_token: bool,
    /// Whether requests need user and password.
    pub(crate) wants_password: bool,
    /// How many requests get status 429 next.
    pub(crate) busy: usize,
    /// How many uploads end in the middle next.
    pub(crate) cuts: usize,
    /// Repositories that nobody may write.
    pub(crate) denied: BTreeSet<String>,
    /// Tags that nobody may set, as `repository:tag`.
    pub(crate) refused_tags: BTreeSet<String>,
    /// The server that has the blobs, if it is another one.
    pub(crate) blobs_at: Option<String>,
    /// What every manifest is instead.
    pub(crate) manifest_instead: Option<Vec<u8>>,
    /// What every blob is instead.
    pub(crate) blob_instead: Option<Vec<u8>>,
    /// The `Authorization` headers that came with requests for blobs.
    pub(crate) seen_authorizations: Vec<String>,
    /// Who else moves a tag.
    pub(crate) rival: Option<Rival>,
}

/// Somebody who moves a tag after each request that begins like `after`, to one digest after the other.
pub(crate) struct Rival {
    pub(crate) after: String,
    pub(crate) repository: String,
    pub(crate) tag: String,
    pub(crate) digests: Vec<String>,
}

/// A registry that serves until the test ends.
#[derive(Clone)]
pub(crate) struct Registry {
    port: u16,
    state: Arc<Mutex<State>>,
}

struct Request {
    method: String,
    path: String,
    query: String,
    authorization: String,
    body: Vec<u8>,
    /// Whether the body is as long as it was announced.
    is_whole: bool,
}

impl Registry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let registry = Self { port, state: Arc::default() };
        let server = registry.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let server = server.clone();
                // A client that is killed closes its connections.
                thread::spawn(move || drop(server.serve(stream.unwrap())));
            }
        });
        registry
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The requests since the last call that change something.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        let requests = std::mem::take(&mut self.state().requests);
        requests
            .into_iter()
            .filter(|request| !request.starts_with("GET") && !request.starts_with("HEAD"))
            .collect()
    }

    /// The tags as `repository:tag`.
    pub(crate) fn tags(&self) -> Vec<String> {
        self.state().tags.keys().map(|(repository, tag)| format!("{repository}:{tag}")).collect()
    }

    /// The manifest of a tag.
    pub(crate) fn manifest(&self, repository: &str, tag: &str) -> serde_json::Value {
        let state = self.state();
        let digest = &state.tags[&(repository.to_owned(), tag.to_owned())];
        serde_json::from_slice(&state.manifests[&(repository.to_owned(), digest.clone())]).unwrap()
    }

    /// The files in the layer of a tag.
    pub(crate) fn files(&self, repository: &str, tag: &str) -> BTreeMap<String, String> {
        let digest = self.manifest(repository, tag)["layers"][0]["digest"].as_str().unwrap().to_owned();
        let state = self.state();
        let bytes = &state.blobs[&(repository.to_owned(), digest)];
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(
                (header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap()),
                (0o644, 0, 0)
            );
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.insert(path, text);
        }
        files
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let Some(request) = read_request(&mut reader, || {
            let mut state = self.state();
            let cuts = state.cuts > 0;
            state.cuts = state.cuts.saturating_sub(1);
            cuts
        })?
        else {
            return Ok(());
        };
        if !request.is_whole {
            return Ok(());
        }
        let (status, headers, body) = self.answer(&request);
        let length = body.len();
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        )?;
        if request.method != "HEAD" {
            stream.write_all(&body)?;
        }
        stream.flush()
    }

    fn answer(&self, request: &Request) -> (u16, String, Vec<u8>) {
        let mut state = self.state();
        if state.busy > 0 {
            state.busy -= 1;
            return (429, "Retry-After: 0\r\n".to_owned(), Vec::new());
        }
        if request.path == "/token" {
            let scope =
                request.query.split('&').find_map(|pair| pair.strip_prefix("scope=")).unwrap_or_default();
            return if request.authorization == BASIC {
                (200, String::new(), format!("{{\"token\": \"secret-token-for-{scope}\"}}").into_bytes())
            } else {
                (401, String::new(), Vec::new())
            };
        }
        let Some(rest) = request.path.strip_prefix("/v2/") else { return (404, String::new(), Vec::new()) };
        let place = ["/blobs/uploads/", "/blobs/", "/manifests/"].iter().find_map(|kind| {
            rest.rsplit_once(kind).map(|(repository, name)| (repository.to_owned(), *kind, name.to_owned()))
        });
        let Some((repository, kind, name)) = place else { return (404, String::new(), Vec::new()) };
        if state.wants_password && request.authorization != BASIC {
            return (401, "WWW-Authenticate: Basic realm=\"r\"\r\n".to_owned(), Vec::new());
        }
        if state.wants_token
            && request.authorization != format!("Bearer secret-token-for-repository:{repository}:pull,push")
        {
            let realm = format!("http://{}/token", self.host());
            let header = format!(
                "WWW-Authenticate: Bearer realm=\"{realm}\",service=\"test\",scope=\"repository:{repository}:pull,push\"\r\n"
            );
            return (401, header, b"{\"errors\": [{\"message\": \"authentication required\"}]}".to_vec());
        }
        state.requests.push(format!("{} {}", request.method, request.path));
        let is_write = request.method == "PUT" || request.method == "POST";
        let is_refused = state.denied.contains(&repository)
            || (kind == "/manifests/" && state.refused_tags.contains(&format!("{repository}:{name}")));
        if is_write && is_refused {
            return (403, String::new(), b"{\"errors\": [{\"message\": \"not \\u001b[31myours\"}]}".to_vec());
        }
        if kind == "/blobs/" {
            state.seen_authorizations.push(request.authorization.clone());
        }
        let answer = answer_request(&mut state, request, (repository, name), kind);
        state.let_rival_move(&format!("{} {}", request.method, request.path));
        answer
    }
}

impl State {
    fn let_rival_move(&mut self, request: &str) {
        let Some(rival) = self.rival.as_mut().filter(|rival| request.starts_with(&rival.after)) else {
            return;
        };
        if let Some(digest) = rival.digests.pop() {
            self.tags.insert((rival.repository.clone(), rival.tag.clone()), digest);
        }
    }
}

fn answer_request(
    state: &mut State,
    request: &Request,
    place: (String, String),
    kind: &str,
) -> (u16, String, Vec<u8>) {
    let nothing = Vec::new;
    match (request.method.as_str(), kind) {
        ("POST", "/blobs/uploads/") => {
            (202, format!("Location: /v2/{}/blobs/uploads/1?_state=a%2Fb\r\n", place.0), nothing())
        }
        ("PUT", "/blobs/uploads/") => {
            let digest =
                request.query.split('&').find_map(|pair| pair.strip_prefix("digest=")).unwrap_or_default();
            if digest != compute_digest(&request.body) || !request.query.contains("_state=a%2Fb") {
                return (400, String::new(), nothing());
            }
            state.blobs.insert((place.0, digest.to_owned()), request.body.clone());
            (201, String::new(), nothing())
        }
        ("GET" | "HEAD", "/blobs/") => match (&state.blobs_at, state.blobs.get(&place)) {
            (Some(server), Some(_)) => (307, format!("Location: {server}{}\r\n", request.path), nothing()),
            (None, Some(blob)) => (200, String::new(), state.blob_instead.as_ref().unwrap_or(blob).clone()),
            (_, None) => (404, String::new(), nothing()),
        },
        ("PUT", "/manifests/") => {
            let manifest: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            let named = manifest["layers"].as_array().unwrap().iter().chain([&manifest["config"]]);
            for blob in named {
                let digest = blob["digest"].as_str().unwrap().to_owned();
                assert!(
                    state.blobs.contains_key(&(place.0.clone(), digest)),
                    "a manifest comes after its blobs"
                );
            }
            let digest = compute_digest(&request.body);
            state.manifests.insert((place.0.clone(), digest.clone()), request.body.clone());
            if place.1 != digest {
                state.tags.insert(place, digest);
            }
            (201, String::new(), nothing())
        }
        ("GET", "/manifests/") => {
            let digest = state.tags.get(&place).unwrap_or(&place.1).clone();
            match state.manifests.get(&(place.0, digest)) {
                Some(manifest) => {
                    let manifest = state.manifest_instead.as_ref().unwrap_or(manifest);
                    (
                        200,
                        "Content-Type: application/vnd.oci.image.manifest.v1+json\r\n".to_owned(),
                        manifest.clone(),
                    )
                }
                None => (404, String::new(), nothing()),
            }
        }
        _ => (405, String::new(), nothing()),
    }
}

/// Reads a request; `None` if the client has gone. `cuts` says of an upload whether its end is not read.
fn read_request(
    reader: &mut BufReader<TcpStream>,
    cuts: impl Fn() -> bool,
) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header == "\r\n" {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => value.trim().clone_into(&mut authorization),
            _ => {}
        }
    }
    let is_upload = method == "PUT" && path.contains("/blobs/uploads/");
    let is_whole = !(is_upload && cuts());
    let mut body = vec![0; if is_whole { length } else { length / 2 }];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { method, path, query, authorization, body, is_whole }))
}

/// Debian's registry, if the machine has it.
pub(crate) struct RealRegistry {
    child: Child,
    pub(crate) host: String,
}

impl RealRegistry {
    /// Starts one that keeps what it has in `folder`.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        drop(listener);
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{host}'}}\n",
            folder.join(".registry").display()
        );
        std::fs::write(folder.join(".registry.yml"), config).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(folder.join(".registry.yml"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let registry = Self { child, host };
        for _ in 0..100 {
            if TcpStream::connect(&registry.host).is_ok() {
                return Some(registry);
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("docker-registry does not listen");
    }
}

impl Drop for RealRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compute_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
