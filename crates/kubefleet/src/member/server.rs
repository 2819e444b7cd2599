//! The API server of a member, as [`federate_apiserver`] models it.

use serde_json::Value;

use super::{MANAGER, Member};
use federate_apiserver::schema::Type;
use federate_apiserver::{Failure, Kind, Write, complete_object, strategy};

/// The time of writes; no result depends on it.
const NOW: &str = "1970-01-01T00:00:00Z";

/// A member's server for objects of one kind.
pub struct Server {
    kind: Kind,
}

impl Server {
    /// Returns a server for objects of that kind. Of a kind that is not built in, no schema is known.
    pub fn new(api_version: &str, kind: &str) -> Self {
        Self { kind: Kind::builtin(api_version, kind).cloned().unwrap_or_else(|| untyped(api_version, kind)) }
    }

    fn write(&self, force: bool) -> Write<'_> {
        Write { kind: &self.kind, manager: MANAGER, subresource: None, force, now: NOW }
    }
}

/// A kind without a known schema.
fn untyped(api_version: &str, kind: &str) -> Kind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Kind {
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

impl Member for Server {
    fn applied(&self, live: &Value, manifest: &Value, force: bool) -> Result<Value, Failure> {
        federate_apiserver::applied(Some(live), manifest, &self.write(force))
    }

    fn written(&self, live: Option<&Value>, object: Value) -> Result<Value, Failure> {
        let write = self.write(false);
        let object = federate_apiserver::update_managers(live, &complete_object(&self.kind, object), &write);
        match live {
            Some(live) => strategy::prepare_for_update(live, object, &write),
            None => strategy::prepare_for_create(object, &write),
        }
    }
}
