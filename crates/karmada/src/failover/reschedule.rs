//! The scheduler's next look at a binding.

use federate_kubernetes::{Cluster, ClusterName, Object};
use serde_json::json;

use super::binding::Binding;
use crate::schedule::{self, Applied, Eligibility, Estimator, Reason, Scheduler, Subject, Trace};
use crate::version::Behaviour;
use crate::{decide, defaults};

impl Binding {
    /// Schedules it if anything triggers that.
    pub(super) fn reschedule(&mut self, clusters: &[Cluster]) {
        let behaviour = Behaviour::newest();
        let Some(placement) = defaults::placement(&self.placement, &behaviour) else { return };
        let mut held: Vec<(usize, i64)> = self
            .clusters
            .iter()
            .filter_map(|(name, replicas)| Some((schedule::index_of(clusters, name)?, replicas.unwrap_or(0))))
            .collect();
        held.sort_unstable();
        let applied = self.applied.as_ref().and_then(|applied| defaults::placement(applied, &behaviour));
        let replicas: Vec<i64> = self.clusters.iter().map(|(_, replicas)| replicas.unwrap_or(0)).collect();
        let on_deleting_cluster =
            held.iter().any(|(at, _)| clusters.get(*at).is_some_and(|cluster| cluster.deleting));
        let state = Applied {
            placement: applied.as_ref(),
            affinity: self.affinity.as_deref(),
            replicas: &replicas,
            reschedule: self.fresh,
            on_deleting_cluster,
        };
        let (wanted, is_workload) = (self.workload.replicas, self.workload.is_workload());
        if schedule::changed(&state, &placement, wanted, is_workload).is_none() {
            self.mark_scheduled();
            return;
        }
        let departed: Vec<(ClusterName, i64)> = self
            .clusters
            .iter()
            .filter(|(name, _)| schedule::index_of(clusters, name).is_none())
            .map(|(name, replicas)| (name.as_str().into(), replicas.unwrap_or(0)))
            .collect();
        let evicting: Vec<usize> =
            self.tasks.iter().filter_map(|t| schedule::index_of(clusters, &t.from_cluster)).collect();
        let served: Vec<bool> =
            clusters.iter().map(|c| c.apis.serves(&self.resource.api_version, &self.resource.kind)).collect();
        let kind = format!("{} {}", self.resource.api_version, self.resource.kind);
        let template = json!({"metadata": {"uid": self.uid}});
        let subject = Subject {
            kind: &kind,
            workload: &self.workload,
            served: &served,
            previous: &held,
            departed: &departed,
            evicting: &evicting,
            affinity: self.affinity.as_deref(),
            fresh: self.fresh,
            descending: decide::ties_descend(&Object::named("v1", "Template", "t", template)),
        };
        let estimator = Estimator::new(clusters, behaviour.room_on_models);
        let scheduler = Scheduler { behaviour: &behaviour, clusters, estimator: &estimator };
        let screen = Eligibility::new(&placement, clusters, behaviour.held_api);
        match scheduler.schedule(&subject, &placement, &screen, &mut Trace::default()) {
            Ok(scheduled) => {
                let name = |at: usize| schedule::named(clusters, &departed, at).to_string();
                let targets = scheduled.order.into_iter().filter_map(|at| {
                    let (_, replicas) = scheduled.clusters.iter().find(|(index, _)| *index == at)?;
                    Some((name(at), *replicas))
                });
                self.accept(targets.collect());
                self.affinity = scheduled.affinity.or(self.affinity.take());
                self.unschedulable = None;
                self.fresh = false;
                self.mark_scheduled();
            }
            Err(failure) => {
                if failure.reason == Reason::NoClusterFit {
                    self.accept(Vec::new());
                }
                self.unschedulable = Some(failure.reason.name().to_owned());
            }
        }
    }

    /// Takes over a result.
    fn accept(&mut self, clusters: Vec<(String, Option<i64>)>) {
        if self.clusters != clusters {
            self.clusters = clusters;
            self.touch();
        }
        self.applied = Some(self.placement.clone());
    }
}
