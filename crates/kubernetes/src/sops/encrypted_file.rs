//! A file that SOPS encrypted, in each of its formats.
//!
//! SOPS is given no text of a stranger but what is written anew here: two parsers may read one text differently, and one of
//! them decides which key services are asked.
//!
//! Facts: SOPS takes the part of the first document of a YAML file; a file of another format is a JSON object with the key `data`;
//! in `.env` files its part has keys with the prefix `sops_`, in `.ini` files it is the section `sops`. A value is bound to its keys,
//! not to the format, and the MAC covers values in their order.

use serde_json::{Map, Value};

use super::metadata::Metadata;
use super::{CIPHERTEXT_START, METADATA_FIELD};

/// The prefix of the keys of SOPS in `.env` files.
const DOTENV_PREFIX: &str = "sops_";

/// The section of SOPS in `.ini` files.
const INI_SECTION: &str = "[sops]";

/// Words in the names of key services and of their groups, which have no escapes in `.ini` files.
const SERVICE_WORDS: [&str; 5] = ["kms", "vault", "azure", "key_groups", "keyservice"];

/// A format of SOPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SopsFormat {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
    /// Lines of `KEY=VALUE`.
    Dotenv,
    /// Sections with keys.
    Ini,
    /// Anything else.
    Binary,
}

impl SopsFormat {
    /// The name by which SOPS knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Json => "json",
            Self::Dotenv => "dotenv",
            Self::Ini => "ini",
            Self::Binary => "binary",
        }
    }
}

/// A file that SOPS encrypted.
#[derive(Clone, Debug)]
pub struct EncryptedFile {
    /// Its format.
    pub format: SopsFormat,
    /// Its documents, without the part of SOPS; none of an `.ini` file.
    pub documents: Vec<Value>,
    metadata: Metadata,
    /// The text of an `.ini` file.
    text: String,
}

/// Why a file is not given to SOPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadableFile {
    /// Only key services could decrypt it.
    OnlyServices,
    /// It may name key services, and its format does not say which text is such a name.
    MayNameServices,
    /// Comments choose what is encrypted.
    ChosenByComments,
}

impl EncryptedFile {
    /// Reads a file; `None` if SOPS did not encrypt it. The name, or the key of a value, tells JSON from other files.
    pub fn read(name: &str, text: &str) -> Option<Self> {
        if !text.contains(CIPHERTEXT_START) {
            return None;
        }
        if text.lines().any(|line| line.starts_with("sops_mac=")) {
            return Some(Self::read_dotenv(text));
        }
        if text.lines().any(|line| line.trim_end() == INI_SECTION) {
            let metadata = Metadata { has_keys: true, ..Metadata::default() };
            return Some(Self {
                format: SopsFormat::Ini,
                documents: Vec::new(),
                metadata,
                text: text.to_owned(),
            });
        }
        let stream = federate_yaml::read_stream(text.as_bytes());
        let mut documents: Vec<Value> = stream.documents.into_iter().map(|document| document.value).collect();
        let metadata = Metadata::from_map(documents.first()?.get(METADATA_FIELD)?.as_object()?);
        for map in documents.iter_mut().filter_map(Value::as_object_mut) {
            map.shift_remove(METADATA_FIELD);
        }
        let format = if !text.trim_start().starts_with('{') {
            SopsFormat::Yaml
        } else if !is_json_name(name) && documents.first().is_some_and(is_binary) {
            SopsFormat::Binary
        } else {
            SopsFormat::Json
        };
        Some(Self { format, documents, metadata, text: String::new() })
    }

    fn read_dotenv(text: &str) -> Self {
        let (mut document, mut fields) = (Map::new(), Vec::new());
        for line in text.split('\n').filter(|line| !line.starts_with('#')) {
            let Some((key, value)) = line.split_once('=') else { continue };
            let value = value.replace("\\n", "\n");
            match key.strip_prefix(DOTENV_PREFIX) {
                Some(key) => fields.push((key, value)),
                None => drop(document.insert(key.to_owned(), value.into())),
            }
        }
        let metadata = Metadata::from_flat(fields.into_iter());
        let documents = vec![Value::Object(document)];
        Self { format: SopsFormat::Dotenv, documents, metadata, text: String::new() }
    }

    /// Why the file is not given to SOPS; `None` if it may be.
    pub fn find_obstacle(&self) -> Option<UnreadableFile> {
        let lower = self.text.to_lowercase();
        if SERVICE_WORDS.iter().any(|word| lower.contains(word)) {
            return Some(UnreadableFile::MayNameServices);
        }
        if self.metadata.chooses_by_comments {
            return Some(UnreadableFile::ChosenByComments);
        }
        (!self.metadata.has_keys).then_some(UnreadableFile::OnlyServices)
    }

    /// The format of [`to_text`](Self::to_text).
    pub fn text_format(&self) -> SopsFormat {
        if self.format == SopsFormat::Ini { SopsFormat::Ini } else { SopsFormat::Yaml }
    }

    /// The file as SOPS is given it, which has the same values and no keys but those of age and PGP.
    pub fn to_text(&self) -> String {
        if self.format == SopsFormat::Ini {
            return self.text.clone();
        }
        let mut text = String::new();
        for (index, document) in self.documents.iter().enumerate() {
            if index > 0 {
                text.push_str("---\n");
            }
            let mut document = document.clone();
            if let Some(map) = document.as_object_mut().filter(|_| index == 0) {
                map.insert(METADATA_FIELD.to_owned(), Value::Object(self.metadata.fields.clone()));
            }
            push_as_yaml(&document.to_string(), &mut text);
            text.push('\n');
        }
        text
    }

    /// Whether the MAC also covers values that are not encrypted.
    pub fn covers_all_values(&self) -> bool {
        !self.metadata.fields.contains_key("mac_only_encrypted")
    }
}

/// Whether a name, or the key of a value, is that of JSON.
fn is_json_name(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or(name, |(_, extension)| extension);
    extension.eq_ignore_ascii_case("json") || extension == "dockerconfigjson"
}

/// Whether a document is the envelope of a file that is no mapping.
fn is_binary(document: &Value) -> bool {
    let map = document.as_object();
    map.is_some_and(|map| map.len() == 1 && map.get("data").is_some_and(Value::is_string))
}

/// Adds JSON as YAML reads it: line breaks and control characters that only YAML knows are escaped. JSON has them in quoted
/// text only.
fn push_as_yaml(json: &str, text: &mut String) {
    for letter in json.chars() {
        if matches!(letter, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}')
        {
            text.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            text.push(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CIPHERTEXT: &str = "ENC[AES256_GCM,data:Zm9v,iv:YWJj,tag:ZGVm,type:str]";

    fn read(name: &str, text: &str) -> EncryptedFile {
        EncryptedFile::read(name, &text.replace("CIPHER", CIPHERTEXT)).unwrap()
    }

    #[test]
    fn formats_are_told_by_their_content() {
        let age = "{recipient: age1, enc: e}";
        let yaml = read(
            "a",
            &format!(
                "a: CIPHER\nsops:\n  mac: CIPHER\n  age: [{age}]\n---\nb: CIPHER\nsops:\n  mac: CIPHER\n"
            ),
        );
        assert_eq!((yaml.format, yaml.documents.len(), yaml.find_obstacle()), (SopsFormat::Yaml, 2, None));
        assert_eq!(yaml.documents[1], json!({"b": CIPHERTEXT}));
        let envelope = "{\"data\": \"CIPHER\", \"sops\": {\"mac\": \"CIPHER\"}}";
        assert_eq!(read("key.pem", envelope).format, SopsFormat::Binary);
        assert_eq!(read("a.json", envelope).format, SopsFormat::Json);
        assert_eq!(read(".dockerconfigjson", envelope).format, SopsFormat::Json);
        let dotenv = read(
            "a",
            "# x\nA=CIPHER\nB_unencrypted=x\\ny\nsops_mac=CIPHER\nsops_age__list_0__map_enc=e\\n\n",
        );
        assert_eq!((dotenv.format, dotenv.find_obstacle()), (SopsFormat::Dotenv, None));
        assert_eq!(dotenv.documents, [json!({"A": CIPHERTEXT, "B_unencrypted": "x\ny"})]);
        assert!(dotenv.to_text().contains(r#""age":[{"enc":"e\n"}]"#), "{}", dotenv.to_text());
        let ini = read("a", "[db]\na = CIPHER\n[sops]\nmac = CIPHER\n");
        assert_eq!((ini.format, ini.find_obstacle()), (SopsFormat::Ini, None));
        let ini = read("a", "[db]\na = CIPHER\n[sops]\nmac = CIPHER\nHC_Vault__list_0__map_enc = v\n");
        assert_eq!(ini.find_obstacle(), Some(UnreadableFile::MayNameServices));
        assert!(EncryptedFile::read("a", &format!("a: {CIPHERTEXT}\n")).is_none());
    }

    #[test]
    fn sops_is_given_what_was_read_and_nothing_else() {
        let tricky = "a: \"x\\u2028y\\x7f\"\nsops:\n  mac: CIPHER\n  <<: {\"hc_\\x76ault\": [{vault_address: 'http://127.0.0.1:1'}]}\n";
        let file = read("a", tricky);
        assert_eq!(file.find_obstacle(), Some(UnreadableFile::OnlyServices));
        let text = file.to_text();
        assert!(!text.contains("vault") && text.contains(r"x\u2028y\u007f"), "{text}");
        let again = federate_yaml::read_stream(text.as_bytes());
        assert_eq!(again.documents[0].value["a"], json!("x\u{2028}y\u{7f}"));
    }
}
