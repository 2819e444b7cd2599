//! The data of a page, as JSON: the clusters, where each object is on both sides, what changes and why.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::clusters::ClusterRow;
use crate::diff::{ChangeVerdict, Diff, VerdictFlag};
use crate::explanation::ExplainedObject;
use crate::findings::FindingRow;
use crate::table::format_count;
use crate::whatif::{ReplicaTotals, WhatIf};
use federate_dialect::plan::API_VERSION;
use federate_dialect::{PlacedClusters, Placement, Plan, Unschedulable};
use federate_engine::capacity::CapacityChanges;
use federate_engine::change::{
    ChangeCause, LostPolicy, ObjectChange, Pair, RenderingChanges, SettingChange, SideTotals,
};
use federate_engine::deletions::ExcessiveDeletions;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_whatif::{FreeResource, ReplicaLoss, TimelineStage, UnmovedScenario};

/// Everything that a page shows. The page of a plan has no earlier side.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageDocument<'a> {
    /// `federate.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Page`.
    pub kind: &'static str,
    /// The command whose result it is.
    pub mode: PageMode,
    /// The name of the earlier side; left out for a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'a str>,
    /// The name of the only or the later side.
    pub to: &'a str,
    /// What matters.
    pub verdict: ChangeVerdict,
    /// The totals of both sides.
    pub totals: SideTotals,
    /// The clusters of both sides, sorted by name.
    pub clusters: Vec<PageCluster>,
    /// What is requested of each cluster and free in it, by cluster and resource.
    pub capacity: CapacityChanges,
    /// The lists of clusters that `before` and `after` of objects name.
    pub cluster_lists: Vec<Vec<PagePlaced>>,
    /// The objects that are placed, or should be, on either side, sorted by object.
    pub objects: Vec<PageObject<'a>>,
    /// The manifests that differ. Clusters with the same change are in one entry.
    pub changes: &'a [ObjectChange],
    /// The edits of the repo, those with the most effects first.
    pub causes: &'a [ChangeCause],
    /// The settings that differ and act on more than what is rendered.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub settings: &'a [SettingChange],
    /// What a scenario does besides changing placements; left out of other pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<PageScenario<'a>>,
    /// What the loss of each unit does; left out of pages about something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<PageLosses<'a>>,
    /// The deletions by which publishing the later side exceeds the limit; left out if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_guard: Option<&'a ExcessiveDeletions>,
    /// Errors and warnings; of a comparison, those of the later side only.
    pub findings: &'a [FindingRow],
    /// Errors and warnings of the earlier side only.
    pub resolved: &'a [FindingRow],
    /// How objects of the later side are decided. Of many objects, only those that differ have one.
    pub explanations: Vec<PageExplanation>,
}

/// What a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageMode {
    /// One plan.
    Plan,
    /// The difference between two revisions.
    Diff,
    /// The effect of a scenario.
    Whatif,
}

/// What a scenario does besides changing placements.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageScenario<'a> {
    /// The numbers of the clusters that run nothing.
    pub lost: Vec<usize>,
    /// What happens when.
    pub timeline: &'a [TimelineStage],
    /// Numbers of replicas.
    pub replicas: ReplicaTotals,
    /// Objects that lose or gain replicas, the worst first.
    pub losses: Vec<&'a ReplicaLoss>,
    /// The tightest resource of each cluster at the end, the tightest first.
    pub capacity: &'a [FreeResource],
    /// Why nothing moves, if nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmoved: Option<&'a UnmovedScenario>,
}

/// What the loss of each cluster, zone, region or provider does.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageLosses<'a> {
    /// What is lost: `cluster`, `zone`, `region` or `provider`.
    pub each: &'static str,
    /// Whether two of them are lost together.
    pub pairs: bool,
    /// One row per unit, the worst first.
    pub rows: Vec<PageUnitLoss<'a>>,
    /// Why nothing moves, if nothing moves whatever is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmoved: Option<&'a UnmovedScenario>,
}

/// What the loss of one unit does. Objects without a part in it stay as they are, but for the clusters that are lost.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageUnitLoss<'a> {
    /// The cluster, zone, region or provider that is lost.
    pub lose: &'a str,
    /// The numbers of its clusters in `clusters`.
    pub clusters: Vec<usize>,
    /// Numbers of replicas.
    pub replicas: ReplicaTotals,
    /// The numbers in `objects` of those that no longer run in any cluster.
    pub nowhere: Vec<usize>,
    /// The numbers in `objects` of those that become unschedulable.
    pub unschedulable: Vec<usize>,
    /// The objects that are placed otherwise.
    pub placements: Vec<PageMove>,
    /// The tightest resource of the remaining clusters, if their free resources are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tightest: Option<&'a FreeResource>,
}

/// Where an object goes, as `[number in objects, number in clusterLists]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageMove(pub usize, pub usize);

/// A cluster of either side.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageCluster {
    /// The cluster, as it is on the later side if that has it.
    #[serde(flatten)]
    pub row: ClusterRow,
    /// Whether both sides have it, or only one.
    pub presence: ClusterPresence,
}

/// Which sides have a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClusterPresence {
    /// Both, or the only one.
    Stays,
    /// The later one.
    Joins,
    /// The earlier one.
    Leaves,
}

/// A cluster of a list, as `[index in clusters, replicas]`; the replicas are `null` where an object has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct PagePlaced(pub usize, pub Option<i64>);

/// An object on both sides.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageObject<'a> {
    /// The object.
    pub object: &'a ObjectRef,
    /// The policies that decide on each side.
    #[serde(skip_serializing_if = "is_empty_pair")]
    pub policy: Pair<&'a ObjectRef>,
    /// Where it is on the earlier side, by the number of a list; left out if that side does not have the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// Where it is on the later side, by the number of a list; left out if that side does not have the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// What happens to it, the worst first.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub flags: BTreeSet<VerdictFlag>,
    /// The reason why it cannot be scheduled, on each side.
    #[serde(skip_serializing_if = "is_empty_pair")]
    pub unschedulable: Pair<&'a Unschedulable>,
    /// The policy that it has lost; left out if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_policy: Option<&'a LostPolicy>,
    /// The replicas that the repo asks for on each side; left out where objects have none or are not divided.
    #[serde(skip_serializing_if = "is_empty_pair")]
    pub wanted: Pair<i64>,
    /// The objects that need it where they are, by their numbers in `objects`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<usize>,
    /// The clusters to which nothing new is sent for now, by their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspended: Vec<usize>,
    /// What changes about it, by the numbers in `changes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<usize>,
    /// The edits that place it otherwise, by their numbers in `causes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caused_by: Vec<usize>,
}

fn is_empty_pair<T>(pair: &Pair<T>) -> bool {
    pair.from.is_none() && pair.to.is_none()
}

/// How an object is decided.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageExplanation {
    /// The number of the object in `objects`.
    pub object: usize,
    /// The place of its template, as `file:line`.
    pub origin: String,
    /// How the policy was chosen, and which others matched, one sentence each.
    pub policy: Vec<String>,
    /// The steps of the computation, one line each.
    pub steps: Vec<String>,
    /// The verdicts on the clusters, equal ones together.
    pub clusters: Vec<ClusterVerdicts>,
    /// What override policies change.
    pub overrides: Vec<PageOverride>,
}

/// The verdict on some clusters.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVerdicts {
    /// The numbers of the clusters in `clusters`.
    pub clusters: Vec<usize>,
    /// Whether the object is placed there.
    pub chosen: bool,
    /// The filter that refused them, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<&'static str>,
    /// Why, in a sentence; empty if there is nothing to say.
    pub why: String,
}

/// What an override policy changes in some clusters.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageOverride {
    /// The override policy, with its place.
    pub policy: String,
    /// The numbers of the clusters in `clusters`.
    pub clusters: Vec<usize>,
    /// The fields that it changes.
    pub fields: Vec<String>,
}

/// One side of a page.
#[derive(Clone, Copy)]
pub struct PageSide<'a> {
    /// The plan, with the replicas that manifests have.
    pub plan: &'a Plan,
    /// The replicas that templates ask for, where policies divide them.
    pub wanted: &'a BTreeMap<ObjectRef, i64>,
}

impl<'a> PageDocument<'a> {
    /// The page of a comparison. `before` and `after` are the plans of its sides.
    pub fn from_diff(diff: &'a Diff<'a>, before: PageSide<'a>, after: PageSide<'a>) -> Self {
        let changes = diff.changes;
        let mut page = Self::new(PageMode::Diff, diff.to, &diff.inventory, changes);
        page.from = Some(diff.from);
        page.verdict = diff.verdict.clone();
        page.capacity = diff.capacity.clone();
        page.deletion_guard = diff.deletion_guard.as_ref();
        page.findings = &diff.findings;
        page.resolved = &diff.resolved;
        page.add_objects(Some(before), after);
        page.add_changes(changes);
        page
    }

    /// The page of a scenario: a comparison of placements, without manifests. `lost` are the clusters that run nothing at
    /// the end.
    pub fn from_scenario(
        diff: &'a Diff<'a>,
        sides: [PageSide<'a>; 2],
        effect: &WhatIf<'a>,
        lost: &BTreeSet<ClusterName>,
    ) -> Self {
        let [before, after] = sides;
        let mut page = Self { mode: PageMode::Whatif, ..Self::from_diff(diff, before, after) };
        // What stays on a cluster that is lost runs nowhere, although nothing moves.
        for loss in effect.losses.iter().filter(|loss| loss.nowhere) {
            if let Some(object) = find_object(&mut page.objects, &loss.object)
                && object.flags.insert(VerdictFlag::RunsNowhere)
            {
                page.verdict.add_object(&loss.object, VerdictFlag::RunsNowhere);
            }
        }
        page.scenario = Some(PageScenario {
            lost: lost.iter().filter_map(|name| page.cluster_number(name)).collect(),
            timeline: effect.timeline,
            replicas: effect.replicas,
            losses: effect.losses.clone(),
            capacity: effect.capacity,
            unmoved: effect.unmoved,
        });
        page
    }

    /// The page of a plan. `none` are changes without any, with the totals of the plan on both sides.
    pub fn from_plan(
        name: &'a str,
        inventory: &[ClusterRow],
        none: &'a RenderingChanges,
        plan: PageSide<'a>,
        findings: &'a [FindingRow],
    ) -> Self {
        let mut page = Self::new(PageMode::Plan, name, inventory, none);
        page.findings = findings;
        page.add_objects(None, plan);
        page.verdict = page.judge_plan();
        page
    }

    /// What matters about a plan: the objects that run nowhere, and those for which there is not enough room.
    fn judge_plan(&mut self) -> ChangeVerdict {
        let mut verdict = ChangeVerdict::default();
        for object in &mut self.objects {
            let clusters = object.after.and_then(|at| self.cluster_lists.get(at));
            let flag = match (clusters.is_none_or(Vec::is_empty), object.unschedulable.to) {
                (true, _) => VerdictFlag::RunsNowhere,
                (false, Some(_)) => VerdictFlag::DoesNotFit,
                (false, None) => continue,
            };
            object.flags.insert(flag);
            verdict.add_object(object.object, flag);
        }
        let placed = format_count(self.totals.to.placed, "object");
        let clusters = format_count(self.totals.to.clusters, "cluster");
        let nowhere = match verdict.counts.runs_nowhere {
            0 => String::new(),
            1 => ", 1 runs nowhere".to_owned(),
            number => format!(", {number} run nowhere"),
        };
        let unfit = match verdict.counts.does_not_fit {
            0 => String::new(),
            1 => ", 1 does not fit".to_owned(),
            number => format!(", {number} do not fit"),
        };
        let verb = if self.totals.to.placed == 1 { "is" } else { "are" };
        verdict.sentence = format!("{placed} {verb} placed on {clusters}{nowhere}{unfit}.");
        verdict
    }

    fn new(mode: PageMode, to: &'a str, inventory: &[ClusterRow], changes: &'a RenderingChanges) -> Self {
        let mut clusters = Vec::new();
        for row in inventory {
            let presence = if changes.clusters.added.iter().any(|name| **name == *row.name) {
                ClusterPresence::Joins
            } else if changes.clusters.removed.iter().any(|name| **name == *row.name) {
                ClusterPresence::Leaves
            } else {
                ClusterPresence::Stays
            };
            clusters.push(PageCluster { row: row.clone(), presence });
        }
        Self {
            api_version: API_VERSION,
            kind: "Page",
            mode,
            from: None,
            to,
            verdict: ChangeVerdict::default(),
            totals: changes.totals,
            clusters,
            capacity: CapacityChanges::new(),
            cluster_lists: Vec::new(),
            objects: Vec::new(),
            changes: &changes.objects,
            causes: &changes.causes,
            settings: &changes.settings,
            scenario: None,
            losses: None,
            deletion_guard: None,
            findings: &[],
            resolved: &[],
            explanations: Vec::new(),
        }
    }

    fn add_objects(&mut self, before: Option<PageSide<'a>>, after: PageSide<'a>) {
        let mut rows: BTreeMap<&'a ObjectRef, [Option<&'a Placement>; 2]> = BTreeMap::new();
        for (at, side) in [before, Some(after)].into_iter().enumerate() {
            for row in side.iter().flat_map(|side| &side.plan.placements) {
                rows.entry(&row.object).or_default()[at] = Some(row);
            }
            for object in side.iter().flat_map(|side| &side.plan.unmatched) {
                rows.entry(object).or_default();
            }
        }
        let numbers: HashMap<&ObjectRef, usize> =
            rows.keys().enumerate().map(|(at, object)| (*object, at)).collect();
        let mut lists = ClusterLists::new(&self.clusters, Vec::new());
        for (object, [old, new]) in &rows {
            let row = new.or(*old);
            self.objects.push(PageObject {
                object,
                policy: Pair {
                    from: old.and_then(|row| row.policy.as_ref()),
                    to: new.and_then(|row| row.policy.as_ref()),
                },
                before: old.map(|row| lists.assign_shared_number(&row.clusters)),
                after: new.map(|row| lists.assign_shared_number(&row.clusters)),
                flags: BTreeSet::new(),
                unschedulable: Pair {
                    from: old.and_then(|row| row.unschedulable.as_ref()),
                    to: new.and_then(|row| row.unschedulable.as_ref()),
                },
                lost_policy: None,
                wanted: Pair {
                    from: before.and_then(|side| side.wanted.get(*object).copied()),
                    to: after.wanted.get(*object).copied(),
                },
                follows: row
                    .iter()
                    .flat_map(|row| &row.required_by)
                    .filter_map(|by| numbers.get(by).copied())
                    .collect(),
                suspended: row
                    .iter()
                    .flat_map(|row| &row.suspended)
                    .filter_map(|name| lists.clusters.get(&**name).copied())
                    .collect(),
                changes: Vec::new(),
                caused_by: Vec::new(),
            });
        }
        self.cluster_lists = lists.into_lists();
    }

    fn add_changes(&mut self, changes: &'a RenderingChanges) {
        for one in &self.verdict.objects {
            if let Some(object) = find_object(&mut self.objects, &one.object) {
                object.flags.clone_from(&one.flags);
            }
        }
        for change in &changes.placements {
            if let Some(object) = find_object(&mut self.objects, &change.object) {
                object.caused_by.clone_from(&change.caused_by);
            }
        }
        for lost in &changes.lost_policies {
            if let Some(object) = find_object(&mut self.objects, &lost.object) {
                object.lost_policy = Some(lost);
            }
        }
        for (at, change) in changes.objects.iter().enumerate() {
            if let Some(object) = find_object(&mut self.objects, &change.object) {
                object.changes.push(at);
            }
        }
    }

    /// The objects that deserve an explanation: all of a small page, and of a large one those that differ or run nowhere.
    pub fn objects_to_explain(&self) -> Vec<&'a ObjectRef> {
        const MAX_EXPLAINED_OBJECTS: usize = 500;
        let all = self.objects.len() <= MAX_EXPLAINED_OBJECTS;
        let chosen = self
            .objects
            .iter()
            .filter(|object| all || !object.flags.is_empty() || !is_empty_pair(&object.unschedulable));
        chosen.take(4 * MAX_EXPLAINED_OBJECTS).map(|object| object.object).collect()
    }

    /// The number of an object in the page.
    pub(super) fn object_number(&self, object: &ObjectRef) -> Option<usize> {
        self.objects.binary_search_by(|one| one.object.cmp(object)).ok()
    }

    /// The number of a cluster in the page.
    pub(super) fn cluster_number(&self, name: &str) -> Option<usize> {
        self.clusters.binary_search_by(|cluster| (*cluster.row.name).cmp(name)).ok()
    }

    /// Adds the explanation of an object.
    pub fn add_explanation(&mut self, object: &ObjectRef, explained: &ExplainedObject) {
        let Some(at) = self.object_number(object) else { return };
        let mut verdicts: BTreeMap<(bool, Option<&'static str>, &str), Vec<usize>> = BTreeMap::new();
        for row in &explained.explanation.clusters {
            if let Some(at) = self.cluster_number(&row.cluster) {
                verdicts.entry((!row.chosen, row.refused_by, &row.why)).or_default().push(at);
            }
        }
        let clusters = verdicts
            .into_iter()
            .map(|((left_out, refused_by, why), clusters)| ClusterVerdicts {
                clusters,
                chosen: !left_out,
                refused_by,
                why: why.to_owned(),
            })
            .collect();
        let overrides = explained.manifests.iter().flat_map(|changed| {
            let clusters: Vec<usize> =
                changed.clusters.iter().filter_map(|name| self.cluster_number(name)).collect();
            changed.overrides.iter().zip(&changed.fields).map(move |(one, fields)| PageOverride {
                policy: format!("{} ({})", one.policy, one.origin),
                clusters: clusters.clone(),
                fields: fields.clone(),
            })
        });
        self.explanations.push(PageExplanation {
            object: at,
            origin: explained.origin.clone(),
            policy: explained.explanation.policy.clone(),
            steps: explained.explanation.steps.clone(),
            clusters,
            overrides: overrides.collect(),
        });
    }
}

fn find_object<'p, 'a>(objects: &'p mut [PageObject<'a>], id: &ObjectRef) -> Option<&'p mut PageObject<'a>> {
    let at = objects.binary_search_by(|one| one.object.cmp(id)).ok()?;
    objects.get_mut(at)
}

/// Numbers lists of clusters: equal lists have one number.
pub(super) struct ClusterLists {
    clusters: HashMap<String, usize>,
    numbers: HashMap<Vec<PagePlaced>, usize>,
    addresses: HashMap<usize, usize>,
    lists: Vec<Vec<PagePlaced>>,
}

impl ClusterLists {
    /// The numbers of lists that have one, by their order.
    pub(super) fn new(clusters: &[PageCluster], lists: Vec<Vec<PagePlaced>>) -> Self {
        let clusters = clusters.iter().enumerate().map(|(at, one)| (one.row.name.clone(), at)).collect();
        let numbers = lists.iter().cloned().zip(0..).collect();
        Self { clusters, numbers, addresses: HashMap::new(), lists }
    }

    /// The lists, by their numbers.
    pub(super) fn into_lists(self) -> Vec<Vec<PagePlaced>> {
        self.lists
    }

    /// The number of a list that is kept as long as the page: plans share lists.
    fn assign_shared_number(&mut self, list: &PlacedClusters) -> usize {
        let address = if list.is_empty() { 0 } else { list.list_address() };
        if let Some(number) = self.addresses.get(&address) {
            return *number;
        }
        let number = self.assign_number(list);
        self.addresses.insert(address, number);
        number
    }

    /// The number of a list. Clusters that are in no inventory are left out.
    pub(super) fn assign_number(&mut self, list: &PlacedClusters) -> usize {
        let placed =
            list.iter().filter_map(|one| Some(PagePlaced(*self.clusters.get(&*one.name)?, one.replicas)));
        let placed: Vec<PagePlaced> = placed.collect();
        *self.numbers.entry(placed).or_insert_with_key(|placed| {
            self.lists.push(placed.clone());
            self.lists.len() - 1
        })
    }
}
