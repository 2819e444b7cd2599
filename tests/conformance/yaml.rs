//! What `kubectl` makes of a scalar: `spec` of the document, or an error.

use serde_json::{Value, json};

use crate::diff::compare;

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let stream = federate_yaml::read_stream(case["yaml"].as_str().expect("text").as_bytes());
    let error = case["error"].as_bool().unwrap_or(false);
    match (stream.errors.first(), error) {
        (Some(_), true) => Ok(()),
        (Some(found), false) => Err(format!("refused: {found} at {:?}", found.at)),
        (None, true) => Err("read, but kubectl refuses it".to_owned()),
        (None, false) => {
            let spec = stream.documents.first().map(|d| d.value["spec"].clone());
            compare(&json!(case["json"]), &spec.unwrap_or_default())
        }
    }
}
