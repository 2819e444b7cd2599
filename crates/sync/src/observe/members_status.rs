//! The last status of members, kept with the state of a Sync: after a restart, a member that cannot be read keeps it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use federate_engine::snapshot::SnapshotInput;
use federate_kubernetes::Object;
use federate_session::UnreachableClusters;

use crate::state::SyncState;

/// The most bytes of the status of one member that are kept.
const MAX_STATUS_BYTES: usize = 1 << 20;

/// What is known of members, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct MembersStatus(BTreeMap<String, MemberStatus>);

/// What is known of a member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberStatus {
    /// The inventory object, of which only the identity and the status are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<Value>,
    /// The version of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// When it could not be reached for the first time since it was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unreachable_since: Option<Timestamp>,
}

impl MembersStatus {
    /// Reads what is kept. What cannot be read counts as nothing, because the members are read again.
    pub(crate) fn from_state(state: &SyncState<'_>, sync: &str) -> Self {
        let read =
            state.storage.members_status().map_err(|error| error.to_string()).and_then(|text| match text {
                Some(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
                None => Ok(Self::default()),
            });
        read.unwrap_or_else(|why| {
            tracing::warn!(sync, why, "the last status of members cannot be read");
            Self::default()
        })
    }

    /// Follows a reading of the members `names`. Other members are forgotten.
    pub(crate) fn update_from<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
        captured: &SnapshotInput,
        now: Timestamp,
    ) {
        let mut before = std::mem::take(&mut self.0);
        self.0 = names.map(|name| (name.to_owned(), before.remove(name).unwrap_or_default())).collect();
        for object in &captured.objects {
            let Some(member) = self.0.get_mut(&object.id.name) else { continue };
            let version = captured.kubernetes.get(&object.id.name).cloned();
            *member =
                MemberStatus { object: Some(reduce_to_status(object)), version, unreachable_since: None };
        }
        for (name, member) in &mut self.0 {
            if captured.unreachable.contains(name) {
                // The clock may have been set back.
                member.unreachable_since = Some(member.unreachable_since.map_or(now, |since| since.min(now)));
            } else {
                member.unreachable_since = None;
            }
        }
    }

    /// The members that could not be reached, with the seconds until `now`.
    pub(crate) fn unreachable_seconds(&self, now: Timestamp) -> UnreachableClusters {
        let since = self.0.iter().filter_map(|(name, member)| Some((name, member.unreachable_since?)));
        since.map(|(name, since)| (name.as_str().into(), now.duration_since(since).as_secs())).collect()
    }

    /// The inventory objects with the last status, and the versions of Kubernetes.
    pub(crate) fn last_captured(&self) -> (Vec<Object>, BTreeMap<String, String>) {
        let objects = self.0.values().filter_map(|member| member.object.clone());
        let versions = self.0.iter().filter_map(|(name, one)| Some((name.clone(), one.version.clone()?)));
        (objects.map(|body| Object::from_manifest(body, "status of members")).collect(), versions.collect())
    }

    /// Keeps this with the state of the Sync. A member with too large a status is left out.
    pub(crate) fn save_to(&self, state: &mut SyncState<'_>) -> Result<(), crate::state::Error> {
        let mut kept = self.clone();
        for member in kept.0.values_mut() {
            member.object.take_if(|object| object.to_string().len() > MAX_STATUS_BYTES);
        }
        state.storage.keep_members_status(&serde_json::to_string(&kept).unwrap_or_default())
    }
}

/// The identity of an inventory object, and its status.
fn reduce_to_status(object: &Object) -> Value {
    let mut metadata = json!({"name": object.id.name});
    if let Some(namespace) = &object.id.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": object.id.api_version, "kind": object.id.kind, "metadata": metadata,
        "status": object.value_at(&["status"]).cloned().unwrap_or_default(),
    })
}
