//! `federate sync` with sources on real servers: git's own HTTP server over TLS, and OpenSSH's `sshd`. And ranges of
//! versions.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

use crate::git_http::Server;
use crate::sandbox::{WEB, deployment};
use crate::sync_objects::{Hub, SYNCS, git, image};

const SECRETS: &str = "/api/v1/namespaces/shop/secrets";

/// Runs a program that must succeed.
#[track_caller]
fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let ran =
        Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A connection that says when it ends.
struct Tls(StreamOwned<ServerConnection, TcpStream>);

impl Read for Tls {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.0.conn.send_close_notify();
        let _ = self.0.flush();
    }
}

/// Git's HTTP server over TLS, and its certificate.
fn tls(hub: &Hub) -> (Server, String) {
    let folder = hub.sandbox.path("");
    run(
        &folder,
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            "tls.key",
            "-out",
            "tls.crt",
        ],
    );
    let certificate = CertificateDer::from_pem_file(folder.join("tls.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let open = move |stream| Tls(StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream));
    (Server::over(&folder, open), fs::read_to_string(hub.sandbox.path("tls.crt")).unwrap())
}

fn secret(hub: &Hub, name: &str, data: &Value) {
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
    hub.sandbox.create("hub", SECRETS, "test", &body);
}

#[test]
fn a_source_is_read_over_tls_if_its_certificate_is_trusted() {
    let hub = Hub::new();
    let (server, certificate) = tls(&hub);
    server.demand("Basic dXNlcjpzM2NyZXQ=");
    let credentials = json!({"username": "user", "password": "s3cret", "ca.crt": certificate});
    secret(&hub, "trusted", &credentials);
    secret(&hub, "stranger", &json!({"username": "user", "password": "s3cret"}));
    let url = format!("{}/origin.git", server.address().replace("http:", "https:"));
    let source = |secret: &str| json!({"url": url, "ref": {"branch": "main"}, "secretRef": {"name": secret}});
    hub.create(&hub.sync("web", &json!({"source": source("stranger")})));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: `git ls-remote` failed"), "{ran:#?}");
    hub.patch("web", &json!({"spec": {"source": source("trusted")}}));
    hub.once().code(0);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
}

/// An `sshd` on loopback.
struct Sshd {
    child: Child,
    port: u16,
}

impl Sshd {
    /// Starts it with keys in a folder; `None` if it is not installed.
    fn start(folder: &Path) -> Option<Self> {
        let program =
            ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            println!("skipped: sshd is not installed (Debian package openssh-server)");
            return None;
        };
        run(folder, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", "host"]);
        run(folder, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "s3cret", "-f", "user"]);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nSetEnv PATH={}\n",
            at("host"),
            at("user.pub"),
            std::env::var("PATH").unwrap()
        );
        fs::write(folder.join("sshd_config"), config).unwrap();
        // Without rights it uses no such folder.
        let _ = fs::create_dir_all("/run/sshd");
        let log = fs::File::create(folder.join("sshd.log")).unwrap();
        let mut command = Command::new(program);
        command.args(["-D", "-e", "-f", "sshd_config"]).current_dir(folder).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = fs::read_to_string(folder.join("sshd.log")).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(30), "{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child, port })
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_source_is_read_over_ssh_if_the_host_is_known() {
    let hub = Hub::new();
    let folder = hub.sandbox.path("");
    let Some(sshd) = Sshd::start(&folder) else { return };
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let known = |key: &str| format!("[127.0.0.1]:{} {key}", sshd.port);
    let (identity, password) = (read("user"), "s3cret");
    secret(
        &hub,
        "known",
        &json!({"identity": identity, "password": password, "known_hosts": known(&read("host.pub"))}),
    );
    secret(
        &hub,
        "other",
        &json!({"identity": identity, "password": password, "known_hosts": known(&read("user.pub"))}),
    );
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let url = format!("ssh://{}@127.0.0.1:{}{}/origin.git", user.trim(), sshd.port, folder.display());
    let source = |secret: &str| json!({"url": url, "ref": {"branch": "main"}, "secretRef": {"name": secret}});
    hub.create(&hub.sync("web", &json!({"source": source("other")})));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed: `git ls-remote` failed"), "{ran:#?}");
    hub.patch("web", &json!({"spec": {"source": source("known")}}));
    let ran = hub.once();
    assert_eq!(ran.code, 0, "{ran:#?} {}", read("sshd.log"));
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    let said = format!("{}{}{}", ran.out, ran.err, hub.status("web"));
    assert!(!said.contains("s3cret") && !said.contains("PRIVATE KEY"), "{said}");
}

#[test]
fn the_newest_tag_in_a_range_is_followed() {
    let hub = Hub::new();
    let tag = |tag: &str, image: &str| {
        hub.sandbox.write("web.yaml", &deployment(image));
        hub.push(tag);
        git(&hub.sandbox, &format!("-C repo tag -a -m {tag} {tag}"));
        git(&hub.sandbox, &format!("-C repo push -q ../origin.git {tag}"));
    };
    tag("v1.2.0", "nginx:1.2.0");
    tag("v2.0.0", "nginx:2.0.0");
    let source = json!({"url": hub.url(), "ref": {"semver": "1.x"}});
    hub.create(&hub.sync("web", &json!({"source": source})));
    let ran = hub.once().code(0);
    assert!(ran.out.contains("applied v1.2.0@sha1:"), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.2.0");
    tag("v1.10.0", "nginx:1.10.0");
    hub.once().code(0);
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.10.0");
    hub.patch("web", &json!({"spec": {"source": {"ref": {"semver": ">=3"}}}}));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("has no tag in the range `>=3`"), "{ran:#?}");
    assert!(hub.sandbox.has("hub", &format!("{SYNCS}/web")));
}

/// A server that gives every request the same answer.
fn answering(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn a_source_is_no_window_into_the_network() {
    let hub = Hub::simulated();
    let source = |url: &str| json!({"source": {"url": url, "ref": {"branch": "main"}}});
    let target = hub.url();
    let redirect = answering(format!(
        "HTTP/1.1 302 Found\r\nLocation: {target}/info/refs?service=git-upload-pack\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    hub.create(&hub.sync("web", &source(&format!("{redirect}/origin.git"))));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed"), "a redirect is not followed: {ran:#?}");
    assert!(!hub.sandbox.has("m1", WEB));
    let body = "the words of an internal service";
    let internal = answering(format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    hub.patch("web", &json!({"spec": source(&format!("{internal}/origin.git"))}));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("GitOperationFailed"), "{ran:#?}");
    let status = hub.status("web").to_string();
    assert!(!format!("{}{}{status}", ran.out, ran.err).contains("internal service"), "{ran:#?} {status}");
    for url in ["http://git.example.com/r.git", "git://127.0.0.1/r.git", "file:///etc"] {
        hub.patch("web", &json!({"spec": source(url)}));
        let ran = hub.once().code(2);
        assert!(
            ran.out.contains("InvalidSpec: spec.source.url: it must be an address of https or ssh"),
            "{url}: {ran:#?}"
        );
    }
}
