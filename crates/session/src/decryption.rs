//! Templates that SOPS encrypted, in clear, for API servers. Nothing else sees them: they are in no plan, file, cache or
//! message.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::Value;

use federate_kubernetes::sops::is_encrypted;
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_reconcile::DesiredObject;
use federate_reconcile::{Action, ClusterReport};
use federate_repo::build::Decryptor;

use crate::Session;
use crate::source_review::SOPS_CODE;

/// Stands for a value that SOPS encrypted.
const HIDDEN_VALUE: &str = "(encrypted)";

/// Stands for a message that contains such a value.
const HIDDEN_MESSAGE: &str =
    "the message of the API server is not shown, because it quotes a value that SOPS encrypted";

/// The documents that SOPS encrypted, in clear.
#[derive(Default)]
pub(crate) struct DecryptedObjects {
    documents: BTreeMap<ObjectRef, Value>,
    /// What cannot be decrypted.
    pub(crate) findings: Vec<Finding>,
}

impl Session {
    /// Decrypts what SOPS encrypted before it is sent to API servers.
    pub fn decrypt_with(&mut self, decryptor: Arc<dyn Decryptor>) {
        self.decryptor = Some(decryptor);
        self.forget_results();
    }

    /// Whether objects are decrypted for API servers.
    pub fn decrypts(&self) -> bool {
        self.decryptor.is_some()
    }

    /// The placed objects that SOPS encrypted, in clear; none if nothing decrypts.
    pub(crate) fn decrypted_objects(&self) -> &DecryptedObjects {
        self.decrypted.get_or_init(|| {
            let decryptor = self.decryptor.as_deref();
            decryptor.map_or_else(DecryptedObjects::default, |decryptor| self.decrypt_templates(decryptor))
        })
    }

    fn decrypt_templates(&self, decryptor: &dyn Decryptor) -> DecryptedObjects {
        let templates = self.repo().templates.iter().map(|template| &template.object);
        let encrypted = templates.filter(|object| is_encrypted(&object.body));
        let placed = encrypted.filter(|object| self.placed_in(self.plan(), &object.id).is_some());
        let mut by_file: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
        for object in placed {
            by_file.entry(&object.origin.file).or_default().push(object);
        }
        let files: Vec<(&str, Vec<&Object>)> = by_file.into_iter().collect();
        let decrypted: Vec<DecryptedObjects> = files
            .into_par_iter()
            .map(|(path, objects)| self.decrypt_file(decryptor, path, &objects))
            .collect();
        decrypted.into_iter().fold(DecryptedObjects::default(), |mut all, file| {
            all.documents.extend(file.documents);
            all.findings.extend(file.findings);
            all
        })
    }

    fn decrypt_file(&self, decryptor: &dyn Decryptor, path: &str, objects: &[&Object]) -> DecryptedObjects {
        let Some(text) = self.repo().texts.get(path) else { return DecryptedObjects::default() };
        let plain = match decryptor.decrypt_file(path, text) {
            Ok(plain) => federate_yaml::read_stream(&plain),
            Err(error) => {
                let findings = objects.iter().take(1).map(|object| {
                    let message = format!("{path}, which SOPS encrypted, cannot be decrypted: {}", error.why);
                    let finding = Finding::error(SOPS_CODE, object, message);
                    Finding { help: error.help.clone(), ..finding }
                });
                return DecryptedObjects { findings: findings.collect(), ..DecryptedObjects::default() };
            }
        };
        let mut all = DecryptedObjects::default();
        for object in objects {
            let document = plain.documents.iter().find(|document| document.index == object.origin.document);
            match document.filter(|_| object.origin.item.is_none()) {
                Some(document) => drop(all.documents.insert(object.id.clone(), document.value.clone())),
                None => all.findings.push(not_a_document(object)),
            }
        }
        all
    }
}

/// The error about an object that is not a document of an encrypted file, such as one that a chart gives.
fn not_a_document(object: &Object) -> Finding {
    let message =
        format!("{} cannot be decrypted: it is not a document of a file that SOPS encrypted", object.id);
    Finding::error(SOPS_CODE, object, message).with_help(
        "keep it in a file of its own, which a kustomization may list, instead of a template or a list",
    )
}

impl DecryptedObjects {
    /// The desired objects that can be compared with live ones and sent: those that SOPS encrypted are in clear, or left out.
    pub(crate) fn reveal_desired(&self, desired: Vec<DesiredObject>) -> Vec<DesiredObject> {
        desired
            .into_iter()
            .filter_map(|desired| {
                if !is_encrypted(&desired.body) {
                    return Some(desired);
                }
                let plain = self.documents.get(&desired.object)?;
                desired.reveal(plain)
            })
            .collect()
    }

    /// Takes values in clear out of what is reported about objects that SOPS encrypted.
    pub(crate) fn hide_values(&self, actions: &mut [Action]) {
        for action in actions.iter_mut().filter(|action| self.documents.contains_key(&action.object)) {
            for diff in &mut action.diffs {
                for value in [&mut diff.desired, &mut diff.live].into_iter().flatten() {
                    *value = HIDDEN_VALUE.into();
                }
            }
            action.result = None;
        }
        for message in actions.iter_mut().flat_map(|action| [&mut action.reason, &mut action.error]).flatten()
        {
            self.hide_message(message);
        }
    }

    /// The same for what is reported about a cluster.
    pub(crate) fn hide_report(&self, report: &mut ClusterReport) {
        for message in report.error.iter_mut().chain(&mut report.notes) {
            self.hide_message(message);
        }
    }

    fn hide_message(&self, message: &mut String) {
        if self.documents.values().any(|document| quotes_value(message, document)) {
            HIDDEN_MESSAGE.clone_into(message);
        }
    }
}

/// Whether a message contains a value of the content of a document.
fn quotes_value(message: &str, document: &Value) -> bool {
    let Some(map) = document.as_object() else { return false };
    let covered =
        map.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "type"));
    covered.into_iter().any(|(_, value)| contains_leaf(message, value))
}

/// The shortest value that is looked for in messages: shorter ones are in any.
const MIN_QUOTED: usize = 3;

fn contains_leaf(message: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let parts = text.lines().map(str::trim).chain([text.as_str()]);
            parts.into_iter().any(|part| part.len() >= MIN_QUOTED && message.contains(part))
        }
        Value::Array(items) => items.iter().any(|item| contains_leaf(message, item)),
        Value::Object(map) => map.values().any(|value| contains_leaf(message, value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_that_quote_values_are_hidden() {
        let document = json!({"kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"k": "hunter2", "l": "x\nline two\n"}});
        assert!(quotes_value("invalid value \"hunter2\"", &document));
        assert!(quotes_value("near line two", &document));
        assert!(!quotes_value("ConfigMap conf is forbidden", &document));
    }
}
