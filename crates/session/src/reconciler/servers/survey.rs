//! What a plan is made from and only the clusters know, read from their API servers before the plan is made.

use federate_dialect::Plan;
use federate_engine::previous;
use federate_kubernetes::{ClusterName, Object};
use federate_live::{Access, Error, FoundPlan, StoredPlan, SurveyOptions, SurveyResult, SurveyedCluster};
use federate_reconcile::ApplySet;
use federate_reconcile::ownership::is_member;

use crate::Session;

/// What a survey of the clusters found, besides what the session decides by from now on.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// The newest plan that a cluster stores.
    pub newest: Option<StoredPlan>,
    /// Why plans cannot be read that clusters store.
    damaged: Vec<String>,
    /// What could not be read, one line each.
    pub warnings: Vec<String>,
}

impl Session {
    /// Reads the objects of the clusters that schedulers look at and, with `reads_plan`, the plan that an apply stored
    /// there. If not all clusters can be reached, only those of `asked` are read. No cluster is read if nothing in it
    /// affects the plan.
    pub fn survey_clusters(
        &mut self,
        access: &Access,
        set: &ApplySet,
        reads_plan: bool,
        asked: &[String],
    ) -> Result<Surveyed, Error> {
        let reads = self.cluster_reads();
        if reads.is_empty() && !reads_plan {
            return Ok(Surveyed::default());
        }
        let survey = SurveyOptions { stores_plan: reads_plan.then_some(set), reads: &reads };
        let all: Vec<ClusterName> = self.clusters().iter().map(|cluster| cluster.name.clone()).collect();
        let found = match federate_live::survey_clusters(access, &all, &survey) {
            // Decisions are about all clusters, but some ways lead to one only.
            Err(_) if !asked.is_empty() => {
                let asked: Vec<ClusterName> = asked.iter().map(|name| name.as_str().into()).collect();
                federate_live::survey_clusters(access, &asked, &survey)?
            }
            found => found?,
        };
        let mut surveyed = Surveyed::default();
        let mut observed = self.observed().clone();
        let mut plans = Vec::new();
        for SurveyedCluster { cluster, found } in found {
            match found {
                Ok(SurveyResult { plan, objects }) => {
                    match plan {
                        FoundPlan::Nothing => {}
                        FoundPlan::Plan(plan) => plans.push(plan),
                        FoundPlan::Damaged(why) => surveyed.damaged.push(format!("{cluster}: {why}")),
                    }
                    if let Some(objects) = objects {
                        observed.insert(
                            cluster,
                            objects.into_iter().map(|o| self.mark_applied(o, set)).collect(),
                        );
                    }
                }
                Err(why) => {
                    surveyed.warnings.push(format!("{cluster}: decided without what is there: {why}"));
                }
            }
        }
        if !reads.is_empty() {
            self.observe_objects(observed);
        }
        surveyed.newest = StoredPlan::find_newest(plans.into_iter());
        if surveyed.newest.is_some() {
            surveyed.warnings.extend(surveyed.damaged.iter().cloned());
        }
        Ok(surveyed)
    }

    /// An object as its control plane would have marked it, where federate applied it.
    fn mark_applied(&self, mut object: Object, set: &ApplySet) -> Object {
        if is_member(&object.body, &set.compute_id()) {
            for dialect in self.dialects().iter() {
                dialect.members().mark_as_managed(&mut object);
            }
        }
        object
    }
}

impl Surveyed {
    /// The plan of a session as clusters are to store it, after the newest that they store.
    pub fn next_plan(&self, session: &Session) -> StoredPlan {
        StoredPlan::followed_by(self.newest.as_ref(), previous::serialize_plan(session.plan()).into_bytes())
    }

    /// The newest plan that a cluster stores; or why no plan of several can be read, so that deciding without one
    /// could move what runs.
    pub fn newest_plan(&self) -> Result<Option<Plan>, String> {
        match (&self.newest, self.damaged.first()) {
            (None, Some(why)) => Err(why.clone()),
            (None, None) => Ok(None),
            (Some(newest), _) => match previous::read_own(&newest.text) {
                Ok(plan) => Ok(Some(plan)),
                Err(why) => Err(format!("the plan that the clusters remember: {why}")),
            },
        }
    }
}
