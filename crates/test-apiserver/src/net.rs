//! Clusters over HTTPS on loopback, and their kubeconfig.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
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

use super::certificates::{CertificateError, Certificates};
use super::cluster::TestCluster;
use super::faults::DROPPED;
use super::http::{ApiRequest, Body, ClientCredentials, Response};

type Answer = hyper::Response<BoxBody<Bytes, std::convert::Infallible>>;

/// A cluster that is served.
struct Served {
    cluster: Mutex<TestCluster>,
    /// The newest version, to wake watches.
    version: watch::Sender<u64>,
}

impl Served {
    /// Locks the cluster. A test that has failed while it held the cluster does not keep others from it.
    fn lock(&self) -> MutexGuard<'_, TestCluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why clusters cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Their certificates cannot be made.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// No port or thread can be had, or the kubeconfig cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Several clusters, each with its own port. They stop when it is dropped.
pub struct Fleet {
    clusters: BTreeMap<String, (Arc<Served>, SocketAddr)>,
    certificates: Certificates,
    runtime: Option<Runtime>,
}

/// A cluster that is held. Its watches see what was changed when it is released.
pub struct HeldCluster<'f> {
    cluster: MutexGuard<'f, TestCluster>,
    version: &'f watch::Sender<u64>,
}

impl Deref for HeldCluster<'_> {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}

impl DerefMut for HeldCluster<'_> {
    fn deref_mut(&mut self) -> &mut TestCluster {
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
    pub fn start_clusters(names: &[&str]) -> Result<Self, FleetError> {
        Self::serve_clusters(names.iter().map(|name| TestCluster::new(name)).collect())
    }

    /// Serves these clusters, on ports that are free.
    pub fn serve_clusters(prepared: Vec<TestCluster>) -> Result<Self, FleetError> {
        let certificates = Certificates::generate()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut clusters = BTreeMap::new();
        for cluster in prepared {
            let name = cluster.name.clone();
            let served = Arc::new(Served { cluster: Mutex::new(cluster), version: watch::Sender::new(0) });
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
            let address = listener.local_addr()?;
            runtime.spawn(accept_connections(
                listener,
                TlsAcceptor::from(certificates.server.clone()),
                served.clone(),
            ));
            clusters.insert(name, (served, address));
        }
        Ok(Self { clusters, certificates, runtime: Some(runtime) })
    }

    /// Locks a cluster, to read or change it without a request. Requests wait until the lock is dropped.
    pub fn lock_cluster(&self, name: &str) -> HeldCluster<'_> {
        let (served, _) = &self.clusters[name];
        HeldCluster { cluster: served.lock(), version: &served.version }
    }

    pub fn cluster_url(&self, name: &str) -> String {
        format!("https://{}", self.clusters[name].1)
    }

    /// A kubeconfig for the administrator, with one context per cluster, named after it.
    pub fn admin_kubeconfig(&self) -> String {
        let user = json!({
            "client-certificate-data": BASE64_STANDARD.encode(&self.certificates.client),
            "client-key-data": BASE64_STANDARD.encode(&self.certificates.client_key),
        });
        self.build_kubeconfig(&user, &self.certificates.authority)
    }

    /// A kubeconfig for the owner of a token.
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        self.build_kubeconfig(&json!({"token": token}), &self.certificates.authority)
    }

    /// A kubeconfig with an authority that did not sign the certificates of the servers.
    pub fn kubeconfig_with_wrong_authority(&self) -> Result<String, FleetError> {
        Ok(self.build_kubeconfig(&json!({"token": "none"}), &Certificates::foreign_certificate()?))
    }

    fn build_kubeconfig(&self, user: &serde_json::Value, authority: &str) -> String {
        let mut clusters = Vec::new();
        let mut contexts = Vec::new();
        for name in self.clusters.keys() {
            let cluster = json!({"server": self.cluster_url(name), "certificate-authority-data": BASE64_STANDARD.encode(authority)});
            clusters.push(json!({"name": name, "cluster": cluster}));
            contexts.push(json!({"name": name, "context": {"cluster": name, "user": "tester"}}));
        }
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "clusters": clusters, "contexts": contexts,
            "users": [{"name": "tester", "user": user}],
            "current-context": self.clusters.keys().next(),
        });
        // JSON is YAML.
        format!("{config:#}\n")
    }

    /// Writes the administrator's kubeconfig.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), FleetError> {
        Ok(std::fs::write(path, self.admin_kubeconfig())?)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept_connections(listener: TcpListener, acceptor: TlsAcceptor, served: Arc<Served>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve_connection(stream, acceptor.clone(), served.clone()));
    }
}

async fn serve_connection(stream: TcpStream, acceptor: TlsAcceptor, served: Arc<Served>) {
    stream.set_nodelay(true).ok();
    // Clients that do not trust the certificate have left.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let known = stream.get_ref().1.peer_certificates().is_some();
    let service = service_fn(move |request| answer_request(request, known, served.clone()));
    let http = hyper::server::conn::http1::Builder::new();
    http.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn answer_request(
    request: hyper::Request<Incoming>,
    known: bool,
    served: Arc<Served>,
) -> Result<Answer, std::io::Error> {
    let request = read_request(request, known).await?;
    let delay = served.lock().request_delay(&request);
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    let (response, version) = {
        let mut cluster = served.lock();
        let response = cluster.handle_request(&request);
        cluster.run_pending_controllers();
        (response, cluster.version())
    };
    served.version.send_replace(version);
    if response.status == DROPPED {
        return Err(std::io::Error::other("dropped on demand"));
    }
    write_response(response, served)
}

async fn read_request(request: hyper::Request<Incoming>, known: bool) -> Result<ApiRequest, std::io::Error> {
    let (parts, body) = request.into_parts();
    let mut read = ApiRequest::new(parts.method.as_str(), &decode_url_text(parts.uri.path(), false));
    for pair in parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        read.query.push((decode_url_text(key, true), decode_url_text(value, true)));
    }
    for (key, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        // A header that is there several times.
        let all = read.headers.get(key.as_str()).map(|before| format!("{before},{value}"));
        read = read.with_header(key.as_str(), all.as_ref().unwrap_or(&value));
    }
    let bearer = read.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
    read.credentials = match bearer {
        Some(token) => ClientCredentials::Token(token.to_owned()),
        None if known => ClientCredentials::Certificate,
        None => ClientCredentials::None,
    };
    read.body = body.collect().await.map_err(std::io::Error::other)?.to_bytes().to_vec();
    Ok(read)
}

/// Text of a URL; `+` is a space in queries only.
fn decode_url_text(text: &str, query: bool) -> String {
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

fn write_response(response: Response, served: Arc<Served>) -> Result<Answer, std::io::Error> {
    let mut answer = hyper::Response::builder().status(response.status);
    let typed = response.headers.iter().any(|(key, _)| key == "Content-Type");
    for (key, value) in &response.headers {
        answer = answer.header(key, value);
    }
    if !typed {
        answer = answer.header("Content-Type", "application/json");
    }
    let body = match response.body {
        Body::Json(value) => Full::new(Bytes::from(value.to_string())).boxed(),
        Body::Text(text) => Full::new(Bytes::from(text)).boxed(),
        Body::Watch(watch) => {
            let (sender, channel) = Channel::new(16);
            tokio::spawn(stream_events(*watch, sender, served));
            channel.boxed()
        }
    };
    answer.body(body).map_err(std::io::Error::other)
}

/// Sends events until the client leaves or the time is over.
async fn stream_events(
    mut watch: super::watch::Watch,
    mut sender: http_body_util::channel::Sender<Bytes>,
    served: Arc<Served>,
) {
    let mut versions = served.version.subscribe();
    let end = tokio::time::Instant::now() + Duration::from_secs(watch.timeout.unwrap_or(60 * 60));
    loop {
        let events = watch.take_events(&served.lock());
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
                let mark = watch.build_bookmark(&served.lock());
                if let Some(mark) = mark
                    && sender.send_data(Bytes::from(mark.to_string() + "\n")).await.is_err()
                {
                    return;
                }
            }
        }
    }
}
