//! What the loss of each cluster, zone, region or provider does, as a part of a page: the data from which the page draws where
//! everything would run.

use std::fmt::Write as _;

use super::document::{ClusterLists, PageDocument, PageLosses, PageMode, PageMove, PageSide, PageUnitLoss};
use super::frame::{escape_html, format_object_link, write_card};
use crate::clusters::ClusterRow;
use crate::diff::ChangeVerdict;
use crate::table::format_count;
use crate::whatif::{UnitLoss, WhatIfEach};
use federate_dialect::{PlacedClusters, Plan};
use federate_engine::change::RenderingChanges;
use federate_kubernetes::ObjectRef;

/// How many losses that cost something are named in the verdict.
const MAX_NAMED: usize = 20;

/// How many objects that run nowhere are named for each of them.
const MAX_OBJECTS: usize = 5;

impl<'a> PageDocument<'a> {
    /// The page of the losses of all units. `none` are changes without any, with the totals of the plan on both sides; `changes`
    /// are those of each row of the report.
    pub fn from_losses(
        report: &'a WhatIfEach<'a>,
        inventory: &[ClusterRow],
        none: &'a RenderingChanges,
        now: PageSide<'a>,
        changes: impl Iterator<Item = &'a RenderingChanges>,
    ) -> Self {
        let mut page = Self::from_plan("now", inventory, none, now, &[]);
        page.mode = PageMode::Whatif;
        page.verdict = ChangeVerdict { sentence: report.format_headline(), ..Default::default() };
        let mut lists = ClusterLists::new(&page.clusters, std::mem::take(&mut page.cluster_lists));
        let rows = report.rows.iter().zip(changes);
        let rows =
            rows.map(|(row, changes)| page.describe_loss(row, changes, now.plan, &mut lists)).collect();
        page.cluster_lists = lists.into_lists();
        page.losses =
            Some(PageLosses { each: report.each, pairs: report.pairs, rows, unmoved: report.unmoved });
        page
    }

    fn describe_loss(
        &self,
        row: &'a UnitLoss,
        changes: &RenderingChanges,
        now: &Plan,
        lists: &mut ClusterLists,
    ) -> PageUnitLoss<'a> {
        let mut placements = Vec::new();
        for change in changes.placements.iter().filter(|change| change.is_move()) {
            if let Some(object) = self.object_number(&change.object) {
                let nowhere = PlacedClusters::default();
                let before = now.find_placement(&change.object).map_or(&nowhere, |row| &row.clusters);
                placements.push(PageMove(object, lists.assign_number(&change.apply_to(before))));
            }
        }
        let numbers =
            |objects: &[ObjectRef]| objects.iter().filter_map(|object| self.object_number(object)).collect();
        PageUnitLoss {
            lose: &row.lose,
            clusters: row.clusters.iter().filter_map(|name| self.cluster_number(name)).collect(),
            replicas: row.replicas,
            nowhere: numbers(&row.nowhere),
            unschedulable: numbers(&row.unschedulable),
            placements,
            tightest: row.tightest.as_ref(),
        }
    }
}

/// Writes the losses that cost something, the worst first, and why nothing moves.
pub(super) fn write_worst_losses(out: &mut String, document: &PageDocument<'_>, losses: &PageLosses<'_>) {
    let costly = losses.rows.iter().filter(|row| row.replicas.missing > 0 || !row.nowhere.is_empty());
    let mut items: Vec<String> =
        costly.clone().take(MAX_NAMED).map(|row| format_loss(document, row)).collect();
    let more = costly.count().saturating_sub(MAX_NAMED);
    if more > 0 {
        let noun = format!("more {}", if losses.pairs { "pair" } else { losses.each });
        let text = format_count(more, &noun);
        items.push(format!("<a href=\"#losses\">{}</a>", escape_html(&text)));
    }
    write_card(out, "decide", "What a loss costs", &items, usize::MAX, "Nothing that is not regained.");
    if let Some(unmoved) = losses.unmoved {
        let text = format!("Nothing moves because {}: {}.", unmoved.summary, unmoved.help);
        let _ = writeln!(
            out,
            "<section class=\"card\" aria-labelledby=\"unmoved\"><h2 id=\"unmoved\">Why nothing moves</h2>\n<p>{}</p>\n</section>",
            escape_html(&text)
        );
    }
}

/// `eu-1`: 4 objects run nowhere, 21 replicas are missing; with links to the objects.
fn format_loss(document: &PageDocument<'_>, row: &PageUnitLoss<'_>) -> String {
    let mut costs = Vec::new();
    if !row.nowhere.is_empty() {
        let verb = if row.nowhere.len() == 1 { "runs" } else { "run" };
        costs.push(format!("{} {verb} nowhere", format_count(row.nowhere.len(), "object")));
    }
    if let Ok(missing @ 1..) = usize::try_from(row.replicas.missing) {
        let verb = if missing == 1 { "is" } else { "are" };
        costs.push(format!("{} {verb} missing", format_count(missing, "replica")));
    }
    let objects = row.nowhere.iter().filter_map(|at| document.objects.get(*at)).take(MAX_OBJECTS);
    let links: Vec<String> = objects.map(|object| format_object_link(object.object)).collect();
    let more = row.nowhere.len().saturating_sub(MAX_OBJECTS);
    let names = match (links.as_slice(), more) {
        ([], _) => String::new(),
        (links, 0) => format!(": {}", links.join(", ")),
        (links, more) => format!(": {} and {more} more", links.join(", ")),
    };
    let sign = if row.nowhere.is_empty() { "−" } else { "✕" };
    format!("<b class=\"bad\">{sign} {}</b> {}{names}", escape_html(row.lose), costs.join(", "))
}
