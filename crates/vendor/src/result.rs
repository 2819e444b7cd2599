//! What vendoring did, or would do, as a document.

use schemars::JsonSchema;
use serde::Serialize;

use federate_gitops::vendored::LockedChart;

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
    /// The charts, by name, repository and requested version.
    pub charts: Vec<VendoredChart>,
}

/// A chart, and what vendoring did with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VendoredChart {
    /// The name of the chart.
    pub name: String,
    /// The address of its repository, without credentials.
    pub repository: String,
    /// The range of versions that objects ask for.
    pub requested: String,
    /// The version in the repo; absent if `--check` finds that there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that was there before, if it was another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// What was done; with `--check`, what is to be done.
    pub change: ChartChange,
    /// Why, if the copy in the repo was not what the lock file states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The objects that ask for it.
    pub used_by: Vec<String>,
}

/// What vendoring does with a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChartChange {
    /// It is as the lock file states.
    Unchanged,
    /// It was not in the lock file.
    Added,
    /// Another version, or other content of the same version, was downloaded.
    Updated,
    /// The copy was missing or changed.
    Restored,
    /// Other objects ask for it than those in the lock file.
    UsersChanged,
    /// No object asks for it.
    Removed,
}

impl ChartChange {
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

impl VendoredChart {
    /// The row of an entry of the lock file.
    pub(crate) fn from_locked(chart: &LockedChart, change: ChartChange) -> Self {
        Self {
            name: chart.name.clone(),
            repository: chart.repository.clone(),
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
    pub(crate) fn new(charts: Vec<VendoredChart>) -> Self {
        Self {
            api_version: "federate.dev/v1alpha1",
            kind: "VendorResult",
            changed: charts.iter().any(|chart| chart.change != ChartChange::Unchanged),
            charts,
        }
    }

    /// The result for people: one line for each chart.
    pub fn format_text(&self) -> String {
        let mut text = String::new();
        for chart in &self.charts {
            let version = chart.version.as_deref().unwrap_or("not vendored");
            let before = chart.previous_version.as_ref().map_or_else(String::new, |old| format!("{old} → "));
            let reason = chart.reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            text.push_str(&format!(
                "{} {} of {}: {before}{version}, {}{reason}\n",
                chart.name,
                chart.requested,
                chart.repository,
                chart.change.describe()
            ));
        }
        text
    }
}
