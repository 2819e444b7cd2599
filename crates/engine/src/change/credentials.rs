//! Replaces values that are named like credentials with keyed digests: people keep passwords and tokens in `ConfigMap`s,
//! annotations and environment variables, too.
//!
//! Fields of the built-in kinds that are named so (`secretName`, `automountServiceAccountToken`) hold no credentials, and
//! neither do references in custom resources (`passwordSecretRef`). What people name is searched: the keys of `ConfigMap`s
//! and annotations, variables, overrides by their paths, and the fields of custom resources. In texts, such as files in a
//! `ConfigMap` and arguments, what follows such a name is replaced up to the end of the line, and so are passwords in addresses.

use serde_json::{Map, Value};

use super::digest::{DigestKey, ValuePlace, is_digest_text};
use federate_kubernetes::kinds;
use federate_kubernetes::object::field_text;

/// Parts of names of credentials, in lower case and without `-`, `_` and `.`.
const CREDENTIAL_WORDS: [&str; 13] = [
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
const REFERENCE_SUFFIXES: [&str; 10] =
    ["ref", "refs", "name", "names", "namespace", "selector", "kind", "type", "file", "path"];

/// Keys of files with credentials for registries.
const DOCKER_CONFIGS: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

/// Annotations with a whole object as JSON.
const OBJECT_ANNOTATIONS: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// Whether a name, or a text with a name in it, is that of a credential.
pub fn names_credential(text: &str) -> bool {
    let small: String = text
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | '.' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    CREDENTIAL_WORDS.iter().any(|word| small.contains(word))
}

/// Replaces the values of an object that are named like credentials. Returns whether there were any.
pub(super) fn hide_credentials(object: &mut Value, key: &DigestKey) -> bool {
    let group = field_text(object, "apiVersion").split_once('/').map_or("", |(group, _)| group);
    let kind = field_text(object, "kind");
    let is_builtin = kinds::find_scope(group, kind).is_some();
    let names_keys = kind.contains("Secret");
    let mut hiding =
        Hiding { key, is_builtin, object: ValuePlace::in_object(object), names_keys, any: false };
    for (field, value) in object.as_object_mut().into_iter().flatten() {
        match (field.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", metadata) => {
                if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                    hiding.named_values(annotations);
                }
            }
            ("data" | "stringData" | "binaryData", Value::Object(data)) => hiding.named_values(data),
            (_, value) => hiding.hide_value(value),
        }
    }
    hiding.any
}

struct Hiding<'k> {
    key: &'k DigestKey,
    /// Whether the fields are those of a kind of Kubernetes.
    is_builtin: bool,
    /// The object whose values they are.
    object: ValuePlace,
    /// Whether `secretKey` is the name of a key, as in an `ExternalSecret`.
    names_keys: bool,
    /// Whether a value was replaced.
    any: bool,
}

impl Hiding<'_> {
    /// Replaces values of a map whose keys people have chosen.
    fn named_values(&mut self, map: &mut Map<String, Value>) {
        for (name, value) in map {
            match value {
                Value::String(text) if OBJECT_ANNOTATIONS.contains(&name.as_str()) => {
                    if let Ok(mut object) = serde_json::from_str::<Value>(text)
                        && hide_credentials(&mut object, self.key)
                    {
                        self.any = true;
                        *text = object.to_string();
                    }
                }
                value if names_credential(name) || DOCKER_CONFIGS.contains(&name.as_str()) => {
                    self.hide_all(name, value);
                }
                value => self.hide_text(value),
            }
        }
    }

    /// Finds variables, annotations, and fields of custom resources, at any depth.
    fn hide_value(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                let names = ["name", "path"].iter().filter_map(|field| map.get(*field)?.as_str());
                let variable = names.into_iter().find(|name| names_credential(name)).map(str::to_owned);
                for (field, value) in map {
                    match value {
                        value if field == "value" && variable.is_some() => {
                            self.hide_all(variable.as_deref().unwrap_or_default(), value);
                        }
                        Value::Object(annotations) if field == "annotations" => {
                            self.named_values(annotations);
                        }
                        value
                            if !self.is_builtin
                                && holds_credential(field)
                                && !(self.names_keys && field == "secretKey") =>
                        {
                            self.hide_all(field, value);
                        }
                        value => self.hide_value(value),
                    }
                }
            }
            Value::Array(items) => {
                let mut flag: Option<String> = None;
                for item in items {
                    match flag.take() {
                        Some(flag) if item.is_string() => self.hide_all(flag_name(&flag), item),
                        _ => {
                            flag = item.as_str().filter(|text| is_flag(text)).map(str::to_owned);
                            self.hide_value(item);
                        }
                    }
                }
            }
            value => self.hide_text(value),
        }
    }

    /// Replaces what follows the name of a credential in a text, and passwords in addresses.
    fn hide_text(&mut self, value: &mut Value) {
        let Value::String(text) = value else { return };
        if is_digest_text(text) {
            return;
        }
        let lines = text.split_inclusive('\n').map(|line| self.hide_in_line(line));
        let replaced: String = lines.collect();
        if replaced != *text {
            self.any = true;
            *text = replaced;
        }
    }

    /// A line without the value that follows the name of a credential.
    fn hide_in_line(&self, line: &str) -> String {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        if let Some((name, value)) = credential_in(text) {
            let (before, after) =
                (text.len() - value.len(), &value.trim_end_matches(['"', '\'', ',', '}', ']', ';', ' ']));
            let (_, rest) = value.split_at(after.len());
            let digest = self.key.digest_text(&self.object.at_entry(name), after);
            return format!("{}{digest}{rest}{end}", text.get(..before).unwrap_or_default());
        }
        match password_in(text) {
            Some((before, password, after)) => {
                format!(
                    "{before}{}{after}{end}",
                    self.key.digest_text(&self.object.at_entry("address"), password)
                )
            }
            None => line.to_owned(),
        }
    }

    /// Replaces every text and number.
    fn hide_all(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|value| self.hide_all(name, value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_all(name, item)),
            Value::String(text) => {
                if !text.is_empty() && !is_digest_text(text) {
                    self.any = true;
                    *value = self.key.digest_text(&self.object.at_entry(name), text).into();
                }
            }
            Value::Number(number) => {
                self.any = true;
                *value = self.key.digest_text(&self.object.at_entry(name), &number.to_string()).into();
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Whether a text is an argument that names a credential, whose value is the next argument.
fn is_flag(text: &str) -> bool {
    text.starts_with('-') && !text.contains(['=', ' ', '\n']) && holds_credential(text)
}

fn flag_name(flag: &str) -> &str {
    flag.trim_start_matches('-')
}

/// The name of a credential in a line, and what follows it: `password: x`, `"token": "x"`, `--token=x`, `API_KEY=x`.
fn credential_in(line: &str) -> Option<(&str, &str)> {
    let mut start = 0;
    for (at, separator) in line.char_indices().filter(|(_, letter)| matches!(letter, ':' | '=')) {
        let before = line.get(start..at)?;
        let name = before.trim_end_matches(['"', '\'', ' ']);
        let name =
            name.rsplit(|letter: char| !letter.is_alphanumeric() && !"._-/".contains(letter)).next()?;
        start = at + separator.len_utf8();
        let value = line.get(start..)?.trim_start_matches([' ', '\t', '"', '\'']);
        // `image: acme/token:1.2` has no value after its second colon, as YAML and JSON have them.
        let quoted = before.ends_with(['"', '\'']);
        let is_mapping = separator == '=' || quoted || line.get(start..)?.starts_with([' ', '\t', '"', '\'']);
        let is_name = is_mapping && (holds_credential(name) || name == "auth");
        // `tokens:` with nothing after it, and a digest, hold nothing.
        let is_empty =
            value.trim_matches(['"', '\'', ',', ';', ' ', '\r', '{', '[', '|', '>', '-']).is_empty();
        if is_name && !is_empty && !value.starts_with("//") && !is_digest_text(value) {
            return Some((name, value));
        }
    }
    None
}

/// The password in an address of a line (`scheme://user:password@host`), with what is before and after it.
fn password_in(line: &str) -> Option<(&str, &str, &str)> {
    let user = line.find("://")? + 3;
    let host = user + line.get(user..)?.find('@')?;
    let password = user + line.get(user..host)?.find(':')? + 1;
    let found = line.get(password..host)?;
    let is_plain = !found.is_empty() && !found.contains(['/', ' ', '"']) && !is_digest_text(found);
    is_plain.then_some((line.get(..password)?, found, line.get(host..)?))
}

/// Whether a field of a custom resource is named like a credential, and not like a reference to one.
fn holds_credential(field: &str) -> bool {
    let small = field.to_ascii_lowercase();
    names_credential(field) && !REFERENCE_SUFFIXES.iter().any(|end| small.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_in_texts_are_replaced() {
        let file = "db:\n  password: hunter2\n  host: a\ntokens:\n- x\n";
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {
            "settings.yaml": file, "app.properties": "jdbc.password=hunter2\nx=1\n", ".dockerconfigjson": "{\"auths\":\"hunter2\"}",
            "url": "postgres://me:hunter2@db/x?sslmode=require", "json": "{\"a\": 1, \"api_key\": \"hunter2\"}",
            "note": "see https://example.com/a:b", "plain": "one", "image": "acme/token:1.2"}});
        let result = hidden(config);
        assert!(!result.to_string().contains("hunter2"), "{result}");
        let text = |key: &str| result["data"][key].as_str().unwrap();
        assert!(text("settings.yaml").ends_with("\n  host: a\ntokens:\n- x\n"), "{result}");
        assert!(text("app.properties").ends_with(">\nx=1\n") && text("json").ends_with("\"}"), "{result}");
        assert!(
            text("url").starts_with("postgres://me:<secret ")
                && text("url").ends_with(">@db/x?sslmode=require")
        );
        assert_eq!(
            (text("note"), text("plain"), text("image")),
            ("see https://example.com/a:b", "one", "acme/token:1.2")
        );

        let args =
            json!(["--token=hunter2", "--password", "hunter2", "--verbose", "x", "--token-file", "/a"]);
        let web = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"args": args}]}});
        let result = hidden(web);
        assert!(!result.to_string().contains("hunter2"), "{result}");
        assert_eq!(result.pointer("/spec/containers/0/args/4"), Some(&json!("x")));
        assert_eq!(result.pointer("/spec/containers/0/args/6"), Some(&json!("/a")));

        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "spec": {"plaintext":
            [{"path": "/data/DB_PASSWORD", "operator": "replace", "value": "hunter2"}]}});
        assert!(!hidden(policy).to_string().contains("hunter2"));
    }

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
