//! Reads `MemberCluster` into the neutral cluster, and decides whether a cluster is eligible for placements.
//!
//! Facts: the status of the agent of type `MemberAgent` counts, with its conditions `Joined` and `Healthy`. A
//! cluster is ineligible when its heartbeat is older than five minutes, or when it has been unhealthy for more
//! than five minutes. An absent time is Go's zero time.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::version::Behaviour;
use federate_kubernetes::object::string_map;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Capacity, Cluster, Liveness, Object, Taint};

/// The longest age of a heartbeat, and of bad health.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// The label with the name of the cluster, which the hub adds to every `MemberCluster`.
const MEMBER_NAME: &str = "kubernetes-fleet.io/member-name";

/// The property with the version of Kubernetes in a cluster.
const VERSION: &str = "k8s.io/k8s-version";

/// The year 1: what Go reads from a time that is absent.
const LONG_AGO: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// Reads an inventory object. One in git has no agent status; without `strict` it then counts as joined and
/// healthy.
pub(super) fn read(object: &Object, strict: bool, behaviour: &Behaviour) -> Cluster {
    let agents = object.at(&["status", "agentStatus"]).filter(|v| !v.is_null());
    let agent = list(agents).iter().find(|a| has_text(a, "type", "MemberAgent"));
    let known = agents.is_some() || strict;
    let joined = agent.and_then(|a| condition(a, "Joined"));
    let healthy = agent.and_then(|a| condition(a, "Healthy"));
    let is_true = |c: Option<&Value>| c.is_some_and(|c| has_text(c, "status", "True"));
    let unhealthy = healthy.filter(|c| !has_text(c, "status", "True"));
    let mut cluster = Cluster::of(object);
    if behaviour.member_name_label {
        cluster.labels.insert(MEMBER_NAME.to_owned(), object.id.name.clone());
    }
    Cluster {
        taints: list(object.at(&["spec", "taints"])).iter().map(taint).collect(),
        capacity: object.at(&["status", "resourceUsage"]).filter(|v| !v.is_null()).map(capacity),
        kubernetes: properties(object).remove(VERSION),
        properties: properties(object),
        joined: !known || is_true(joined),
        ready: !known || is_true(healthy),
        liveness: Liveness {
            heartbeat: agent.map(|a| time(a, "lastReceivedHeartbeat")),
            unready_since: unhealthy.map(|c| time(c, "lastTransitionTime")),
        },
        namespaces: namespaces(object),
        ..cluster
    }
}

/// Why a cluster is not eligible for placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ineligible {
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

/// Why a cluster is not eligible for placements, if it is not. Without a clock, ages do not count.
pub(super) fn ineligible(cluster: &Cluster, now: Option<Timestamp>) -> Option<Ineligible> {
    let age = |since: Option<Timestamp>| Some(now?.duration_since(since?));
    let silent = age(cluster.liveness.heartbeat).filter(|age| *age > PATIENCE);
    let unhealthy = age(cluster.liveness.unready_since);
    if cluster.deleting {
        Some(Ineligible::Leaving)
    } else if !cluster.joined && cluster.liveness.heartbeat.is_none() {
        Some(Ineligible::Offline)
    } else if let Some(age) = silent {
        let never = cluster.liveness.heartbeat == Some(LONG_AGO);
        Some(if never { Ineligible::NeverHeard } else { Ineligible::Silent(age) })
    } else if !cluster.joined {
        Some(Ineligible::NotJoined)
    } else if cluster.ready || unhealthy.is_some_and(|age| age <= PATIENCE) {
        None
    } else {
        Some(Ineligible::Unhealthy(unhealthy))
    }
}

impl fmt::Display for Ineligible {
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

impl Ineligible {
    /// The same in the words of the scheduler's own status.
    pub(super) fn status(&self) -> String {
        /// The longest duration that Go has.
        const FOR_EVER: SignedDuration = SignedDuration::from_nanos(i64::MAX);
        let minutes = |age: SignedDuration| age.min(FOR_EVER).as_secs_f64() / 60.0;
        let offline = match self {
            Self::Leaving => return "cluster has left the fleet".to_owned(),
            Self::Offline => "member agent not online yet".to_owned(),
            Self::NotJoined => "member agent not joined yet".to_owned(),
            Self::Silent(age) => {
                format!("no recent heartbeat signals (last received {:.2} minutes ago)", minutes(*age))
            }
            Self::NeverHeard => {
                format!("no recent heartbeat signals (last received {:.2} minutes ago)", minutes(FOR_EVER))
            }
            Self::Unhealthy(None) => "health condition not available".to_owned(),
            Self::Unhealthy(Some(age)) => format!(
                "unhealthy for a prolonged period of time (last transitioned {:.2} minutes ago)",
                minutes(*age)
            ),
        };
        format!("cluster is not connected to the fleet: {offline}")
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn has_text(value: &Value, key: &str, what: &str) -> bool {
    text(value, key) == what
}

fn time(value: &Value, key: &str) -> Timestamp {
    text(value, key).parse().unwrap_or(LONG_AGO)
}

fn condition<'v>(value: &'v Value, kind: &str) -> Option<&'v Value> {
    list(value.get("conditions")).iter().find(|c| has_text(c, "type", kind))
}

fn taint(value: &Value) -> Taint {
    let of = |key| text(value, key).to_owned();
    Taint { key: of("key"), value: of("value"), effect: of("effect") }
}

fn properties(object: &Object) -> BTreeMap<String, String> {
    let all = object.at(&["status", "properties"]).and_then(Value::as_object);
    all.into_iter().flat_map(Map::iter).map(|(name, p)| (name.clone(), text(p, "value").to_owned())).collect()
}

/// Reads `status.resourceUsage`.
pub(super) fn capacity(usage: &Value) -> Capacity {
    let amounts = |key: &str| {
        let entries = usage.get(key).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value)?))).collect()
    };
    Capacity {
        total: amounts("capacity"),
        allocatable: amounts("allocatable"),
        available: amounts("available"),
        shapes: None,
    }
}

/// The namespaces of a cluster count once it has the condition of their collection.
fn namespaces(object: &Object) -> Option<std::collections::BTreeSet<String>> {
    condition(object.at(&["status"])?, "NamespaceCollectionSucceeded")?;
    Some(string_map(object.at(&["status", "namespaces"])).into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: &str = "2026-11-20T12:00:00Z";

    fn member(status: &Value) -> Object {
        Object::named("cluster.kubernetes-fleet.io/v1", "MemberCluster", "a", json!({"status": status}))
    }

    fn reporting(heartbeat: &str, healthy: &str, since: &str) -> Cluster {
        let conditions = json!([{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": healthy, "lastTransitionTime": since}]);
        let agent =
            json!({"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": conditions});
        read(&member(&json!({"agentStatus": [agent]})), true, &Behaviour::newest())
    }

    fn eligible(cluster: &Cluster) -> bool {
        ineligible(cluster, Some(NOW.parse().unwrap())).is_none()
    }

    #[test]
    fn the_hub_labels_clusters_with_their_names() {
        let label = |release: &str| {
            let behaviour = Behaviour::of(crate::RELEASES.read(release).unwrap());
            read(&member(&json!({})), false, &behaviour).labels.get(MEMBER_NAME).cloned()
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
        assert!(ineligible(&reporting("", "True", ""), None).is_none(), "no clock, no age");
    }

    #[test]
    fn bad_health_is_tolerated_for_five_minutes() {
        for bad in ["False", "Unknown"] {
            assert!(eligible(&reporting(NOW, bad, "2026-11-20T11:55:00Z")));
            assert!(!eligible(&reporting(NOW, bad, "2026-11-20T11:54:59Z")));
            assert!(ineligible(&reporting(NOW, bad, NOW), None).is_some());
        }
    }

    #[test]
    fn without_an_agent_the_mode_decides() {
        let bare = member(&json!({"properties": {"a/b": {"value": "1"}}}));
        assert!(
            eligible(&read(&bare, false, &Behaviour::newest()))
                && !eligible(&read(&bare, true, &Behaviour::newest()))
        );
        assert!(!eligible(&read(&member(&json!({"agentStatus": []})), false, &Behaviour::newest())));
    }

    #[test]
    fn namespaces_count_once_collected() {
        let collected = json!([{"type": "NamespaceCollectionSucceeded", "status": "False"}]);
        let of =
            |status: Value| read(&member(&status), true, &Behaviour::newest()).namespaces.map(|n| n.len());
        assert_eq!(of(json!({"namespaces": {"a": "w"}})), None);
        assert_eq!(of(json!({"conditions": collected})), Some(0));
        assert_eq!(of(json!({"conditions": collected, "namespaces": {"a": "w"}})), Some(1));
    }
}
