//! The filters: which plugin refuses a cluster, and why.

use super::super::affinity::{self, Terms};
use super::super::effective_policy::EffectivePolicy;
use super::super::profile::Filter;
use super::{Member, Subject};
use federate_kubernetes::{Cluster, Taint};

/// The input of the filters.
pub(super) struct Eligibility<'w> {
    subject: &'w Subject<'w>,
    wanted: &'w EffectivePolicy<'w>,
    required: Option<Terms<'w>>,
}

impl<'w> Eligibility<'w> {
    pub(super) fn new(subject: &'w Subject<'w>, wanted: &'w EffectivePolicy<'w>) -> Self {
        let required = wanted.required.as_deref().map(Terms::new);
        Self { subject, wanted, required }
    }

    /// The first filter that refuses the cluster.
    pub(super) fn refusal(&self, filters: &[Filter], member: &Member<'_>) -> Option<Filter> {
        filters.iter().copied().find(|filter| !self.passes(*filter, member))
    }

    fn passes(&self, filter: Filter, member: &Member<'_>) -> bool {
        let (subject, wanted, cluster) = (self.subject, self.wanted, member.cluster);
        let scheduled = subject.scheduled(member.index);
        match filter {
            Filter::ApiResources => subject.served.get(member.index).copied().unwrap_or(false),
            Filter::TaintToleration => self.untolerated(cluster, scheduled).is_none(),
            Filter::Placement => !wanted.names().names || wanted.names().named[member.index],
            Filter::Affinity => self.accepts(cluster),
            Filter::Ready => cluster.ready || scheduled,
            Filter::Terminating => !cluster.deleting,
            Filter::Evicted => !subject.evicts(&cluster.name),
            Filter::ResourcesFit => scheduled || member.stats.fits(subject.gpu),
        }
    }

    fn accepts(&self, cluster: &Cluster) -> bool {
        affinity::selected(&self.wanted.selector, &cluster.labels)
            && self
                .required
                .as_ref()
                .is_none_or(|terms| terms.accepts(&cluster.name, &cluster.labels) == Ok(true))
    }

    /// The taint that refuses the object. Only `NoExecute` refuses objects that are already there.
    fn untolerated<'c>(&self, cluster: &'c Cluster, scheduled: bool) -> Option<&'c Taint> {
        let counts = |taint: &&Taint| match taint.effect.as_str() {
            "NoExecute" => true,
            "NoSchedule" => !scheduled,
            _ => false,
        };
        let tolerations = &self.wanted.tolerations;
        cluster.taints.iter().filter(counts).find(|t| !affinity::tolerated(tolerations.iter(), t))
    }

    /// Why a filter refused a cluster.
    pub(super) fn why(&self, filter: Filter, member: &Member<'_>) -> String {
        let cluster = member.cluster;
        match filter {
            Filter::ApiResources => format!("does not serve {}", self.subject.kind),
            Filter::TaintToleration => {
                let scheduled = self.subject.scheduled(member.index);
                self.untolerated(cluster, scheduled).map_or_else(String::new, |taint| {
                    let Taint { key, value, effect } = taint;
                    let pair = if value.is_empty() { key.clone() } else { format!("{key}={value}") };
                    format!("the taint {pair}:{effect} is not tolerated")
                })
            }
            Filter::Placement => "not in the placement list".to_owned(),
            Filter::Affinity if !affinity::selected(&self.wanted.selector, &cluster.labels) => {
                "its labels do not match clusterSelector".to_owned()
            }
            Filter::Affinity => {
                let terms = self.required.as_ref();
                match terms.map(|t| t.accepts(&cluster.name, &cluster.labels)) {
                    Some(Err(malformed)) => format!("clusterAffinity is malformed: {}", malformed.0),
                    _ => "no term of clusterAffinity matches".to_owned(),
                }
            }
            Filter::Ready => "is not ready".to_owned(),
            Filter::Terminating => "is being deleted".to_owned(),
            Filter::Evicted => "the workload migration evicts it".to_owned(),
            Filter::ResourcesFit => "has too few GPUs left".to_owned(),
        }
    }
}
