//! The filters: which plugin refuses a cluster, and why.

use super::super::affinity::{self, CheckedTerms};
use super::super::effective_policy::EffectivePolicy;
use super::super::profile::FilterPlugin;
use super::{JoinedCluster, SchedulingUnit};
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
            FilterPlugin::TaintToleration => self.find_untolerated(cluster, scheduled).is_none(),
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

    /// The taint that refuses the object. Only `NoExecute` refuses objects that are already there.
    fn find_untolerated<'c>(&self, cluster: &'c Cluster, scheduled: bool) -> Option<&'c Taint> {
        cluster.taints.iter().find(|taint| {
            let counts = match taint.effect.as_str() {
                "NoExecute" => true,
                "NoSchedule" => !scheduled,
                _ => false,
            };
            counts && !affinity::is_tolerated(self.wanted.tolerations.iter(), taint)
        })
    }

    /// Why a filter refused a cluster.
    pub(super) fn describe_refusal(&self, filter: FilterPlugin, member: &JoinedCluster<'_>) -> String {
        let cluster = member.cluster;
        match filter {
            FilterPlugin::ApiResources => format!("does not serve {}", self.subject.kind),
            FilterPlugin::TaintToleration => {
                let scheduled = self.subject.is_scheduled(member.index);
                self.find_untolerated(cluster, scheduled).map_or_else(String::new, |taint| {
                    let Taint { key, value, effect } = taint;
                    let pair = if value.is_empty() { key.clone() } else { format!("{key}={value}") };
                    format!("the taint {pair}:{effect} is not tolerated")
                })
            }
            FilterPlugin::Placement => "not in the placement list".to_owned(),
            FilterPlugin::Affinity if !affinity::is_selected(&self.wanted.selector, &cluster.labels) => {
                "its labels do not match clusterSelector".to_owned()
            }
            FilterPlugin::Affinity => {
                let terms = self.required.as_ref();
                match terms.map(|t| t.accepts_cluster(&cluster.name, &cluster.labels)) {
                    Some(Err(malformed)) => format!("clusterAffinity is malformed: {}", malformed.0),
                    _ => "no term of clusterAffinity matches".to_owned(),
                }
            }
            FilterPlugin::Ready => "is not ready".to_owned(),
            FilterPlugin::Terminating => "is being deleted".to_owned(),
            FilterPlugin::Evicted => "the workload migration evicts it".to_owned(),
            FilterPlugin::ResourcesFit => "has too few GPUs left".to_owned(),
        }
    }
}
