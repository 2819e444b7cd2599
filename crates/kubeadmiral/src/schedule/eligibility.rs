//! The filters: which plugin refuses a cluster, and why.

use super::super::affinity::{self, CheckedTerms};
use super::super::effective_policy::EffectivePolicy;
use super::super::profile::FilterPlugin;
use super::{ClusterExclusion, JoinedCluster, SchedulingUnit, UnitCause};
use federate_dialect::ClusterCause;
use federate_kubernetes::{Cluster, Taint};

/// The input of the filters.
pub(super) struct ClusterFilters<'w> {
    subject: &'w SchedulingUnit<'w>,
    wanted: &'w EffectivePolicy<'w>,
    required: Option<CheckedTerms<'w>>,
}

impl<'w> ClusterFilters<'w> {
    pub(super) fn new(subject: &'w SchedulingUnit<'w>, wanted: &'w EffectivePolicy<'w>) -> Self {
        let required = wanted.required.as_deref().map(CheckedTerms::new);
        Self { subject, wanted, required }
    }

    /// The first filter that refuses the cluster.
    pub(super) fn refusing_filter(
        &self,
        filters: &[FilterPlugin],
        member: &JoinedCluster<'_>,
    ) -> Option<FilterPlugin> {
        filters.iter().copied().find(|filter| !self.passes_filter(*filter, member))
    }

    fn passes_filter(&self, filter: FilterPlugin, member: &JoinedCluster<'_>) -> bool {
        let (subject, wanted, cluster) = (self.subject, self.wanted, member.cluster);
        let scheduled = subject.is_scheduled(member.index);
        match filter {
            FilterPlugin::ApiResources => subject.served.get(member.index).copied().unwrap_or(false),
            FilterPlugin::TaintToleration => self.find_untolerated(cluster, scheduled).next().is_none(),
            FilterPlugin::Placement => {
                !wanted.named_clusters().names || wanted.named_clusters().named[member.index]
            }
            FilterPlugin::Affinity => self.matches_affinity(cluster),
            FilterPlugin::Ready => cluster.ready || scheduled,
            FilterPlugin::Terminating => !cluster.deleting,
            FilterPlugin::Evicted => !subject.is_evicted(&cluster.name),
            FilterPlugin::ResourcesFit => scheduled || member.stats.fits_gpus(subject.gpu),
        }
    }

    fn matches_affinity(&self, cluster: &Cluster) -> bool {
        affinity::is_selected(&self.wanted.selector, &cluster.labels)
            && self
                .required
                .as_ref()
                .is_none_or(|terms| terms.accepts_cluster(&cluster.name, &cluster.labels) == Ok(true))
    }

    /// The taints that refuse the object. Only `NoExecute` refuses objects that are already there.
    fn find_untolerated<'c>(
        &'c self,
        cluster: &'c Cluster,
        scheduled: bool,
    ) -> impl Iterator<Item = &'c Taint> {
        cluster.taints.iter().filter(move |taint| {
            let counts = match taint.effect.as_str() {
                "NoExecute" => true,
                "NoSchedule" => !scheduled,
                _ => false,
            };
            counts && !affinity::is_tolerated(self.wanted.tolerations.iter(), taint)
        })
    }

    /// Why a filter refused a cluster.
    pub(super) fn explain_refusal(
        &self,
        filter: FilterPlugin,
        member: &JoinedCluster<'_>,
    ) -> ClusterExclusion {
        let cluster = member.cluster;
        match filter {
            FilterPlugin::ApiResources => {
                let why = format!("does not serve {}", self.subject.kind);
                ClusterExclusion::by_cluster(why, ClusterCause::Api)
            }
            FilterPlugin::TaintToleration => {
                let scheduled = self.subject.is_scheduled(member.index);
                let taints: Vec<&Taint> = self.find_untolerated(cluster, scheduled).collect();
                ClusterExclusion::by_taints(&taints)
            }
            FilterPlugin::Placement => ClusterExclusion::by_field("not in the placement list", "placement"),
            FilterPlugin::Affinity => self.explain_affinity(cluster),
            FilterPlugin::Ready => ClusterExclusion::by_cluster("is not ready", ClusterCause::NotReady),
            FilterPlugin::Terminating => {
                ClusterExclusion::by_cluster("is being deleted", ClusterCause::Deleting)
            }
            FilterPlugin::Evicted => {
                ClusterExclusion::new("the workload migration evicts it", UnitCause::Migration)
            }
            FilterPlugin::ResourcesFit => {
                ClusterExclusion::by_cluster("has too few GPUs left", ClusterCause::Resources)
            }
        }
    }

    fn explain_affinity(&self, cluster: &Cluster) -> ClusterExclusion {
        let mut exclusion = ClusterExclusion { why: String::new(), causes: Vec::new() };
        if !affinity::is_selected(&self.wanted.selector, &cluster.labels) {
            exclusion.add("its labels do not match clusterSelector", "clusterSelector");
        }
        let terms = self.required.as_ref();
        match terms.map(|terms| terms.accepts_cluster(&cluster.name, &cluster.labels)) {
            Some(Err(malformed)) => {
                exclusion.add(&format!("clusterAffinity is malformed: {}", malformed.0), "clusterAffinity");
            }
            Some(Ok(false)) => exclusion.add("no term of clusterAffinity matches", "clusterAffinity"),
            Some(Ok(true)) | None => {}
        }
        exclusion
    }
}
