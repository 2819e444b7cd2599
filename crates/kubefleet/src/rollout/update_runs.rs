//! Update runs that cannot succeed: what fails when a run is initialized, as far as the repo tells.
//!
//! Facts: a run fails for good if its placement has another strategy than `External`, or if the stages of its strategy
//! do not have every picked cluster exactly once, in an order that the labels of the clusters define.

use std::collections::BTreeMap;

use federate_dialect::stages;
use federate_kubernetes::{Cluster, Finding, Object};
use federate_repo::{Repo, Role};

use super::api::is_external;
use crate::KubeFleetBehaviour;
use crate::api::NAME;

/// A namespace, which cluster-scoped objects do not have, and a name in it.
type ScopedName<'a> = (Option<&'a str>, &'a str);

/// The update runs of a repo and their strategies.
#[derive(Debug, Default)]
pub(crate) struct UpdateRuns<'a> {
    /// By the placement that they roll out.
    runs: BTreeMap<ScopedName<'a>, Vec<&'a Object>>,
    strategies: BTreeMap<ScopedName<'a>, &'a Object>,
}

impl<'a> UpdateRuns<'a> {
    /// Reads the runs and strategies of a repo.
    pub(crate) fn from_repo(repo: &'a Repo) -> Self {
        let mut all = Self::default();
        for object in repo.claimed_objects(NAME, Role::Other) {
            let namespace = object.id.namespace.as_deref();
            match object.id.kind.as_str() {
                "ClusterStagedUpdateRun" | "StagedUpdateRun" => {
                    let placement = (namespace, object.text_at(&["spec", "placementName"]));
                    all.runs.entry(placement).or_default().push(object);
                }
                "ClusterStagedUpdateStrategy" | "StagedUpdateStrategy" => {
                    all.strategies.insert((namespace, &object.id.name), object);
                }
                _ => {}
            }
        }
        all
    }

    /// Returns a finding for each run of a placement that fails when it is initialized, with the clusters that are
    /// picked, sorted by name.
    pub(crate) fn check_runs(
        &self,
        placement: &Object,
        picked: &[&Cluster],
        behaviour: &KubeFleetBehaviour,
    ) -> Vec<Finding> {
        let namespace = placement.id.namespace.as_deref();
        let runs = self.runs.get(&(namespace, placement.id.name.as_str()));
        let findings = runs.into_iter().flatten().filter_map(|run| {
            let (why, pointer, help) = if is_external(placement) {
                let name = run.text_at(&["spec", "stagedRolloutStrategyName"]);
                let strategy = self.strategies.get(&(namespace, name))?;
                let failure = stages::compute_stages(strategy, picked, behaviour.stage_rules()).err()?;
                let help = "change the strategy; a run that has failed never goes on, so give the next one another name";
                (format!("{}: {failure}", strategy.id), "/spec/stagedRolloutStrategyName", help)
            } else {
                let why = format!("{} does not have the strategy `External`", placement.id);
                (why, "/spec/placementName", "write `strategy: {type: External}` into the placement")
            };
            let message = format!("{} fails when it is initialized: {why}", run.id);
            Some(Finding::warning("run-fails", run, message).with_pointer(pointer).with_help(help))
        });
        findings.collect()
    }
}
