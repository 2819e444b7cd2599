//! The part of a file that says how SOPS encrypted it: only what is known, and only keys of age and PGP.
//!
//! Facts: SOPS asks every key service that the part names (`kms`, `gcp_kms`, `azure_kv`, `hc_vault`, and those of later releases), also
//! below `key_groups`; its MAC covers values, not this part. In files without nesting, the keys are joined by `__list_` and
//! `__map_`.

use serde_json::{Map, Value};

/// Fields that are text.
const TEXT_FIELDS: [&str; 7] = [
    "lastmodified",
    "mac",
    "version",
    "unencrypted_suffix",
    "encrypted_suffix",
    "unencrypted_regex",
    "encrypted_regex",
];

/// Fields that choose what is encrypted by comments, which federate does not read.
const COMMENT_FIELDS: [&str; 2] = ["unencrypted_comment_regex", "encrypted_comment_regex"];

/// The keys that are read, and the fields of each.
const KEYS: [(&str, &[&str]); 2] = [("age", &["recipient", "enc"]), ("pgp", &["created_at", "enc", "fp"])];

/// How a file is encrypted.
#[derive(Clone, Debug, Default)]
pub(super) struct Metadata {
    /// What is known, as SOPS reads it.
    pub(super) fields: Map<String, Value>,
    /// Whether a key of age or PGP decrypts it.
    pub(super) has_keys: bool,
    /// Whether comments choose what is encrypted.
    pub(super) chooses_by_comments: bool,
}

impl Metadata {
    pub(super) fn from_map(map: &Map<String, Value>) -> Self {
        let mut fields = Map::new();
        for key in TEXT_FIELDS {
            fields.extend(map.get(key).and_then(read_text).map(|text| (key.to_owned(), text.into())));
        }
        let only_encrypted = map.get("mac_only_encrypted").and_then(read_text);
        if only_encrypted.is_some_and(|text| text == "true") {
            fields.insert("mac_only_encrypted".to_owned(), true.into());
        }
        let threshold =
            map.get("shamir_threshold").and_then(read_text).and_then(|text| text.parse::<u32>().ok());
        fields.extend(threshold.map(|number| ("shamir_threshold".to_owned(), number.into())));
        let own = select_keys(map);
        // Groups stay, if only empty: each has a part of the key, and their number says how many parts there are.
        let groups = map.get("key_groups").and_then(Value::as_array).into_iter().flatten();
        let groups: Vec<Value> = groups
            .map(|group| Value::Object(group.as_object().map(select_keys).unwrap_or_default()))
            .collect();
        let has_keys = !own.is_empty()
            || groups.iter().any(|group| group.as_object().is_some_and(|keys| !keys.is_empty()));
        fields.extend(own);
        if !groups.is_empty() {
            fields.insert("key_groups".to_owned(), groups.into());
        }
        let chooses_by_comments = COMMENT_FIELDS
            .iter()
            .any(|key| map.get(*key).and_then(read_text).is_some_and(|text| !text.is_empty()));
        Self { fields, has_keys, chooses_by_comments }
    }

    /// Reads the fields of a file without nesting, as in `age__list_0__map_enc`.
    pub(super) fn from_flat<'t>(fields: impl Iterator<Item = (&'t str, String)>) -> Self {
        let mut nested = Value::Object(Map::new());
        for (key, text) in fields {
            insert_at(&mut nested, key.split("__"), text);
        }
        match to_lists(nested) {
            Value::Object(map) => Self::from_map(&map),
            _ => Self::default(),
        }
    }
}

/// Inserts a text below the parts of a key.
fn insert_at<'t>(value: &mut Value, mut parts: impl Iterator<Item = &'t str>, text: String) {
    let Some(part) = parts.next() else {
        *value = text.into();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Some(map) = value.as_object_mut() {
        insert_at(map.entry(part).or_insert(Value::Null), parts, text);
    }
}

/// Replaces maps with the keys `list_N` by lists, and removes `map_` from the keys of others.
fn to_lists(value: Value) -> Value {
    let Value::Object(map) = value else { return value };
    let indices: Option<Vec<u32>> =
        map.keys().map(|key| key.strip_prefix("list_").and_then(|index| index.parse().ok())).collect();
    match indices.filter(|indices| !indices.is_empty()) {
        Some(indices) => {
            let mut items: Vec<(u32, Value)> =
                indices.into_iter().zip(map.into_iter().map(|(_, item)| item)).collect();
            items.sort_by_key(|(index, _)| *index);
            items.into_iter().map(|(_, item)| to_lists(item)).collect()
        }
        None => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key.strip_prefix("map_").unwrap_or(&key).to_owned(), to_lists(value)))
                .collect(),
        ),
    }
}

/// The keys of age and PGP in a map, without those that have no text.
fn select_keys(map: &Map<String, Value>) -> Map<String, Value> {
    let mut selected = Map::new();
    for (kind, fields) in KEYS {
        let listed = map.get(kind).and_then(Value::as_array).into_iter().flatten();
        let keys: Vec<Value> = listed
            .filter_map(Value::as_object)
            .map(|key| {
                let known = fields.iter().filter_map(|field| Some((*field, read_text(key.get(*field)?)?)));
                Value::Object(known.map(|(field, text)| (field.to_owned(), text.into())).collect())
            })
            .collect();
        if !keys.is_empty() {
            selected.insert(kind.to_owned(), keys.into());
        }
    }
    selected
}

/// A scalar as text.
fn read_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(map: &Value) -> Value {
        Value::Object(Metadata::from_map(map.as_object().unwrap()).fields)
    }

    #[test]
    fn only_keys_of_age_and_pgp_are_left() {
        let vault =
            json!([{"vault_address": "http://127.0.0.1:1", "engine_path": "e", "key_name": "k", "enc": "x"}]);
        let age = json!([{"recipient": "age1", "enc": "e"}]);
        let named = json!({"age": age, "HC_Vault": vault, "hc_vault": vault, "kms": [{"arn": "a"}], "later_kms": vault, "mac": "m",
            "key_groups": [{"age": age, "hc_vault": vault}, {"hc_vault": vault}, {"key_groups": [{"hc_vault": vault}]}],
            "shamir_threshold": 2, "version": "3.9.0"});
        assert_eq!(
            fields(&named),
            json!({"mac": "m", "version": "3.9.0", "shamir_threshold": 2, "age": age, "key_groups": [{"age": age}, {}, {}]})
        );
        let only = Metadata::from_map(json!({"hc_vault": vault, "age": []}).as_object().unwrap());
        assert!(!only.has_keys);
    }

    #[test]
    fn joined_keys_are_read() {
        let flat = [
            ("age__list_1__map_enc", "b"),
            ("age__list_0__map_enc", "a"),
            ("age__list_0__map_recipient", "r"),
            ("hc_vault__list_0__map_enc", "v"),
            ("key_groups__list_0__map_pgp__list_0__map_fp", "f"),
            ("mac_only_encrypted", "true"),
        ];
        let read = Metadata::from_flat(flat.into_iter().map(|(key, text)| (key, text.to_owned())));
        assert_eq!(
            Value::Object(read.fields),
            json!({"mac_only_encrypted": true, "age": [{"recipient": "r", "enc": "a"}, {"enc": "b"}], "key_groups": [{"pgp": [{"fp": "f"}]}]})
        );
    }
}
