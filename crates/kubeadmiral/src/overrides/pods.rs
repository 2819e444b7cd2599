//! `command`, `args` and `envs` overriders, and the pod spec that typed overriders read.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
use serde_json::Value;

use super::super::podspec;
use super::api::{CommandOverrider, EnvOverrider};
use super::{OverriderFailure, Patch};
use federate_kubernetes::{ObjectRef, work};

/// A workload's typed pod spec, and its path.
pub(super) struct WorkloadPods {
    spec: PodSpec,
    pointer: String,
}

/// A container by kind of list and index.
pub(super) type ContainerRef = (&'static str, usize);

impl WorkloadPods {
    /// Reads the whole pod spec. A field with a wrong type anywhere in it is an error. The kind is that of the
    /// template, even if an override changed it.
    pub(super) fn from_body(id: &ObjectRef, body: &Value) -> Result<Self, String> {
        let path = podspec::pod_spec_path(id).ok_or_else(|| format!("{} has no pods", id.kind))?;
        let pointer: String = path.iter().flat_map(|key| ["/", key]).collect();
        let spec = body.pointer(&pointer).cloned().unwrap_or(Value::Object(Default::default()));
        let spec = serde_path_to_error::deserialize(spec)
            .map_err(|e| format!("`{}.{}` is invalid: {}", path.join("."), e.path(), e.inner()))?;
        Ok(Self { spec, pointer })
    }

    fn container_list(&self, list: &str) -> &[Container] {
        match list {
            "initContainers" => self.spec.init_containers.as_deref().unwrap_or_default(),
            _ => &self.spec.containers,
        }
    }

    /// Init containers, then containers.
    pub(super) fn containers(&self) -> impl Iterator<Item = (ContainerRef, &Container)> {
        ["initContainers", "containers"]
            .into_iter()
            .flat_map(|list| self.container_list(list).iter().enumerate().map(move |(at, c)| ((list, at), c)))
    }

    pub(super) fn count_containers(&self) -> u64 {
        ["initContainers", "containers"].map(|list| self.container_list(list).len() as u64).iter().sum()
    }

    fn find_container(&self, name: &str) -> Option<(ContainerRef, &Container)> {
        self.containers().find(|(_, container)| {
            work::charge_steps(1);
            container.name == name
        })
    }

    /// The JSON pointer to a container's field.
    pub(super) fn field_pointer(&self, container: ContainerRef, field: &str) -> String {
        let (list, at) = container;
        format!("{}/{list}/{at}/{field}", self.pointer)
    }
}

/// The patches of command or argument overriders. Changes of one container accumulate.
pub(super) fn command_patches(
    overriders: &[CommandOverrider],
    field: &'static str,
    id: &ObjectRef,
    body: &Value,
) -> Result<Vec<Patch>, OverriderFailure> {
    if overriders.is_empty() {
        return Ok(Vec::new());
    }
    let pods = WorkloadPods::from_body(id, body)
        .map_err(|why| OverriderFailure::new(format!("/overriders/{field}"), why))?;
    let mut changed: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
    for (number, overrider) in overriders.iter().enumerate() {
        let Some((place, container)) = pods.find_container(&overrider.container_name) else { continue };
        let written = if field == "command" { &container.command } else { &container.args };
        let there = changed.entry(pods.field_pointer(place, field)).or_insert_with(|| written.clone());
        *there = change_command(there.take(), overrider)
            .map_err(|why| OverriderFailure::new(format!("/overriders/{field}/{number}"), why))?;
    }
    let patches = changed.into_iter();
    Ok(patches.map(|(path, words)| Patch::replace_at(path, words.map_or(Value::Null, Value::from))).collect())
}

/// The words after one overrider. An empty list becomes `None` when words are removed.
fn change_command(
    words: Option<Vec<String>>,
    overrider: &CommandOverrider,
) -> Result<Option<Vec<String>>, String> {
    let value = overrider.value.as_deref().unwrap_or_default();
    work::charge_items(words.as_ref().map_or(0, Vec::len) + value.len());
    match overrider.operator.as_str() {
        _ if work::is_exceeded() => Ok(words),
        "append" if value.is_empty() => Err("the value to append is empty".to_owned()),
        "append" => Ok(Some(words.into_iter().flatten().chain(value.iter().cloned()).collect())),
        "overwrite" => Ok(overrider.value.clone()),
        "delete" => {
            let value: BTreeSet<&String> = value.iter().collect();
            let left: Vec<String> =
                words.into_iter().flatten().filter(|word| !value.contains(word)).collect();
            Ok(Some(left).filter(|words| !words.is_empty()))
        }
        other => Err(format!("`{other}` is not one of append, overwrite, delete")),
    }
}

/// The patches of environment overriders. Changes of one container accumulate.
pub(super) fn env_patches(
    overriders: &[EnvOverrider],
    id: &ObjectRef,
    body: &Value,
) -> Result<Vec<Patch>, OverriderFailure> {
    if overriders.is_empty() {
        return Ok(Vec::new());
    }
    let pods =
        WorkloadPods::from_body(id, body).map_err(|why| OverriderFailure::new("/overriders/envs", why))?;
    let mut changed: BTreeMap<String, Option<Vec<EnvVar>>> = BTreeMap::new();
    for (number, overrider) in overriders.iter().enumerate() {
        let Some((place, container)) = pods.find_container(&overrider.container_name) else { continue };
        let there = changed.entry(pods.field_pointer(place, "env")).or_insert_with(|| container.env.clone());
        change_env(there, overrider)
            .map_err(|why| OverriderFailure::new(format!("/overriders/envs/{number}"), why))?;
    }
    let patches = changed.into_iter().map(|(path, variables)| {
        let variables = variables.map(|all| all.iter().map(encode_variable).collect());
        Patch::replace_at(path, variables.unwrap_or(Value::Null))
    });
    Ok(patches.collect())
}

/// Applies one overrider to variables. An empty list becomes `None` when the last one is removed.
fn change_env(variables: &mut Option<Vec<EnvVar>>, overrider: &EnvOverrider) -> Result<(), String> {
    let adds = overrider.operator == "addIfAbsent";
    if adds && overrider.value.is_empty() {
        return Err("the variables to add are empty".to_owned());
    }
    for own in &overrider.value {
        work::charge_items(variables.as_ref().map_or(0, Vec::len));
        if work::is_exceeded() {
            return Ok(());
        }
        let there = variables.as_deref_mut().unwrap_or_default();
        let known = there.iter().any(|variable| variable.name == own.name);
        match overrider.operator.as_str() {
            "" | "overwrite" => {
                for variable in there.iter_mut().filter(|variable| variable.name == own.name) {
                    variable.clone_from(own);
                }
            }
            "addIfAbsent" if known => return Err(format!("`{}` already exists", own.name)),
            "addIfAbsent" => variables.get_or_insert_default().push(own.clone()),
            "delete" if known => {
                let mut left = variables.take().unwrap_or_default();
                left.retain(|variable| variable.name != own.name);
                *variables = Some(left).filter(|left| !left.is_empty());
            }
            "delete" => {}
            other => return Err(format!("`{other}` is not one of overwrite, addIfAbsent, delete")),
        }
    }
    Ok(())
}

/// The variable as the API types write it, without empty values.
fn encode_variable(variable: &EnvVar) -> Value {
    let mut value = serde_json::to_value(variable).unwrap_or_default();
    if let Value::Object(map) = &mut value
        && map.get("value").and_then(Value::as_str) == Some("")
    {
        map.shift_remove("value");
    }
    value
}
