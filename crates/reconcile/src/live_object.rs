//! Live objects as they are read.

use serde_json::Value;

use federate_apiserver_model::managed_fields::read_fields;
use federate_apiserver_model::{ResourceKind, complete_object};
use federate_kubernetes::object::value_at;

/// A live object with all its field sets, and with defaults that a dump may lack.
pub(super) fn complete_live(kind: &ResourceKind, live: &Value) -> Value {
    complete_object(kind, with_fields(live))
}

/// A live object with all its field sets.
pub(super) fn with_fields(live: &Value) -> Value {
    let mut live = live.clone();
    read_fields(&mut live);
    live
}

pub(super) fn is_deleting(live: &Value) -> bool {
    value_at(live, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}
