//! The agent of a member cluster: in which order it applies the manifests of a work, and how it applies each.
//!
//! Facts: the first configuration that names a manifest and has a strategy decides. Objects are owned by the work, so that
//! they go with it, unless its deletion leaves them. Fields that are ignored are left out of what is sent to an object
//! that exists.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use federate_kubernetes::{Object, ObjectRef};

use crate::api::work::{IgnoreField, ManifestConfig, ServerSideApply, WorkSpec};
use crate::order::rank_kind;

/// The manager of fields that the agent applies.
pub(crate) const FIELD_MANAGER: &str = "work-agent";

/// Kinds of groups that members serve although no manifest defines them.
const UNSERVED: &str = "the server doesn't have a resource type";

/// How the agent applies a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestStep {
    /// The index of the manifest in the work.
    pub index: usize,
    /// The object.
    pub object: ObjectRef,
    /// The resource, such as `deployments`.
    pub resource: String,
    /// Whether the work owns the object, so that it is deleted with it.
    pub is_owned: bool,
    /// `Update`, `CreateOnly`, `ServerSideApply` or `ReadOnly`.
    pub strategy: String,
    /// How it is applied on the server, if so.
    pub apply: Option<ServerSideStep>,
}

/// How a manifest is applied on the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSideStep {
    /// The field manager.
    pub manager: String,
    /// Whether fields are taken from other managers.
    pub force: bool,
    /// What is sent where the object exists, if fields are ignored; or why that is not known.
    pub without_ignored: Option<Result<Value, String>>,
}

impl ManifestStep {
    /// The step as a JSON object.
    pub fn describe(&self) -> Value {
        let mut row = json!({
            "index": self.index,
            "group": self.object.group(),
            "resource": self.resource,
            "kind": self.object.kind,
            "namespace": self.object.namespace.as_deref().unwrap_or_default(),
            "name": self.object.name,
            "owned": self.is_owned,
            "strategy": self.strategy,
        });
        if let Some(apply) = &self.apply {
            row["fieldManager"] = apply.manager.as_str().into();
            row["force"] = apply.force.into();
            match &apply.without_ignored {
                Some(Ok(body)) => row["appliedWhenPresent"] = body.clone(),
                Some(Err(error)) => row["ignoreError"] = error.as_str().into(),
                None => {}
            }
        }
        row
    }
}

/// A manifest that the member does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnservedManifest {
    /// The index of the manifest in the work.
    pub index: usize,
    /// The server's words.
    pub error: String,
}

/// The steps of a work, in the order in which the agent takes them. Kinds for which `is_served` is false come last.
///
/// # Errors
///
/// What cannot be read of the work.
pub fn plan_work(
    work: &Object,
    is_served: impl Fn(&ObjectRef) -> bool,
) -> Result<(Vec<ManifestStep>, Vec<UnservedManifest>), String> {
    let spec = work.value_at(&["spec"]).unwrap_or(&Value::Null);
    let spec = WorkSpec::deserialize(spec).map_err(|error| error.to_string())?;
    let mut steps = Vec::new();
    let mut unserved = Vec::new();
    for (index, manifest) in spec.workload.manifests.iter().enumerate() {
        let object = Object::from_manifest(manifest.clone(), "").id;
        if is_served(&object) {
            steps.push(plan_manifest(&spec, index, object, manifest));
        } else {
            let error = format!("{UNSERVED} {:?}", object.kind);
            unserved.push(UnservedManifest { index, error });
        }
    }
    // The sort is stable: manifests of a rank stay in their order.
    steps.sort_by_key(|step| rank_kind(&step.object.kind));
    Ok((steps, unserved))
}

pub(crate) fn plan_manifest(
    spec: &WorkSpec,
    index: usize,
    object: ObjectRef,
    manifest: &Value,
) -> ManifestStep {
    let resource = name_resource(&object.kind);
    let config = find_config(spec, &object, &resource);
    let strategy = config.and_then(|config| config.strategy.as_ref());
    let kind =
        strategy.map(|strategy| strategy.kind.as_str()).filter(|kind| !kind.is_empty()).unwrap_or("Update");
    let apply =
        strategy.filter(|_| kind == "ServerSideApply").map(|one| plan_apply(&one.server_side, manifest));
    ManifestStep {
        index,
        is_owned: is_owned(spec, &object, &resource),
        resource,
        strategy: kind.to_owned(),
        apply,
        object,
    }
}

/// The first configuration of a manifest that has a strategy.
pub(crate) fn find_config<'s>(
    spec: &'s WorkSpec,
    object: &ObjectRef,
    resource: &str,
) -> Option<&'s ManifestConfig> {
    list_configs(spec, object, resource).find(|config| config.strategy.is_some())
}

/// The configurations that name a manifest.
pub(crate) fn list_configs<'s>(
    spec: &'s WorkSpec,
    object: &ObjectRef,
    resource: &str,
) -> impl Iterator<Item = &'s ManifestConfig> {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    spec.configs.iter().filter(move |config| {
        let wanted = &config.resource;
        wanted.group == object.group()
            && wanted.resource == resource
            && matches_pattern(&wanted.namespace, namespace)
            && matches_pattern(&wanted.name, &object.name)
    })
}

/// Whether a text matches a pattern, in which `*` stands for any text.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    true
}

/// Whether the object goes with its work.
pub(crate) fn is_owned(spec: &WorkSpec, object: &ObjectRef, resource: &str) -> bool {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    match spec.delete_option.policy.as_str() {
        "Orphan" => false,
        "SelectivelyOrphan" => !spec.delete_option.selective.rules.iter().any(|rule| {
            rule.group == object.group()
                && rule.resource == resource
                && rule.namespace == namespace
                && rule.name == object.name
        }),
        _ => true,
    }
}

fn plan_apply(apply: &ServerSideApply, manifest: &Value) -> ServerSideStep {
    let manager = if apply.field_manager.is_empty() { FIELD_MANAGER } else { &apply.field_manager };
    let without_ignored = (!apply.ignored.is_empty()).then(|| remove_ignored(&apply.ignored, manifest));
    ServerSideStep { manager: manager.to_owned(), force: apply.force, without_ignored }
}

/// A manifest without the fields that are left to the member.
fn remove_ignored(ignored: &[IgnoreField], manifest: &Value) -> Result<Value, String> {
    let mut body = clean_manifest(manifest);
    for field in ignored.iter().filter(|field| matches!(field.condition.as_str(), "" | "OnSpokePresent")) {
        for path in list_paths(field)? {
            remove_path(&mut body, &path);
        }
    }
    Ok(body)
}

/// The paths of fields that are left to the member.
pub(crate) fn list_paths(field: &IgnoreField) -> Result<Vec<Vec<String>>, String> {
    let mut paths = Vec::new();
    for path in &field.json_paths {
        let keys = path.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
        paths.push(keys.split('.').filter(|key| !key.is_empty()).map(str::to_owned).collect());
    }
    for pointer in &field.json_pointers {
        let tokens = pointer.split('/').skip(1);
        paths.push(tokens.map(|token| token.replace("~1", "/").replace("~0", "~")).collect());
    }
    for expression in &field.jq_paths {
        paths.push(read_jq_path(expression)?);
    }
    Ok(paths)
}

/// The path of an expression in jq. Only keys, indexes and pipes are known.
fn read_jq_path(expression: &str) -> Result<Vec<String>, String> {
    let unknown = || format!("JQ expression error in '{expression}': it is not a path of keys and indexes");
    let mut keys = Vec::new();
    for part in expression.split('|').map(str::trim) {
        let mut rest = part.strip_prefix('.').ok_or_else(unknown)?;
        while !rest.is_empty() {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            if let Some(bracket) = rest.strip_prefix('[') {
                let (key, after) = bracket.split_once(']').ok_or_else(unknown)?;
                let quoted = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
                let is_index = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
                keys.push(quoted.or(is_index.then_some(key)).ok_or_else(unknown)?.to_owned());
                rest = after;
                continue;
            }
            if let Some(quoted) = rest.strip_prefix('"') {
                let (key, after) = quoted.split_once('"').ok_or_else(unknown)?;
                keys.push(key.to_owned());
                rest = after;
                continue;
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            let is_key =
                !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_key {
                return Err(unknown());
            }
            keys.push(key.to_owned());
            rest = after;
        }
    }
    Ok(keys)
}

fn remove_path(value: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = value;
    for key in parents {
        let below = match at {
            Value::Object(map) => map.get_mut(key),
            Value::Array(items) => key.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
            _ => None,
        };
        let Some(below) = below else { return };
        at = below;
    }
    match at {
        Value::Object(map) => drop(map.shift_remove(last)),
        Value::Array(items) => {
            if let Some(index) = last.parse::<usize>().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

/// A manifest as the agent sends it: without a `uid` and times of creation.
pub(crate) fn clean_manifest(manifest: &Value) -> Value {
    let mut body = manifest.clone();
    for pointer in ["/metadata", "/spec/template/metadata", "/spec/jobTemplate/spec/template/metadata"] {
        if let Some(metadata) = body.pointer_mut(pointer).and_then(Value::as_object_mut) {
            metadata.shift_remove("creationTimestamp");
        }
    }
    if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("uid");
    }
    body
}

/// The resource of a kind by the conventions of Kubernetes.
pub(crate) fn name_resource(kind: &str) -> String {
    let lower = kind.to_lowercase();
    let vowels: BTreeSet<char> = "aeiou".chars().collect();
    if let Some(stem) = lower.strip_suffix('y').filter(|stem| !stem.ends_with(|c| vowels.contains(&c))) {
        return format!("{stem}ies");
    }
    if lower.ends_with("endpoints") {
        return lower;
    }
    let is_sibilant = ["s", "x", "z", "ch", "sh"].iter().any(|end| lower.ends_with(end));
    if is_sibilant { format!("{lower}es") } else { format!("{lower}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_resources() {
        let resources = ["Ingress", "NetworkPolicy", "Deployment", "Gateway", "Endpoints"].map(name_resource);
        assert_eq!(resources, ["ingresses", "networkpolicies", "deployments", "gateways", "endpoints"]);
    }

    #[test]
    fn names_are_patterns() {
        assert!(
            matches_pattern("*", "") && matches_pattern("c*", "cfg") && matches_pattern("a*b*c", "a-b-b-c")
        );
        assert!(
            !matches_pattern("c*", "acfg") && !matches_pattern("a", "ab") && !matches_pattern("a*b", "a")
        );
    }

    #[test]
    fn paths_of_jq_are_keys_and_indexes() {
        let read = |expression| read_jq_path(expression).map(|path| path.join("/"));
        assert_eq!(read(".spec.items[0].image"), Ok("spec/items/0/image".to_owned()));
        assert_eq!(read(".data | .[\"a.b\"]"), Ok("data/a.b".to_owned()));
        assert!(read(".spec[").is_err() && read("spec").is_err() && read(".items[].name").is_err());
    }

    #[test]
    fn a_path_that_is_not_there_removes_nothing() {
        let mut value = json!({"a": [{"b": 1}], "c": 2});
        for path in [["a", "0", "b"], ["a", "7", "b"], ["c", "d", "e"]] {
            remove_path(&mut value, &path.map(str::to_owned));
        }
        assert_eq!(value, json!({"a": [{}], "c": 2}));
    }
}
