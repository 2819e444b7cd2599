//! The owner of an object in a member: owner references to `AppliedWork` objects.
//!
//! Facts: a reference to an `AppliedWork` whose Work is gone does not count. Any other owner prevents adoption
//! unless co-ownership is allowed; another placement always does.

use serde_json::{Value, json};

const API_VERSION: &str = "placement.kubernetes-fleet.io/v1beta1";
const KIND: &str = "AppliedWork";

/// The owner references of an object.
pub(super) fn owner_references(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether two references are to the same owner.
pub(super) fn is_same_owner(a: &Value, b: &Value) -> bool {
    ["uid", "name", "kind", "apiVersion"].iter().all(|key| a.get(key) == b.get(key))
}

/// Whether an owner reference is to a work that does not exist any more.
fn is_gone_work(reference: &Value, works: &[String]) -> bool {
    let is_work = reference.get("apiVersion").is_some_and(|v| v == API_VERSION)
        || reference.get("kind").is_some_and(|kind| kind == KIND);
    is_work && !works.iter().any(|name| reference.get("name").is_some_and(|n| n == name.as_str()))
}

/// The object with the owner reference added and stale ones removed; or why the agent cannot adopt it.
pub(super) fn add_owner(
    live: &Value,
    owner: Option<&Value>,
    works: &[String],
    shares: bool,
) -> Result<Value, &'static str> {
    let left = owner_references(live).iter().filter(|one| !is_gone_work(one, works));
    let mut left: Vec<Value> = left.cloned().collect();
    if !left.is_empty() && !shares {
        return Err("CoOwnershipDisallowed");
    }
    let is_owned_by_other_work = left.iter().any(|one| {
        one.get("apiVersion").is_some_and(|v| v == API_VERSION)
            && one.get("kind").is_some_and(|kind| kind == KIND)
            && one.get("uid") != owner.and_then(|owner| owner.get("uid"))
    });
    if is_owned_by_other_work {
        return Err("PlacedInDuplicate");
    }
    left.extend(owner.cloned());
    let mut taken = live.clone();
    if !left.is_empty() || !owner_references(live).is_empty() {
        taken["metadata"]["ownerReferences"] = Value::Array(left);
    }
    Ok(taken)
}

/// The object without the owner reference.
pub(super) fn remove_owner(live: &Value, owner: &Value) -> Value {
    let mut released = live.clone();
    let left: Vec<Value> =
        owner_references(live).iter().filter(|one| !is_same_owner(one, owner)).cloned().collect();
    released["metadata"]["ownerReferences"] = Value::Array(left);
    released
}

/// A reference to an `AppliedWork` in the member.
pub(super) fn applied_work_reference(name: &str, uid: &str) -> Value {
    json!({"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": uid, "blockOwnerDeletion": true})
}
