//! The type of an Application: what its fields are, which of them are left out where they are empty, and how two are merged.
//!
//! Facts: the API `argoproj.io/v1alpha1` and `metav1.ObjectMeta`. A field that the type does not have is ignored.

use serde_json::{Map, Value, json};

/// The type of a field.
#[derive(Debug)]
pub(super) enum FieldType {
    Text,
    /// A text that is written also where it is empty.
    RequiredText,
    Boolean,
    Integer,
    /// An integer or a boolean that may be missing, so that `0` and `false` are written.
    Optional(&'static FieldType),
    /// A number or a text.
    IntegerOrText,
    Texts,
    TextMap,
    BooleanMap,
    List(&'static FieldType),
    /// A map with these fields.
    Struct(&'static [(&'static str, FieldType)]),
    /// Any map; its texts are templates, too.
    AnyMap,
    /// Anything, which has no effect.
    Ignored,
}

use FieldType::{
    AnyMap, Boolean, BooleanMap, Ignored, Integer, IntegerOrText, List, Optional, RequiredText, Struct, Text,
    TextMap, Texts,
};

/// The type of an Application.
pub(super) const APPLICATION: FieldType = Struct(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("metadata", METADATA),
    ("spec", SPEC),
    ("status", Ignored),
    ("operation", Ignored),
]);

const METADATA: FieldType = Struct(&[
    ("name", Text),
    ("namespace", Text),
    ("generateName", Text),
    ("labels", TextMap),
    ("annotations", TextMap),
    ("finalizers", Texts),
    ("ownerReferences", Ignored),
    ("managedFields", Ignored),
    ("uid", Text),
    ("resourceVersion", Text),
    ("selfLink", Text),
    ("generation", Integer),
    ("creationTimestamp", Ignored),
    ("deletionTimestamp", Ignored),
    ("deletionGracePeriodSeconds", Optional(&Integer)),
]);

const SPEC: FieldType = Struct(&[
    ("source", SOURCE),
    ("sources", List(&SOURCE)),
    ("destination", Struct(&[("server", Text), ("name", Text), ("namespace", Text)])),
    ("project", RequiredText),
    ("syncPolicy", SYNC_POLICY),
    ("ignoreDifferences", List(&IGNORED_DIFFERENCE)),
    ("info", List(&Struct(&[("name", RequiredText), ("value", RequiredText)]))),
    ("revisionHistoryLimit", Optional(&Integer)),
    ("sourceHydrator", SOURCE_HYDRATOR),
]);

const SOURCE: FieldType = Struct(&[
    ("repoURL", RequiredText),
    ("path", Text),
    ("targetRevision", Text),
    ("chart", Text),
    ("ref", Text),
    ("name", Text),
    ("helm", HELM),
    ("kustomize", KUSTOMIZE),
    ("directory", DIRECTORY),
    ("plugin", PLUGIN),
]);

const HELM: FieldType = Struct(&[
    ("valueFiles", Texts),
    ("parameters", List(&Struct(&[("name", Text), ("value", Text), ("forceString", Boolean)]))),
    ("releaseName", Text),
    ("values", Text),
    ("fileParameters", List(&Struct(&[("name", Text), ("path", Text)]))),
    ("version", Text),
    ("passCredentials", Boolean),
    ("ignoreMissingValueFiles", Boolean),
    ("skipCrds", Boolean),
    ("valuesObject", AnyMap),
    ("namespace", Text),
    ("kubeVersion", Text),
    ("apiVersions", Texts),
    ("skipTests", Boolean),
    ("skipSchemaValidation", Boolean),
]);

const KUSTOMIZE: FieldType = Struct(&[
    ("namePrefix", Text),
    ("nameSuffix", Text),
    ("images", Texts),
    ("commonLabels", TextMap),
    ("version", Text),
    ("commonAnnotations", TextMap),
    ("forceCommonLabels", Boolean),
    ("forceCommonAnnotations", Boolean),
    ("namespace", Text),
    ("commonAnnotationsEnvsubst", Boolean),
    ("replicas", List(&Struct(&[("name", RequiredText), ("count", IntegerOrText)]))),
    ("patches", List(&KUSTOMIZE_PATCH)),
    ("components", Texts),
    ("ignoreMissingComponents", Boolean),
    ("labelWithoutSelector", Boolean),
    ("labelIncludeTemplates", Boolean),
    ("kubeVersion", Text),
    ("apiVersions", Texts),
]);

const KUSTOMIZE_PATCH: FieldType = Struct(&[
    ("path", Text),
    ("patch", Text),
    (
        "target",
        Struct(&[
            ("group", Text),
            ("version", Text),
            ("kind", Text),
            ("name", Text),
            ("namespace", Text),
            ("labelSelector", Text),
            ("annotationSelector", Text),
        ]),
    ),
    ("options", BooleanMap),
]);

const DIRECTORY: FieldType = Struct(&[
    ("recurse", Boolean),
    (
        "jsonnet",
        Struct(&[("extVars", List(&JSONNET_VARIABLE)), ("tlas", List(&JSONNET_VARIABLE)), ("libs", Texts)]),
    ),
    ("exclude", Text),
    ("include", Text),
    ("disableExtensionFilter", Boolean),
]);

const JSONNET_VARIABLE: FieldType =
    Struct(&[("name", RequiredText), ("value", RequiredText), ("code", Boolean)]);

const PLUGIN: FieldType = Struct(&[
    ("name", Text),
    ("env", List(&Struct(&[("name", RequiredText), ("value", RequiredText)]))),
    (
        "parameters",
        List(&Struct(&[("name", Text), ("string", Optional(&Text)), ("map", TextMap), ("array", Texts)])),
    ),
]);

const SYNC_POLICY: FieldType = Struct(&[
    (
        "automated",
        Struct(&[
            ("prune", Boolean),
            ("selfHeal", Boolean),
            ("allowEmpty", Boolean),
            ("enabled", Optional(&Boolean)),
        ]),
    ),
    ("syncOptions", Texts),
    (
        "retry",
        Struct(&[
            ("limit", Integer),
            ("refresh", Boolean),
            ("backoff", Struct(&[("duration", Text), ("factor", Optional(&Integer)), ("maxDuration", Text)])),
        ]),
    ),
    ("managedNamespaceMetadata", Struct(&[("labels", TextMap), ("annotations", TextMap)])),
]);

const IGNORED_DIFFERENCE: FieldType = Struct(&[
    ("group", Text),
    ("kind", RequiredText),
    ("name", Text),
    ("namespace", Text),
    ("jsonPointers", Texts),
    ("jqPathExpressions", Texts),
    ("managedFieldsManagers", Texts),
]);

const SOURCE_HYDRATOR: FieldType = Struct(&[
    (
        "drySource",
        Struct(&[
            ("repoURL", RequiredText),
            ("targetRevision", RequiredText),
            ("path", RequiredText),
            ("helm", HELM),
            ("kustomize", KUSTOMIZE),
            ("directory", DIRECTORY),
            ("plugin", PLUGIN),
        ]),
    ),
    ("syncSource", Struct(&[("targetBranch", RequiredText), ("path", RequiredText), ("repoURL", Text)])),
    ("hydrateTo", Struct(&[("targetBranch", RequiredText)])),
]);

/// Why a value does not have its type: where it is, and the reason.
pub(super) struct TypeMismatch {
    pub(super) pointer: String,
    pub(super) why: &'static str,
}

impl FieldType {
    /// The type of a field of a struct.
    pub(super) fn field(&self, name: &str) -> Option<&'static Self> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(own, _)| *own == name).map(|(_, field)| field),
            _ => None,
        }
    }

    /// Checks a value. `null` is a missing one, and the fields that the type does not have are added to `unknown`.
    pub(super) fn check(
        &self,
        value: &Value,
        pointer: &str,
        unknown: &mut Vec<String>,
    ) -> Result<(), TypeMismatch> {
        let mismatch = |why| Err(TypeMismatch { pointer: pointer.to_owned(), why });
        match (self, value) {
            (_, Value::Null)
            | (Self::Ignored, _)
            | (Self::Text | Self::RequiredText, Value::String(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::AnyMap, Value::Object(_))
            | (Self::IntegerOrText, Value::String(_) | Value::Number(_)) => Ok(()),
            (Self::Optional(inner), value) => inner.check(value, pointer, unknown),
            (Self::Integer, Value::Number(number)) if number.is_i64() || number.is_u64() => Ok(()),
            (Self::Texts, Value::Array(items)) => check_items(&Self::Text, items, pointer, unknown),
            (Self::List(item), Value::Array(items)) => check_items(item, items, pointer, unknown),
            (Self::TextMap | Self::BooleanMap, Value::Object(map)) => {
                let entry = if matches!(self, Self::TextMap) { Self::Text } else { Self::Boolean };
                map.iter()
                    .try_for_each(|(key, value)| entry.check(value, &format!("{pointer}/{key}"), unknown))
            }
            (Self::Struct(_), Value::Object(map)) => map.iter().try_for_each(|(key, value)| {
                let pointer = format!("{pointer}/{key}");
                if let Some(field) = self.field(key) {
                    return field.check(value, &pointer, unknown);
                }
                unknown.push(pointer);
                Ok(())
            }),
            (Self::Text | Self::RequiredText, _) => mismatch("it is not a text"),
            (Self::Boolean, _) => mismatch("it is not `true` or `false`"),
            (Self::Integer, _) => mismatch("it is not a whole number"),
            (Self::IntegerOrText, _) => mismatch("it is not a number or a text"),
            (Self::Texts | Self::List(_), _) => mismatch("it is not a list"),
            (Self::TextMap | Self::BooleanMap | Self::AnyMap | Self::Struct(_), _) => {
                mismatch("it is not a map")
            }
        }
    }

    /// The value as it is written: without what is empty. Fields that the type does not have stay.
    pub(super) fn normalize(&self, value: Value) -> Value {
        match (self, value) {
            (Self::Struct(_), Value::Object(map)) => {
                let mut normal = Map::new();
                for (key, value) in map {
                    let Some(field) = self.field(&key) else {
                        normal.insert(key, value);
                        continue;
                    };
                    let value = field.normalize(value);
                    if !field.is_omitted(&value) {
                        normal.insert(key, value);
                    }
                }
                if let Self::Struct(fields) = self {
                    let required = fields.iter().filter(|(_, field)| matches!(field, Self::RequiredText));
                    for (name, _) in required {
                        normal.entry(*name).or_insert_with(|| json!(""));
                    }
                }
                Value::Object(normal)
            }
            (Self::List(item), Value::Array(items)) => {
                items.into_iter().map(|value| item.normalize(value)).collect()
            }
            (Self::TextMap, Value::Object(map)) => {
                let text = |value: Value| if value.is_null() { json!("") } else { value };
                Value::Object(map.into_iter().map(|(key, value)| (key, text(value))).collect())
            }
            (_, value) => value,
        }
    }

    /// Whether a value of this type is not written.
    fn is_omitted(&self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) => true,
            (Self::Text, Value::String(text)) => text.is_empty(),
            (Self::Boolean, value) => value == &Value::Bool(false),
            (Self::Integer, value) => value == &json!(0),
            (Self::Texts | Self::List(_), Value::Array(items)) => items.is_empty(),
            (Self::TextMap | Self::BooleanMap, Value::Object(map)) => map.is_empty(),
            _ => false,
        }
    }

    /// Fills the empty fields of a value from another: structs and maps by their keys, lists as a whole.
    pub(super) fn fill_empty(&self, value: &mut Value, from: &Value) {
        match (self, value, from) {
            (Self::Struct(_) | Self::TextMap | Self::BooleanMap, Value::Object(map), Value::Object(from)) => {
                for (key, from) in from {
                    let field = self.field(key).unwrap_or(&Self::Text);
                    match map.get_mut(key) {
                        Some(own) => field.fill_empty(own, from),
                        None => drop(map.insert(key.clone(), from.clone())),
                    }
                }
            }
            (_, value, from) => {
                let is_empty = match &*value {
                    Value::Null | Value::Bool(false) => true,
                    Value::String(text) => text.is_empty(),
                    Value::Array(items) => items.is_empty(),
                    Value::Object(map) => map.is_empty(),
                    Value::Number(number) => number.as_i64() == Some(0),
                    Value::Bool(true) => false,
                };
                if is_empty {
                    *value = from.clone();
                }
            }
        }
    }
}

fn check_items(
    item: &FieldType,
    items: &[Value],
    pointer: &str,
    unknown: &mut Vec<String>,
) -> Result<(), TypeMismatch> {
    let mut indexed = items.iter().enumerate();
    indexed.try_for_each(|(index, value)| item.check(value, &format!("{pointer}/{index}"), unknown))
}

/// Adds the destination, which is written also where it is empty.
pub(super) fn normalize_application(application: Value) -> Value {
    let mut application = APPLICATION.normalize(application);
    if let Some(Value::Object(spec)) = application.get_mut("spec") {
        spec.entry("destination").or_insert_with(|| json!({}));
    }
    application
}
