//! Followers: objects that go where the workloads go that refer to them.
//!
//! Facts: leaders refer to followers in their pod spec and in an annotation; only the template counts, not
//! overrides. A follower goes to the union of its leaders' clusters, and to those of its own policy. If a
//! `*.j2` template refers to different objects in different clusters, each goes where it is referred to.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::json::{array_at, string_at};
use super::state::KubeAdmiralState;
use super::types::FederatedKinds;
use super::{keys, podspec};
use federate_dialect::Placement;
use federate_kubernetes::pods::PodReferences;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Object, ObjectRef};

/// Which objects can be followers: API group and kind, besides those that scale others.
const FOLLOWERS: [(&str, &str); 6] = [
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "PersistentVolumeClaim"),
    ("", "ServiceAccount"),
    ("", "Service"),
    ("networking.k8s.io", "Ingress"),
];

/// A reference within the leader's namespace: API group, kind, name.
pub(super) type FollowerReference = (String, String, String);

/// Whether an object's followers go where it goes: a kind that leads, with a pod spec.
pub(super) fn can_lead(object: &Object) -> bool {
    podspec::pod_spec_path(&object.id).is_some()
}

/// Whether objects of that kind can be followers.
pub(super) fn can_follow(id: &ObjectRef, types: &FederatedKinds) -> bool {
    FOLLOWERS.contains(&(id.group(), id.kind.as_str()))
        || types.get(&id.api_version, &id.kind).is_some_and(|t| t.scales)
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WrittenReference {
    #[serde(deserialize_with = "null_default")]
    group: String,
    #[serde(deserialize_with = "null_default")]
    kind: String,
    #[serde(deserialize_with = "null_default")]
    name: String,
}

/// The references in the annotation of a leader, or why it cannot be read.
pub(super) fn read_annotation(leader: &Object) -> Result<BTreeSet<FollowerReference>, String> {
    let Some(text) = leader.annotation(keys::FOLLOWERS) else { return Ok(BTreeSet::new()) };
    let written: Option<Vec<WrittenReference>> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    Ok(written.into_iter().flatten().map(|w| (w.group, w.kind, w.name)).collect())
}

/// The references of a leader, or why its annotation cannot be read.
pub(super) fn find_references(leader: &Object) -> Result<BTreeSet<FollowerReference>, String> {
    let mut all = read_annotation(leader)?;
    let Some(spec) = podspec::find_pod_spec(leader) else { return Ok(all) };
    let PodReferences { secrets, config_maps, claims, mut service_accounts } = pod_references(spec);
    let account = string_at(spec, &["serviceAccountName"]);
    if !account.is_empty() {
        service_accounts.insert(account.to_owned());
    }
    let kinds = [
        ("Secret", secrets),
        ("ConfigMap", config_maps),
        ("PersistentVolumeClaim", claims),
        ("ServiceAccount", service_accounts),
    ];
    for (kind, names) in kinds {
        all.extend(names.into_iter().map(|name| (String::new(), kind.to_owned(), name)));
    }
    Ok(all)
}

/// The references of containers, init containers, volumes and pull secrets. Ephemeral containers do not count.
fn pod_references(spec: &Value) -> PodReferences {
    let mut references = PodReferences::default();
    for container in array_at(spec, &["containers"]).iter().chain(array_at(spec, &["initContainers"])) {
        references.add_container(container);
    }
    for volume in array_at(spec, &["volumes"]) {
        references.add_volume(volume);
    }
    let pull = array_at(spec, &["imagePullSecrets"]).iter().map(|secret| string_at(secret, &["name"]));
    references.secrets.extend(pull.filter(|name| !name.is_empty()).map(str::to_owned));
    references
}

/// Whether the object is a dry run: it is not sent before it has been sent once.
pub(super) fn is_dry_run(object: &Object, row: Option<&Placement>) -> bool {
    if object.annotation(keys::DRY_RUN) != Some("true") {
        return false;
    }
    let sent = row.and_then(|row| KubeAdmiralState::from_row(row).propagated);
    sent.is_none_or(|sent| sent.is_empty())
}
