//! Schemas of the values of charts (`values.schema.json`): what they refer to must be in the same file.
//!
//! Helm reads the schema that a reference names, from a server or from a file of this machine, before it renders anything.
//!
//! Facts: the specification of JSON Schema (`$ref`, `$dynamicRef`, `$recursiveRef`, `$schema`, `$id`, and `id` of draft 4); Helm
//! decodes JSON with the last of equal keys, and contains the meta-schemas of json-schema.org.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use federate_yaml::pointer;

/// The name of the schema of a chart's values.
pub(super) const SCHEMA_NAME: &str = "values.schema.json";

/// Keywords whose values are references.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Where meta-schemas are, some of which Helm contains. It cannot reach the others.
const META_SCHEMAS: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// The meta-schemas that Helm contains.
const CONTAINED: [&str; 5] =
    ["draft-04/schema", "draft-06/schema", "draft-07/schema", "draft/2019-09/", "draft/2020-12/"];

/// Why a schema is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SchemaProblem {
    /// Where, as a JSON pointer.
    pub(super) pointer: String,
    pub(super) why: String,
}

/// A value as far as references are concerned. Equal keys are all there.
enum Json {
    Object(Vec<Member>),
    Array(Vec<Json>),
    Text(String),
    Other,
}

struct Member {
    key: String,
    value: Json,
}

/// The first reference of a schema that leads out of it.
pub(super) fn find_problem(text: &[u8]) -> Option<SchemaProblem> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    match serde_json::from_slice(text) {
        Ok(schema) => find_reference(&schema, ""),
        Err(error) => {
            Some(SchemaProblem { pointer: String::new(), why: format!("it is not valid JSON: {error}") })
        }
    }
}

fn find_reference(value: &Json, at: &str) -> Option<SchemaProblem> {
    match value {
        Json::Object(members) => members.iter().find_map(|Member { key, value }| {
            let pointer = format!("{at}/{}", pointer::escape(key));
            let why = match value {
                Json::Text(text) => explain_keyword(key, text, at.is_empty()),
                _ => None,
            };
            match why {
                Some(why) => Some(SchemaProblem { pointer, why }),
                None => find_reference(value, &pointer),
            }
        }),
        Json::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| find_reference(item, &format!("{at}/{index}")))
        }
        Json::Text(_) | Json::Other => None,
    }
}

/// Why the value of a keyword is refused, if it is.
fn explain_keyword(key: &str, text: &str, is_root: bool) -> Option<String> {
    let meta_schema = META_SCHEMAS.iter().find_map(|start| text.strip_prefix(start));
    let is_contained = meta_schema.is_some_and(|rest| CONTAINED.iter().any(|known| rest.starts_with(known)));
    if REFERENCES.contains(&key) && !text.starts_with('#') && !is_contained {
        return Some(format!(
            "`{key}` refers to `{}`, which is not in the schema itself",
            text.escape_debug()
        ));
    }
    if key == "$schema" && meta_schema.is_none() {
        return Some(format!("`$schema` is `{}`, which Helm would fetch", text.escape_debug()));
    }
    // References start from an identifier: it must be that of a schema that is here.
    let identifier = text.strip_suffix('#').unwrap_or(text);
    let is_local = text.starts_with('#')
        || !identifier.contains(['#', '?', '\\']) && (is_root || !identifier.contains("//"));
    if matches!(key, "$id" | "id") && !is_local {
        return Some(format!(
            "`{key}` is `{}`, so that references would lead out of the schema",
            text.escape_debug()
        ));
    }
    None
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;

        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
                Ok(Json::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
                Ok(Json::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
                Ok(Json::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
                Ok(Json::Other)
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Other)
            }

            fn visit_str<E>(self, text: &str) -> Result<Json, E> {
                Ok(Json::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
                let mut array = Vec::new();
                while let Some(item) = items.next_element()? {
                    array.push(item);
                }
                Ok(Json::Array(array))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
                let mut object = Vec::new();
                while let Some(key) = members.next_key()? {
                    object.push(Member { key, value: members.next_value()? });
                }
                Ok(Json::Object(object))
            }
        }

        deserializer.deserialize_any(JsonVisitor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail loudly")]

    use super::*;

    #[test]
    fn references_of_honest_schemas_stay_in_the_file() {
        for schema in [
            r##"{"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/values.schema.json",
                "properties": {"a": {"$ref": "#/definitions/a"}, "id": {"type": "string"}, "$ref": {"type": "string"}}}"##,
            r##"{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"a": {"$id": "#a"}}, "$ref": "#a"}"##,
            r#"{"id": "http://example.com/root.json#", "properties": {"a": {"id": "/properties/a", "default": {"id": "x"}}}}"#,
            r#"{"$ref": "http://json-schema.org/draft-07/schema#"}"#,
            "true",
            "\u{feff}{}",
        ] {
            assert_eq!(find_problem(schema.as_bytes()), None, "{schema}");
        }
    }

    #[test]
    fn references_that_lead_out_of_a_schema_are_found() {
        for (schema, pointer) in [
            (r#"{"$ref": "http://127.0.0.1/a"}"#, "/$ref"),
            (r#"{"\u0024ref": "file:///etc/passwd"}"#, "/$ref"),
            (
                r#"{"properties": {"a": {"anyOf": [{"$dynamicRef": "other.json"}]}}}"#,
                "/properties/a/anyOf/0/$dynamicRef",
            ),
            (r##"{"$ref": "//localhost/a", "$ref": "#"}"##, "/$ref"),
            (r#"{"$recursiveRef": "/etc/passwd"}"#, "/$recursiveRef"),
            (r#"{"$schema": "http://localhost/a"}"#, "/$schema"),
            (r#"{"$schema": "http://json-schema.org.example.com/a"}"#, "/$schema"),
            (r#"{"$ref": "http://json-schema.org@localhost/a"}"#, "/$ref"),
            (r##"{"$id": "http://localhost/a#b", "$ref": "#/c"}"##, "/$id"),
            (r##"{"$defs": {"a": {"id": "http://localhost/a", "$ref": "#/c"}}}"##, "/$defs/a/id"),
            (r#"{"a": }"#, ""),
            (r#"{} {"$ref": "http://localhost/a"}"#, ""),
        ] {
            assert_eq!(find_problem(schema.as_bytes()).unwrap().pointer, pointer, "{schema}");
        }
    }
}
