//! Measures `federate serve` over HTTP: `cargo bench --bench serve`.
//!
//! 10,000 workloads over 100 clusters, divided by free resources: the loss of a cluster, as a document and as a page. Questions
//! take turns, so that no answer is one that is kept. The aim is 200 ms.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails loudly")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use divan::{Bencher, black_box};
use tempfile::TempDir;

fn main() {
    divan::main();
}

const CLUSTERS: usize = 100;
const WORKLOADS: usize = 10_000;

/// A server over a large repo.
struct Serving {
    child: Child,
    address: String,
    token: String,
    _folder: TempDir,
}

impl Serving {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("repo.yaml"), write_repo()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_federate"));
        command
            .args(["serve", "--quiet", "--work-limit", "10000000000"])
            .arg(folder.path())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim().strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        Self { address: address.to_owned(), token: token.to_owned(), child, _folder: folder }
    }

    /// The size of the answer about the loss of a cluster.
    fn lose_cluster(&self, number: usize, accept: &str) -> usize {
        let body = format!("{{\"events\": {{\"lose\": [\"c{:03}\"]}}}}", number % CLUSTERS);
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /api/whatif HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        answer.len()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_repo() -> String {
    let mut text = String::from(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: p, namespace: shop}\nspec:\n  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n  placement:\n    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}\n",
    );
    for index in 0..CLUSTERS {
        let _ = write!(
            text,
            "---\napiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: c{index:03}}}\nspec: {{region: r{}}}\nstatus:\n  apiEnablements: [{{groupVersion: apps/v1, resources: [{{kind: Deployment}}]}}]\n  resourceSummary: {{allocatable: {{pods: 20000, cpu: {}, memory: 9000Gi}}}}\n",
            index % 7,
            3000 + index * 31 % 900
        );
    }
    for index in 0..WORKLOADS {
        let _ = write!(
            text,
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a{index}, namespace: shop}}\nspec:\n  replicas: {}\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: {{containers: [{{name: c, image: nginx, resources: {{requests: {{cpu: 300m, memory: 1Gi}}}}}}]}}\n",
            3 + index % 40
        );
    }
    text
}

#[divan::bench(args = ["application/json", "text/html"], sample_count = 40, sample_size = 1)]
fn a_cluster_is_lost(bencher: Bencher<'_, '_>, accept: &str) {
    let serving = Serving::start();
    // What scenarios share is worked out by the first.
    serving.lose_cluster(0, accept);
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        black_box(serving.lose_cluster(number, accept))
    });
}
