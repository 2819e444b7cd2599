//! The `ConfigMap`s with the plan that the last apply stored in a cluster, beside the parent of its `ApplySet`: the previous
//! plan of the next apply, whoever runs it.
//!
//! ```text
//! <set>.plan                 which plan it is, and the plan itself where it fits
//! <set>.plan.<slot>.<number> its parts where it does not fit
//! ```
//!
//! Every cluster holds the whole plan, because schedulers decide about all clusters at once; of several plans the one
//! with the highest generation is the newest. Parts are written into the slot that is not in use, and the `ConfigMap`
//! `<set>.plan` then names that slot: a run that is killed leaves the old plan or the new one. All `ConfigMap`s are
//! owned by the parent, with which they go.

use http::Method;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::client::Client;
use super::cluster_state::ClusterState;
use super::compression::{PART_BYTES, compress_text, decompress_text};
use super::object_requests::APPLY;
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::stored_plan::{StoredPlan, compute_digest};
use super::{ApplyOptions, Error};
use federate_reconcile::{ApplySet, FIELD_MANAGER};

/// The annotation of the parent with the name of the `ConfigMap` of the plan.
pub(super) const PLAN_ANNOTATION: &str = "federate.dev/plan";

/// What was found where a cluster stores its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FoundPlan {
    /// No plan.
    #[default]
    Nothing,
    /// A plan.
    Plan(StoredPlan),
    /// A plan that cannot be read, and why.
    Damaged(String),
}

/// The index of a stored plan, as the `ConfigMap` `<set>.plan` holds it.
struct PlanIndex<'i>(&'i Value);

impl PlanIndex<'_> {
    fn find_value(&self, key: &str) -> Option<&str> {
        self.0.pointer(&format!("/data/{key}")).and_then(Value::as_str)
    }

    fn generation(&self) -> u64 {
        self.find_value("generation").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn part_count(&self) -> usize {
        self.find_value("parts").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn slot(&self) -> &'static str {
        if self.find_value("slot") == Some("b") { "b" } else { "a" }
    }
}

/// The most parts of a plan.
const MAX_PARTS: usize = 256;

/// Where the plan of an `ApplySet` is stored in a cluster.
fn config_map_path(set: &ApplySet, suffix: &str) -> ApiPath {
    ApiPath::from_version("v1")
        .in_namespace(&set.namespace)
        .join("configmaps")
        .join(&config_map_name(set, suffix))
}

pub(super) fn config_map_name(set: &ApplySet, suffix: &str) -> String {
    format!("{}.plan{suffix}", set.name)
}

fn plan_bytes(object: &Value) -> Option<Vec<u8>> {
    let bytes: ByteString = serde_json::from_value(object.pointer("/binaryData/plan")?.clone()).ok()?;
    Some(bytes.0)
}

impl FoundPlan {
    fn damaged(set: &ApplySet, why: &str) -> Self {
        let name = config_map_name(set, "");
        Self::Damaged(format!(
            "the plan that is kept in ConfigMap {}/{name} cannot be read: {why}; delete the ConfigMap to schedule without \
             it",
            set.namespace
        ))
    }
}

/// Reads the plan that a cluster stores.
pub(super) async fn read_plan(client: &Client, set: &ApplySet) -> Result<FoundPlan, Error> {
    let Some(index) = client.request_optional(&RepeatableRequest::get(config_map_path(set, ""))).await?
    else {
        return Ok(FoundPlan::Nothing);
    };
    let entry = PlanIndex(&index);
    if entry.part_count() > MAX_PARTS {
        return Ok(FoundPlan::damaged(set, "it names more parts than any plan has"));
    }
    let mut packed = plan_bytes(&index).unwrap_or_default();
    for number in 0..entry.part_count() {
        let suffix = format!(".{}.{number}", entry.slot());
        let part = client.request_optional(&RepeatableRequest::get(config_map_path(set, &suffix))).await?;
        match part.as_ref().and_then(plan_bytes) {
            Some(part) => packed.extend(part),
            None => return Ok(FoundPlan::damaged(set, "a part of it is missing")),
        }
    }
    if Some(compute_digest(&packed).as_str()) != entry.find_value("digest") {
        return Ok(FoundPlan::damaged(set, "it was edited"));
    }
    Ok(match decompress_text(&packed) {
        Ok(text) => FoundPlan::Plan(StoredPlan { generation: entry.generation(), text }),
        Err(error) => FoundPlan::damaged(set, &error.to_string()),
    })
}

/// The warning about a plan that a cluster stores and that the run does not decide by. The parent names it, so that clusters
/// without one are not asked.
pub(super) async fn warn_if_unused(
    client: &Client,
    state: &ClusterState,
    options: &ApplyOptions<'_>,
) -> Result<Option<String>, Error> {
    let set = options.apply_set;
    if !options.server.without_previous || !is_stored_in(state) {
        return Ok(None);
    }
    let index = client.request_optional(&RepeatableRequest::get(config_map_path(set, ""))).await?;
    Ok(index.map(|_| {
        format!(
            "an apply with --remember has stored its plan here (ConfigMap {}/{}), and this run decides without it, so \
             that objects may move: add --remember, or --fresh to decide anew",
            set.namespace,
            config_map_name(set, "")
        )
    }))
}

/// Whether the parent in a cluster says that the cluster stores a plan.
pub(super) fn is_stored_in(state: &ClusterState) -> bool {
    state.parent.as_ref().is_some_and(names_plan)
}

/// Whether a parent says that the cluster stores a plan.
pub(super) fn names_plan(parent: &Value) -> bool {
    parent.pointer("/metadata/annotations").is_some_and(|all| all.get(PLAN_ANNOTATION).is_some())
}

/// Stores a plan in a cluster, owned by the parent with this uid; one that is there already is not written again.
pub(super) async fn write_plan(
    client: &Client,
    set: &ApplySet,
    uid: &str,
    plan: &StoredPlan,
) -> Result<(), Error> {
    let packed = compress_text(&plan.text);
    let whole = compute_digest(&packed);
    let there =
        client.request_optional(&RepeatableRequest::get(config_map_path(set, ""))).await?.unwrap_or_default();
    let entry = PlanIndex(&there);
    if entry.find_value("digest") == Some(whole.as_str()) && entry.generation() == plan.generation {
        return Ok(());
    }
    let slot = if entry.slot() == "a" { "b" } else { "a" };
    let parts: Vec<&[u8]> =
        if packed.len() > PART_BYTES { packed.chunks(PART_BYTES).collect() } else { Vec::new() };
    for (number, part) in parts.iter().enumerate() {
        let binary = json!({"plan": ByteString(part.to_vec())});
        apply_config_map(client, set, uid, &format!(".{slot}.{number}"), json!({}), binary).await?;
    }
    let data = json!({
        "generation": plan.generation.to_string(), "digest": whole, "slot": slot, "parts": parts.len().to_string(),
    });
    let inline = if parts.is_empty() { json!({"plan": ByteString(packed)}) } else { json!({}) };
    apply_config_map(client, set, uid, "", data, inline).await
}

async fn apply_config_map(
    client: &Client,
    set: &ApplySet,
    uid: &str,
    suffix: &str,
    data: Value,
    binary: Value,
) -> Result<(), Error> {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": set.name, "uid": uid});
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": config_map_name(set, suffix), "namespace": set.namespace, "ownerReferences": [owner]},
        "data": data, "binaryData": binary,
    });
    let call = RepeatableRequest::new(Method::PATCH, config_map_path(set, suffix))
        .with_query("fieldManager", FIELD_MANAGER)
        .with_query("force", "true");
    client.request_json(&call.with_body(APPLY, &body)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_takes_the_same_plan_for_the_newest() {
        let plan = |generation, text: &str| StoredPlan { generation, text: text.into() };
        let newest = |plans: &[StoredPlan]| StoredPlan::find_newest(plans.iter().cloned());
        assert_eq!(newest(&[]), None);
        assert_eq!(newest(&[plan(2, "b"), plan(3, "a"), plan(1, "c")]), Some(plan(3, "a")));
        let (one, two) = (plan(1, "a"), plan(1, "b"));
        assert_eq!(newest(&[one.clone(), two.clone()]), newest(&[two, one]));
    }

    #[test]
    fn a_plan_that_stays_the_same_keeps_its_generation() {
        let first = StoredPlan::followed_by(None, b"a".to_vec());
        assert_eq!(first.generation, 1);
        assert_eq!(StoredPlan::followed_by(Some(&first), b"a".to_vec()), first);
        assert_eq!(StoredPlan::followed_by(Some(&first), b"b".to_vec()).generation, 2);
    }
}
