//! The errors of a run: those of clusters as a whole, and those of objects, of which several may have the same.

use std::collections::BTreeMap;

use federate_kubernetes::{ClusterName, ObjectRef};

use super::{Action, ActionKind, ActionOutcome, Actions};

/// The largest number of objects that are listed one by one although the same is said about them.
pub const MAX_SINGLE_OBJECTS: usize = 3;
/// How many of many objects are named.
const MAX_NAMES: usize = 2;

/// An error in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterError {
    /// The cluster.
    pub cluster: ClusterName,
    /// Why, with the objects if it is not about the cluster as a whole.
    pub message: String,
    /// The id of the other `ApplySet` that the objects belong to, if that is why.
    pub other_apply_set: Option<String>,
}

/// Several objects, as their number and the first names.
pub fn summarize_objects<'o>(objects: impl ExactSizeIterator<Item = &'o ObjectRef>) -> String {
    let count = objects.len();
    let names: Vec<String> = objects.take(MAX_NAMES).map(ToString::to_string).collect();
    format!("{count} objects ({}, …)", names.join(", "))
}

impl Actions {
    /// The errors, those of whole clusters first; several objects of a cluster that failed in the same way share one.
    /// Actions that were not tried are errors only if `everything` was to be done.
    pub fn list_errors(&self, everything: bool) -> Vec<ClusterError> {
        let whole: BTreeMap<&ClusterName, &str> = self
            .clusters
            .iter()
            .filter_map(|cluster| Some((&cluster.name, cluster.error.as_deref()?)))
            .collect();
        let mut errors: Vec<ClusterError> = self
            .clusters
            .iter()
            .filter_map(|cluster| {
                let message = cluster.error.clone()?;
                Some(ClusterError { cluster: cluster.name.clone(), message, other_apply_set: None })
            })
            .collect();
        // What was not tried comes after what it was not tried for.
        let mut alike: BTreeMap<(&ClusterName, bool, &str), Vec<&Action>> = BTreeMap::new();
        for action in &self.actions {
            if let Some(why) =
                action.find_error(everything).filter(|why| whole.get(&action.cluster) != Some(why))
            {
                let is_untried = action.outcome == ActionOutcome::NotTried;
                alike.entry((&action.cluster, is_untried, why)).or_default().push(action);
            }
        }
        for ((cluster, _, why), actions) in alike {
            let objects = actions.iter().map(|action| &action.object);
            let objects = if actions.len() > MAX_SINGLE_OBJECTS {
                vec![summarize_objects(objects)]
            } else {
                objects.map(ToString::to_string).collect()
            };
            let set = actions.iter().find_map(|action| action.other_apply_set.clone());
            errors.extend(objects.into_iter().map(|objects| ClusterError {
                cluster: cluster.clone(),
                message: format!("{objects}: {why}"),
                other_apply_set: set.clone(),
            }));
        }
        errors
    }

    /// The first error of each cluster that has one.
    pub fn cluster_errors(&self, everything: bool) -> BTreeMap<ClusterName, ClusterError> {
        let mut first = BTreeMap::new();
        for error in self.list_errors(everything) {
            first.entry(error.cluster.clone()).or_insert(error);
        }
        first
    }
}

impl Action {
    /// Why it is an error; `None` if it is none.
    fn find_error(&self, everything: bool) -> Option<&str> {
        match self.outcome {
            ActionOutcome::Failed => self.error.as_deref(),
            // An object that was not adopted, but is as rendered, is not an error.
            ActionOutcome::NotTried if self.action == ActionKind::Conflict && self.diffs.is_empty() => None,
            ActionOutcome::NotTried if everything => self.reason.as_deref(),
            _ => None,
        }
    }
}
