//! Reads `MemberCluster` into the neutral cluster, and decides whether a cluster is eligible for placements.
//!
//! Facts: the status of the agent of type `MemberAgent` counts, with its conditions `Joined` and `Healthy`. A
//! cluster is ineligible when its heartbeat is older than five minutes, or when it has been unhealthy for more
//! than five minutes. An absent time is Go's zero time.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::api::{GoTime, MemberClusterSpec, MemberClusterStatus, ReportedCondition, ReportedUsage};
use super::version::KubeFleetBehaviour;
use federate_kubernetes::cluster::MAX_SILENCE;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Capacity, Cluster, Liveness, NotReady, Object, Taint, schema};

/// The label with the name of the cluster, which the hub adds to every `MemberCluster`.
const MEMBER_NAME_LABEL: &str = "kubernetes-fleet.io/member-name";

/// The property with the version of Kubernetes in a cluster.
const VERSION_PROPERTY: &str = "k8s.io/k8s-version";

/// Reads an inventory object. One in git has no agent status; without `strict` it then counts as joined and
/// healthy.
pub(super) fn read_cluster(object: &Object, strict: bool, behaviour: &KubeFleetBehaviour) -> Cluster {
    let spec: MemberClusterSpec = schema::read_field(object, "spec", "invalid-cluster").unwrap_or_default();
    let status: MemberClusterStatus =
        schema::read_field(object, "status", "invalid-cluster").unwrap_or_default();
    let known = status.agent_status.is_some() || strict;
    let agent = status.agent_status.iter().flatten().find(|agent| agent.kind == "MemberAgent");
    let joined = agent.and_then(|a| find_condition(&a.conditions, "Joined"));
    let healthy = agent.and_then(|a| find_condition(&a.conditions, "Healthy"));
    let unhealthy = healthy.filter(|c| c.status != "True");
    // They count once the cluster has the condition of their collection.
    let namespaces = find_condition(&status.conditions, "NamespaceCollectionSucceeded");
    let mut cluster = Cluster::from_object(object);
    if behaviour.member_name_label {
        cluster.labels.insert(MEMBER_NAME_LABEL.to_owned(), object.id.name.clone());
    }
    Cluster {
        taints: spec
            .taints
            .into_iter()
            .map(|t| Taint { key: t.key, value: t.value, effect: t.effect })
            .collect(),
        kubernetes: status.properties.get(VERSION_PROPERTY).map(|property| property.value.clone()),
        properties: status.properties.into_iter().map(|(name, property)| (name, property.value)).collect(),
        joined: !known || joined.is_some_and(|c| c.status == "True"),
        ready: !known || healthy.is_some_and(|c| c.status == "True"),
        liveness: Liveness {
            heartbeat: agent.map(|a| a.last_received_heartbeat.0),
            unready_since: unhealthy.map(|c| c.last_transition_time.0),
        },
        unready_condition: NotReady::from_conditions(agent_conditions(object), "Healthy"),
        namespaces: namespaces.map(|_| status.namespaces.into_keys().collect()),
        capacity: status.resource_usage.map(read_capacity),
        ..cluster
    }
}

/// Why a cluster is not eligible for placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ineligibility {
    /// It is being deleted.
    Leaving,
    /// No agent reports.
    Offline,
    /// The last heartbeat is this old.
    Silent(SignedDuration),
    /// The agent has never reported.
    NeverHeard,
    /// It has not joined.
    NotJoined,
    /// It is not healthy; for how long, where that is known.
    Unhealthy(Option<SignedDuration>),
}

/// The time since a moment, if both it and the current time are known.
fn age_of(since: Option<Timestamp>, now: Option<Timestamp>) -> Option<SignedDuration> {
    Some(now?.duration_since(since?))
}

/// Why a cluster is not eligible for placements, if it is not. Without a clock, ages do not count.
pub(super) fn check_eligibility(cluster: &Cluster, now: Option<Timestamp>) -> Option<Ineligibility> {
    let silent = age_of(cluster.liveness.heartbeat, now).filter(|age| *age > MAX_SILENCE);
    let unhealthy = age_of(cluster.liveness.unready_since, now);
    if cluster.deleting {
        Some(Ineligibility::Leaving)
    } else if !cluster.joined && cluster.liveness.heartbeat.is_none() {
        Some(Ineligibility::Offline)
    } else if let Some(age) = silent {
        let never = cluster.liveness.heartbeat == Some(GoTime::ZERO.0);
        Some(if never { Ineligibility::NeverHeard } else { Ineligibility::Silent(age) })
    } else if !cluster.joined {
        Some(Ineligibility::NotJoined)
    } else if cluster.ready || unhealthy.is_some_and(|age| age <= MAX_SILENCE) {
        None
    } else {
        Some(Ineligibility::Unhealthy(unhealthy))
    }
}

impl fmt::Display for Ineligibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaving => f.write_str("it is leaving the fleet"),
            Self::Offline | Self::NotJoined => f.write_str("it has not joined the fleet"),
            Self::Silent(age) => {
                write!(f, "its last heartbeat came {age:#} ago, which is more than 5 minutes")
            }
            Self::NeverHeard => f.write_str("its agent has never sent a heartbeat"),
            Self::Unhealthy(_) => f.write_str("it is not healthy"),
        }
    }
}

/// The conditions that the member agent reports.
fn agent_conditions(object: &Object) -> Option<&Value> {
    let agents = object.value_at(&["status", "agentStatus"])?.as_array()?;
    agents.iter().find(|agent| agent["type"] == "MemberAgent")?.get("conditions")
}

fn find_condition<'c>(conditions: &'c [ReportedCondition], kind: &str) -> Option<&'c ReportedCondition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// The resources of `status.resourceUsage`.
pub(super) fn read_capacity(usage: ReportedUsage) -> Capacity {
    Capacity {
        total: read_amounts(usage.capacity),
        allocatable: read_amounts(usage.allocatable),
        available: read_amounts(usage.available),
        shapes: None,
    }
}

fn read_amounts(entries: BTreeMap<String, Value>) -> BTreeMap<String, Quantity> {
    entries.into_iter().filter_map(|(name, value)| Some((name, Quantity::from_json(&value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: &str = "2026-11-20T12:00:00Z";

    fn member(status: &Value) -> Object {
        Object::from_path("cluster.kubernetes-fleet.io/v1", "MemberCluster", "a", json!({"status": status}))
    }

    fn reporting(heartbeat: &str, healthy: &str, since: &str) -> Cluster {
        let conditions = json!([{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": healthy, "lastTransitionTime": since}]);
        let agent =
            json!({"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": conditions});
        read_cluster(&member(&json!({"agentStatus": [agent]})), true, &KubeFleetBehaviour::for_newest())
    }

    fn eligible(cluster: &Cluster) -> bool {
        check_eligibility(cluster, Some(NOW.parse().unwrap())).is_none()
    }

    #[test]
    fn the_hub_labels_clusters_with_their_names() {
        let label = |release: &str| {
            let behaviour = KubeFleetBehaviour::for_release(crate::RELEASES.parse_release(release).unwrap());
            read_cluster(&member(&json!({})), false, &behaviour).labels.get(MEMBER_NAME_LABEL).cloned()
        };
        assert_eq!(
            [label("0.3.0"), label("0.3.1"), label("main")],
            [None, Some("a".into()), Some("a".into())]
        );
    }

    #[test]
    fn five_minutes_are_still_fresh() {
        assert!(eligible(&reporting("2026-11-20T11:55:00Z", "True", "")));
        assert!(!eligible(&reporting("2026-11-20T11:54:59Z", "True", "")));
        assert!(!eligible(&reporting("", "True", "")));
        assert!(check_eligibility(&reporting("", "True", ""), None).is_none(), "no clock, no age");
    }

    #[test]
    fn bad_health_is_tolerated_for_five_minutes() {
        for bad in ["False", "Unknown"] {
            assert!(eligible(&reporting(NOW, bad, "2026-11-20T11:55:00Z")));
            assert!(!eligible(&reporting(NOW, bad, "2026-11-20T11:54:59Z")));
            assert!(check_eligibility(&reporting(NOW, bad, NOW), None).is_some());
        }
    }

    #[test]
    fn without_an_agent_the_mode_decides() {
        let bare = member(&json!({"properties": {"a/b": {"value": "1"}}}));
        assert!(
            eligible(&read_cluster(&bare, false, &KubeFleetBehaviour::for_newest()))
                && !eligible(&read_cluster(&bare, true, &KubeFleetBehaviour::for_newest()))
        );
        assert!(!eligible(&read_cluster(
            &member(&json!({"agentStatus": []})),
            false,
            &KubeFleetBehaviour::for_newest()
        )));
    }

    #[test]
    fn namespaces_count_once_collected() {
        let collected = json!([{"type": "NamespaceCollectionSucceeded", "status": "False"}]);
        let of = |status: Value| {
            read_cluster(&member(&status), true, &KubeFleetBehaviour::for_newest())
                .namespaces
                .map(|n| n.len())
        };
        assert_eq!(of(json!({"namespaces": {"a": "w"}})), None);
        assert_eq!(of(json!({"conditions": collected})), Some(0));
        assert_eq!(of(json!({"conditions": collected, "namespaces": {"a": "w"}})), Some(1));
    }
}
