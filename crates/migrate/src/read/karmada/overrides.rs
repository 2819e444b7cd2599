//! Finds the objects that override policies of Karmada select.

use std::collections::BTreeMap;

use federate_kubernetes::Object;
use federate_kubernetes::selector::LabelSelector;
use federate_repo::Role;
use federate_session::Session;
use serde::Deserialize;
use serde_json::Value;

use super::NAME;

/// What the override policies of a repo select, by the namespace of policies and the kind of objects; without a kind, all.
pub(super) struct OverrideSelectors<'s>(BTreeMap<(Option<&'s str>, Option<ObjectKind>), KindSelectors<'s>>);

/// API version and kind.
type ObjectKind = (String, String);

/// The selectors of objects of one kind.
#[derive(Default)]
struct KindSelectors<'s> {
    /// Those that name an object, by its namespace, which is empty for any, and its name.
    by_name: BTreeMap<(String, String), &'s Object>,
    others: Vec<(ObjectSelector, &'s Object)>,
}

/// One of the objects of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectSelector {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    label_selector: Option<LabelSelector>,
}

impl<'s> OverrideSelectors<'s> {
    pub(super) fn new(session: &'s Session) -> Self {
        let claimed = session.repo().claimed.iter();
        let own = claimed.filter(|one| one.dialect == NAME && one.role == Role::Override);
        let mut all: BTreeMap<_, KindSelectors<'s>> = BTreeMap::new();
        for policy in own.map(|one| &one.object) {
            let namespace = policy.id.namespace.as_deref();
            let selectors = policy.value_at(&["spec", "resourceSelectors"]).and_then(Value::as_array);
            let selectors: Vec<ObjectSelector> = selectors
                .into_iter()
                .flatten()
                .filter_map(|selector| ObjectSelector::deserialize(selector).ok())
                .collect();
            if selectors.is_empty() {
                let known = all.entry((namespace, None)).or_default();
                known.others.push((ObjectSelector::default(), policy));
            }
            for selector in selectors {
                let kind = (selector.api_version.clone(), selector.kind.clone());
                let known = all.entry((namespace, Some(kind))).or_default();
                if selector.name.is_empty() {
                    known.others.push((selector, policy));
                } else {
                    // A policy of a namespace is about the objects there.
                    let named = if namespace.is_none() { selector.namespace } else { String::new() };
                    known.by_name.entry((named, selector.name)).or_insert(policy);
                }
            }
        }
        Self(all)
    }

    /// A policy that selects an object.
    pub(super) fn find_policy(&self, object: &Object) -> Option<&'s Object> {
        let id = &object.id;
        let kind = Some((id.api_version.clone(), id.kind.clone()));
        let own = id.namespace.as_deref();
        let keys = [(None, None), (None, kind.clone()), (own, None), (own, kind)];
        keys.iter().filter_map(|key| self.0.get(key)).find_map(|known| known.find_policy(object))
    }
}

impl<'s> KindSelectors<'s> {
    fn find_policy(&self, object: &Object) -> Option<&'s Object> {
        let namespace = object.id.namespace.as_deref().unwrap_or_default();
        let labels = object.labels();
        let selects = |selector: &ObjectSelector| {
            (selector.namespace.is_empty() || selector.namespace == namespace)
                && selector.label_selector.as_ref().is_none_or(|selector| selector.matches(&labels))
        };
        let named =
            |namespace: &str| self.by_name.get(&(namespace.to_owned(), object.id.name.clone())).copied();
        named("")
            .or_else(|| named(namespace))
            .or_else(|| self.others.iter().find(|(selector, _)| selects(selector)).map(|(_, policy)| *policy))
    }
}
