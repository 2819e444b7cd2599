//! The filters that do not depend on other rows, cluster by cluster. The first filter that refuses a cluster is
//! the reported reason.
//!
//! Facts: required affinity, eligibility, the placement's namespace (of a `ResourcePlacement`), taints,
//! in this order. Terms are alternatives. Every taint needs a toleration.

use jiff::Timestamp;

use super::super::affinity::RequiredTerm;
use super::super::api::{PlacementPolicy, PlacementToleration};
use super::super::cluster::check_eligibility;
use super::Rejection;
use crate::failure::SchedulingError;
use federate_kubernetes::{Cluster, Taint, work};

/// The filter that refuses each cluster, if one does.
pub(super) fn filter_clusters(
    policy: &PlacementPolicy,
    namespace: Option<&str>,
    clusters: &[Cluster],
    now: Option<Timestamp>,
) -> Result<Vec<Option<Rejection>>, SchedulingError> {
    let terms: Vec<RequiredTerm<'_>> = policy.required_terms().iter().map(RequiredTerm::new).collect();
    let refused = clusters.iter().map(|cluster| {
        if !terms.is_empty() && !matches_any(&terms, cluster)? {
            return Ok(Some(Rejection::Affinity));
        }
        if let Some(why) = check_eligibility(cluster, now) {
            return Ok(Some(Rejection::Ineligible(why)));
        }
        if let (Some(namespace), Some(all)) = (namespace, &cluster.namespaces)
            && !all.contains(namespace)
        {
            return Ok(Some(Rejection::Namespace(namespace.to_owned())));
        }
        work::charge_items(cluster.taints.len() * policy.tolerations.len());
        Ok(untolerated_taints(policy, cluster).next().map(|taint| Rejection::Taint(taint.clone())))
    });
    refused.collect()
}

/// The taints of a cluster that keep the resources of a policy away.
pub(crate) fn untolerated_taints<'c>(
    policy: &'c PlacementPolicy,
    cluster: &'c Cluster,
) -> impl Iterator<Item = &'c Taint> {
    cluster.taints.iter().filter(|t| !policy.tolerations.iter().any(|by| tolerates_taint(by, t)))
}

fn matches_any(terms: &[RequiredTerm<'_>], cluster: &Cluster) -> Result<bool, SchedulingError> {
    for term in terms {
        if term.matches_cluster(cluster)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn tolerates_taint(by: &PlacementToleration, taint: &Taint) -> bool {
    let effect = by.effect.is_empty() || by.effect == taint.effect;
    effect
        && match by.operator.as_str() {
            "Exists" => by.key.is_empty() || by.key == taint.key,
            "Equal" => by.key == taint.key && by.value == taint.value,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toleration_covers_key_value_and_effect() {
        let taint = Taint { key: "spot".into(), value: "yes".into(), effect: "NoSchedule".into() };
        let by = |key: &str, operator: &str, value: &str, effect: &str| {
            let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
            tolerates_taint(&PlacementToleration { key, operator: operator.into(), value, effect }, &taint)
        };
        assert!(by("", "Exists", "", "") && by("spot", "Exists", "", "NoSchedule"));
        assert!(by("spot", "Equal", "yes", "") && !by("spot", "Equal", "", ""));
        assert!(!by("", "Equal", "yes", "") && !by("spot", "Exists", "", "NoExecute"));
        assert!(!by("spot", "Maybe", "yes", ""));
    }
}
