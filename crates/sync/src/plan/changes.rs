//! What a new revision changes: only that is sent to clusters that are at the revision before.
//!
//! Everything else in them is watched, and compared at the interval. Where objects would go, or where the change is
//! large, clusters are read completely, as they are at the first reconciliation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::ClusterNames;
use federate_kubernetes::ObjectRef;
use federate_session::Session;

/// More objects than this are not looked at one by one.
const MAX_CHANGED_OBJECTS: usize = 50;

/// Kinds that other objects need, so that a change of them may concern every object.
const PREREQUISITE_KINDS: [&str; 2] = ["CustomResourceDefinition", "Namespace"];

/// Kinds that decide about fields of other objects.
const AUTOSCALER_KINDS: [&str; 3] = ["HorizontalPodAutoscaler", "ScaledObject", "VerticalPodAutoscaler"];

/// The variants of an object: their clusters and texts.
type Variants = Vec<(ClusterNames, Arc<str>)>;

/// What clusters have by a rendering.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RenderedObjects {
    objects: BTreeMap<ObjectRef, Variants>,
    not_sent: Vec<(ObjectRef, ClusterNames)>,
}

impl RenderedObjects {
    /// What a session renders.
    pub(crate) fn from_session(session: &Session) -> Self {
        let rendering = session.render();
        let mut objects: BTreeMap<ObjectRef, Variants> = BTreeMap::new();
        for manifest in &rendering.manifests {
            let variants = objects.entry(manifest.object.clone()).or_default();
            variants.push((manifest.clusters.clone(), manifest.text.clone()));
        }
        let not_sent = rendering.not_sent.iter().map(|held| (held.object.clone(), held.clusters.clone()));
        Self { objects, not_sent: not_sent.collect() }
    }

    /// The objects that clusters with this rendering need for another one; `None` if that is to be found out by reading
    /// them.
    pub(crate) fn changed_objects(&self, now: &Self) -> Option<BTreeSet<ObjectRef>> {
        let gone = self.objects.keys().any(|object| !now.objects.contains_key(object));
        if gone || self.not_sent != now.not_sent {
            return None;
        }
        let mut changed = BTreeSet::new();
        for (object, variants) in &now.objects {
            let before = self.objects.get(object);
            if before == Some(variants) {
                continue;
            }
            let has = cluster_names(variants);
            let leaves = before.is_some_and(|before| !cluster_names(before).is_subset(&has));
            if leaves || PREREQUISITE_KINDS.contains(&object.kind.as_str()) {
                return None;
            }
            changed.insert(object.clone());
        }
        now.with_autoscalers(&changed)
    }

    /// Some objects, with the autoscalers beside them; `None` if they are too many, or if one of them is not rendered.
    pub(crate) fn with_autoscalers(&self, some: &BTreeSet<ObjectRef>) -> Option<BTreeSet<ObjectRef>> {
        if some.len() > MAX_CHANGED_OBJECTS || some.iter().any(|object| !self.objects.contains_key(object)) {
            return None;
        }
        let namespaces: BTreeSet<_> = some.iter().map(|object| &object.namespace).collect();
        Some(
            self.objects
                .keys()
                .filter(|object| {
                    AUTOSCALER_KINDS.contains(&object.kind.as_str()) && namespaces.contains(&object.namespace)
                })
                .chain(some)
                .cloned()
                .collect(),
        )
    }
}

fn cluster_names(variants: &[(ClusterNames, Arc<str>)]) -> BTreeSet<&str> {
    variants.iter().flat_map(|(clusters, _)| clusters.iter().map(AsRef::as_ref)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(objects: &[(&str, &str, &[&str], &str)]) -> RenderedObjects {
        let one = |(kind, name, clusters, text): &(&str, &str, &[&str], &str)| {
            let object = ObjectRef {
                api_version: "v1".to_owned(),
                kind: (*kind).to_owned(),
                namespace: Some("shop".to_owned()),
                name: (*name).to_owned(),
            };
            let clusters = clusters.iter().map(|name| (*name).into()).collect();
            (object, vec![(clusters, Arc::from(*text))])
        };
        RenderedObjects { objects: objects.iter().map(one).collect(), not_sent: Vec::new() }
    }

    fn names(changed: Option<BTreeSet<ObjectRef>>) -> Option<Vec<String>> {
        changed.map(|changed| changed.into_iter().map(|object| object.name).collect())
    }

    #[test]
    fn only_what_differs_is_sent_unless_something_goes() {
        let both: &[&str] = &["m1", "m2"];
        let before = rendered(&[("ConfigMap", "a", both, "1"), ("ConfigMap", "b", &["m1"], "1")]);
        let same = rendered(&[("ConfigMap", "a", both, "1"), ("ConfigMap", "b", &["m1"], "1")]);
        assert_eq!(names(before.changed_objects(&same)), Some(Vec::new()));
        let edited = rendered(&[("ConfigMap", "a", both, "2"), ("ConfigMap", "b", &["m1"], "1")]);
        assert_eq!(names(before.changed_objects(&edited)), Some(vec!["a".to_owned()]));
        let spread = rendered(&[("ConfigMap", "a", both, "1"), ("ConfigMap", "b", both, "1")]);
        assert_eq!(names(before.changed_objects(&spread)), Some(vec!["b".to_owned()]));
        assert_eq!(spread.changed_objects(&before), None, "b leaves a cluster");
        assert_eq!(before.changed_objects(&rendered(&[("ConfigMap", "a", both, "1")])), None, "b is gone");
        let namespace = rendered(&[
            ("ConfigMap", "a", both, "1"),
            ("ConfigMap", "b", &["m1"], "1"),
            ("Namespace", "n", both, "1"),
        ]);
        assert_eq!(before.changed_objects(&namespace), None, "others may need it");
    }

    #[test]
    fn autoscalers_are_read_with_what_they_may_scale() {
        let all: &[&str] = &["m1"];
        let with = |image| {
            rendered(&[("Deployment", "web", all, image), ("HorizontalPodAutoscaler", "h", all, "1")])
        };
        let changed = names(with("1").changed_objects(&with("2"))).unwrap();
        assert_eq!(changed, ["web", "h"]);
    }
}
