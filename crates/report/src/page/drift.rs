//! The page of `drift`: what differs in which cluster, who changed it and since when, and what federate would do about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::frame::{PageContent, PageFrame, PageTile, escape_html, format_link, write_card};
use super::scripts::PageView;
use crate::drift::{format_summary, no_drift};
use crate::table::{count_with_verb, format_count};
use federate_dialect::plan::API_VERSION;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::{Action, ActionKind, ActionOutcome, Actions, Writer};

/// How many items of a card are shown before the others are folded.
const MAX_ITEMS: usize = 20;

/// Everything that the page of `drift` shows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftPage<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `DriftPage`.
    pub kind: &'static str,
    /// The repo.
    pub name: &'a str,
    /// What matters.
    pub verdict: DriftVerdict,
    /// Who changed fields, those with the most fields first.
    pub managers: Vec<DriftManager<'a>>,
    /// The clusters of the run, sorted by name.
    pub clusters: Vec<DriftPageCluster<'a>>,
    /// The objects that drifted, sorted.
    pub objects: Vec<DriftPageObject<'a>>,
    /// What `federate drift -o json` prints, without the resulting objects.
    pub actions: &'a [Action],
}

/// What matters about drift.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftVerdict {
    /// One sentence.
    pub sentence: String,
    /// The number of objects with each flag.
    pub counts: BTreeMap<DriftFlag, usize>,
    /// The number of fields that differ, in all clusters.
    pub fields: usize,
    /// The number of clusters that could not be read.
    pub unread: usize,
}

/// What is the matter with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DriftFlag {
    /// Correcting it failed.
    Failed,
    /// It is rendered, and not there.
    Missing,
    /// federate does not manage it, or leaves it as it is.
    Unmanaged,
    /// It is managed, and no longer rendered.
    Unrendered,
    /// Correcting it restarts pods.
    Restarts,
    /// Fields differ.
    Changed,
    /// It was put back.
    Corrected,
}

/// Who changed fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftManager<'a> {
    /// The field manager; absent where nothing says who it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<&'a str>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer>,
    /// How many fields it changed.
    pub fields: usize,
    /// How many objects, the same in two clusters twice.
    pub objects: usize,
    /// In how many clusters.
    pub clusters: usize,
    /// The time of its first change, in RFC 3339 notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<&'a str>,
    /// The time of its last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<&'a str>,
}

/// A cluster of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftPageCluster<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its region; empty if unknown.
    pub region: &'a str,
    /// How many objects drifted there.
    pub objects: usize,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// Whether the differences are a prediction, because no API server dry-ran them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
    /// Warnings about the cluster.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub notes: &'a [String],
}

/// An object that drifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftPageObject<'a> {
    /// The object.
    pub object: &'a ObjectRef,
    /// What is the matter with it in any cluster, the worst first.
    pub flags: BTreeSet<DriftFlag>,
    /// What differs in each cluster, by the numbers in `actions`.
    pub actions: Vec<usize>,
}

/// What is the matter with the object of an action.
fn action_flags(action: &Action) -> BTreeSet<DriftFlag> {
    let mut flags = BTreeSet::new();
    flags.insert(match action.action {
        _ if action.outcome == ActionOutcome::Failed => DriftFlag::Failed,
        ActionKind::Create => DriftFlag::Missing,
        ActionKind::Delete => DriftFlag::Unrendered,
        ActionKind::Update | ActionKind::Unchanged => DriftFlag::Changed,
        ActionKind::Conflict | ActionKind::Adopt | ActionKind::Skip => DriftFlag::Unmanaged,
    });
    if action.restarts_pods {
        flags.insert(DriftFlag::Restarts);
    }
    if action.outcome == ActionOutcome::Done {
        flags.insert(DriftFlag::Corrected);
    }
    flags
}

impl<'a> DriftPage<'a> {
    /// The page of what was found. `regions` are those of the clusters, as far as they are known.
    pub fn new(name: &'a str, drifted: &'a Actions, regions: &'a BTreeMap<ClusterName, String>) -> Self {
        let mut objects: BTreeMap<&ObjectRef, DriftPageObject<'a>> = BTreeMap::new();
        let mut by_cluster: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, action) in drifted.actions.iter().enumerate() {
            let row = objects.entry(&action.object).or_insert_with(|| DriftPageObject {
                object: &action.object,
                flags: BTreeSet::new(),
                actions: Vec::new(),
            });
            row.flags.extend(action_flags(action));
            row.actions.push(at);
            *by_cluster.entry(&action.cluster).or_default() += 1;
        }
        let objects: Vec<DriftPageObject<'a>> = objects.into_values().collect();
        let mut counts = BTreeMap::new();
        for flag in objects.iter().flat_map(|row| &row.flags) {
            *counts.entry(*flag).or_default() += 1;
        }
        let clusters = drifted.clusters.iter().map(|cluster| DriftPageCluster {
            name: &cluster.name,
            region: regions.get(&cluster.name).map_or("", String::as_str),
            objects: by_cluster.get(&*cluster.name).copied().unwrap_or_default(),
            error: cluster.error.as_deref(),
            predicted: cluster.predicted,
            notes: &cluster.notes,
        });
        let sentence = if drifted.actions.is_empty() {
            no_drift(drifted).trim_end().to_owned()
        } else {
            format_summary(drifted)
        };
        Self {
            api_version: API_VERSION,
            kind: "DriftPage",
            name,
            verdict: DriftVerdict {
                sentence: capitalize(&sentence),
                counts,
                fields: drifted.actions.iter().map(|action| action.diffs.len()).sum(),
                unread: drifted.clusters.iter().filter(|cluster| cluster.error.is_some()).count(),
            },
            managers: count_managers(&drifted.actions),
            clusters: clusters.collect(),
            objects,
            actions: &drifted.actions,
        }
    }

    fn count_flag(&self, flag: DriftFlag) -> usize {
        self.verdict.counts.get(&flag).copied().unwrap_or_default()
    }

    /// What federate would do, or did, with the numbers of objects.
    fn describe_correction(&self) -> Vec<String> {
        let mut kinds: BTreeMap<(ActionKind, bool, bool), Vec<&Action>> = BTreeMap::new();
        for action in self.actions {
            let done = action.outcome == ActionOutcome::Done;
            let failed = action.outcome == ActionOutcome::Failed;
            kinds.entry((action.action, done, failed)).or_default().push(action);
        }
        let lines = kinds.into_iter().map(|((kind, done, failed), actions)| {
            let (sign, verbs) =
                if failed { ("✕", ["fails", "fail"]) } else { correction_words(kind, done) };
            let restarts = actions.iter().filter(|action| action.restarts_pods && !failed).count();
            let mut text = format!(
                "<b{}>{sign} {}</b>",
                if failed { " class=\"bad\"" } else { "" },
                count_with_verb(actions.len(), "object", verbs)
            );
            if restarts > 0 {
                let verb = if done { "restarted" } else { "would restart" };
                let _ = write!(
                    text,
                    " <span class=\"effect\">↻ pods of {} {verb}</span>",
                    format_count(restarts, "object")
                );
            }
            let reasons: BTreeSet<&str> = actions
                .iter()
                .filter_map(|action| action.error.as_deref().or(action.reason.as_deref()))
                .collect();
            let reasons: Vec<&str> = reasons.into_iter().collect();
            let stays = matches!(kind, ActionKind::Conflict | ActionKind::Skip | ActionKind::Adopt);
            if let (true, [reason]) = (failed || stays, reasons.as_slice()) {
                let _ = write!(text, ": <span class=\"muted\">{}</span>", escape_html(reason));
            }
            text
        });
        lines.collect()
    }
}

/// The sign and the verbs for what federate would do, or did, about objects; for one and for several.
fn correction_words(kind: ActionKind, done: bool) -> (&'static str, [&'static str; 2]) {
    match (kind, done) {
        (ActionKind::Create, false) => ("+", ["would be created"; 2]),
        (ActionKind::Create, true) => ("+", ["was created", "were created"]),
        (ActionKind::Delete, false) => ("−", ["would be deleted"; 2]),
        (ActionKind::Delete, true) => ("−", ["was deleted", "were deleted"]),
        (ActionKind::Update | ActionKind::Unchanged, false) => ("≠", ["would be put back"; 2]),
        (ActionKind::Update | ActionKind::Unchanged, true) => ("≠", ["was put back", "were put back"]),
        (ActionKind::Conflict | ActionKind::Adopt | ActionKind::Skip, _) => {
            ("!", ["is left as it is", "are left as they are"])
        }
    }
}

/// Who changed how many fields, where and when.
fn count_managers(actions: &[Action]) -> Vec<DriftManager<'_>> {
    #[derive(Default)]
    struct Tally<'a> {
        fields: usize,
        objects: usize,
        clusters: BTreeSet<&'a str>,
        times: BTreeSet<&'a str>,
    }
    let mut tallies: BTreeMap<(Option<&str>, Option<Writer>), Tally<'_>> = BTreeMap::new();
    for action in actions {
        let mut seen = BTreeSet::new();
        for diff in &action.diffs {
            let key = (diff.manager.as_deref(), diff.writer);
            let tally = tallies.entry(key).or_default();
            tally.fields += 1;
            tally.clusters.insert(&action.cluster);
            tally.times.extend(diff.time.as_deref());
            if seen.insert(key) {
                tally.objects += 1;
            }
        }
    }
    let mut managers: Vec<DriftManager<'_>> = tallies
        .into_iter()
        .map(|((manager, writer), tally)| DriftManager {
            manager,
            writer,
            fields: tally.fields,
            objects: tally.objects,
            clusters: tally.clusters.len(),
            first: tally.times.first().copied(),
            last: tally.times.last().copied(),
        })
        .collect();
    managers.sort_by_key(|one| (std::cmp::Reverse(one.fields), one.manager));
    managers
}

fn describe_manager(one: &DriftManager<'_>) -> String {
    let name = match (one.manager, one.writer) {
        (Some(manager), _) => manager,
        (None, Some(Writer::Server)) => "the API server",
        (None, _) => "unknown, because the fields were removed",
    };
    let who = match one.writer {
        Some(Writer::Person) => " <span class=\"tag\">a person's tool</span>",
        Some(Writer::Controller) => " <span class=\"tag\">a controller</span>",
        _ => "",
    };
    let when = match (one.first, one.last) {
        (Some(first), Some(last)) if first == last => format!(", at {}", escape_html(first)),
        (Some(first), Some(last)) => format!(", from {} to {}", escape_html(first), escape_html(last)),
        _ => String::new(),
    };
    format!(
        "<b>{}</b>{who} <span class=\"effect\">{} of {} in {}{when}</span>",
        escape_html(name),
        format_count(one.fields, "field"),
        format_count(one.objects, "object"),
        format_count(one.clusters, "cluster")
    )
}

fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    first + characters.as_str() + "."
}

impl PageContent for DriftPage<'_> {
    fn frame(&self) -> PageFrame<'_> {
        let fields = match self.verdict.fields {
            0 => String::new(),
            number => format_count(number, "field"),
        };
        PageFrame {
            view: PageView::Drift,
            command: "federate drift",
            from: None,
            to: self.name,
            sentence: &self.verdict.sentence,
            tiles: vec![
                PageTile::new_bad("failed", "✕", "Failed", self.count_flag(DriftFlag::Failed)),
                PageTile::new_bad("missing", "−", "Missing", self.count_flag(DriftFlag::Missing)),
                PageTile::new("unmanaged", "!", "Left as they are", self.count_flag(DriftFlag::Unmanaged)),
                PageTile::new("unrendered", "+", "Not rendered", self.count_flag(DriftFlag::Unrendered)),
                PageTile::new("restarts", "↻", "Restart", self.count_flag(DriftFlag::Restarts)),
                PageTile {
                    detail: fields,
                    ..PageTile::new("changed", "≠", "Changed", self.count_flag(DriftFlag::Changed))
                },
                PageTile::new("corrected", "✓", "Put back", self.count_flag(DriftFlag::Corrected)),
            ],
            sections: vec![
                ("matrix", "Where it drifted"),
                ("values", "Changed fields"),
                ("clusters", "Clusters"),
            ],
            data_source: "federate drift -o json",
        }
    }

    fn write_cards(&self, out: &mut String) {
        out.push_str("<div class=\"cards\">\n");
        let unread: Vec<String> = self
            .clusters
            .iter()
            .filter_map(|cluster| {
                let error = escape_html(cluster.error?);
                let name = escape_html(cluster.name);
                Some(format!(
                    "<b class=\"bad\">✕ {name}</b> could not be read: <span class=\"muted\">{error}</span>"
                ))
            })
            .collect();
        if !unread.is_empty() {
            write_card(out, "unread", "Not known", &unread, MAX_ITEMS, "");
        }
        let bad = self
            .objects
            .iter()
            .filter(|row| row.flags.contains(&DriftFlag::Failed) || row.flags.contains(&DriftFlag::Missing));
        let bad: Vec<String> = bad
            .map(|row| {
                let words = if row.flags.contains(&DriftFlag::Failed) { "✕ failed" } else { "− missing" };
                let path = format!("{}/{}", row.object.kind, row.object.namespaced_name());
                format!(
                    "<b class=\"bad\">{words}</b> {} <span class=\"muted\">in {}</span>",
                    format_link(&path, &row.object.to_string()),
                    format_count(row.actions.len(), "cluster")
                )
            })
            .collect();
        if !bad.is_empty() {
            write_card(out, "missing", "Missing and failed", &bad, MAX_ITEMS, "");
        }
        let managers: Vec<String> = self.managers.iter().map(describe_manager).collect();
        write_card(out, "who", "Who changed it", &managers, MAX_ITEMS, "No field differs.");
        let corrects = self.actions.iter().any(|action| action.outcome == ActionOutcome::Done);
        let title = if corrects { "What federate did" } else { "What --correct would do" };
        write_card(out, "correction", title, &self.describe_correction(), MAX_ITEMS, "Nothing.");
        out.push_str("</div>\n");
        let predicted = if self.clusters.iter().any(|cluster| cluster.predicted) {
            " · predicted without the API server"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "<p class=\"totals muted\">{} · {} by name · {}{predicted}</p>",
            format_count(self.clusters.len(), "cluster"),
            format_count(self.objects.len(), "object"),
            format_count(self.verdict.fields, "field")
        );
    }
}
