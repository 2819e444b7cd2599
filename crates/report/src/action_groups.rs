//! Groups of actions: the same change of an object in several clusters is said once.

use std::collections::{BTreeMap, BTreeSet};

use federate_reconcile::{Action, ActionKind, ActionOutcome};

/// The same action in several clusters.
pub(super) struct ActionGroup<'a> {
    /// The first of the actions, which are equal but for clusters and times.
    pub(super) first: &'a Action,
    /// All of them, in the order of their clusters.
    pub(super) actions: Vec<&'a Action>,
}

/// What is equal in the actions of a group.
type GroupKey<'a> = (
    &'a str,
    &'a str,
    Option<&'a str>,
    &'a str,
    (ActionKind, bool),
    Option<String>,
    Vec<(&'a str, String, String, Option<&'a str>)>,
);

impl<'a> ActionGroup<'a> {
    /// The groups of a run, in the order of their first actions.
    pub(super) fn group_actions(actions: impl IntoIterator<Item = &'a Action>) -> Vec<Self> {
        let mut places: BTreeMap<GroupKey<'a>, usize> = BTreeMap::new();
        let mut groups: Vec<Self> = Vec::new();
        for action in actions {
            let place = *places.entry(group_key(action)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.actions.push(action),
                None => groups.push(Self { first: action, actions: vec![action] }),
            }
        }
        groups
    }

    /// The names of the clusters.
    pub(super) fn cluster_names(&self) -> Vec<&'a str> {
        self.actions.iter().map(|action| action.cluster.as_ref()).collect()
    }

    /// The times of a difference, the first and the last.
    pub(super) fn time_range(&self, place: usize) -> Option<(&'a str, &'a str)> {
        let times = self.actions.iter().filter_map(|action| action.diffs.get(place)?.time.as_deref());
        let times: BTreeSet<&str> = times.collect();
        Some((times.first()?, times.last()?))
    }
}

fn group_key(action: &Action) -> GroupKey<'_> {
    let diffs = action.diffs.iter().map(|diff| {
        let [desired, live] = [&diff.desired, &diff.live]
            .map(|value| value.as_ref().map(ToString::to_string).unwrap_or_default());
        (diff.path.as_str(), desired, live, diff.manager.as_deref())
    });
    let object = &action.object;
    (
        &object.api_version,
        &object.kind,
        object.namespace.as_deref(),
        &object.name,
        (action.action, action.restarts_pods),
        describe_outcome(action),
        diffs.collect(),
    )
}

/// The reason, the error, or the outcome of an action.
pub(super) fn describe_outcome(action: &Action) -> Option<String> {
    match action.outcome {
        ActionOutcome::Failed => Some(format!("failed: {}", action.error.as_deref().unwrap_or_default())),
        ActionOutcome::NotTried if !matches!(action.action, ActionKind::Conflict | ActionKind::Skip) => {
            Some(format!("not tried: {}", action.reason.as_deref().unwrap_or_default()))
        }
        _ => action.reason.clone(),
    }
}
