//! What vendoring did, or would do, as a document.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use federate_gitops::RemoteReference;
use federate_gitops::vendored::LockedSource;

/// The result of `federate vendor -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VendorResult {
    /// `federate.dev/v1alpha1`
    pub api_version: &'static str,
    /// `VendorResult`
    pub kind: &'static str,
    /// Whether the lock file or a folder was changed; with `--check`, whether one is out of date.
    pub changed: bool,
    /// The charts and bases, by repository and requested version.
    pub sources: Vec<VendoredSource>,
}

impl VendorResult {
    /// This result of a further round, with what was done in the rounds before.
    #[must_use]
    pub fn after(mut self, before: Self) -> Self {
        let key = |source: &VendoredSource| {
            (source.name.clone(), source.repository.clone(), source.folder.clone(), source.requested.clone())
        };
        let done: BTreeMap<_, VendoredSource> =
            before.sources.into_iter().map(|source| (key(&source), source)).collect();
        for source in self.sources.iter_mut().filter(|source| source.change == VendorChange::Unchanged) {
            if let Some(done) = done.get(&key(source)) {
                *source = done.clone();
            }
        }
        self.sources.extend(done.into_values().filter(|source| source.change == VendorChange::Removed));
        Self { changed: self.changed || before.changed, ..self }
    }
}

/// A chart or a base, and what vendoring did with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VendoredSource {
    /// The name of the chart, or that of the git repository.
    pub name: String,
    /// The address of its repository, without credentials.
    pub repository: String,
    /// The folder of a base in its repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The range of versions, or the revision, that is asked for.
    pub requested: String,
    /// The version in the repo, of a base the commit; absent if `--check` finds that there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that was there before, if it was another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// What was done; with `--check`, what is to be done.
    pub change: VendorChange,
    /// Why, if the copy in the repo was not what the lock file states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The objects and files that ask for it.
    pub used_by: Vec<String>,
}

/// What vendoring does with a chart or a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VendorChange {
    /// It is as the lock file states.
    Unchanged,
    /// It was not in the lock file.
    Added,
    /// Another version, or other content of the same version, was downloaded.
    Updated,
    /// The copy was missing or changed.
    Restored,
    /// Other objects or files ask for it than those in the lock file.
    UsersChanged,
    /// Nothing asks for it.
    Removed,
}

impl VendorChange {
    /// The word for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Restored => "restored",
            Self::UsersChanged => "users changed",
            Self::Removed => "removed",
        }
    }
}

impl VendoredSource {
    /// The row of an entry of the lock file.
    pub(crate) fn from_locked(chart: &LockedSource, change: VendorChange) -> Self {
        Self {
            name: chart.name.clone(),
            repository: chart.repository.clone(),
            folder: chart.folder.clone(),
            requested: chart.requested.clone(),
            version: Some(chart.version.clone()),
            previous_version: None,
            change,
            reason: None,
            used_by: chart.used_by.clone(),
        }
    }
}

impl VendorResult {
    pub(crate) fn new(sources: Vec<VendoredSource>) -> Self {
        Self {
            api_version: "federate.dev/v1alpha1",
            kind: "VendorResult",
            changed: sources.iter().any(|source| source.change != VendorChange::Unchanged),
            sources,
        }
    }

    /// The result for people: one line for each chart and base.
    pub fn format_text(&self) -> String {
        let mut text = String::new();
        for source in &self.sources {
            let reference = RemoteReference {
                repository: source.repository.clone(),
                name: source.name.clone(),
                version: source.requested.clone(),
                folder: source.folder.clone(),
            };
            let version = source.version.as_deref().unwrap_or("not vendored");
            let before = source.previous_version.as_ref().map_or_else(String::new, |old| format!("{old} → "));
            let reason = source.reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            text.push_str(&format!("{reference}: {before}{version}, {}{reason}\n", source.change.describe()));
        }
        text
    }
}
