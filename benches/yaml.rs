//! How fast YAML is read and written: `cargo bench --bench yaml`, in bytes a second on one core.

#![allow(clippy::unwrap_used, reason = "a benchmark fails loudly")]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use federate::yaml;

fn main() {
    divan::main();
}

/// A stream of Deployments like those of real repos, about 5 MB.
fn stream() -> String {
    let one = |index: usize| {
        format!(
            "apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-{index:05}
  namespace: team-{}
  labels:
    app.kubernetes.io/name: app-{index:05}
    app.kubernetes.io/part-of: shop
  annotations:
    example.com/owner: team@example.com
spec:
  replicas: {}
  selector:
    matchLabels:
      app.kubernetes.io/name: app-{index:05}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: app-{index:05}
        app.kubernetes.io/part-of: shop
    spec:
      containers:
      - name: app
        image: registry.example.com/shop/app-{index:05}:v1.{index}.0
        args:
        - --listen=:8080
        - --log-level=info
        env:
        - name: MODE
          value: \"on\"
        ports:
        - name: http
          containerPort: 8080
          protocol: TCP
        resources:
          requests:
            cpu: 250m
            memory: 256Mi
          limits:
            memory: 256Mi
        readinessProbe:
          httpGet:
            path: /healthz
            port: http
          periodSeconds: 5
---
",
            index % 20,
            index % 60
        )
    };
    (0..4500).map(one).collect()
}

#[divan::bench]
fn read(bencher: Bencher<'_, '_>) {
    let text = stream();
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| yaml::read(black_box(text.as_bytes())));
}

/// The parser's events alone, the floor of reading.
#[divan::bench]
fn events(bencher: Bencher<'_, '_>) {
    let text = stream();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| granit_parser::Parser::new_from_str(black_box(&text)).filter(Result::is_ok).count());
}

#[divan::bench]
fn write(bencher: Bencher<'_, '_>) {
    let text = stream();
    let documents = yaml::read(text.as_bytes()).documents;
    let mut out = String::new();
    for document in &documents {
        yaml::write(&document.value, &mut out);
    }
    bencher.counter(BytesCount::of_str(&out)).bench_local(|| {
        let mut out = String::new();
        for document in &documents {
            yaml::write(black_box(&document.value), &mut out);
        }
        out
    });
}
