//! The files that something was built from and that SOPS encrypted: what is built has their ciphertext, and not the keys for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use federate_kubernetes::sops::{holds_ciphertext, list_ciphertexts, visit_texts};
use federate_kubernetes::{Object, Origin};

use crate::build::InputFile;

/// Encrypted files, and where each ciphertext is in them.
#[derive(Clone, Debug, Default)]
pub struct EncryptedInputs {
    texts: BTreeMap<Arc<str>, Arc<[u8]>>,
    places: BTreeMap<String, CiphertextPlace>,
}

/// Where a ciphertext is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiphertextPlace {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl EncryptedInputs {
    /// Adds those of the files of a build that are encrypted.
    pub(crate) fn add_files(&mut self, files: &[InputFile]) {
        for input in files {
            let Some(text) =
                input.encrypted.as_ref().filter(|_| !self.texts.contains_key(input.path.as_str()))
            else {
                continue;
            };
            let file: Arc<str> = input.path.as_str().into();
            for (line, text) in (1..).zip(String::from_utf8_lossy(text).lines()) {
                for ciphertext in list_ciphertexts(text) {
                    let place = CiphertextPlace { file: file.clone(), line };
                    self.places.entry(ciphertext.to_owned()).or_insert(place);
                }
            }
            self.texts.insert(file, text.clone());
        }
    }

    /// The text of a file.
    pub fn find_text(&self, file: &str) -> Option<&Arc<[u8]>> {
        self.texts.get(file)
    }

    /// Where a ciphertext is written.
    pub fn find_place(&self, ciphertext: &str) -> Option<&CiphertextPlace> {
        self.places.get(ciphertext)
    }

    /// Where the first ciphertext that an object holds is written in these files.
    pub fn locate_object(&self, object: &Object) -> Option<Origin> {
        let mut found = None;
        visit_texts(&object.body, &mut |_, text| {
            if found.is_none() && holds_ciphertext(text) {
                found = list_ciphertexts(text).into_iter().find_map(|ciphertext| self.find_place(ciphertext));
            }
        });
        let CiphertextPlace { file, line } = found?.clone();
        Some(Origin { file, document: u32::MAX, item: None, line })
    }
}
