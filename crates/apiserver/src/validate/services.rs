//! Services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::failure::Cause;
use super::{list, text};

/// What is wrong with a Service.
pub(super) fn causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let ports = list(object, "/spec/ports");
    let ty = text(object, "/spec/type");
    if ports.is_empty() && !matches!(text(object, "/spec/clusterIP"), "None") && ty != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (place, port) in ports.iter().enumerate() {
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(format!("spec.ports[{place}].name"), ""));
        } else if !name.is_empty() && !names.insert(name) {
            causes.push(Cause::duplicate(format!("spec.ports[{place}].name"), &Value::from(name)));
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
        if !(1..=65535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(format!("spec.ports[{place}].port"), &Value::from(number), why));
        }
        if !numbers.insert((number, text(port, "/protocol"))) {
            causes.push(Cause::duplicate(format!("spec.ports[{place}]"), port));
        }
    }
    if ty == "ExternalName" && text(object, "/spec/externalName").is_empty() {
        causes.push(Cause::required("spec.externalName", ""));
    }
    causes
}

/// What is wrong with a change of a Service.
pub(super) fn change(live: &Value, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (old, new) = (text(live, "/spec/clusterIP"), text(object, "/spec/clusterIP"));
    let named = |object: &Value| text(object, "/spec/type") == "ExternalName";
    if !old.is_empty() && old != new && !named(live) && !named(object) {
        let value = serde_json::json!([new]);
        causes.push(Cause::invalid("spec.clusterIPs[0]", &value, "may not change once set"));
    }
    causes
}
