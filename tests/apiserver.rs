//! The API servers of the tests over the wire: certificates, rights, watches, faults, counts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};

use federate_test_apiserver::{ApiUser, FaultKind, Fleet, InjectedFault, TestCluster};

type Tls = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// What a kubeconfig says, as far as a client needs it.
struct Client {
    config: Value,
}

impl Client {
    fn new(kubeconfig: &str) -> Self {
        Self { config: serde_json::from_str(kubeconfig).unwrap() }
    }

    fn data(value: &Value) -> Option<Vec<u8>> {
        let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
        for c in value.as_str()?.trim_end_matches('=').bytes() {
            bits = bits << 6 | u32::try_from(digits.iter().position(|d| *d == c)?).unwrap();
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push(u8::try_from(bits >> count & 255).unwrap());
            }
        }
        Some(bytes)
    }

    /// Sends a request; what comes back is still to be read.
    fn send(&self, cluster: &str, method: &str, path: &str, ty: &str, body: &str) -> std::io::Result<Tls> {
        let named =
            |list: &str| self.config[list].as_array().unwrap().iter().find(|c| c["name"] == cluster).cloned();
        let found = named("clusters").unwrap()["cluster"].clone();
        let user = &self.config["users"][0]["user"];
        let mut roots = RootCertStore::empty();
        let authority = Self::data(&found["certificate-authority-data"]).unwrap();
        roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match Self::data(&user["client-certificate-data"]) {
            Some(certificate) => {
                let key = Self::data(&user["client-key-data"]).unwrap();
                let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
                builder
                    .with_client_auth_cert(vec![certificate], PrivateKeyDer::from_pem_slice(&key).unwrap())
                    .unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let address = found["server"].as_str().unwrap().trim_start_matches("https://").to_owned();
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("127.0.0.1").unwrap());
        let mut stream = StreamOwned::new(connection.unwrap(), stream);
        let token =
            user["token"].as_str().map_or_else(String::new, |t| format!("Authorization: Bearer {t}\r\n"));
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {ty}\r\n{token}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        Ok(BufReader::new(stream))
    }

    /// Status, headers and body of an answer.
    fn ask(
        &self,
        cluster: &str,
        method: &str,
        path: &str,
        ty: &str,
        body: &Value,
    ) -> std::io::Result<(u16, String, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut text = String::new();
        self.send(cluster, method, path, ty, &body)?.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| std::io::Error::other("no answer"))?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Ok((status, head.to_owned(), serde_json::from_str(body).unwrap_or_else(|_| json!(body))))
    }

    fn get(&self, cluster: &str, path: &str) -> (u16, String, Value) {
        self.ask(cluster, "GET", path, "", &Value::Null).unwrap()
    }
}

const APPLY: &str = "application/apply-patch+yaml";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";

fn config_map(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}})
}

#[test]
fn clusters_are_separate_and_count_their_requests() {
    let fleet = Fleet::start_clusters(&["member-1", "member-2"]).unwrap();
    let client = Client::new(&fleet.admin_kubeconfig());
    let path = format!("{MAP}?fieldManager=me");
    let (status, _, object) = client.ask("member-1", "PATCH", &path, APPLY, &config_map("v")).unwrap();
    assert_eq!((status, &object["data"]), (201, &json!({"k": "v"})));
    assert_eq!(client.get("member-1", MAP).0, 200);
    assert_eq!(client.get("member-2", MAP).0, 404);
    let counts = fleet.lock_cluster("member-1").counts().clone();
    assert_eq!((counts["patch"], counts["get"]), (1, 1));
    let (status, _, list) = client.get("member-1", "/api/v1/configmaps?labelSelector=x%20in%20(1,2)");
    assert_eq!((status, &list["items"]), (200, &json!([])));
}

#[test]
fn who_asks_is_known_by_certificate_or_token() {
    let fleet = Fleet::start_clusters(&["member-1"]).unwrap();
    fleet.lock_cluster("member-1").add_token("secret", ApiUser::new("viewer", &["system:authenticated"]));
    let viewer = Client::new(&fleet.kubeconfig_with_token("secret"));
    assert_eq!(viewer.get("member-1", MAP).0, 403);
    assert_eq!(viewer.get("member-1", "/api").0, 200);
    let unknown = Client::new(&fleet.kubeconfig_with_token("other"));
    assert_eq!(unknown.get("member-1", "/api").0, 401);
    let stranger = Client::new(&fleet.kubeconfig_with_wrong_authority().unwrap());
    assert!(stranger.ask("member-1", "GET", "/api", "", &Value::Null).is_err());
}

#[test]
fn watches_go_on() {
    let fleet = Fleet::start_clusters(&["member-1"]).unwrap();
    let client = Client::new(&fleet.admin_kubeconfig());
    let version = fleet.lock_cluster("member-1").version();
    let path = format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={version}");
    let mut stream = client.send("member-1", "GET", &path, "", "").unwrap();
    let (status, ..) =
        client.ask("member-1", "PATCH", &format!("{MAP}?fieldManager=me"), APPLY, &config_map("v")).unwrap();
    assert_eq!(status, 201);
    let mut line = String::new();
    while !line.starts_with('{') {
        line.clear();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the watch has ended");
    }
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&event["type"], &event["object"]["data"]), (&json!("ADDED"), &json!({"k": "v"})));
}

#[test]
fn things_go_wrong_on_demand() {
    let fleet = Fleet::start_clusters(&["member-1"]).unwrap();
    let client = Client::new(&fleet.admin_kubeconfig());
    let fault = |fault: InjectedFault| fleet.lock_cluster("member-1").add_fault(fault);
    fault(InjectedFault::new("get", FaultKind::TooMany { seconds: 3 }).with_times(2));
    for _ in 0..2 {
        let (status, head, _) = client.get("member-1", MAP);
        assert_eq!(status, 429);
        assert!(head.to_lowercase().contains("retry-after: 3"), "{head}");
    }
    assert_eq!(client.get("member-1", MAP).0, 404);
    fault(InjectedFault::new("*", FaultKind::Status(503)).on_path("configmaps"));
    assert_eq!(client.get("member-1", "/version").0, 200);
    assert_eq!(client.get("member-1", MAP).0, 503);
    fault(InjectedFault::new("get", FaultKind::Drop));
    assert!(client.ask("member-1", "GET", MAP, "", &Value::Null).is_err());
    fault(InjectedFault::new("get", FaultKind::Slow(Duration::from_millis(200))));
    let start = Instant::now();
    assert_eq!(client.get("member-1", MAP).0, 404);
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[test]
fn deployments_roll_out_where_there_are_nodes() {
    let fleet = Fleet::serve_clusters(vec![TestCluster::new("member-1").with_nodes()]).unwrap();
    let client = Client::new(&fleet.admin_kubeconfig());
    let deployment = |image: &str| {
        let template = json!({
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": image}]},
        });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        })
    };
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    for (image, generation) in [("nginx:1.25", 1), ("nginx:1.27", 2)] {
        let query = format!("{path}?fieldManager=me");
        client.ask("member-1", "PATCH", &query, APPLY, &deployment(image)).unwrap();
        let (_, _, live) = client.get("member-1", path);
        assert_eq!(
            (&live["status"]["observedGeneration"], &live["status"]["availableReplicas"]),
            (&json!(generation), &json!(2))
        );
    }
    let (_, _, sets) = client.get("member-1", "/apis/apps/v1/replicasets");
    let counts: Vec<i64> =
        sets["items"].as_array().unwrap().iter().map(|s| s["spec"]["replicas"].as_i64().unwrap()).collect();
    assert_eq!((counts.len(), counts.iter().sum::<i64>()), (2, 2));
    client.ask("member-1", "DELETE", path, "", &Value::Null).unwrap();
    let (_, _, sets) = client.get("member-1", "/apis/apps/v1/replicasets");
    assert_eq!(sets["items"], json!([]));
}
