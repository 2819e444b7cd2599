//! Objects that lose the policy that placed them, although they are still in the repo. Most control planes remove them from
//! their clusters; some leave them there, so that nothing in the manifests tells that only their memory places them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::causes::RevisionSide;
use crate::Engine;
use crate::selector_mismatches::{SelectorMismatch, find_mismatches};
use federate_dialect::Placement;
use federate_dialect::references::TemplateSelector;
use federate_kubernetes::{ClusterName, Object, ObjectRef, finding, work};
use federate_repo::{ClaimedObject, Template};

/// The comparisons of objects with the selectors of policies that placed them.
const MAX_COMPARISONS: usize = 500_000;

/// How many things are named that a policy asks for and an object does not have.
const MAX_MISMATCHES: usize = 3;

/// An object of the repo whose policy does not select it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostPolicy {
    /// The object.
    pub object: ObjectRef,
    /// The policy that placed it on the earlier side.
    pub policy: ObjectRef,
    /// Why it does not any more, as a sentence.
    pub why: String,
    /// The clusters where the control plane leaves the object anyway; left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub stays_on: Vec<ClusterName>,
}

/// The objects that lose their policies, sorted by object.
pub fn find_lost_policies(from: &RevisionSide<'_>, to: &RevisionSide<'_>) -> Vec<LostPolicy> {
    let claimed = [from, to].map(index_claimed);
    let unchanged = claimed[0].iter().filter(|(id, before)| {
        claimed[1].get(*id).is_some_and(|after| after.object.body == before.object.body)
    });
    let unchanged = unchanged.map(|(id, _)| *id).collect();
    let comparison = PolicyComparison { sides: [from, to], claimed, unchanged };
    let rows = from.plan.placements.iter();
    let lost: Vec<LostBinding<'_>> = rows.filter_map(|row| comparison.find_loss(row)).collect();
    let max_selectors = (MAX_COMPARISONS / lost.len().max(1)).max(100);
    let mut selectors: BTreeMap<&ObjectRef, Vec<TemplateSelector>> = BTreeMap::new();
    for binding in &lost {
        if let Some(claimed) = binding.claimed {
            selectors
                .entry(binding.policy)
                .or_insert_with(|| list_selectors(to.engine, claimed, max_selectors));
        }
    }
    let explained = lost.iter().filter_map(|binding| {
        let selectors = selectors.get(binding.policy).map(Vec::as_slice).unwrap_or_default();
        Some(LostPolicy {
            object: binding.template.id.clone(),
            policy: binding.policy.clone(),
            why: binding.explain(to.engine, selectors)?,
            stays_on: binding
                .row
                .iter()
                .flat_map(|row| &row.clusters)
                .map(|placed| placed.name.clone())
                .collect(),
        })
    });
    explained.collect()
}

/// The objects of a repo that belong to control planes, by their names.
fn index_claimed<'e>(side: &RevisionSide<'e>) -> BTreeMap<&'e ObjectRef, &'e ClaimedObject> {
    side.engine.repo.claimed.iter().map(|claimed| (&claimed.object.id, claimed)).collect()
}

/// The selectors of a policy.
fn list_selectors(engine: &Engine<'_>, policy: &ClaimedObject, most: usize) -> Vec<TemplateSelector> {
    let dialect = engine.dialects.get(policy.dialect);
    let found = dialect.map(|dialect| dialect.advice().find_references(&policy.object).selectors);
    let mut found = found.unwrap_or_default();
    found.truncate(most);
    found
}

/// The policies of both sides.
struct PolicyComparison<'a> {
    sides: [&'a RevisionSide<'a>; 2],
    claimed: [BTreeMap<&'a ObjectRef, &'a ClaimedObject>; 2],
    /// Those that are the same on both sides.
    unchanged: BTreeSet<&'a ObjectRef>,
}

/// An object, and the policy that it has lost.
struct LostBinding<'a> {
    template: &'a Object,
    /// The policy that placed it.
    policy: &'a ObjectRef,
    /// The policy on the later side, if it is still there.
    claimed: Option<&'a ClaimedObject>,
    /// Where the object is on the later side.
    row: Option<&'a Placement>,
}

impl<'a> PolicyComparison<'a> {
    /// What the object of a row of the earlier plan has lost, if it has lost its policy.
    fn find_loss(&self, before: &'a Placement) -> Option<LostBinding<'a>> {
        let policy = before.policy.as_ref().filter(|_| !before.clusters.is_empty())?;
        let [old, new] = self.sides.map(|side| side.engine.repo.find_template(&before.object));
        let [was_claimed, claimed] = self.claimed.each_ref().map(|claimed| claimed.get(policy).copied());
        let template = &new.filter(|_| was_claimed.is_some())?.object;
        let row = self.sides[1].plan.find_placement(&before.object).filter(|row| !row.is_unmatched());
        let is_same = self.unchanged.contains(policy) && is_same_object(old, template);
        if (row.is_some() && is_same) || !self.is_without_policy(template, row) {
            return None;
        }
        // What was only remembered before is not lost now.
        let was_unclaimed = old.is_some_and(|old| is_unclaimed(self.sides[0], &old.object, before));
        (!was_unclaimed).then_some(LostBinding { template, policy, claimed, row })
    }

    /// Whether no policy of the later side selects a template, given its row there.
    fn is_without_policy(&self, template: &Object, row: Option<&Placement>) -> bool {
        let Some(row) = row else { return true };
        let is_gone = row.policy.as_ref().is_some_and(|policy| !self.claimed[1].contains_key(policy));
        is_gone || is_unclaimed(self.sides[1], template, row)
    }
}

fn is_same_object(template: Option<&Template>, object: &Object) -> bool {
    template.is_some_and(|template| template.object.body == object.body)
}

/// Whether only the memory of the control plane places a template.
fn is_unclaimed(side: &RevisionSide<'_>, template: &Object, row: &Placement) -> bool {
    let planner = side.engine.find_planner(&row.dialect);
    planner.is_some_and(|planner| planner.advice().is_unclaimed(template, row))
}

impl LostBinding<'_> {
    /// Why the policy does not select the object any more; `None` if it does. `selectors` are those of the policy.
    fn explain(&self, engine: &Engine<'_>, selectors: &[TemplateSelector]) -> Option<String> {
        let policy = self.policy;
        let named = self.row.and_then(|row| row.policy.as_ref()).filter(|named| *named != policy);
        if let Some(named) = named {
            return Some(format!("it names {named}, which is not in the repo; {policy} placed it"));
        }
        let Some(claimed) = self.claimed else {
            return Some(format!("{policy}, which placed it, is not in the repo any more"));
        };
        let policy = format!("{policy} ({})", claimed.object.origin);
        if claimed.object.is_deleting() {
            return Some(format!("{policy}, which placed it, is being deleted"));
        }
        work::charge_steps(selectors.len() as u64);
        let mismatches = selectors.iter().map(|selector| find_mismatches(selector, self.template));
        match mismatches.min_by_key(Vec::len) {
            Some(mismatches) if mismatches.is_empty() && self.row.is_none() => None,
            Some(mismatches) if mismatches.is_empty() => {
                Some(format!("{policy}, which placed it, selects it, but does not claim it"))
            }
            Some(mismatches) => {
                Some(format!("{policy}, which placed it, requires {}", describe_mismatches(&mismatches)))
            }
            None => {
                let remedy =
                    engine.dialects.get(claimed.dialect).map(|dialect| dialect.advice().selected_by());
                let remedy = remedy.unwrap_or("select it in a placement policy");
                Some(format!("{policy} placed it: {remedy}"))
            }
        }
    }
}

/// What a policy asks for and an object does not have, in words.
fn describe_mismatches(mismatches: &[SelectorMismatch]) -> String {
    let words: Vec<String> = mismatches
        .iter()
        .map(|SelectorMismatch { what, wanted, has }| match has {
            Some(has) => format!("the {what} `{wanted}`, and it has `{has}`"),
            None => format!("the {what} `{wanted}`, which it does not have"),
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    finding::join_names(&words, MAX_MISMATCHES)
}
