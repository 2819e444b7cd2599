//! Resource selectors: which templates a policy selects, and how specifically.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::api::KarmadaResourceSelector;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Object, ObjectRef, work};

/// How specifically a policy selects a template. The more specific policy wins, or is applied last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ImplicitPriority {
    /// By kind alone.
    All = 1,
    /// By labels.
    Label = 2,
    /// By name.
    Name = 3,
}

/// What an object must have so that a selector can select it: API version, kind, and its namespace and name where the
/// selector has them.
type SelectorKey<'k> = (Cow<'k, str>, Cow<'k, str>, Cow<'k, str>, Cow<'k, str>);

/// The selectors of several policies, by what an object must have. A policy is known by its number.
#[derive(Default)]
pub(super) struct SelectorIndex {
    /// Selectors without labels.
    plain: HashMap<SelectorKey<'static>, Vec<usize>>,
    /// Selectors with labels.
    labelled: HashMap<SelectorKey<'static>, LabelSelectors>,
}

/// Selectors with labels, by a label that each needs.
#[derive(Default)]
struct LabelSelectors {
    by_label: HashMap<(String, String), Vec<(usize, LabelSelector)>>,
    /// Those that need no certain label.
    others: Vec<(usize, LabelSelector)>,
}

impl SelectorIndex {
    /// Adds the selectors of a policy. A selector without a namespace selects in `default_namespace`, or in any namespace if
    /// that is `None`.
    pub(super) fn add_selectors(
        &mut self,
        policy: usize,
        selectors: &[KarmadaResourceSelector],
        default_namespace: Option<&str>,
    ) {
        let mut known = BTreeSet::new();
        for selector in selectors {
            let namespace = Some(selector.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let namespace = namespace.or(default_namespace).unwrap_or_default();
            let Some(labels) = selector.label_selector.as_ref().filter(|_| selector.name.is_empty()) else {
                let key = owned_key(selector, namespace, &selector.name);
                let policies = self.plain.entry(key).or_default();
                if policies.last() != Some(&policy) {
                    policies.push(policy);
                }
                continue;
            };
            // A selector that is written several times is one.
            let key = owned_key(selector, namespace, "");
            if labels.find_mistake().is_some() || !known.insert((key.clone(), format!("{labels:?}"))) {
                continue;
            }
            let place = self.labelled.entry(key).or_default();
            match labels.match_labels.iter().next() {
                Some((name, value)) => {
                    let label = (name.clone(), value.clone());
                    place.by_label.entry(label).or_default().push((policy, labels.clone()));
                }
                None => place.others.push((policy, labels.clone())),
            }
        }
    }

    /// The policies that select an object, by number, each with its most specific match.
    pub(super) fn find_matches(&self, object: &Object) -> Vec<(usize, ImplicitPriority)> {
        let id = &object.id;
        let mut found: Vec<(usize, ImplicitPriority)> = Vec::new();
        let own = id.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let labels = (!self.labelled.is_empty()).then(|| object.labels());
        for namespace in [Some(""), own].into_iter().flatten() {
            for (name, priority) in [(&*id.name, ImplicitPriority::Name), ("", ImplicitPriority::All)] {
                let plain = self.plain.get(&key_of(id, namespace, name));
                work::charge_steps(STEPS_OF_MATCH * plain.map_or(0, Vec::len) as u64);
                found.extend(plain.into_iter().flatten().map(|policy| (*policy, priority)));
            }
            let place = self.labelled.get(&key_of(id, namespace, ""));
            let (Some(place), Some(labels)) = (place, &labels) else { continue };
            let by_label =
                labels.iter().filter_map(|(name, value)| place.by_label.get(&(name.clone(), value.clone())));
            let candidates = by_label.flatten().chain(&place.others);
            for (policy, selector) in candidates {
                work::charge_steps(STEPS_OF_SELECTOR);
                if selector.matches(labels) {
                    found.push((*policy, ImplicitPriority::Label));
                }
            }
        }
        found.sort_unstable_by_key(|(policy, priority)| (*policy, Reverse(*priority)));
        found.dedup_by_key(|(policy, _)| *policy);
        found
    }
}

/// What an object must have so that a selector selects it.
fn owned_key(selector: &KarmadaResourceSelector, namespace: &str, name: &str) -> SelectorKey<'static> {
    let [version, kind, namespace, name] =
        [&selector.api_version, &selector.kind, namespace, name].map(|text| Cow::Owned(text.to_owned()));
    (version, kind, namespace, name)
}

/// The key of the selectors with this namespace and name that may select an object.
fn key_of<'k>(id: &'k ObjectRef, namespace: &'k str, name: &'k str) -> SelectorKey<'k> {
    (Cow::from(&*id.api_version), Cow::from(&*id.kind), Cow::from(namespace), Cow::from(name))
}

/// The steps of a policy that matches by its place alone.
const STEPS_OF_MATCH: u64 = 2;

/// The steps of comparing labels with a selector.
const STEPS_OF_SELECTOR: u64 = 5;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selectors(list: &Value) -> Vec<KarmadaResourceSelector> {
        serde_json::from_value(list.clone()).unwrap()
    }

    #[test]
    fn the_most_specific_match_of_each_policy_counts() {
        let mut index = SelectorIndex::default();
        let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let with = |key: &str, value: Value| {
            let mut selector = kind.clone();
            selector[key] = value;
            selector
        };
        let app = |value: &str| with("labelSelector", json!({"matchLabels": {"app": value}}));
        let any = with("labelSelector", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}));
        let all = [
            json!([kind, with("name", json!("a"))]),
            json!([app("web"), kind]),
            json!([any]),
            json!([app("other"), with("name", json!("b"))]),
            json!([with("namespace", json!("elsewhere"))]),
            json!([{"apiVersion": "v2", "kind": "ConfigMap"}]),
            json!([app("not/valid")]),
        ];
        for (policy, list) in all.iter().enumerate() {
            index.add_selectors(policy, &selectors(list), None);
        }
        index.add_selectors(7, &selectors(&json!([kind])), Some("shop"));
        index.add_selectors(8, &selectors(&json!([kind])), Some("elsewhere"));
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "shop", "labels": {"app": "web"}}});
        let found = index.find_matches(&Object::from_manifest(body, "a.yaml"));
        let expected = [
            (0, ImplicitPriority::Name),
            (1, ImplicitPriority::Label),
            (2, ImplicitPriority::Label),
            (7, ImplicitPriority::All),
        ];
        assert_eq!(found, expected);
    }
}
