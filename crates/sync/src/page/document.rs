//! The page of the loop: what matters about its Syncs, which do not run, what they wait for, and what was done.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use federate_dialect::plan::API_VERSION;
use federate_report::page::{
    PageContent, PageFrame, PageTile, PageView, escape_html, format_link, write_card,
};
use federate_report::table::{count_with_verb, format_count};
use federate_sync_api::NamespacedName;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::SyncDetails;

/// How many items of a card are shown before the others are folded.
const MAX_ITEMS: usize = 20;

/// Everything that the page of the loop shows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncPage {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `SyncPage`.
    pub kind: &'static str,
    /// When the page was written.
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// What matters.
    pub verdict: SyncVerdict,
    /// The Syncs that this process runs, sorted by namespace and name.
    pub syncs: Vec<SyncRow>,
}

/// What matters about Syncs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncVerdict {
    /// One sentence.
    pub sentence: String,
    /// The numbers.
    pub counts: SyncCounts,
}

/// The numbers of Syncs, and of what is in their clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncCounts {
    /// Syncs that fail.
    pub failed: usize,
    /// Syncs with a round under way.
    pub progressing: usize,
    /// Syncs with drift.
    pub drifted: usize,
    /// Syncs that have left something behind.
    pub left_behind: usize,
    /// Syncs that wait for a window or an approval.
    pub waiting: usize,
    /// Syncs that are suspended.
    pub suspended: usize,
    /// Syncs with nothing to report.
    pub ready: usize,
    /// Clusters that fail, the same for two Syncs twice.
    pub failed_clusters: usize,
    /// Objects that drifted.
    pub drifted_objects: usize,
    /// Objects that are left behind.
    pub orphans: usize,
}

/// A Sync with what is the matter.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncRow {
    /// What is the matter, the worst first.
    pub flags: BTreeSet<SyncFlag>,
    /// The Sync.
    #[serde(flatten)]
    pub details: SyncDetails,
}

/// What is the matter with a Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SyncFlag {
    /// It fails.
    Failed,
    /// Something drifted, and is left so.
    Drifted,
    /// Something is left behind in clusters.
    LeftBehind,
    /// It waits for a window or an approval.
    Waiting,
    /// It is suspended.
    Suspended,
    /// A round is under way.
    Progressing,
    /// Nothing is to be reported.
    Ready,
}

impl SyncDetails {
    /// What is the matter.
    fn list_flags(&self) -> BTreeSet<SyncFlag> {
        let status = &self.status;
        let mut flags = BTreeSet::new();
        let ready = status.find_condition("Ready").map_or("Unknown", |ready| ready.status.as_str());
        let is_failing = self.clusters.iter().any(|cluster| cluster.message.is_some());
        if ready == "False" || is_failing {
            flags.insert(SyncFlag::Failed);
        } else if ready == "Unknown" {
            flags.insert(SyncFlag::Progressing);
        }
        let orphans = &status.orphans;
        let left_behind = orphans.objects > 0 || orphans.apply_sets > 0 || !orphans.clusters.is_empty();
        let has_drift =
            status.drift.is_some() || self.clusters.iter().any(|cluster| cluster.drifted.is_some());
        for (holds, flag) in [
            (has_drift || !self.contentions.is_empty(), SyncFlag::Drifted),
            (left_behind, SyncFlag::LeftBehind),
            (self.awaited().is_some(), SyncFlag::Waiting),
            (self.suspended, SyncFlag::Suspended),
        ] {
            if holds {
                flags.insert(flag);
            }
        }
        if flags.is_empty() {
            flags.insert(SyncFlag::Ready);
        }
        flags
    }

    /// What it waits for.
    fn awaited(&self) -> Option<String> {
        let status = &self.status;
        let approval = status.rollout.as_ref().and_then(|rollout| rollout.approval.as_ref());
        if let Some(approval) = approval {
            return Some(format!("the rollout waits for the approval {approval}"));
        }
        let window = status.window.as_ref()?;
        let revision = window.waiting.as_ref()?;
        let opens = window.opens.map(|time| format!(", which opens at {time:.0}")).unwrap_or_default();
        Some(format!("{revision} waits for a window{opens}"))
    }

    /// How many objects drifted.
    fn count_drifted(&self) -> usize {
        let known: usize = self.clusters.iter().filter_map(|cluster| cluster.drifted).sum();
        known.max(self.status.drift.as_ref().map_or(0, |drift| drift.objects))
    }
}

impl SyncPage {
    /// The page of these Syncs, at a time.
    pub(crate) fn new(syncs: Vec<SyncDetails>, time: Timestamp) -> Self {
        let syncs: Vec<SyncRow> =
            syncs.into_iter().map(|details| SyncRow { flags: details.list_flags(), details }).collect();
        let mut counts = SyncCounts::default();
        for row in &syncs {
            for flag in &row.flags {
                *match flag {
                    SyncFlag::Failed => &mut counts.failed,
                    SyncFlag::Drifted => &mut counts.drifted,
                    SyncFlag::LeftBehind => &mut counts.left_behind,
                    SyncFlag::Waiting => &mut counts.waiting,
                    SyncFlag::Suspended => &mut counts.suspended,
                    SyncFlag::Progressing => &mut counts.progressing,
                    SyncFlag::Ready => &mut counts.ready,
                } += 1;
            }
            let failing = row.details.clusters.iter().filter(|cluster| cluster.message.is_some());
            counts.failed_clusters += failing.count();
            counts.drifted_objects += row.details.count_drifted();
            counts.orphans += row.details.status.orphans.objects;
        }
        let sentence = counts.format_sentence(syncs.len());
        let verdict = SyncVerdict { sentence, counts };
        Self { api_version: API_VERSION, kind: "SyncPage", time, verdict, syncs }
    }

    fn with_flag(&self, flag: SyncFlag) -> impl Iterator<Item = &SyncDetails> {
        self.syncs.iter().filter(move |row| row.flags.contains(&flag)).map(|row| &row.details)
    }

    fn list_failures(&self) -> Vec<String> {
        let mut items = Vec::new();
        for details in self.with_flag(SyncFlag::Failed) {
            let link = link_sync(details);
            let conditions = details.status.conditions.iter();
            let failing: Vec<_> = conditions
                .filter(|condition| (condition.r#type == "Ready") == (condition.status == "False"))
                .collect();
            for condition in &failing {
                items.push(format!(
                    "<b class=\"bad\">✕ {link}</b> {}={}: {}: {} <span class=\"muted\">since {:.0}</span>",
                    escape_html(&condition.r#type),
                    escape_html(&condition.status),
                    escape_html(&condition.reason),
                    escape_html(&condition.message),
                    condition.last_transition_time
                ));
            }
            let clusters = details.clusters.iter().filter(|_| failing.is_empty());
            items.extend(clusters.filter_map(|cluster| {
                let message = escape_html(cluster.message.as_ref()?);
                Some(format!("<b class=\"bad\">✕ {link}</b> {}: {message}", escape_html(&cluster.name)))
            }));
        }
        items
    }

    /// The Syncs that do not fail, with what they have done.
    fn list_others(&self) -> Vec<String> {
        let others = self.syncs.iter().filter(|row| !row.flags.contains(&SyncFlag::Failed));
        let items = others.map(|row| {
            let details = &row.details;
            let sign = if row.flags.contains(&SyncFlag::Progressing) { "↻" } else { "✓" };
            let mut text = format!("<b>{sign} {}</b>", link_sync(details));
            for condition in &details.status.conditions {
                let _ = write!(
                    text,
                    " {}={}: {} <span class=\"muted\">since {:.0}</span>",
                    escape_html(&condition.r#type),
                    escape_html(&condition.status),
                    escape_html(&condition.message),
                    condition.last_transition_time
                );
            }
            text
        });
        items.collect()
    }

    fn list_attention(&self) -> Vec<String> {
        let drifted = self.with_flag(SyncFlag::Drifted).flat_map(|details| {
            let drift = details.status.drift.iter().map(|drift| {
                let when = drift.changed.as_ref().map(|time| format!(", changed at {time}"));
                let text = format!("{}{}", drift.first, when.unwrap_or_default());
                (
                    format!(
                        "{} in {}",
                        format_count(drift.objects, "object"),
                        format_count(drift.clusters, "cluster")
                    ),
                    text,
                )
            });
            let contentions = details
                .contentions
                .iter()
                .map(|contention| ("another client writes, too".to_owned(), contention.clone()));
            let link = link_sync(details);
            drift.chain(contentions).map(move |(what, text)| {
                format!("<b>≠ {link}</b> {what} <span class=\"effect\">{}</span>", escape_html(&text))
            })
        });
        let left = self.with_flag(SyncFlag::LeftBehind).map(|details| {
            let orphans = &details.status.orphans;
            let mut text = format!("<b>− {}</b>", link_sync(details));
            if orphans.objects > 0 || orphans.apply_sets > 0 {
                let _ = write!(
                    text,
                    " left behind: {}, {}",
                    format_count(orphans.objects, "object"),
                    format_count(orphans.apply_sets, "ApplySet")
                );
            }
            if !orphans.clusters.is_empty() {
                let names = escape_html(&orphans.clusters.join(", "));
                let _ = write!(text, " clusters that have left, with objects: {names}");
            }
            text
        });
        let waiting = self.with_flag(SyncFlag::Waiting).map(|details| {
            let awaited = details.awaited().unwrap_or_default();
            format!("<b>… {}</b> {}", link_sync(details), escape_html(&awaited))
        });
        let suspended = self
            .with_flag(SyncFlag::Suspended)
            .map(|details| format!("<b>‖ {}</b> is suspended", link_sync(details)));
        drifted.chain(left).chain(waiting).chain(suspended).collect()
    }
}

/// A link to a Sync.
fn link_sync(details: &SyncDetails) -> String {
    let NamespacedName { name, namespace } = &details.metadata;
    format_link(&format!("Sync/{namespace}/{name}"), &details.metadata.full_name())
}

impl SyncCounts {
    /// The numbers that matter in one sentence.
    fn format_sentence(&self, all: usize) -> String {
        if all == 0 {
            return "This process runs no Syncs. Another replica may lead.".to_owned();
        }
        let mut parts = Vec::new();
        if self.failed > 0 {
            let verb = if self.failed == 1 { "fails" } else { "fail" };
            parts.push(format!("{} of {} {verb}", self.failed, format_count(all, "Sync")));
        }
        if self.failed_clusters > 0 {
            parts.push(count_with_verb(self.failed_clusters, "cluster", ["fails", "fail"]));
        }
        if self.drifted_objects > 0 {
            parts.push(format!("{} drifted", format_count(self.drifted_objects, "object")));
        }
        if self.orphans > 0 {
            parts.push(count_with_verb(self.orphans, "object", ["is left behind", "are left behind"]));
        }
        if self.waiting > 0 {
            parts.push(count_with_verb(self.waiting, "Sync", ["waits", "wait"]));
        }
        match (parts.is_empty(), self.progressing) {
            (false, _) => parts.join(", ") + ".",
            (true, 0) => count_with_verb(all, "Sync", ["runs as it should", "run as they should"]) + ".",
            (true, busy) => {
                count_with_verb(busy, "Sync", ["has a round under way", "have rounds under way"]) + "."
            }
        }
    }
}

impl PageContent for SyncPage {
    fn frame(&self) -> PageFrame<'_> {
        let counts = &self.verdict.counts;
        let failed = PageTile::new_bad("failed", "✕", "Fail", counts.failed);
        let drifted = PageTile::new("drifted", "≠", "Drifted", counts.drifted);
        let left = PageTile::new("leftBehind", "−", "Left behind", counts.left_behind);
        PageFrame {
            view: PageView::Syncs,
            command: "federate sync",
            from: None,
            to: "status",
            sentence: &self.verdict.sentence,
            tiles: vec![
                PageTile { detail: format_amount(counts.failed_clusters, "cluster"), ..failed },
                PageTile { detail: format_amount(counts.drifted_objects, "object"), ..drifted },
                PageTile { detail: format_amount(counts.orphans, "object"), ..left },
                PageTile::new("waiting", "…", "Wait", counts.waiting),
                PageTile::new("suspended", "‖", "Suspended", counts.suspended),
                PageTile::new("progressing", "↻", "Under way", counts.progressing),
                PageTile::new("ready", "✓", "Ready", counts.ready),
            ],
            sections: vec![
                ("matrix", "Syncs by cluster"),
                ("clusters", "Clusters that are not ready"),
                ("drift", "Drift"),
                ("history", "History"),
            ],
            data_source: "/syncs",
        }
    }

    fn write_cards(&self, out: &mut String) {
        out.push_str("<div class=\"cards\">\n");
        write_card(out, "failures", "What fails", &self.list_failures(), MAX_ITEMS, "Nothing.");
        write_card(out, "attention", "What else to know", &self.list_attention(), MAX_ITEMS, "Nothing.");
        let others = self.list_others();
        if !others.is_empty() {
            write_card(out, "others", "What runs", &others, MAX_ITEMS, "");
        }
        out.push_str("</div>\n");
        let _ = writeln!(
            out,
            "<p class=\"totals muted\">{} · at {:.0} · <a href=\"/syncs\">as JSON</a></p>",
            format_count(self.syncs.len(), "Sync"),
            self.time
        );
    }
}

/// A number of things; empty for none.
fn format_amount(number: usize, noun: &str) -> String {
    if number == 0 { String::new() } else { format_count(number, noun) }
}
