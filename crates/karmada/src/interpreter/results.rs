//! The answers of scripts, read as Karmada's types: unknown fields are dropped.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use federate_apiserver_model::normalization;
use federate_apiserver_model::schema::{ListType, Type};
use federate_kubernetes::selector::LabelSelector;
use federate_lua::{FailureCategory, ScriptFailure, check_type};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A result, or why it is not valid.
pub(super) type CheckedResult = Result<Value, ScriptFailure>;

/// The fields of a node claim.
static NODE_CLAIM: LazyLock<[(&str, Type); 3]> = LazyLock::new(|| {
    [
        ("hardNodeAffinity", Type::Named("NodeSelector")),
        ("nodeSelector", Type::Map { value: Box::new(Type::Text), atomic: false }),
        (
            "tolerations",
            Type::List { item: Box::new(Type::Named("Toleration")), list_type: ListType::Atomic },
        ),
    ]
});

fn decode_failure(message: impl Into<String>) -> ScriptFailure {
    ScriptFailure::new(FailureCategory::Decode, message)
}

fn as_mapping<'v>(value: &'v Value, what: &str) -> Result<&'v Map<String, Value>, ScriptFailure> {
    value.as_object().ok_or_else(|| decode_failure(format!("{what} must be a mapping")))
}

fn as_list<'v>(value: &'v Value, what: &str) -> Result<&'v [Value], ScriptFailure> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| decode_failure(format!("{what} must be a list")))
}

/// The fields of a mapping that have one of these names, each of its type.
fn read_fields(
    map: &Map<String, Value>,
    known: &[(&str, Type)],
) -> Result<Map<String, Value>, ScriptFailure> {
    let mut kept = Map::new();
    for (name, ty) in known {
        if let Some(value) = map.get(*name) {
            check_type(ty, value).map_err(|why| {
                let why = why.strip_prefix("``").map_or_else(|| format!(": {why}"), str::to_owned);
                decode_failure(format!("`{name}`{why}"))
            })?;
            kept.insert((*name).to_owned(), value.clone());
        }
    }
    Ok(kept)
}

/// An object: it has a kind.
pub(super) fn check_object(value: Value) -> CheckedResult {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() { Err(decode_failure("the object that is returned has no `kind`")) } else { Ok(value) }
}

/// Sorts the keys of a value like those of `like`, with new ones after them: Lua keeps no order.
pub(super) fn in_order(value: Value, like: &Value) -> Value {
    match value {
        Value::Object(mut map) => {
            let mut ordered = Map::new();
            for (key, like) in like.as_object().into_iter().flatten() {
                if let Some(value) = map.swap_remove(key) {
                    ordered.insert(key.clone(), in_order(value, like));
                }
            }
            let mut rest: Vec<(String, Value)> = map.into_iter().collect();
            rest.sort_by(|a, b| a.0.cmp(&b.0));
            ordered.extend(rest.into_iter().map(|(key, value)| (key, in_order(value, &Value::Null))));
            Value::Object(ordered)
        }
        Value::Array(items) => {
            let likes = like.as_array().map_or(&[][..], Vec::as_slice);
            let items = items.into_iter().enumerate();
            items.map(|(at, item)| in_order(item, likes.get(at).unwrap_or(&Value::Null))).collect()
        }
        other => other,
    }
}

/// `ReplicaRequirements`.
pub(super) fn read_requirements(value: &Value) -> CheckedResult {
    let map = as_mapping(value, "the requirements")?;
    let mut kept = read_fields(map, &[("namespace", Type::Text), ("priorityClassName", Type::Text)])?;
    if let Some(claim) = map.get("nodeClaim") {
        let claim = read_fields(as_mapping(claim, "`nodeClaim`")?, NODE_CLAIM.as_slice())?;
        kept.insert("nodeClaim".to_owned(), Value::Object(claim));
    }
    if let Some(amounts) = map.get("resourceRequest") {
        let mut written = Map::new();
        for (name, amount) in as_mapping(amounts, "`resourceRequest`")? {
            let text = normalization::normalize_quantity(amount)
                .ok_or_else(|| decode_failure(format!("`resourceRequest.{name}` must be a quantity")))?;
            written.insert(name.clone(), Value::String(text));
        }
        kept.insert("resourceRequest".to_owned(), Value::Object(written));
    }
    Ok(Value::Object(kept))
}

/// A list of `Component`s.
pub(super) fn read_components(value: &Value) -> CheckedResult {
    as_list(value, "the components")?.iter().map(read_component).collect()
}

fn read_component(value: &Value) -> CheckedResult {
    let map = as_mapping(value, "a component")?;
    let mut kept = read_fields(map, &[("name", Type::Text), ("replicas", Type::Number)])?;
    if kept.get("replicas").and_then(Value::as_i64).is_some_and(|n| i32::try_from(n).is_err()) {
        return Err(decode_failure("`replicas` of a component must be a number of 32 bits"));
    }
    // These two are always written.
    kept.entry("name").or_insert_with(|| Value::from(""));
    kept.entry("replicas").or_insert_with(|| Value::from(0));
    if let Some(needed) = map.get("replicaRequirements") {
        kept.insert("replicaRequirements".to_owned(), read_requirements(needed)?);
    }
    Ok(Value::Object(kept))
}

/// A list of `DependentObjectReference`s, each valid.
pub(super) fn read_references(value: &Value) -> Result<Vec<Value>, ScriptFailure> {
    const FIELDS: [(&str, Type); 5] = [
        ("apiVersion", Type::Text),
        ("kind", Type::Text),
        ("namespace", Type::Text),
        ("name", Type::Text),
        ("labelSelector", Type::Named("LabelSelector")),
    ];
    let mut all = Vec::new();
    for value in as_list(value, "the dependencies")? {
        let mut kept = read_fields(as_mapping(value, "a dependency")?, &FIELDS)?;
        kept.retain(|_, value| *value != "");
        all.push(kept);
    }
    for (at, reference) in all.iter().enumerate() {
        if let Some(why) = find_reference_error(reference) {
            let message = format!("dependency {} {why}", at + 1);
            return Err(ScriptFailure::new(FailureCategory::InvalidDependency, message));
        }
    }
    Ok(all.into_iter().map(Value::Object).collect())
}

/// Why a reference is not valid.
fn find_reference_error(reference: &Map<String, Value>) -> Option<String> {
    if let Some(missing) = ["apiVersion", "kind"].into_iter().find(|key| !reference.contains_key(*key)) {
        return Some(format!("has no `{missing}`"));
    }
    if !reference.contains_key("name") && !reference.contains_key("labelSelector") {
        return Some("has neither `name` nor `labelSelector`".to_owned());
    }
    let selector = LabelSelector::deserialize(reference.get("labelSelector")?);
    match selector {
        Ok(selector) => {
            selector.find_mistake().map(|(_, why)| format!("has an invalid label selector: {why}"))
        }
        Err(error) => Some(format!("has an invalid label selector: {error}")),
    }
}

/// References without duplicates, sorted.
pub(super) fn merge_references(mut references: Vec<Value>) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    references.retain(|one| one.get("labelSelector").is_some() || seen.insert(one.to_string()));
    references.sort_by_key(|one| {
        ["apiVersion", "kind", "namespace", "name"]
            .map(|key| one.get(key).and_then(Value::as_str).unwrap_or_default().to_owned())
    });
    references
}
