//! What follows from a rendered object alone: computed once for all clusters that receive it.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::settings::DecisionSettings;
use federate_apiserver_model::{ApiError, ResourceKind, apply_object};

/// The owned fields of an unchanged object, as text.
#[derive(Clone, Debug)]
pub(super) struct UnchangedText {
    /// The field set of federate.
    pub(super) fields: String,
    /// The part of it that is about metadata.
    pub(super) of_metadata: Map<String, Value>,
    /// The owned fields of the metadata.
    pub(super) metadata: Vec<(String, String)>,
    /// All other owned fields of the object.
    pub(super) owned: Vec<(String, String)>,
}

/// The body that is applied, and the result of creating the object: computed once for all clusters.
#[derive(Clone, Debug, Default)]
pub struct CachedCreate {
    /// How a live object was found to be unchanged.
    pub(super) unchanged: OnceLock<UnchangedText>,
    metadata: OnceLock<Value>,
    body: OnceLock<Arc<Value>>,
    result: OnceLock<CreateResult>,
}

/// A new object as it is shown.
pub(super) type CreateResult = Result<Option<Arc<Value>>, ApiError>;

impl CachedCreate {
    /// The body with the label of the `ApplySet`.
    pub(super) fn labelled_body(&self, body: &Value, settings: &DecisionSettings<'_>) -> &Arc<Value> {
        self.body.get_or_init(|| Arc::new(settings.apply_set.with_label(body)))
    }

    /// The metadata of that body.
    pub(super) fn labelled_metadata(&self, body: &Value, settings: &DecisionSettings<'_>) -> &Value {
        self.metadata.get_or_init(|| {
            let metadata = body.get("metadata").cloned().unwrap_or_else(|| json!({}));
            let mut labelled = Value::Object(Map::from_iter([("metadata".to_owned(), metadata)]));
            settings.apply_set.add_label(&mut labelled);
            labelled.get_mut("metadata").map(Value::take).unwrap_or_default()
        })
    }

    pub(super) fn compute_result(
        &self,
        body: &Value,
        kind: &ResourceKind,
        settings: &DecisionSettings<'_>,
    ) -> CreateResult {
        // The CRD of a custom resource, and so its schema, may differ between clusters.
        if kind.custom.is_some() {
            return self.create_object(body, kind, settings);
        }
        self.result.get_or_init(|| self.create_object(body, kind, settings)).clone()
    }

    fn create_object(
        &self,
        body: &Value,
        kind: &ResourceKind,
        settings: &DecisionSettings<'_>,
    ) -> CreateResult {
        let body = self.labelled_body(body, settings);
        let result = apply_object(None, body, &settings.write_options(kind));
        result.map(|result| settings.readable_result(result))
    }
}
