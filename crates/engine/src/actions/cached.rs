//! What follows from a rendered object alone: computed once for all clusters that receive it.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::comparison::UnchangedText;
use super::decide::{Rules, Target};
use federate_apiserver::{Failure, applied};

/// The body that is applied, and the result of creating the object: computed once for all clusters.
#[derive(Clone, Debug, Default)]
pub struct CachedCreate {
    /// How a live object was found to be unchanged.
    pub(super) unchanged: OnceLock<UnchangedText>,
    metadata: OnceLock<Value>,
    body: OnceLock<Arc<Value>>,
    result: OnceLock<Created>,
}

/// A new object as it is shown.
pub(super) type Created = Result<Option<Arc<Value>>, Failure>;

impl CachedCreate {
    /// The body with the label of the `ApplySet`.
    pub(super) fn body(&self, target: &Target<'_>, rules: &Rules<'_>) -> &Arc<Value> {
        self.body.get_or_init(|| Arc::new(rules.inventory.labelled(target.body)))
    }

    /// The metadata of that body.
    pub(super) fn metadata(&self, body: &Value, rules: &Rules<'_>) -> &Value {
        let metadata = || {
            let metadata = body.get("metadata").cloned().unwrap_or_else(|| json!({}));
            let mut labelled = Value::Object(Map::from_iter([("metadata".to_owned(), metadata)]));
            rules.inventory.label(&mut labelled);
            labelled.get_mut("metadata").map(Value::take).unwrap_or_default()
        };
        self.metadata.get_or_init(metadata)
    }

    pub(super) fn result(&self, target: &Target<'_>, rules: &Rules<'_>) -> Created {
        let create = || {
            let result = applied(None, self.body(target, rules), &rules.write(target.kind));
            result.map(|result| rules.shown(result))
        };
        // The CRD of a custom resource, and so its schema, may differ between clusters.
        if target.kind.custom.is_some() { create() } else { self.result.get_or_init(create).clone() }
    }
}
