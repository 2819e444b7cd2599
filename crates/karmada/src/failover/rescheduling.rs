//! Schedules a binding again.

use federate_kubernetes::{Cluster, ClusterName, Object};
use serde_json::json;

use super::binding::ResourceBinding;
use crate::api::KarmadaPlacement;
use crate::schedule::{
    self, Estimator, LastScheduling, PolicyEligibility, Scheduled, Scheduler, SchedulingFailure,
    SchedulingReason, SchedulingSubject, SchedulingTrace,
};
use crate::version::{DeletingClusters, KarmadaBehaviour};
use crate::{decision, defaults};

/// The clusters that a binding holds: those of the inventory by index, and those that have left it.
struct ScheduledClusters {
    present: Vec<(usize, i64)>,
    departed: Vec<(ClusterName, i64)>,
    /// The clusters of the inventory in the order of the binding, if that is not the order of names.
    order: Vec<usize>,
}

impl ResourceBinding {
    /// Schedules the binding if anything triggers that.
    pub(super) fn reschedule_if_triggered(&mut self, clusters: &[Cluster], behaviour: &KarmadaBehaviour) {
        let Some(placement) = defaults::read_placement(&self.placement, behaviour) else { return };
        let held = self.locate_clusters(clusters);
        if !self.is_triggered(&placement, &held, clusters, behaviour) {
            self.mark_scheduled();
            return;
        }
        match self.run_scheduler(&placement, &held, clusters, behaviour) {
            Ok(scheduled) => self.record_success(scheduled, &held, clusters),
            Err(failure) => self.record_failure(&failure),
        }
    }

    fn locate_clusters(&self, clusters: &[Cluster]) -> ScheduledClusters {
        let mut held = ScheduledClusters { present: Vec::new(), departed: Vec::new(), order: Vec::new() };
        for (name, replicas) in &self.clusters {
            let replicas = replicas.unwrap_or(0);
            match schedule::index_of(clusters, name) {
                Some(index) => held.present.push((index, replicas)),
                None => held.departed.push((name.as_str().into(), replicas)),
            }
        }
        if !held.present.is_sorted() {
            held.order = held.present.iter().map(|(index, _)| *index).collect();
            held.present.sort_unstable();
        }
        held
    }

    fn is_triggered(
        &self,
        placement: &KarmadaPlacement,
        held: &ScheduledClusters,
        clusters: &[Cluster],
        behaviour: &KarmadaBehaviour,
    ) -> bool {
        let applied = self.applied.as_ref().and_then(|applied| defaults::read_placement(applied, behaviour));
        let replicas: Vec<i64> = self.clusters.iter().map(|(_, replicas)| replicas.unwrap_or(0)).collect();
        let state = LastScheduling {
            placement: applied.as_ref(),
            affinity: self.affinity.as_deref(),
            replicas: &replicas,
            reschedule: self.fresh,
            on_deleting_cluster: behaviour.deleting == DeletingClusters::Never
                && (held.present.iter())
                    .any(|(at, _)| clusters.get(*at).is_some_and(|cluster| cluster.deleting)),
        };
        schedule::reschedule_reason(&state, placement, self.workload.replicas, self.workload.is_workload())
            .is_some()
    }

    fn run_scheduler(
        &self,
        placement: &KarmadaPlacement,
        held: &ScheduledClusters,
        clusters: &[Cluster],
        behaviour: &KarmadaBehaviour,
    ) -> Result<Scheduled, SchedulingFailure> {
        let evicting = self.tasks.iter().filter_map(|t| schedule::index_of(clusters, &t.from_cluster));
        let evicting: Vec<usize> = evicting.collect();
        let served: Vec<bool> = clusters
            .iter()
            .map(|c| c.apis.serves_kind(&self.resource.api_version, &self.resource.kind))
            .collect();
        let template = json!({"metadata": {"uid": self.uid}});
        let subject = SchedulingSubject {
            kind: &format!("{} {}", self.resource.api_version, self.resource.kind),
            workload: &self.workload,
            served: &served,
            previous: &held.present,
            departed: &held.departed,
            order: &held.order,
            evicting: &evicting,
            affinity: self.affinity.as_deref(),
            fresh: self.fresh,
            descending: decision::ties_descend(&Object::from_path("v1", "Template", "t", template)),
        };
        let estimator = Estimator::new(clusters, behaviour.model_estimate);
        let scheduler = Scheduler { behaviour, clusters, estimator: &estimator };
        let eligibility = PolicyEligibility::new(placement, clusters, behaviour.held_api);
        scheduler.schedule_subject(&subject, placement, &eligibility, &mut SchedulingTrace::default())
    }

    fn record_success(&mut self, scheduled: Scheduled, held: &ScheduledClusters, clusters: &[Cluster]) {
        let mut targets = Vec::new();
        for at in &scheduled.order {
            if let Some((_, replicas)) = scheduled.clusters.iter().find(|(index, _)| index == at) {
                let name = schedule::cluster_name_at(clusters, &held.departed, *at).to_string();
                targets.push((name, *replicas));
            }
        }
        self.replace_clusters(targets);
        self.affinity = scheduled.affinity.or(self.affinity.take());
        self.unschedulable = None;
        self.fresh = false;
        self.mark_scheduled();
    }

    fn record_failure(&mut self, failure: &SchedulingFailure) {
        if failure.reason == SchedulingReason::NoClusterFit {
            self.replace_clusters(Vec::new());
        }
        self.unschedulable = Some(failure.reason.name().to_owned());
    }

    /// Replaces the clusters, and remembers the placement that chose them.
    fn replace_clusters(&mut self, clusters: Vec<(String, Option<i64>)>) {
        if self.clusters != clusters {
            self.clusters = clusters;
            self.mark_changed();
        }
        self.applied = Some(self.placement.clone());
    }
}
