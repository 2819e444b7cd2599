//! The settings that differ and act on more than what is rendered, such as the contexts of clusters: a comparison of renderings
//! does not show what they do.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::DigestKey;
use super::edits::{ChangedField, changed_fields};
use federate_kubernetes::Origin;
use federate_repo::config::{SettingEffect, find_setting_effect};
use federate_repo::{Config, Locator, Repo, RepoFile};

/// A setting that differs and acts on more than what is rendered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingChange {
    /// The setting, with its values. What is not set has its default.
    #[serde(flatten)]
    pub field: ChangedField,
    /// The configuration file: on the later side, or on the earlier one if the file is gone.
    pub file: String,
    /// What the setting decides, in words.
    pub decides: &'static str,
}

/// The settings that differ between two revisions of a repo and act on more than what is rendered.
pub fn find_setting_changes(from: &Repo, to: &Repo, key: &DigestKey) -> Vec<SettingChange> {
    let [old, new] = [from, to].map(read_run_settings);
    if old == new {
        return Vec::new();
    }
    let holder = if to.texts.contains_key(to.config_path()) { to } else { from };
    let file = holder.config_path();
    let origin = Origin { file: file.into(), document: 0, item: None, line: 1 };
    let fields = changed_fields([&old, &new], &origin, key, &mut Locator::new(holder));
    let changes = fields.into_iter().filter_map(|field| match find_setting_effect(&field.change.path)? {
        SettingEffect::Runs(decides) => Some(SettingChange { field, file: file.to_owned(), decides }),
        SettingEffect::Renderings | SettingEffect::Reports => None,
    });
    changes.collect()
}

/// The settings as the file has them: those of a run also contain what the command line says.
fn read_run_settings(repo: &Repo) -> Value {
    let path: Arc<str> = repo.config_path().into();
    let file = repo.texts.get(&path).map(|bytes| RepoFile { path: path.clone(), bytes: bytes.clone() });
    // An invalid file is an error of its own.
    file.and_then(|file| Config::parse(&file).ok()).unwrap_or_default().run_settings()
}
