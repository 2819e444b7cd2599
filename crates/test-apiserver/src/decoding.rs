//! Decodes bodies: formats, duplicate keys, undeclared fields.

use federate_apiserver_model::typed::{find_mistyped, find_undeclared};
use federate_apiserver_model::values::text_below;
use federate_apiserver_model::{ApiError, ResourceKind, StatusCause};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::http::ApiRequest;

/// A decoded object, with warnings.
#[derive(Debug, Default)]
pub struct DecodedObject {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// The field validation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    pub fn from_request(request: &ApiRequest, options: &str) -> Result<Self, ApiError> {
        match request.non_empty_param("fieldValidation") {
            None | Some("Warn") => Ok(Self::Warn),
            Some("Ignore") => Ok(Self::Ignore),
            Some("Strict") => Ok(Self::Strict),
            Some(other) => {
                let allowed = ["", "Ignore", "Strict", "Warn"];
                let cause = StatusCause::unsupported("fieldValidation", &Value::from(other), &allowed);
                Err(invalid_option(options, &[cause]))
            }
        }
    }
}

/// An invalid option.
pub fn invalid_option(options: &str, causes: &[StatusCause]) -> ApiError {
    ApiError::invalid_values(&format!("{options}.meta.k8s.io"), "meta.k8s.io", options, "", causes)
}

/// The object of a POST or PUT.
pub fn decode_object(
    request: &ApiRequest,
    kind: &ResourceKind,
    strictness: FieldValidation,
) -> Result<DecodedObject, ApiError> {
    let (object, doubled) = match request.content_type() {
        "application/json" | "" => decode_json(&request.body).map_err(|why| {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: {why} ({text})",
                kind.kind
            ))
        })?,
        "application/yaml" => (decode_yaml(&request.body)?.0, Vec::new()),
        _ => return Err(unsupported_media_type("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    };
    let version = text_below(&object, "apiVersion");
    if text_below(&object, "kind") != kind.kind {
        return Err(wrong_kind(&object, kind, "unknown conversion"));
    }
    if version != kind.api_version() {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            kind.api_version()
        )));
    }
    let body = without_type_meta(&object);
    if let (None, Some(why)) = (&kind.custom, find_mistyped(&kind.schema, &body)) {
        return Err(wrong_kind(&object, kind, &why));
    }
    let mut complaints: Vec<String> =
        doubled.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    complaints
        .extend(find_undeclared(&kind.schema, &body).iter().map(|path| format!("unknown field \"{path}\"")));
    match strictness {
        FieldValidation::Strict if !complaints.is_empty() => {
            let why = format!("strict decoding error: {}", complaints.join(", "));
            Err(wrong_kind(&object, kind, &why))
        }
        FieldValidation::Warn => Ok(DecodedObject { object, warnings: complaints }),
        _ => Ok(DecodedObject { object, warnings: Vec::new() }),
    }
}

/// Refuses an object that cannot be decoded as an object of the kind.
fn wrong_kind(object: &Value, kind: &ResourceKind, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        text_below(object, "kind"),
        text_below(object, "apiVersion").rsplit('/').next().unwrap_or_default(),
        kind.kind
    ))
}

/// The object without the fields that schemas need not declare.
pub fn without_type_meta(object: &Value) -> Value {
    let mut body = object.clone();
    if let Some(map) = body.as_object_mut() {
        map.shift_remove("apiVersion");
        map.shift_remove("kind");
    }
    body
}

pub fn unsupported_media_type(accepted: &str) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    ApiError::new(415, "UnsupportedMediaType", message)
}

/// The object of an apply, with warnings. JSON is YAML, too.
pub fn decode_apply(bytes: &[u8]) -> Result<(Value, bool), ApiError> {
    match decode_json(bytes) {
        Ok((value, doubled)) if doubled.is_empty() => Ok((value, false)),
        _ => decode_yaml(bytes),
    }
}

fn decode_yaml(bytes: &[u8]) -> Result<(Value, bool), ApiError> {
    let read = federate_yaml::read_stream(bytes);
    let has_findings = !(read.errors.is_empty() && read.warnings.is_empty());
    match read.documents.into_iter().next() {
        Some(document) => Ok((document.value, has_findings)),
        None => Err(ApiError::bad_request("error decoding YAML: error converting YAML to JSON")),
    }
}

/// JSON, and the paths of duplicate keys.
pub fn decode_json(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let mut doubled = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = DuplicateKeys { doubled: &mut doubled };
    let value = seed.deserialize(&mut deserializer).map_err(|e| e.to_string())?;
    deserializer.end().map_err(|e| e.to_string())?;
    Ok((value, doubled))
}

struct DuplicateKeys<'d> {
    doubled: &'d mut Vec<String>,
}

impl DuplicateKeys<'_> {
    /// Prefixes the paths that were found below a step.
    fn prefix_paths(&mut self, known: usize, step: impl Fn(&str) -> String) {
        for path in self.doubled.iter_mut().skip(known) {
            *path = step(path);
        }
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateKeys<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeys<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let known = self.doubled.len();
            let Some(item) = items.next_element_seed(DuplicateKeys { doubled: self.doubled })? else {
                return Ok(Value::Array(list));
            };
            self.prefix_paths(known, |path| {
                let dot = if path.starts_with('[') { "" } else { "." };
                format!("[{}]{dot}{path}", list.len())
            });
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let known = self.doubled.len();
            let value = entries.next_value_seed(DuplicateKeys { doubled: self.doubled })?;
            self.prefix_paths(known, |path| {
                let dot = if path.starts_with('[') { "" } else { "." };
                format!("{key}{dot}{path}")
            });
            if map.contains_key(&key) {
                if self.doubled.len() > 100 {
                    return Err(de::Error::custom("too many keys stand twice"));
                }
                self.doubled.push(key.clone());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
