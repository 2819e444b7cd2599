//! Sources with the credentials of a GitHub App, and sources with submodules.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::git_http::Server;
use crate::sandbox::config;
use crate::sync_objects::{Hub, Running, git, image, until};

/// A server that gives tokens of installations, as GitHub does.
struct GitHub {
    address: String,
    /// The first lines of requests, and their JWTs.
    received: Arc<Mutex<Vec<(String, String)>>>,
}

impl GitHub {
    /// `lasts`: how many seconds a token is valid.
    fn start(status: &'static str, lasts: i64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/api/v3", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let all = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                let (mut first, mut bearer) = (String::new(), String::new());
                reader.read_line(&mut first).unwrap();
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) < 3 {
                        break;
                    }
                    if let Some(value) = line.strip_prefix("authorization: Bearer ") {
                        value.trim().clone_into(&mut bearer);
                    }
                }
                all.lock().unwrap().push((first.trim().to_owned(), bearer));
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
                let end = jiff(i64::try_from(now.as_secs()).unwrap() + lasts);
                let body = json!({"token": "ghs_s3cret", "expires_at": end, "message": "Bad credentials"});
                let body = body.to_string();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
                let _ =
                    reader.get_mut().write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes());
            }
        });
        Self { address, received }
    }

    fn requests(&self) -> Vec<(String, String)> {
        self.received.lock().unwrap().clone()
    }
}

/// A time in RFC 3339, by `date`.
fn jiff(seconds: i64) -> String {
    let printed =
        Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"]).output();
    String::from_utf8(printed.unwrap().stdout).unwrap().trim().to_owned()
}

fn openssl(hub: &Hub, arguments: &str) -> bool {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(hub.sandbox.path(""));
    command.output().unwrap().status.success()
}

fn secret(hub: &Hub, name: &str, app: &str, address: &str) {
    let key = fs::read_to_string(hub.sandbox.path("app.pem")).unwrap();
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {
        "githubAppID": app, "githubAppInstallationID": "42", "githubAppPrivateKey": key,
        "githubAppBaseURL": address,
    }});
    hub.sandbox.create("hub", "/api/v1/namespaces/shop/secrets", "test", &body);
}

#[test]
fn a_github_app_reads_the_source_with_a_token_of_its_installation() {
    let hub = Hub::new();
    assert!(openssl(&hub, "genrsa -traditional -out app.pem 2048"));
    assert!(openssl(&hub, "rsa -in app.pem -pubout -out app.pub"));
    let server = Server::start(&hub.sandbox.path(""));
    // `x-access-token` with the token.
    server.demand("Basic eC1hY2Nlc3MtdG9rZW46Z2hzX3MzY3JldA==");
    let (github, refuses) = (GitHub::start("201 Created", 3600), GitHub::start("401 Unauthorized", 0));
    secret(&hub, "app", "7", &github.address);
    secret(&hub, "refused", "8", &refuses.address);
    let url = format!("{}/origin.git", server.address());
    let source = |secret: &str| json!({"url": url, "ref": {"branch": "main"}, "secretRef": {"name": secret}});
    hub.create(&hub.sync("web", &json!({"source": source("refused")})));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("the server refuses a token: 401 Unauthorized"), "{ran:#?}");
    assert!(!ran.out.contains("Bad credentials"), "its text is not shown: {ran:#?}");
    hub.patch("web", &json!({"spec": {"source": source("app"), "interval": "1s"}}));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    hub.sandbox.write("a.yaml", &config("a", "1"));
    hub.push("next");
    until("the next revision is applied", || hub.sandbox.has("m1", "/api/v1/namespaces/shop/configmaps/a"));
    assert_eq!(running.end("-TERM"), Some(0));
    let requests = github.requests();
    assert_eq!(requests.len(), 1, "the token is kept: {requests:?}");
    let (first, token) = &requests[0];
    assert_eq!(first, "POST /api/v3/app/installations/42/access_tokens HTTP/1.1");
    let (signed, signature) = token.rsplit_once('.').unwrap();
    fs::write(hub.sandbox.path("signed"), signed).unwrap();
    let padded = format!("{}==", signature.replace('-', "+").replace('_', "/"));
    fs::write(hub.sandbox.path("signature.b64"), &padded[..padded.len() / 4 * 4]).unwrap();
    assert!(openssl(&hub, "base64 -d -A -in signature.b64 -out signature"));
    assert!(openssl(&hub, "dgst -sha256 -verify app.pub -signature signature signed"), "{token}");
    let said =
        format!("{ran:?}{}{}", hub.status("web"), fs::read_to_string(hub.sandbox.path("log")).unwrap());
    assert!(!said.contains("ghs_s3cret") && !said.contains("PRIVATE KEY") && !said.contains(signature));
}

#[test]
fn a_token_is_replaced_before_it_ends() {
    let hub = Hub::new();
    assert!(openssl(&hub, "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out app.pem"));
    let github = GitHub::start("201 Created", 60);
    secret(&hub, "app", "7", &github.address);
    let source = json!({"url": hub.url(), "ref": {"branch": "main"}, "secretRef": {"name": "app"}});
    hub.create(&hub.sync("web", &json!({"source": source, "interval": "1s"})));
    let running = Running::start(&hub, "log");
    until("there are two rounds", || github.requests().len() >= 2);
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    drop(running);
}

/// Makes a commit of another repository a submodule.
fn submodule(hub: &Hub, address: &str, commit: &str) {
    let text = format!("[submodule \"extra\"]\n\tpath = modules/extra\n\turl = {address}\n");
    fs::write(hub.sandbox.path("repo/.gitmodules"), text).unwrap();
    fs::create_dir_all(hub.sandbox.path("repo/modules/extra")).unwrap();
    git(&hub.sandbox, &format!("-C repo update-index --add --cacheinfo 160000,{commit},modules/extra"));
    hub.push("submodule");
}

/// A commit of the repository `extra` with a `ConfigMap`.
fn extra(hub: &Hub, value: &str) -> String {
    fs::write(hub.sandbox.path("extra/a.yaml"), hub.sandbox.own(&config("a", value))).unwrap();
    git(&hub.sandbox, "-C extra add -A");
    git(&hub.sandbox, "-C extra commit -q -m extra");
    git(&hub.sandbox, "-C extra push -q ../extra.git main");
    let head =
        Command::new("git").args(["rev-parse", "HEAD"]).current_dir(hub.sandbox.path("extra")).output();
    String::from_utf8(head.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn submodules_are_read_from_the_server_of_the_source_only() {
    let hub = Hub::new();
    git(&hub.sandbox, "init -q -b main extra");
    git(&hub.sandbox, "init -q --bare -b main extra.git");
    let first = extra(&hub, "1");
    submodule(&hub, "../extra.git", &first);
    let value = || hub.sandbox.get("m1", "/api/v1/namespaces/shop/configmaps/a")["data"]["k"].clone();
    let source = json!({"url": hub.url(), "ref": {"branch": "main"}, "recurseSubmodules": true});
    hub.create(&hub.sync("web", &json!({"source": source})));
    hub.once().code(0);
    assert_eq!(value(), "1");
    // Another commit of it is another revision of the source.
    let second = extra(&hub, "2");
    hub.once().code(0);
    assert_eq!(value(), "1");
    submodule(&hub, "../extra.git", &second);
    hub.once().code(0);
    assert_eq!(value(), "2");
    // Credentials are sent nowhere else, and half a source is not applied.
    submodule(&hub, "https://example.org/extra.git", &first);
    let ran = hub.once().code(2);
    assert!(ran.out.contains("the submodule modules/extra: its address is not on the server"), "{ran:#?}");
    submodule(&hub, "../gone.git", &"2".repeat(40));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: `git fetch` failed"), "{ran:#?}");
    submodule(&hub, "../extra.git", &"1".repeat(40));
    hub.once().code(2);
    assert_eq!(value(), "2");
}
