//! Measures scripts of a `ResourceInterpreterCustomization`: five operations on each of a thousand objects, on all
//! cores as in a session, and on one.

#![allow(clippy::expect_used, reason = "a bench fails loudly")]

use divan::Bencher;
use federate_karmada::interpreter::{CustomizationRule, Interpreter, OperationInput};
use federate_kubernetes::Object;
use rayon::prelude::*;
use serde_json::json;

/// Objects consist of many small allocations, which all cores make and free.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

const REPLICAS: &str = r#"
local kube = require("kube")
function GetReplicas(obj)
  return obj.spec.replicas or 1, kube.accuratePodRequirements(obj.spec.template)
end"#;

const REVISION: &str = "
function ReviseReplica(obj, desired)
  obj.spec.replicas = desired
  return obj
end";

const RETENTION: &str = "
function Retain(desired, observed)
  desired.spec.paused = observed.spec.paused
  return desired
end";

const HEALTH: &str = r#"
function InterpretHealth(obj)
  for _, condition in ipairs(obj.status.conditions or {}) do
    if condition.type == "Ready" then return condition.status == "True" end
  end
  return false
end"#;

const DEPENDENCIES: &str = r#"
local kube = require("kube")
function GetDependencies(obj)
  local found = kube.getPodDependencies(obj.spec.template, obj.metadata.namespace) or {}
  table.insert(found, { apiVersion = "v1", kind = "Secret", namespace = obj.metadata.namespace, name = obj.metadata.name .. "-tls" })
  return found
end"#;

const RULES: [(CustomizationRule, &str); 5] = [
    (CustomizationRule::Replicas, REPLICAS),
    (CustomizationRule::Revision, REVISION),
    (CustomizationRule::Retention, RETENTION),
    (CustomizationRule::Health, HEALTH),
    (CustomizationRule::Dependencies, DEPENDENCIES),
];

fn object(n: usize) -> Object {
    let container = json!({
        "name": "server", "image": format!("registry.example.com/server:{n}"),
        "env": [{"name": "MODE", "value": "fast"}, {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "levels", "key": "a"}}}],
        "ports": [{"containerPort": 8080}],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
    });
    let labels = json!({"app": format!("server-{n}"), "tier": "silver"});
    let body = json!({
        "apiVersion": "apps.example.com/v1", "kind": "CloneSet",
        "metadata": {"name": format!("server-{n}"), "namespace": "default", "labels": labels, "generation": 3},
        "spec": {
            "replicas": n % 7, "paused": false, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "serviceAccountName": "server"}},
        },
        "status": {"replicas": 3, "conditions": [{"type": "Ready", "status": "True", "reason": "AllUp"}]},
    });
    Object::from_manifest(body, "server.yaml")
}

fn customization() -> Object {
    let customizations: serde_json::Map<String, serde_json::Value> = RULES
        .iter()
        .map(|(rule, script)| (rule.field_name().to_owned(), json!({"luaScript": script})))
        .collect();
    Object::from_manifest(
        json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "cloneset"},
            "spec": {
                "target": {"apiVersion": "apps.example.com/v1", "kind": "CloneSet"},
                "customizations": customizations,
            },
        }),
        "customization.yaml",
    )
}

/// All operations on one object.
fn operations(interpreter: &Interpreter<'_>, object: &Object) {
    let input = OperationInput { live: Some(object), replicas: 5, items: None };
    for (rule, _) in RULES {
        let answer = interpreter.answer_operation(rule, object, &input).expect("there is a script");
        divan::black_box(answer.expect("it succeeds"));
    }
}

#[divan::bench]
fn thousand_objects(bencher: Bencher<'_, '_>) {
    let customization = customization();
    let interpreter = Interpreter::for_newest_release(std::iter::once(&customization), None);
    let objects: Vec<Object> = (0..1000).map(object).collect();
    bencher.bench_local(|| objects.par_iter().for_each(|object| operations(&interpreter, object)));
}

#[divan::bench]
fn thousand_objects_on_one_core(bencher: Bencher<'_, '_>) {
    let customization = customization();
    let interpreter = Interpreter::for_newest_release(std::iter::once(&customization), None);
    let objects: Vec<Object> = (0..1000).map(object).collect();
    bencher.bench_local(|| objects.iter().for_each(|object| operations(&interpreter, object)));
}
