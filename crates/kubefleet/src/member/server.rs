//! The API server of a member, as [`federate_apiserver_model`] models it.

use serde_json::Value;

use super::{FIELD_MANAGER, MemberApi};
use federate_apiserver_model::schema::Type;
use federate_apiserver_model::{ApiError, ResourceKind, WriteOptions, complete_object, strategy};

/// The time of writes; no result depends on it.
const NOW: &str = "1970-01-01T00:00:00Z";

/// A member's server for objects of one kind.
pub struct MemberServer {
    kind: ResourceKind,
}

impl MemberServer {
    /// Returns a server for objects of that kind. Of a kind that is not built in, no schema is known.
    pub fn new(api_version: &str, kind: &str) -> Self {
        Self {
            kind: ResourceKind::find_builtin(api_version, kind)
                .cloned()
                .unwrap_or_else(|| untyped_kind(api_version, kind)),
        }
    }

    fn write_options(&self, force: bool) -> WriteOptions<'_> {
        WriteOptions { kind: &self.kind, manager: FIELD_MANAGER, subresource: None, force, now: NOW }
    }
}

/// A kind without a known schema.
fn untyped_kind(api_version: &str, kind: &str) -> ResourceKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ResourceKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: String::new(),
        singular: String::new(),
        short: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        generation: true,
        status: false,
        scale: false,
        schema: Type::Any,
        custom: None,
    }
}

impl MemberApi for MemberServer {
    fn compute_apply(&self, live: &Value, manifest: &Value, force: bool) -> Result<Value, ApiError> {
        federate_apiserver_model::apply_object(Some(live), manifest, &self.write_options(force))
    }

    fn compute_write(&self, live: Option<&Value>, object: Value) -> Result<Value, ApiError> {
        let write = self.write_options(false);
        let object =
            federate_apiserver_model::update_managers(live, &complete_object(&self.kind, object), &write);
        match live {
            Some(live) => strategy::prepare_for_update(live, object, &write),
            None => strategy::prepare_for_create(object, &write),
        }
    }
}
