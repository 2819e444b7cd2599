//! Measures comparisons: `cargo bench --bench diff`.
//!
//! Two renderings of 1,000 Deployments in five versions for 100 clusters, with one or all of them changed;
//! and the changed fields of two manifests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails loudly")]

use divan::{Bencher, black_box};
use federate_dialect::Plan;
use federate_engine::Manifest;
use federate_engine::change::{self, DigestKey, RenderingSide};
use federate_kubernetes::ObjectRef;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

fn deployment(app: usize, registry: usize, tag: &str) -> Value {
    let env: Vec<Value> =
        (0..10).map(|at| json!({"name": format!("V{at}"), "value": at.to_string()})).collect();
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("a{app}"), "namespace": "shop"},
    "spec": {"replicas": app % 7, "template": {"spec": {"containers": [
        {"name": "proxy", "image": "proxy:1"},
        {"name": "web", "image": format!("r{registry}.example.com/a{app}:{tag}"), "env": env,
            "ports": [{"containerPort": 8080}]}
    ]}}}})
}

/// The rendered objects; the first `changed` apps have another tag.
fn manifests(changed: usize) -> Vec<Manifest> {
    let one = |app: usize, registry: usize| {
        let mut text = String::new();
        federate_yaml::write_document(
            &deployment(app, registry, if app < changed { "v2" } else { "v1" }),
            &mut text,
        );
        let object = ObjectRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: format!("a{app}"),
        };
        let clusters = (0..20).map(|at| format!("c{:03}", registry * 20 + at).into()).collect();
        Manifest { object, clusters, text: text.into(), value: None, changes: Vec::new() }
    };
    (0..1000).flat_map(|app| (0..5).map(move |registry| (app, registry))).map(|(a, r)| one(a, r)).collect()
}

#[divan::bench(args = [1, 1000])]
fn thousand_apps_in_a_hundred_clusters(bencher: Bencher<'_, '_>, changed: usize) {
    let (from, to, plan, key) = (manifests(0), manifests(changed), Plan::default(), DigestKey::new(b"key"));
    let side = |manifests| RenderingSide { clusters: &[], plan: &plan, manifests };
    let (from, to) = (side(&from), side(&to));
    assert_eq!(change::compare_renderings(&from, &to, &key).objects.len(), changed * 5);
    bencher.bench_local(|| change::compare_renderings(black_box(&from), black_box(&to), &key));
}

#[divan::bench]
fn fields_of_one_manifest(bencher: Bencher<'_, '_>) {
    let (from, to) = (deployment(1, 1, "v1"), deployment(1, 1, "v2"));
    bencher.bench_local(|| change::diff_paths(black_box(&from), black_box(&to)));
}
