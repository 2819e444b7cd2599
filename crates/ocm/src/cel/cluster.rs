//! A cluster as expressions see it: as JSON of the hub's type.
//!
//! Facts: fields that the type always writes are there (`spec.hubAcceptsClient`, `status.conditions`, `status.version`);
//! empty ones of the others are absent. Quantities are texts in the notation of the API server.

use serde_json::{Map, Value, json};

use federate_kubernetes::Object;
use federate_kubernetes::quantity::Quantity;

use super::CelValue;
use crate::fleet::Member;

/// The value of the variable for a cluster.
pub(crate) fn describe_cluster(member: &Member<'_>, object: Option<&Object>) -> CelValue {
    CelValue::from_json(&write_cluster(member, object))
}

fn write_cluster(member: &Member<'_>, object: Option<&Object>) -> Value {
    let none = Value::Null;
    let body = object.map_or(&none, |object| &object.body);
    let mut metadata = body["metadata"].as_object().cloned().unwrap_or_default();
    metadata.insert("name".to_owned(), json!(member.cluster.name));
    metadata.insert("labels".to_owned(), json!(*member.labels));
    let mut spec = Map::new();
    spec.insert(
        "hubAcceptsClient".to_owned(),
        json!(body["spec"]["hubAcceptsClient"].as_bool().unwrap_or(false)),
    );
    match body["spec"]["leaseDurationSeconds"].as_i64() {
        Some(0) => {}
        lease => drop(spec.insert("leaseDurationSeconds".to_owned(), lease.unwrap_or(60).into())),
    }
    let configs = &body["spec"]["managedClusterClientConfigs"];
    if configs.as_array().is_some_and(|configs| !configs.is_empty()) {
        spec.insert("managedClusterClientConfigs".to_owned(), configs.clone());
    }
    let taints: Vec<Value> = member
        .taints
        .iter()
        .map(|taint| {
            let mut row = json!({"effect": taint.effect, "key": taint.key});
            if !taint.value.is_empty() {
                row["value"] = json!(taint.value);
            }
            row["timeAdded"] = taint.added.map_or(Value::Null, |time| json!(time.to_string()));
            row
        })
        .collect();
    if !taints.is_empty() {
        spec.insert("taints".to_owned(), taints.into());
    }
    let mut metadata_and_spec = json!({"metadata": metadata, "spec": spec});
    metadata_and_spec["status"] = write_status(&body["status"], object.is_none().then_some(member));
    metadata_and_spec
}

/// The status of a cluster. Claims of another inventory are its properties.
fn write_status(status: &Value, other: Option<&Member<'_>>) -> Value {
    let mut written = Map::new();
    let conditions = status["conditions"].as_array().filter(|conditions| !conditions.is_empty());
    written.insert("conditions".to_owned(), conditions.map_or(Value::Null, |list| json!(list)));
    for field in ["capacity", "allocatable"] {
        let resources = status[field].as_object().filter(|resources| !resources.is_empty());
        if let Some(resources) = resources {
            let quantity = |(name, value): (&String, &Value)| (name.clone(), json!(write_quantity(value)));
            written.insert(field.to_owned(), resources.iter().map(quantity).collect::<Map<_, _>>().into());
        }
    }
    let kubernetes = status["version"]["kubernetes"].as_str().filter(|version| !version.is_empty());
    written
        .insert("version".to_owned(), kubernetes.map_or(json!({}), |version| json!({"kubernetes": version})));
    let properties = other.map(|member| {
        let claim = |(name, value): (&String, &String)| json!({"name": name, "value": value});
        member.claims().iter().map(claim).collect::<Vec<_>>()
    });
    let claims = properties.or_else(|| status["clusterClaims"].as_array().cloned());
    if let Some(claims) = claims.filter(|claims| !claims.is_empty()) {
        written.insert("clusterClaims".to_owned(), claims.into());
    }
    written.into()
}

/// A quantity in the notation in which the API server writes it.
fn write_quantity(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let Some(quantity) = Quantity::parse(&text) else { return text };
    let digits = text.trim_start_matches(['+', '-']);
    let suffix = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let nanos = quantity.as_nanos();
    if suffix.starts_with(['e', 'E']) && suffix.len() > 1 {
        return with_suffix(nanos, &["n", "u", "m", "", "e3", "e6", "e9", "e12", "e15", "e18"]);
    }
    let whole = nanos / 1_000_000_000;
    let is_binary = suffix.ends_with('i') && nanos % 1_000_000_000 == 0 && whole.abs() >= 1024;
    if !is_binary {
        return with_suffix(nanos, &["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]);
    }
    let mut rest = whole;
    let mut at = 0;
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    while rest % 1024 == 0 && at + 1 < suffixes.len() {
        (rest, at) = (rest / 1024, at + 1);
    }
    format!("{rest}{}", suffixes.get(at).copied().unwrap_or_default())
}

/// Billionths with the largest suffix that leaves a whole number.
fn with_suffix(nanos: i128, suffixes: &[&str]) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let (mut rest, mut at) = (nanos, 0);
    while rest % 1000 == 0 && at + 1 < suffixes.len() {
        (rest, at) = (rest / 1000, at + 1);
    }
    format!("{rest}{}", suffixes.get(at).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_the_server_does() {
        let write = |text: &str| write_quantity(&Value::from(text));
        for (text, written) in [
            ("1.5Ti", "1536Gi"),
            ("2.5", "2500m"),
            ("128e9", "128e9"),
            ("1024Mi", "1Gi"),
            ("1000m", "1"),
            ("4000", "4k"),
            ("0.5Gi", "512Mi"),
            ("0", "0"),
        ] {
            assert_eq!(write(text), written, "{text}");
        }
    }
}
