//! Clusters over HTTPS on loopback, and their kubeconfig.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, channel::Channel};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::certificates::Certificates;
use super::cluster::Cluster;
use super::faults::DROPPED;
use super::http::{Body, Credentials, Request, Response};
use super::read::base64url;

type Answer = hyper::Response<BoxBody<Bytes, std::convert::Infallible>>;

/// A cluster that is served.
struct Served {
    cluster: Mutex<Cluster>,
    /// The newest version, to wake watches.
    version: watch::Sender<u64>,
}

/// Several clusters, each with its own port. They stop when it is dropped.
pub struct Fleet {
    clusters: BTreeMap<String, (Arc<Served>, SocketAddr)>,
    certificates: Certificates,
    runtime: Option<Runtime>,
}

/// A cluster that is held. Its watches see what was changed when it is released.
pub struct HeldCluster<'f> {
    cluster: MutexGuard<'f, Cluster>,
    version: &'f watch::Sender<u64>,
}

impl Deref for HeldCluster<'_> {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl DerefMut for HeldCluster<'_> {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
}

impl Drop for HeldCluster<'_> {
    fn drop(&mut self) {
        self.version.send_replace(self.cluster.version());
    }
}

impl Fleet {
    /// Serves clusters of these names, on ports that are free.
    pub fn start(names: &[&str]) -> Self {
        Self::serve(names.iter().map(|name| Cluster::new(name)).collect())
    }

    /// Serves these clusters, on ports that are free.
    pub fn serve(prepared: Vec<Cluster>) -> Self {
        let certificates = Certificates::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut clusters = BTreeMap::new();
        for cluster in prepared {
            let name = cluster.name.clone();
            let served = Arc::new(Served { cluster: Mutex::new(cluster), version: watch::Sender::new(0) });
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let address = listener.local_addr().unwrap();
            runtime.spawn(accept(listener, TlsAcceptor::from(certificates.server.clone()), served.clone()));
            clusters.insert(name, (served, address));
        }
        Self { clusters, certificates, runtime: Some(runtime) }
    }

    /// Locks a cluster, to read or change it without a request. Requests wait until the lock is dropped.
    pub fn cluster(&self, name: &str) -> HeldCluster<'_> {
        let (served, _) = self.clusters.get(name).unwrap_or_else(|| panic!("no cluster {name}"));
        HeldCluster { cluster: served.cluster.lock().unwrap(), version: &served.version }
    }

    pub fn url(&self, name: &str) -> String {
        format!("https://{}", self.clusters[name].1)
    }

    /// A kubeconfig for the administrator, with one context per cluster, named after it.
    pub fn kubeconfig(&self) -> String {
        let user = json!({
            "client-certificate-data": base64(&self.certificates.client),
            "client-key-data": base64(&self.certificates.client_key),
        });
        self.config(&user, &self.certificates.authority)
    }

    /// A kubeconfig for the owner of a token.
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        self.config(&json!({"token": token}), &self.certificates.authority)
    }

    /// A kubeconfig with an authority that did not sign the certificates of the servers.
    pub fn kubeconfig_with_wrong_authority(&self) -> String {
        self.config(&json!({"token": "none"}), &Certificates::foreign_certificate())
    }

    fn config(&self, user: &serde_json::Value, authority: &str) -> String {
        let mut clusters = Vec::new();
        let mut contexts = Vec::new();
        for name in self.clusters.keys() {
            let cluster = json!({"server": self.url(name), "certificate-authority-data": base64(authority)});
            clusters.push(json!({"name": name, "cluster": cluster}));
            contexts.push(json!({"name": name, "context": {"cluster": name, "user": "tester"}}));
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts,
            "users": [{"name": "tester", "user": user}],
            "current-context": self.clusters.keys().next(),
        });
        // JSON is YAML.
        serde_json::to_string_pretty(&config).unwrap() + "\n"
    }

    /// Writes the administrator's kubeconfig.
    pub fn write_kubeconfig(&self, path: &Path) {
        std::fs::write(path, self.kubeconfig()).unwrap();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn base64(text: &str) -> String {
    let mut encoded = base64url(text.as_bytes()).replace('-', "+").replace('_', "/");
    while !encoded.len().is_multiple_of(4) {
        encoded.push('=');
    }
    encoded
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, served: Arc<Served>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, acceptor.clone(), served.clone()));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, served: Arc<Served>) {
    stream.set_nodelay(true).ok();
    // Clients that do not trust the certificate have left.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let known = stream.get_ref().1.peer_certificates().is_some();
    let service = service_fn(move |request| answer(request, known, served.clone()));
    let http = hyper::server::conn::http1::Builder::new();
    http.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn answer(
    request: hyper::Request<Incoming>,
    known: bool,
    served: Arc<Served>,
) -> Result<Answer, std::io::Error> {
    let request = read(request, known).await?;
    let delay = served.cluster.lock().unwrap().delay(&request);
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    let (response, version) = {
        let mut cluster = served.cluster.lock().unwrap();
        let response = cluster.handle(&request);
        cluster.idle();
        (response, cluster.version())
    };
    served.version.send_replace(version);
    if response.status == DROPPED {
        return Err(std::io::Error::other("dropped on demand"));
    }
    Ok(written(response, served))
}

async fn read(request: hyper::Request<Incoming>, known: bool) -> Result<Request, std::io::Error> {
    let (parts, body) = request.into_parts();
    let mut read = Request::new(parts.method.as_str(), &decoded(parts.uri.path(), false));
    for pair in parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        read.query.push((decoded(key, true), decoded(value, true)));
    }
    for (key, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        // A header that is there several times.
        let all = read.headers.get(key.as_str()).map(|before| format!("{before},{value}"));
        read = read.header(key.as_str(), all.as_ref().unwrap_or(&value));
    }
    let bearer = read.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
    read.credentials = match bearer {
        Some(token) => Credentials::Token(token.to_owned()),
        None if known => Credentials::Certificate,
        None => Credentials::None,
    };
    read.body = body.collect().await.map_err(std::io::Error::other)?.to_bytes().to_vec();
    Ok(read)
}

/// Text of a URL; `+` is a space in queries only.
fn decoded(text: &str, query: bool) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' if query => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn written(response: Response, served: Arc<Served>) -> Answer {
    let mut answer = hyper::Response::builder().status(response.status);
    let typed = response.headers.iter().any(|(key, _)| key == "Content-Type");
    for (key, value) in &response.headers {
        answer = answer.header(key, value);
    }
    if !typed {
        answer = answer.header("Content-Type", "application/json");
    }
    let body = match response.body {
        Body::Json(value) => Full::new(Bytes::from(serde_json::to_vec(&value).unwrap())).boxed(),
        Body::Text(text) => Full::new(Bytes::from(text)).boxed(),
        Body::Watch(watch) => {
            let (sender, channel) = Channel::new(16);
            tokio::spawn(stream(*watch, sender, served));
            channel.boxed()
        }
    };
    answer.body(body).unwrap()
}

/// Sends events until the client leaves or the time is over.
async fn stream(
    mut watch: super::watch::Watch,
    mut sender: http_body_util::channel::Sender<Bytes>,
    served: Arc<Served>,
) {
    let mut versions = served.version.subscribe();
    let end = tokio::time::Instant::now() + Duration::from_secs(watch.timeout.unwrap_or(60 * 60));
    loop {
        let events = watch.events(&served.cluster.lock().unwrap());
        for event in events {
            if sender.send_data(Bytes::from(event.to_string() + "\n")).await.is_err() {
                return;
            }
        }
        if watch.ended {
            return;
        }
        match tokio::time::timeout_at(
            end.min(tokio::time::Instant::now() + Duration::from_mins(1)),
            versions.changed(),
        )
        .await
        {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) if tokio::time::Instant::now() >= end => return,
            Err(_) => {
                let mark = watch.mark(&served.cluster.lock().unwrap());
                if let Some(mark) = mark
                    && sender.send_data(Bytes::from(mark.to_string() + "\n")).await.is_err()
                {
                    return;
                }
            }
        }
    }
}
