//! Which of the reasons of a difference lead to it.
//!
//! Many rules of an object are unequal, and few of them matter in one state. Reasons are tried one by one: both sides are decided
//! again without what the reason stands for, such as taints, free resources, earlier placements, or fields of a policy. A reason
//! without which the difference is gone suffices, and stands alone. One without which everything differs as before is left out. What
//! cannot be taken away stays.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::import::{ImportEdit, apply_edits};
use federate_engine::{Rendering, TOO_MUCH_WORK, map_charged};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Capacity, Cluster, Liveness, Origin, work};
use federate_repo::Repo;
use federate_session::Session;
use serde_json::Value;

use super::comparison::compare_pair;
use super::content::RenderingIndex;
use super::{ObjectDifference, ObjectPair, ProofSides};
use crate::{Reason, UnequalRule};

/// Reasons, and what is taken away to try them.
struct Trial {
    reasons: &'static [Reason],
    removal: Removal,
}

/// What is taken away.
#[derive(Clone, Copy)]
enum Removal {
    /// The fields of the rules, from the policies of the old side.
    Fields,
    /// Earlier placements, and what was observed.
    Memory,
    /// What distinguishes the free resources of clusters, and the pods that were observed.
    Resources,
    /// Taints, and the conditions of clusters that are not ready.
    Conditions,
}

/// If several reasons suffice, the first one counts: what a policy says comes before what is so in all clusters.
const TRIALS: [Trial; 6] = [
    Trial { reasons: &[Reason::MinMax], removal: Removal::Fields },
    Trial { reasons: &[Reason::TopologySpread], removal: Removal::Fields },
    Trial { reasons: &[Reason::AutoMigration], removal: Removal::Fields },
    Trial {
        reasons: &[Reason::Sticky, Reason::AvoidDisruption, Reason::DisableRescheduling],
        removal: Removal::Memory,
    },
    Trial { reasons: &[Reason::DynamicWeights, Reason::Capacity], removal: Removal::Resources },
    Trial { reasons: &[Reason::Readiness], removal: Removal::Conditions },
];

/// What came of a trial for an object.
struct Outcome {
    trial: &'static Trial,
    /// For each difference, whether it is gone and nothing else differs that did not before; `None` if all is as before.
    gone: Option<Vec<bool>>,
}

/// An object with differences that have several reasons.
pub(super) struct UnclearObject<'p> {
    pub(super) pair: &'p ObjectPair<'p>,
    pub(super) differences: &'p mut Vec<ObjectDifference>,
}

/// The policies of the old side, by where they stand.
type Policies<'s> = BTreeMap<&'s Origin, &'s Value>;

/// Leaves of the reasons of each difference those that lead to it.
pub(super) fn narrow_reasons(sides: ProofSides<'_>, objects: &mut [UnclearObject<'_>]) {
    let claimed = sides.old.repo().claimed.iter();
    let policies: Policies<'_> =
        claimed.map(|claimed| (&claimed.object.origin, &claimed.object.body)).collect();
    let mut outcomes: Vec<Vec<Outcome>> = objects.iter().map(|_| Vec::new()).collect();
    for trial in &TRIALS {
        let concerned = objects.iter().zip(&mut outcomes).filter(|(one, _)| trial.concerns(one, &policies));
        let (concerned, outcomes): (Vec<&UnclearObject<'_>>, Vec<_>) = concerned.unzip();
        let Some(gone) = trial.run(sides, &concerned) else { continue };
        for (outcomes, gone) in outcomes.into_iter().zip(gone) {
            outcomes.push(Outcome { trial, gone });
        }
    }
    for (one, outcomes) in objects.iter_mut().zip(&outcomes) {
        for (at, difference) in one.differences.iter_mut().enumerate() {
            narrow_difference(difference, at, outcomes);
        }
    }
}

/// Narrows the reasons of the difference with this number.
fn narrow_difference(difference: &mut ObjectDifference, at: usize, outcomes: &[Outcome]) {
    let suffices = |outcome: &&Outcome| outcome.gone.as_ref().is_some_and(|gone| gone.get(at) == Some(&true));
    let mut sufficient = outcomes.iter().filter(suffices).flat_map(|outcome| outcome.trial.reasons);
    if let Some(reason) = sufficient.find(|reason| difference.reasons.contains(reason)) {
        difference.reasons = vec![*reason];
        return;
    }
    let without_effect = outcomes.iter().filter(|outcome| outcome.gone.is_none());
    let without_effect: BTreeSet<Reason> =
        without_effect.flat_map(|outcome| outcome.trial.reasons).copied().collect();
    let mut left = difference.reasons.clone();
    left.retain(|reason| {
        let is_impossible = *reason == Reason::ZeroWeight && !difference.has_empty_share;
        !is_impossible && !without_effect.contains(reason)
    });
    if !left.is_empty() {
        difference.reasons = left;
    }
}

impl Trial {
    /// Whether it can be made for an object: it has such a reason, and what is taken away are no fields, or fields of policies.
    fn concerns(&self, object: &UnclearObject<'_>, policies: &Policies<'_>) -> bool {
        let mut unclear = object.differences.iter().filter(|difference| difference.reasons.len() > 1);
        let mut fields = self.find_rules(object.pair);
        unclear.any(|difference| self.reasons.iter().any(|reason| difference.reasons.contains(reason)))
            && (!matches!(self.removal, Removal::Fields) || fields.all(|rule| names_field(rule, policies)))
    }

    /// The rules of an object that have such a reason.
    fn find_rules<'p>(&self, pair: &'p ObjectPair<'_>) -> impl Iterator<Item = &'p UnequalRule> {
        pair.unequal_rules().iter().filter(|rule| self.reasons.contains(&rule.reason))
    }

    /// Which differences of objects are gone without what is taken away. `None` if that is too much work to know.
    fn run(&self, sides: ProofSides<'_>, concerned: &[&UnclearObject<'_>]) -> Option<Vec<Option<Vec<bool>>>> {
        let unchanged = || Some(concerned.iter().map(|_| None).collect());
        if concerned.is_empty() {
            return unchanged();
        }
        let rules = concerned.iter().flat_map(|one| self.find_rules(one.pair)).collect();
        let [old, new] = self.render_sides(sides, rules);
        if old.is_none() && new.is_none() {
            return unchanged();
        }
        let findings = [&old, &new].into_iter().flatten().flat_map(|rendering| &rendering.findings);
        if work::is_exceeded() || findings.into_iter().any(|finding| finding.code == TOO_MUCH_WORK) {
            return None;
        }
        let indexes = [(&old, sides.old), (&new, sides.new)].map(|(rendering, side)| {
            RenderingIndex::new(rendering.as_ref().unwrap_or_else(|| side.render()))
        });
        let gone = map_charged(concerned, |one| {
            let after = compare_pair(one.pair, &indexes, sides.rules());
            let before = &*one.differences;
            let is_same = after.len() == before.len()
                && after.iter().zip(before).all(|(after, before)| after.is_same(before));
            // What differs in another way now is not explained.
            let is_new = |after: &ObjectDifference| !before.iter().any(|before| after.is_same(before));
            let has_new = after.iter().any(is_new);
            let is_gone =
                |before: &ObjectDifference| !has_new && !after.iter().any(|after| after.is_same(before));
            (!is_same).then(|| before.iter().map(is_gone).collect())
        });
        (!work::is_exceeded()).then_some(gone)
    }

    /// The sides without what is taken away; `None` for one that stays as it is.
    fn render_sides(&self, sides: ProofSides<'_>, rules: Vec<&UnequalRule>) -> [Option<Rendering>; 2] {
        if let Removal::Fields = self.removal {
            let repo = remove_fields(sides.old.repo(), rules);
            return [Some(sides.old.render_state(&repo, sides.old.clusters(), true)), None];
        }
        [sides.old, sides.new].map(|side| self.render_without(side))
    }

    /// A side without what is taken away from both; `None` if it has nothing of that.
    fn render_without(&self, side: &Session) -> Option<Rendering> {
        let mut clusters = side.clusters().to_vec();
        match self.removal {
            Removal::Resources => equalize_resources(&mut clusters),
            Removal::Conditions => clusters.iter_mut().for_each(remove_conditions),
            Removal::Fields | Removal::Memory => {}
        }
        let forgets = matches!(self.removal, Removal::Memory | Removal::Resources) && side.has_memory();
        (forgets || clusters != side.clusters()).then(|| side.render_state(side.repo(), &clusters, !forgets))
    }
}

/// Whether a rule is a field of a policy.
fn names_field(rule: &UnequalRule, policies: &Policies<'_>) -> bool {
    let policy = rule.origin.as_ref().and_then(|origin| policies.get(origin));
    !rule.pointer.is_empty() && policy.is_some_and(|policy| policy.pointer(&rule.pointer).is_some())
}

/// The repo without the fields of these rules.
fn remove_fields(repo: &Repo, rules: Vec<&UnequalRule>) -> Repo {
    let mut edits: BTreeMap<&Origin, BTreeSet<&str>> = BTreeMap::new();
    for rule in rules {
        if let Some(origin) = &rule.origin {
            edits.entry(origin).or_default().insert(&rule.pointer);
        }
    }
    let mut repo = repo.clone();
    for claimed in &mut repo.claimed {
        // The last item of a list goes first.
        for pointer in edits.get(&claimed.object.origin).into_iter().flatten().rev() {
            let edit = ImportEdit { pointer: (*pointer).to_owned(), value: None };
            apply_edits(&[edit], &mut claimed.object.body);
        }
    }
    repo
}

/// Gives all clusters the free resources of the one that has the most of each. Without any, rules that count them place nothing.
fn equalize_resources(clusters: &mut [Cluster]) {
    let mut most: BTreeMap<String, Quantity> = BTreeMap::new();
    let capacities = clusters.iter().filter_map(|cluster| cluster.capacity.as_ref());
    for (name, quantity) in capacities.flat_map(|capacity| &capacity.available) {
        let known = most.entry(name.clone()).or_insert(*quantity);
        *known = (*known).max(*quantity);
    }
    for capacity in clusters.iter_mut().filter_map(|cluster| cluster.capacity.as_mut()) {
        let (total, allocatable, available) = (most.clone(), most.clone(), most.clone());
        *capacity = Capacity { total, allocatable, available, shapes: None };
    }
}

fn remove_conditions(cluster: &mut Cluster) {
    cluster.taints.clear();
    (cluster.joined, cluster.ready, cluster.deleting) = (true, true, false);
    (cluster.unready_condition, cluster.liveness) = (None, Liveness::default());
}
