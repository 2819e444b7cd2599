//! Fields and kinds that a release does not have yet.
//!
//! Facts: the API server of a release drops fields that it does not know; a kind without an interpreter is
//! like any other object: it has no replicas, no dependencies and no health.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::KarmadaBehaviour;
use federate_dialect::release::{FirstPatches, Release};
use federate_kubernetes::{Finding, Object};

/// Fields that were added later: the path, since when, and what to do before.
const FIELDS: [(&[&str], FirstPatches, &str); 4] = [
    (
        &["spec", "placement", "clusterAffinities", "*", "overflowAffinities"],
        &[(18, 0)],
        "write the overflow clusters as another entry of `clusterAffinities`, or remove the field",
    ),
    (&["spec", "placement", "workloadAffinity"], &[(17, 0)], "remove the field"),
    (
        &["spec", "failover", "cluster"],
        &[(15, 0)],
        "remove the field: the flags of the controllers decide about it in this release",
    ),
    (
        &["spec", "customizations", "componentResource"],
        &[(15, 0)],
        "remove the script: the release does not interpret components",
    ),
];

/// Kinds whose interpreters were added later (rows 10 and 11, §3).
const KINDS: [(&str, &[&str], FirstPatches); 8] = [
    ("apps.kruise.io/v1alpha1", &["SidecarSet", "UnitedDeployment"], &[(15, 0)]),
    ("apps/v1", &["ReplicaSet"], &[(16, 0)]),
    ("batch.volcano.sh/v1alpha1", &["Job"], &[(16, 0)]),
    ("sparkoperator.k8s.io/v1beta2", &["SparkApplication"], &[(16, 0)]),
    ("kubeflow.org/v1", &["PyTorchJob", "TFJob", "Notebook"], &[(16, 0)]),
    ("kubeflow.org/v2beta1", &["MPIJob"], &[(16, 0)]),
    ("ray.io/v1", &["RayCluster", "RayJob"], &[(16, 0)]),
    ("ray.io/v1", &["RayService"], &[(17, 0)]),
];

/// The kinds that a release has no interpreter for.
fn missing_kinds(release: Release) -> impl Iterator<Item = (&'static str, &'static str, FirstPatches)> {
    let all = KINDS.iter().filter(move |(_, _, since)| !release.includes_change(since));
    all.flat_map(|(version, kinds, since)| kinds.iter().map(|kind| (*version, *kind, *since)))
}

/// Whether two releases interpret the same kinds.
pub(super) fn same_kinds(one: Release, other: Release) -> bool {
    missing_kinds(one).eq(missing_kinds(other))
}

impl KarmadaBehaviour {
    /// Whether the release has an interpreter for a kind, if one is known at all.
    pub(crate) fn has_interpreter(&self, api_version: &str, kind: &str) -> bool {
        !missing_kinds(self.release).any(|(version, name, _)| version == api_version && name == kind)
    }

    /// A policy as the release's API server stores it, and the findings about dropped fields.
    pub(crate) fn drop_unknown_fields<'o>(&self, policy: &'o Object) -> (Cow<'o, Object>, Vec<Finding>) {
        let mut stored = Cow::Borrowed(policy);
        let mut findings = Vec::new();
        for (path, since, help) in FIELDS.iter().filter(|(_, since, _)| !self.release.includes_change(since))
        {
            let mut dropped = Vec::new();
            find_pointers(&policy.body, path, &mut String::new(), &mut dropped);
            if !dropped.is_empty() {
                remove_values(&mut stored.to_mut().body, path);
            }
            let field = path.last().copied().unwrap_or_default();
            let first = since.first().map_or(0, |(minor, _)| *minor);
            let message = format!(
                "Karmada {} has no field `{field}` and drops it: it is ignored before 1.{first}",
                self.release
            );
            for pointer in dropped {
                let finding = Finding::warning("ignored-field", policy, message.clone());
                findings.push(finding.with_pointer(pointer).with_help(*help));
            }
        }
        (stored, findings)
    }

    /// One finding per kind of these templates that only other releases interpret.
    pub(crate) fn not_interpreted<'o>(&self, templates: impl Iterator<Item = &'o Object>) -> Vec<Finding> {
        let kinds: Vec<_> = missing_kinds(self.release).collect();
        if kinds.is_empty() {
            return Vec::new();
        }
        let mut found: BTreeMap<(&str, &str), (FirstPatches, &Object, usize)> = BTreeMap::new();
        for object in templates {
            let kind = kinds
                .iter()
                .find(|(version, kind, _)| *version == object.id.api_version && *kind == object.id.kind);
            if let Some((version, kind, since)) = kind {
                found.entry((version, kind)).or_insert((since, object, 0)).2 += 1;
            }
        }
        let mut findings = Vec::new();
        for ((version, kind), (since, object, count)) in found {
            let first = since.first().map_or(0, |(minor, _)| *minor);
            let message = format!(
                "Karmada {} does not interpret {kind} ({version}), of which there are {count}: before 1.{first} \
                 its replicas are not divided, and nothing that it refers to follows it",
                self.release
            );
            let finding = Finding::warning("not-interpreted", object, message);
            findings.push(
                finding
                    .with_help("a ResourceInterpreterCustomization can interpret the kind in this release"),
            );
        }
        findings
    }
}

/// The pointers of the values at a path, in which `*` stands for each item.
fn find_pointers(value: &Value, path: &[&str], at: &mut String, found: &mut Vec<String>) {
    let Some((first, rest)) = path.split_first() else {
        if !value.is_null() {
            found.push(at.clone());
        }
        return;
    };
    if *first == "*" {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            find_pointers_below(item, &index.to_string(), rest, at, found);
        }
    } else if let Some(child) = value.get(first) {
        find_pointers_below(child, first, rest, at, found);
    }
}

/// The pointers of the values at a path in the child `key` of the value at `at`.
fn find_pointers_below(child: &Value, key: &str, path: &[&str], at: &mut String, found: &mut Vec<String>) {
    let length = at.len();
    at.extend(["/", key]);
    find_pointers(child, path, at, found);
    at.truncate(length);
}

/// Removes the values at a path.
fn remove_values(value: &mut Value, path: &[&str]) {
    match path {
        [] => {}
        [last] => {
            if let Some(map) = value.as_object_mut() {
                map.shift_remove(*last);
            }
        }
        ["*", rest @ ..] => {
            value.as_array_mut().into_iter().flatten().for_each(|item| remove_values(item, rest));
        }
        [first, rest @ ..] => {
            if let Some(value) = value.get_mut(*first) {
                remove_values(value, rest);
            }
        }
    }
}
