//! Federation v1's replica preferences: an annotation for each kind that has replicas.
//!
//! Facts: without the annotation, or if it cannot be decoded, every cluster has weight 1. An annotation without
//! clusters gives every cluster 0.

use std::collections::BTreeMap;

use serde_json::Value;

use super::json;
use crate::api::ClusterPreference;
use federate_kubernetes::Object;

/// The preferences for the clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct V1Preferences {
    pub rebalance: bool,
    clusters: BTreeMap<String, ClusterPreference>,
}

impl V1Preferences {
    /// Reads the preferences of an object. Also returns why the annotation does not count, if it does not.
    pub(super) fn from_object(object: &Object, annotation: &str) -> (Self, Option<String>) {
        match object.annotation(annotation).map(Self::parse_annotation) {
            Some(Ok(preferences)) => (preferences, None),
            Some(Err(why)) => (Self::evenly_weighted(), Some(why)),
            None => (Self::evenly_weighted(), None),
        }
    }

    fn evenly_weighted() -> Self {
        let all = ClusterPreference { weight: 1, ..ClusterPreference::default() };
        Self { rebalance: false, clusters: BTreeMap::from([("*".to_owned(), all)]) }
    }

    fn parse_annotation(annotation: &str) -> Result<Self, String> {
        let document = json::parse(annotation)?;
        let map = json::read_structure(&document)?;
        let mut clusters = BTreeMap::new();
        for (name, value) in json::read_entries(map, "clusters")? {
            let map = json::read_structure(value)?;
            let preference = ClusterPreference {
                weight: json::read_integer(map, "weight")?.unwrap_or(0),
                min_replicas: json::read_integer(map, "minReplicas")?.unwrap_or(0),
                max_replicas: json::read_integer(map, "maxReplicas")?,
            };
            clusters.insert(name.to_owned(), preference);
        }
        Ok(Self { rebalance: json::read_boolean(map, "rebalance")?, clusters })
    }

    /// The keys of an annotation that Federation v1 does not know, each with the known ones at its place.
    pub(super) fn unknown_keys(annotation: &str) -> Vec<(String, &'static [&'static str])> {
        const OUTER: &[&str] = &["rebalance", "clusters"];
        const INNER: &[&str] = &["weight", "minReplicas", "maxReplicas"];
        let document = json::parse(annotation).unwrap_or_default();
        let outer = document.as_object().map(|map| (map, OUTER));
        let clusters = document.get("clusters").and_then(Value::as_object).into_iter().flatten();
        let inner = clusters.filter_map(|(_, value)| Some((value.as_object()?, INNER)));
        let mut unknown = Vec::new();
        for (map, known) in outer.into_iter().chain(inner) {
            let keys = map.keys().filter(|key| !known.iter().any(|known| known.eq_ignore_ascii_case(key)));
            unknown.extend(keys.map(|key| (key.clone(), known)));
        }
        unknown
    }

    /// The preference for one cluster.
    pub(super) fn for_cluster(&self, name: &str) -> Option<ClusterPreference> {
        self.clusters.get(name).or_else(|| self.clusters.get("*")).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_as_go_does() {
        let read = V1Preferences::parse_annotation(
            r#"{"Clusters": {"a": {"WEIGHT": 2, "maxReplicas": 3, "x": 1}, "b": null}}"#,
        );
        let read = read.unwrap();
        assert_eq!(
            read.for_cluster("a"),
            Some(ClusterPreference { weight: 2, min_replicas: 0, max_replicas: Some(3) })
        );
        assert_eq!(read.for_cluster("b"), Some(ClusterPreference::default()));
        assert_eq!(read.for_cluster("c"), None);
    }

    #[test]
    fn nothing_is_not_the_same_as_no_annotation() {
        for nothing in ["{}", "null"] {
            assert_eq!(V1Preferences::parse_annotation(nothing).unwrap().for_cluster("a"), None);
        }
        for invalid in ["", "[]", r#"{"clusters": []}"#, r#"{"clusters": {"*": {"weight": "1"}}}"#, "{} x"] {
            assert!(V1Preferences::parse_annotation(invalid).is_err(), "{invalid}");
        }
        assert_eq!(V1Preferences::evenly_weighted().for_cluster("a").map(|p| p.weight), Some(1));
    }
}
