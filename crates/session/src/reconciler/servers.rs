//! Reconciles member clusters through their API servers: one desired state per cluster, and the outcomes.

use std::collections::BTreeSet;

use federate_kubernetes::ClusterName;
use federate_live::{Access, ApplyOptions, ClusterHealth, DesiredState, EarlyReads, Error, ServerOptions};
use federate_reconcile::{Actions, ApplySet, DryRunStrategy, ObjectDecision, RepoRef};

use super::{Purpose, Reconciled, Reconciler};
use crate::Session;

mod survey;

pub use survey::Surveyed;

/// What a prediction for a cluster that cannot be read starts from, if a dump of it is known.
const PREDICTED_FROM_DUMP: &str = "predicted from the dump, because the cluster could not be read";
/// The same without a dump.
const PREDICTED_FROM_NOTHING: &str = "predicted for an empty cluster, because the cluster could not be read";

impl Session {
    /// Begins to read the members of an `ApplySet` in the selected clusters, before the plan is made.
    ///
    /// # Errors
    ///
    /// What keeps every cluster from being reached.
    pub fn read_early(
        &self,
        access: &Access,
        set: &ApplySet,
        clusters: &[String],
    ) -> Result<EarlyReads, Error> {
        let selected: Vec<ClusterName> =
            super::select_clusters(self, clusters).map(|c| c.name.clone()).collect();
        federate_live::read_early(access, &selected, set)
    }
}

impl Reconciler<'_> {
    /// Reads every cluster, decides the actions and performs them. Returns an error only if no cluster can be
    /// reached.
    pub fn run_on_servers(&self, access: &Access, options: &ServerOptions<'_>) -> Result<Actions, Error> {
        let desired_states = self.desired_states();
        let drift = matches!(self.options.purpose, Purpose::Drift { .. });
        let context = self.build_decision_context(options.dry_run);
        // Correcting drift does not deploy the commit, and decides no new plan.
        let repo =
            self.repo.clone().map(|repo| if drift { RepoRef { revision: None, ..repo } } else { repo });
        let server = options.clone();
        let server = if drift { server.with_plan_to_store(None) } else { server };
        let apply_options = ApplyOptions {
            server: &server,
            apply_set: context.settings.apply_set,
            repo: repo.as_ref(),
            moved_from: self.moved_from.as_ref(),
            only_objects: self.options.only_objects.is_some(),
            encrypted: self.session.decrypted_objects().objects(),
            ends: matches!(self.options.purpose, Purpose::Remove),
        };
        let mut all = Reconciled { predicted: !options.dry_run.reaches_servers(), ..Reconciled::default() };
        let mut unread = BTreeSet::new();
        for outcome in federate_live::reconcile_clusters(access, &desired_states, &context, &apply_options)? {
            if !outcome.read {
                unread.insert(outcome.cluster.clone());
            }
            all.add_cluster(&outcome.cluster, outcome.actions, outcome.error);
            if let Some(report) = all.clusters.last_mut() {
                report.notes = outcome.notes;
                report.orphans = outcome.orphans;
            }
        }
        if !options.dry_run.writes() && !drift {
            self.predict_unread(&unread, &mut all);
        }
        Ok(self.collect_actions(all))
    }

    /// Reads how the rendered objects are in every cluster.
    ///
    /// # Errors
    ///
    /// What keeps every cluster from being reached.
    pub fn read_health(&self, access: &Access) -> Result<Vec<ClusterHealth>, Error> {
        let context = self.build_decision_context(DryRunStrategy::Server);
        federate_live::read_health(access, &self.desired_states(), &context.placed, self.options.apply_set)
    }

    /// Adds what a dry run predicts for clusters that could not be read. They failed anyway.
    fn predict_unread(&self, unread: &BTreeSet<ClusterName>, all: &mut Reconciled) {
        for (name, decided) in
            self.predict_decisions(self.selected_clusters().filter(|cluster| unread.contains(&cluster.name)))
        {
            let known = self.session.observed().knows_cluster(&name);
            let basis = if known { PREDICTED_FROM_DUMP } else { PREDICTED_FROM_NOTHING };
            all.actions.extend(decided.decisions.into_iter().map(|ObjectDecision { mut action, .. }| {
                action.reason.get_or_insert_with(|| basis.to_owned());
                action
            }));
            let reports = all.clusters.iter_mut().filter(|report| report.name == name);
            reports.for_each(|report| report.predicted = true);
        }
        all.actions.sort_by(|a, b| (&a.cluster, &a.object).cmp(&(&b.cluster, &b.object)));
    }

    /// The missing permissions, as the error of each cluster. Nothing else is asked.
    ///
    /// # Errors
    ///
    /// What keeps every cluster from being reached.
    pub fn check_rights(&self, access: &Access) -> Result<Actions, Error> {
        let mut all = Reconciled::default();
        let missing =
            federate_live::check_rights(access, &self.desired_states(), self.options.apply_set, &|kind| {
                self.options.prune.as_ref().is_some_and(|prune| prune.prunes_kind(kind))
            })?;
        for missing in missing {
            let error = match missing.rights {
                Ok(rights) if rights.is_empty() => None,
                Ok(rights) => Some(rights.join("; ")),
                Err(error) => Some(error.to_string()),
            };
            all.add_cluster(&missing.cluster, Vec::new(), error);
        }
        Ok(Actions::new(all.actions, all.clusters))
    }

    fn desired_states(&self) -> Vec<DesiredState<'_>> {
        let states = self.selected_clusters().map(|cluster| {
            let rendered = self.desired.rendered_for(&cluster.name);
            let objects = rendered.map(|desired| (&desired.object, &*desired.body)).collect();
            DesiredState { cluster: cluster.name.clone(), objects }
        });
        states.collect()
    }
}
