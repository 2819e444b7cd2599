//! Measures reading and writing of YAML, in bytes of Kubernetes manifests per second on one core.

use divan::Bencher;
use divan::counter::BytesCount;
use std::hint::black_box;

fn main() {
    divan::main();
}

/// `count` Deployments of about 1.2 KB each, as one multi-document file.
fn manifests(count: usize) -> String {
    (0..count).map(manifest).collect()
}

fn manifest(n: usize) -> String {
    format!(
        r#"---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{n}
  namespace: shop
  labels:
    app.kubernetes.io/name: web-{n}
    app.kubernetes.io/part-of: shop
  annotations:
    example.com/owner: "team-{n}"
    example.com/notes: |
      Rolled out by hand until {n} is done.
      Ask first.
spec:
  replicas: {n}
  selector:
    matchLabels:
      app.kubernetes.io/name: web-{n}
  strategy:
    type: RollingUpdate
    rollingUpdate: {{maxSurge: 25%, maxUnavailable: 0}}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: web-{n}
    spec:
      containers:
      - name: web
        image: registry.example.com/shop/web:v1.{n}.0 # pinned
        args: ["--listen=:8080", "--verbose"]
        env:
        - name: REGION
          value: 'eu-west-1'
        - name: DEBUG
          value: "false"
        ports:
        - containerPort: 8080
          protocol: TCP
        resources:
          requests:
            cpu: 100m
            memory: 128Mi
          limits:
            memory: 256Mi
        readinessProbe:
          httpGet:
            path: /healthz
            port: 8080
          periodSeconds: 10
      terminationGracePeriodSeconds: 30
"#
    )
}

#[divan::bench]
fn read(bencher: Bencher<'_, '_>) {
    let text = manifests(500);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| federate_yaml::read_stream(black_box(text.as_bytes())).documents.len());
}

#[divan::bench]
fn read_json(bencher: Bencher<'_, '_>) {
    let documents = federate_yaml::read_stream(manifests(500).as_bytes()).documents;
    let text = documents.iter().map(|document| document.value.to_string()).collect::<Vec<_>>().join("\n");
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| federate_yaml::read_stream(black_box(text.as_bytes())).documents.len());
}

#[divan::bench]
fn write(bencher: Bencher<'_, '_>) {
    let documents = federate_yaml::read_stream(manifests(500).as_bytes()).documents;
    let mut out = String::new();
    for document in &documents {
        federate_yaml::write_document(&document.value, &mut out);
    }
    bencher.counter(BytesCount::of_str(&out)).bench_local(|| {
        let mut out = String::new();
        for document in black_box(&documents) {
            federate_yaml::write_document(&document.value, &mut out);
        }
        out.len()
    });
}
