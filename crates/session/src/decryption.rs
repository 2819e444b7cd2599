//! Templates that SOPS encrypted, in clear, for API servers. Nothing else sees them: they are in no plan, file, cache or
//! message.
//!
//! An encrypted file is decrypted as it is written, so that its MAC is verified. What kustomize or a control plane makes of its values is
//! revealed by their ciphertext.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::Value;

use federate_kubernetes::sops::{
    CiphertextForm, EncryptedFile, PlainValues, SopsFormat, find_ciphertext, holds_ciphertext,
    list_ciphertexts, visit_texts,
};
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_reconcile::DesiredObject;
use federate_reconcile::{Action, ClusterReport};
use federate_repo::Template;
use federate_repo::build::{BuildError, Decryptor};

use crate::Session;
use crate::source_review::SOPS_CODE;

/// Stands for a value that SOPS encrypted.
const HIDDEN_VALUE: &str = "(encrypted)";

/// Stands for a message that contains such a value.
const HIDDEN_MESSAGE: &str =
    "the message of the API server is not shown, because it quotes a value that SOPS encrypted";

/// What SOPS encrypted, in clear.
#[derive(Default)]
pub(crate) struct DecryptedObjects {
    /// The objects that hold it, whether it can be decrypted or not.
    objects: BTreeSet<ObjectRef>,
    values: Arc<PlainValues>,
    /// The lines of values that no message may quote.
    lines: BTreeSet<String>,
    /// What cannot be decrypted.
    pub(crate) findings: Vec<Finding>,
}

/// An encrypted file that placed objects have values of.
struct NeededFile<'s> {
    /// What it is called in messages.
    name: String,
    /// Its path, or the key of the value, which tell its format.
    path: String,
    text: Cow<'s, str>,
    /// Whether it is the value of an object as a whole.
    is_value: bool,
    /// The first object that needs it.
    object: &'s Object,
}

impl Session {
    /// Decrypts what SOPS encrypted before it is sent to API servers.
    pub fn decrypt_with(&mut self, decryptor: Arc<dyn Decryptor>) {
        self.set_decryptor(decryptor);
    }

    /// Whether objects are decrypted for API servers.
    pub fn decrypts(&self) -> bool {
        self.decryptor.is_some()
    }

    /// The templates that hold what SOPS encrypted, and how.
    pub(crate) fn encrypted_templates(&self) -> &BTreeMap<ObjectRef, CiphertextForm> {
        self.encrypted.get_or_init(|| {
            let templates = self.repo().templates.par_iter();
            let forms = templates.filter_map(|template| {
                let form = template.bodies().filter_map(|object| find_ciphertext(&object.body)).max()?;
                Some((template.object.id.clone(), form))
            });
            forms.collect()
        })
    }

    /// Whether the MAC of an encrypted object holds for its rendered text: if that is its file, and if it covers only encrypted
    /// values that are in the same order.
    pub(crate) fn keeps_mac(&self, object: &Object) -> bool {
        let repo = self.repo();
        let located = repo.encrypted_inputs.locate_object(object).map(|origin| origin.file);
        let path = located.as_ref().unwrap_or(&object.origin.file);
        let text = repo.texts.get(path).or_else(|| repo.encrypted_inputs.find_text(path));
        let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let Some(file) = text.and_then(|text| EncryptedFile::read(path, text)) else {
            // It has no MAC, or none that could be found.
            return object.origin.is_written();
        };
        match file.documents.as_slice() {
            [_] if federate_engine::is_copied(repo, object) => true,
            [document] => !file.covers_all_values() && has_same_ciphertext(document, &object.body),
            _ => false,
        }
    }

    /// The placed templates among them.
    pub(crate) fn placed_encrypted(&self) -> Vec<(&Template, CiphertextForm)> {
        let forms = self.encrypted_templates().iter();
        let placed = forms.filter(|(id, _)| self.placed_in(self.plan(), id).is_some());
        placed.filter_map(|(id, form)| Some((self.repo().find_template(id)?, *form))).collect()
    }

    /// The errors about ciphertext that is rendered, because clusters receive it decrypted, and that no reader of files could
    /// decrypt.
    pub(crate) fn undecryptable_files(&self) -> Vec<Finding> {
        if !self.decrypts() {
            return Vec::new();
        }
        let placed = self.placed_encrypted().into_iter().filter(|(_, form)| *form == CiphertextForm::Values);
        placed
            .map(|(template, _)| federate_engine::report_undecryptable(self.repo(), &template.object))
            .collect()
    }

    /// What SOPS encrypted in placed objects, in clear, as far as something decrypts.
    pub(crate) fn decrypted_objects(&self) -> &DecryptedObjects {
        self.decrypted.get_or_init(|| {
            let objects = self.encrypted_templates().keys().cloned().collect();
            match self.decryptor.as_deref() {
                Some(decryptor) => DecryptedObjects { objects, ..self.decrypt_templates(decryptor) },
                None => DecryptedObjects { objects, ..DecryptedObjects::default() },
            }
        })
    }

    fn decrypt_templates(&self, decryptor: &dyn Decryptor) -> DecryptedObjects {
        let placed = self.placed_encrypted();
        let mut needed: BTreeMap<String, NeededFile<'_>> = BTreeMap::new();
        for object in placed.iter().flat_map(|(template, _)| template.bodies()) {
            self.list_needed(object, &mut needed);
        }
        let decrypted: Vec<Result<PlainValues, Finding>> =
            needed.into_par_iter().map(|(_, file)| file.decrypt(decryptor)).collect();
        let (mut values, mut findings) = (PlainValues::default(), Vec::new());
        for result in decrypted {
            match result {
                Ok(more) => values.extend(more),
                Err(finding) => findings.push(finding),
            }
        }
        if findings.is_empty() {
            let objects = placed.iter().flat_map(|(template, _)| template.bodies());
            let unknown = objects.filter(|object| values.reveal_document(&object.body).is_none());
            findings.extend(unknown.map(|object| self.report_unknown(object)));
        }
        let lines = values.list_texts().flat_map(|text| {
            let lines: Vec<String> =
                text.lines().map(|line| line.trim().to_owned()).chain([text.clone()]).collect();
            lines.into_iter().filter(|line| line.len() >= MIN_QUOTED)
        });
        let lines = lines.collect();
        DecryptedObjects { objects: BTreeSet::new(), values: values.into(), lines, findings }
    }

    /// Adds the files that an object has encrypted values of, by what tells them apart.
    fn list_needed<'s>(&'s self, object: &'s Object, needed: &mut BTreeMap<String, NeededFile<'s>>) {
        let repo = self.repo();
        let own = Some(&object.origin.file).filter(|_| object.origin.is_written());
        visit_texts(&object.body, &mut |key, text| {
            if !holds_ciphertext(text) {
                return;
            }
            if EncryptedFile::read(key, text).is_some() {
                let (name, path) = (format!("`{key}` of {}", object.id), key.to_owned());
                let file = NeededFile { name, path, text: text.to_owned().into(), is_value: true, object };
                needed.entry(text.to_owned()).or_insert(file);
                return;
            }
            for ciphertext in list_ciphertexts(text) {
                let built_from = || repo.encrypted_inputs.find_place(ciphertext).map(|place| &place.file);
                let Some(path) = own.or_else(built_from) else { continue };
                let bytes = repo.texts.get(path).or_else(|| repo.encrypted_inputs.find_text(path));
                if let Some(text) = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()) {
                    needed.entry(path.to_string()).or_insert_with(|| NeededFile {
                        name: path.to_string(),
                        path: path.to_string(),
                        text: text.into(),
                        is_value: false,
                        object,
                    });
                }
            }
        });
    }

    /// The error about an object with ciphertext that no file explains.
    fn report_unknown(&self, object: &Object) -> Finding {
        let message = format!(
            "{} cannot be decrypted: it has ciphertext of no file that SOPS encrypted and that it is built from",
            object.id
        );
        let finding = Finding::error(SOPS_CODE, object, message).with_help(
            "keep what is secret in a Secret of its own file, or in a file that a `secretGenerator` names, and encrypt that file",
        );
        Finding { origin: self.repo().encrypted_inputs.locate_object(object).or(finding.origin), ..finding }
    }
}

impl NeededFile<'_> {
    fn decrypt(&self, decryptor: &dyn Decryptor) -> Result<PlainValues, Finding> {
        let mut values = PlainValues::default();
        // What is not encrypted has no values that could be revealed.
        let Some(file) = EncryptedFile::read(&self.path, &self.text) else { return Ok(values) };
        if self.is_value {
            let plain = decryptor.decrypt_file(&file, file.format).map_err(|error| self.report(&error))?;
            values.add_file(&self.text, plain);
        } else {
            let plain =
                decryptor.decrypt_file(&file, SopsFormat::Yaml).map_err(|error| self.report(&error))?;
            let plain: Vec<Value> = federate_yaml::read_stream(&plain)
                .documents
                .into_iter()
                .map(|document| document.value)
                .collect();
            values.add_documents(&file.documents, &plain);
        }
        Ok(values)
    }

    fn report(&self, error: &BuildError) -> Finding {
        let message = format!("{}, which SOPS encrypted, cannot be decrypted: {}", self.name, error.why);
        let finding = Finding::error(SOPS_CODE, self.object, message);
        Finding { help: error.help.clone(), ..finding }
    }
}

impl DecryptedObjects {
    /// The objects about which nothing that an API server says is shown.
    pub(crate) fn objects(&self) -> &BTreeSet<ObjectRef> {
        &self.objects
    }

    /// The desired objects that can be compared with live ones and sent: those that SOPS encrypted are in clear, or left out.
    pub(crate) fn reveal_desired(&self, desired: Vec<DesiredObject>) -> Vec<DesiredObject> {
        let all = desired.into_iter().filter_map(|desired| {
            if self.objects.contains(&desired.object) { desired.reveal(&self.values) } else { Some(desired) }
        });
        all.collect()
    }

    /// Takes values in clear out of what is reported about objects that SOPS encrypted.
    pub(crate) fn hide_values(&self, actions: &mut [Action]) {
        for action in actions.iter_mut().filter(|action| self.objects.contains(&action.object)) {
            for diff in &mut action.diffs {
                for value in [&mut diff.desired, &mut diff.live].into_iter().flatten() {
                    *value = HIDDEN_VALUE.into();
                }
                hide_keys(&mut diff.path);
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
        if self.lines.iter().any(|line| message.contains(line)) {
            HIDDEN_MESSAGE.clone_into(message);
        }
    }
}

/// Whether two documents have the same encrypted values, in the same order.
fn has_same_ciphertext(written: &Value, built: &Value) -> bool {
    let [written, built] = [written, built].map(|document| {
        let mut found: Vec<String> = Vec::new();
        visit_texts(document, &mut |_, text| {
            found.extend(list_ciphertexts(text).into_iter().map(str::to_owned));
        });
        found
    });
    written == built
}

/// The shortest value that is looked for in messages: shorter ones are in any.
const MIN_QUOTED: usize = 3;

/// Takes the keys of list items out of a path, which are values: `/spec/ports[name=…]`.
fn hide_keys(path: &mut String) {
    // A value may contain brackets itself.
    if let Some((before, rest)) = path.split_once('[') {
        let after = rest.rsplit_once(']').map_or("", |(_, after)| after);
        *path = format!("{before}[…]{after}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_list_items_are_hidden() {
        for (path, hidden) in [
            ("/data/password", "/data/password"),
            ("/spec/list[name=hunter2]/value", "/spec/list[…]/value"),
            ("/spec/list[name=\"a]hunter2\"]/items[=b]", "/spec/list[…]"),
        ] {
            let mut path = path.to_owned();
            hide_keys(&mut path);
            assert_eq!(path, hidden);
        }
    }
}
