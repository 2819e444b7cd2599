//! The clusters that a placement selects.
//!
//! Facts: if there is a `clusters` list, even an empty one, only the list counts. Without a list, an absent
//! selector selects nothing and an empty one selects all clusters. Names without a cluster are ignored.
//! Readiness does not matter.

use super::api::PlacementSpec;
use federate_dialect::VerdictCause;
use federate_kubernetes::pointer::escape;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Cluster, ObjectRef};

/// Why a selector is invalid, and its place in the federated object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidSelector {
    pub pointer: String,
    pub why: String,
}

/// For each of `clusters`, whether it is selected.
pub(super) fn selected_clusters(
    spec: &PlacementSpec,
    clusters: &[&Cluster],
) -> Result<Vec<bool>, InvalidSelector> {
    match &spec.clusters {
        Some(named) => {
            let named: std::collections::BTreeSet<&str> = named.iter().map(|c| c.name.as_str()).collect();
            Ok(clusters.iter().map(|c| named.contains(c.name.as_ref())).collect())
        }
        None => selected_by_labels(spec, clusters),
    }
}

/// For each of `clusters`, whether the selector selects it. The list does not count.
pub(super) fn selected_by_labels(
    spec: &PlacementSpec,
    clusters: &[&Cluster],
) -> Result<Vec<bool>, InvalidSelector> {
    let Some(selector) = &spec.cluster_selector else { return Ok(vec![false; clusters.len()]) };
    if let Some((below, why)) = selector.find_mistake() {
        return Err(InvalidSelector { pointer: format!("/spec/placement/clusterSelector{below}"), why });
    }
    Ok(clusters.iter().map(|c| selector.matches(&c.labels)).collect())
}

/// Why a placement selects a cluster, in a sentence.
pub(super) fn describe_selection(spec: &PlacementSpec) -> &'static str {
    match (&spec.clusters, &spec.cluster_selector) {
        (Some(_), _) => "named in `placement.clusters`",
        (None, Some(selector)) if *selector == LabelSelector::default() => {
            "selected by the empty `clusterSelector`"
        }
        (None, _) => "selected by `clusterSelector`",
    }
}

/// Why the placement of a federated object does not select a cluster: in words, and the fields.
pub(super) fn explain_exclusion(
    object: &ObjectRef,
    spec: &PlacementSpec,
    cluster: &Cluster,
) -> (String, Vec<VerdictCause>) {
    if spec.clusters.is_none() {
        return explain_mismatch(object, spec, cluster);
    }
    let why = match &spec.cluster_selector {
        Some(_) => "not named in `placement.clusters`; the selector has no effect beside the list",
        None => "not named in `placement.clusters`",
    };
    let path = "/spec/placement/clusters".to_owned();
    (why.to_owned(), vec![VerdictCause::NotListed { object: object.clone(), path }])
}

/// Why the selector of a placement does not select a cluster. The list does not count.
pub(super) fn explain_mismatch(
    object: &ObjectRef,
    spec: &PlacementSpec,
    cluster: &Cluster,
) -> (String, Vec<VerdictCause>) {
    const SELECTOR: &str = "/spec/placement/clusterSelector";
    let Some(selector) = &spec.cluster_selector else {
        let why = match &spec.clusters {
            Some(_) => "the placement has no `clusterSelector`",
            None => "the placement has neither `clusters` nor `clusterSelector`",
        };
        let cause = VerdictCause::Absent { object: object.clone(), path: SELECTOR.to_owned() };
        return (why.to_owned(), vec![cause]);
    };
    let (mut reasons, mut causes) = (Vec::new(), Vec::new());
    for (key, value) in &selector.match_labels {
        reasons.push(match cluster.labels.get(key) {
            Some(found) if found == value => continue,
            Some(found) => format!("its label `{key}` is `{found}`, not `{value}`"),
            None => format!("it has no label `{key}`"),
        });
        causes.push(VerdictCause::field(object, format!("{SELECTOR}/matchLabels/{}", escape(key))));
    }
    for (at, requirement) in selector.match_expressions.iter().enumerate() {
        if requirement.matches(&cluster.labels) {
            continue;
        }
        let found = cluster.labels.get(&requirement.key).map_or("absent".to_owned(), |v| format!("`{v}`"));
        let wanted = format!("{} {}", requirement.operator, requirement.values.join(", "));
        let wanted = wanted.trim_end();
        reasons.push(format!("its label `{}` is {found}, which fails `{wanted}`", requirement.key));
        causes.push(VerdictCause::field(object, format!("{SELECTOR}/matchExpressions/{at}")));
    }
    (reasons.join(", and "), causes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use federate_kubernetes::Object;

    fn cluster(name: &str, labels: &[(&str, &str)]) -> Cluster {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Cluster { labels, ..Cluster::from_object(&Object::from_path("v1", "C", name, Value::Null)) }
    }

    fn of(spec: Value) -> Result<Vec<bool>, InvalidSelector> {
        let (a, b) = (cluster("a", &[("env", "prod")]), cluster("b", &[]));
        selected_clusters(&serde_json::from_value(spec).unwrap(), &[&a, &b])
    }

    #[test]
    fn the_list_decides_before_the_selector() {
        for (spec, want) in [
            (json!({}), [false, false]),
            (json!({"clusters": null, "clusterSelector": null}), [false, false]),
            (json!({"clusterSelector": {}}), [true, true]),
            (json!({"clusterSelector": {"matchLabels": {}}}), [true, true]),
            (json!({"clusterSelector": {"matchLabels": {"env": "prod"}}}), [true, false]),
            (json!({"clusters": [], "clusterSelector": {}}), [false, false]),
            (json!({"clusters": [{"name": "b"}, {"name": "b"}, {"name": "ghost"}]}), [false, true]),
        ] {
            assert_eq!(of(spec.clone()), Ok(want.to_vec()), "{spec}");
        }
    }

    #[test]
    fn an_invalid_selector_is_an_error_unless_a_list_is_there() {
        let selector = json!({"matchExpressions": [{"key": "env", "operator": "in", "values": ["x"]}]});
        let error = of(json!({"clusterSelector": selector})).unwrap_err();
        assert_eq!(error.pointer, "/spec/placement/clusterSelector/matchExpressions/0");
        assert_eq!(
            of(json!({"clusters": [{"name": "a"}], "clusterSelector": selector})),
            Ok(vec![true, false])
        );
    }
}
