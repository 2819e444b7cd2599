//! Replaces values that are named like credentials with keyed digests: people keep passwords and tokens in `ConfigMap`s,
//! annotations and environment variables, too.
//!
//! Fields of the built-in kinds that are named so (`secretName`, `automountServiceAccountToken`) hold no credentials, and
//! neither do references in custom resources (`passwordSecretRef`). What people name is searched: the keys of `ConfigMap`s
//! and annotations, variables, and the fields of custom resources.

use serde_json::{Map, Value};

use super::DigestKey;
use super::secret::ValuePlace;
use federate_kubernetes::kinds;

/// Parts of names of credentials, in lower case and without `-`, `_` and `.`.
const CREDENTIALS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "credential",
    "apikey",
    "privatekey",
    "accesskey",
    "authorization",
    "bearer",
    "connectionstring",
];

/// Ends of names of fields that say where a credential is, and not what it is.
const REFERENCES: [&str; 8] = ["ref", "refs", "name", "names", "namespace", "selector", "kind", "type"];

/// Annotations with a whole object as JSON.
const OBJECTS: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// Whether a name, or a text with a name in it, is that of a credential.
pub fn names_credential(text: &str) -> bool {
    let small: String = text
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | '.' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    CREDENTIALS.iter().any(|word| small.contains(word))
}

/// Replaces the values of an object that are named like credentials.
pub fn hide_credentials(object: &mut Value, key: &DigestKey) {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let is_builtin = kinds::scope(group, text("kind")).is_some();
    let hiding = Hiding { key, is_builtin, object: ValuePlace::in_object(object) };
    for (field, value) in object.as_object_mut().into_iter().flatten() {
        match (field.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", metadata) => {
                if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                    hiding.named_values(annotations);
                }
            }
            ("data" | "stringData" | "binaryData", Value::Object(data)) => hiding.named_values(data),
            (_, value) => hiding.value(value),
        }
    }
}

struct Hiding<'k> {
    key: &'k DigestKey,
    /// Whether the fields are those of a kind of Kubernetes.
    is_builtin: bool,
    /// The object whose values they are.
    object: ValuePlace,
}

impl Hiding<'_> {
    /// Replaces values of a map whose keys people have chosen.
    fn named_values(&self, map: &mut Map<String, Value>) {
        for (name, value) in map {
            match value {
                Value::String(text) if OBJECTS.contains(&name.as_str()) => {
                    if let Ok(mut object) = serde_json::from_str::<Value>(text) {
                        hide_credentials(&mut object, self.key);
                        *text = object.to_string();
                    }
                }
                value if names_credential(name) => self.all(name, value),
                _ => {}
            }
        }
    }

    /// Finds variables, annotations, and fields of custom resources, at any depth.
    fn value(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                let variable = map.get("name").and_then(Value::as_str).filter(|name| names_credential(name));
                let variable = variable.map(str::to_owned);
                for (field, value) in map {
                    match value {
                        value if field == "value" && variable.is_some() => {
                            self.all(variable.as_deref().unwrap_or_default(), value);
                        }
                        Value::Object(annotations) if field == "annotations" => {
                            self.named_values(annotations);
                        }
                        value if !self.is_builtin && holds_credential(field) => self.all(field, value),
                        value => self.value(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            _ => {}
        }
    }

    /// Replaces every text and number.
    fn all(&self, name: &str, value: &mut Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| self.all(name, value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.all(name, item)),
            Value::String(text) => {
                if !text.is_empty() && !super::secret::is_digest_text(text) {
                    *value = self.key.hidden(&self.object.named(name), text).into();
                }
            }
            Value::Number(number) => {
                *value = self.key.hidden(&self.object.named(name), &number.to_string()).into();
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Whether a field of a custom resource is named like a credential, and not like a reference to one.
fn holds_credential(field: &str) -> bool {
    let small = field.to_ascii_lowercase();
    names_credential(field) && !REFERENCES.iter().any(|end| small.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hidden(mut object: Value) -> Value {
        hide_credentials(&mut object, &DigestKey::new(b"key"));
        object
    }

    #[test]
    fn what_people_name_like_a_credential_is_replaced() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"db-password": "hunter2", "mode": "fast"},
            "metadata": {"name": "token", "annotations": {"example.com/api.key": "hunter2", "note": "x",
                "kubectl.kubernetes.io/last-applied-configuration":
                    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":{\"db-password\":\"hunter2\",\"mode\":\"fast\"}}"}}});
        let result = hidden(config);
        assert!(!result.to_string().contains("hunter2"), "{result}");
        assert_eq!((&result["data"]["mode"], &result["metadata"]["name"]), (&json!("fast"), &json!("token")));
        assert!(result.to_string().contains("\\\"mode\\\":\\\"fast\\\""), "{result}");

        let env = json!([{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "MODE", "value": "fast"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "db", "key": "token"}}}]);
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {
            "automountServiceAccountToken": true, "containers": [{"env": env}],
            "volumes": [{"name": "token", "secret": {"secretName": "db-token"}}]}}}});
        let result = hidden(web.clone());
        let value = "/spec/template/spec/containers/0/env/0/value";
        assert!(result.pointer(value).unwrap().as_str().unwrap().starts_with("<secret "), "{result}");
        let mut same = result;
        *same.pointer_mut(value).unwrap() = json!("hunter2");
        assert_eq!(same, web, "and nothing else");

        let custom = json!({"apiVersion": "example.com/v1", "kind": "Database", "spec": {"password": "hunter2",
            "passwordSecretRef": {"name": "db"}, "credentials": {"user": "me"}, "tokenTTL": 5, "size": 3}});
        let result = hidden(custom);
        assert!(
            !result.to_string().contains("hunter2") && !result.to_string().contains("\"me\""),
            "{result}"
        );
        assert_eq!(
            (&result["spec"]["passwordSecretRef"]["name"], &result["spec"]["size"]),
            (&json!("db"), &json!(3))
        );
    }
}
