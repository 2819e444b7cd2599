//! Schedules a binding again.

use federate_kubernetes::{Cluster, ClusterName, Object};
use serde_json::json;

use super::binding::Binding;
use crate::api::Placement;
use crate::schedule::{
    self, Applied, Eligibility, Estimator, Failure, Reason, Scheduled, Scheduler, Subject, Trace,
};
use crate::version::{Behaviour, Deleting};
use crate::{decide, defaults};

/// The clusters that a binding holds: those of the inventory by index, and those that have left it.
struct ScheduledClusters {
    present: Vec<(usize, i64)>,
    departed: Vec<(ClusterName, i64)>,
    /// The clusters of the inventory in the order of the binding, if that is not the order of names.
    order: Vec<usize>,
}

impl Binding {
    /// Schedules the binding if anything triggers that.
    pub(super) fn reschedule(&mut self, clusters: &[Cluster], behaviour: &Behaviour) {
        let Some(placement) = defaults::placement(&self.placement, behaviour) else { return };
        let held = self.held(clusters);
        if !self.triggered(&placement, &held, clusters, behaviour) {
            self.mark_scheduled();
            return;
        }
        match self.schedule(&placement, &held, clusters, behaviour) {
            Ok(scheduled) => self.succeed(scheduled, &held, clusters),
            Err(failure) => self.fail(&failure),
        }
    }

    fn held(&self, clusters: &[Cluster]) -> ScheduledClusters {
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

    fn triggered(
        &self,
        placement: &Placement,
        held: &ScheduledClusters,
        clusters: &[Cluster],
        behaviour: &Behaviour,
    ) -> bool {
        let applied = self.applied.as_ref().and_then(|applied| defaults::placement(applied, behaviour));
        let replicas: Vec<i64> = self.clusters.iter().map(|(_, replicas)| replicas.unwrap_or(0)).collect();
        let deleting = |(at, _): &(usize, i64)| clusters.get(*at).is_some_and(|cluster| cluster.deleting);
        let state = Applied {
            placement: applied.as_ref(),
            affinity: self.affinity.as_deref(),
            replicas: &replicas,
            reschedule: self.fresh,
            on_deleting_cluster: behaviour.deleting == Deleting::Never && held.present.iter().any(deleting),
        };
        schedule::changed(&state, placement, self.workload.replicas, self.workload.is_workload()).is_some()
    }

    fn schedule(
        &self,
        placement: &Placement,
        held: &ScheduledClusters,
        clusters: &[Cluster],
        behaviour: &Behaviour,
    ) -> Result<Scheduled, Failure> {
        let evicting = self.tasks.iter().filter_map(|t| schedule::index_of(clusters, &t.from_cluster));
        let evicting: Vec<usize> = evicting.collect();
        let served: Vec<bool> =
            clusters.iter().map(|c| c.apis.serves(&self.resource.api_version, &self.resource.kind)).collect();
        let template = json!({"metadata": {"uid": self.uid}});
        let subject = Subject {
            kind: &format!("{} {}", self.resource.api_version, self.resource.kind),
            workload: &self.workload,
            served: &served,
            previous: &held.present,
            departed: &held.departed,
            order: &held.order,
            evicting: &evicting,
            affinity: self.affinity.as_deref(),
            fresh: self.fresh,
            descending: decide::ties_descend(&Object::named("v1", "Template", "t", template)),
        };
        let estimator = Estimator::new(clusters, behaviour.model_estimate);
        let scheduler = Scheduler { behaviour, clusters, estimator: &estimator };
        let eligibility = Eligibility::new(placement, clusters, behaviour.held_api);
        scheduler.schedule(&subject, placement, &eligibility, &mut Trace::default())
    }

    fn succeed(&mut self, scheduled: Scheduled, held: &ScheduledClusters, clusters: &[Cluster]) {
        let replicas = |at: usize| scheduled.clusters.iter().find(|(index, _)| *index == at);
        let target = |at: &usize| {
            let name = schedule::named(clusters, &held.departed, *at).to_string();
            Some((name, replicas(*at)?.1))
        };
        let targets = scheduled.order.iter().filter_map(target).collect();
        self.accept(targets);
        self.affinity = scheduled.affinity.or(self.affinity.take());
        self.unschedulable = None;
        self.fresh = false;
        self.mark_scheduled();
    }

    fn fail(&mut self, failure: &Failure) {
        if failure.reason == Reason::NoClusterFit {
            self.accept(Vec::new());
        }
        self.unschedulable = Some(failure.reason.name().to_owned());
    }

    /// Replaces the clusters, and remembers the placement that chose them.
    fn accept(&mut self, clusters: Vec<(String, Option<i64>)>) {
        if self.clusters != clusters {
            self.clusters = clusters;
            self.touch();
        }
        self.applied = Some(self.placement.clone());
    }
}
