//! The fields of objects of Flux and Argo CD: which are carried out, and which have no effect on what is built.

use serde_json::Value;

use federate_kubernetes::Object;

use crate::description::Note;

/// A field that changes nothing of what is built, and what that means here.
pub(crate) struct FieldWithoutEffect {
    /// Where it is in the object, as a pointer.
    pub(crate) pointer: &'static str,
    /// Why it matters.
    pub(crate) why: &'static str,
}

/// The fields of a map that are carried out, or only say when and how Flux reconciles.
pub(crate) struct KnownMap {
    /// Where the map is in the object, as a pointer.
    pub(crate) pointer: &'static str,
    pub(crate) fields: &'static [&'static str],
}

/// The fields of a kind of objects.
pub(crate) struct KnownFields {
    pub(crate) maps: &'static [KnownMap],
    pub(crate) without_effect: &'static [FieldWithoutEffect],
}

impl KnownFields {
    /// Notes the fields that have no effect here, and those that are not known, once for an object.
    pub(crate) fn note_fields(&self, object: &Object, notes: &mut Vec<Note>) {
        let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let found = self.without_effect.iter();
        let found: Vec<&FieldWithoutEffect> =
            found.filter(|field| object.body.pointer(field.pointer).is_some_and(is_set)).collect();
        let found: Vec<(&str, String)> = found
            .iter()
            .map(|field| (field.pointer, format!("`{}` ({})", name_field(field.pointer), field.why)))
            .collect();
        note_without_effect(object, &found, notes);
        note_unknown(object, &self.list_unknown(object), notes);
    }

    /// The pointers of fields that are not known.
    fn list_unknown(&self, object: &Object) -> Vec<String> {
        let mut unknown = Vec::new();
        for map in self.maps {
            let fields = object.body.pointer(map.pointer).and_then(Value::as_object).into_iter().flatten();
            for (key, _) in fields.filter(|(_, value)| !value.is_null()) {
                let pointer = format!("{}/{}", map.pointer, federate_yaml::pointer::escape(key));
                let is_listed = self.without_effect.iter().any(|field| field.pointer == pointer);
                if !is_listed && !map.fields.contains(&key.as_str()) {
                    unknown.push(pointer);
                }
            }
        }
        unknown
    }
}

/// A pointer as the path of a field below `spec`.
fn name_field(pointer: &str) -> String {
    pointer.trim_start_matches("/spec/").replace('/', ".")
}

/// Notes fields that have no effect here, each with its pointer and what it means.
pub(crate) fn note_without_effect(object: &Object, fields: &[(&str, String)], notes: &mut Vec<Note>) {
    let Some((pointer, _)) = fields.first() else { return };
    let all: Vec<&str> = fields.iter().map(|(_, text)| text.as_str()).collect();
    notes.push(Note::about_fields(
        object,
        pointer,
        format!("fields without effect here: {}", all.join(", ")),
    ));
}

/// Notes fields that federate does not know, by their pointers.
pub(crate) fn note_unknown(object: &Object, pointers: &[String], notes: &mut Vec<Note>) {
    let Some(first) = pointers.first() else { return };
    let all: Vec<String> = pointers.iter().map(|field| format!("`{}`", name_field(field))).collect();
    notes.push(Note::about_fields(
        object,
        first,
        format!("fields that federate does not know: {}", all.join(", ")),
    ));
}
