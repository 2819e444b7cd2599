//! Resource selectors: which templates a policy selects, and how specifically.

use super::api::ResourceSelector;
use federate_kubernetes::Object;

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

/// The most specific match of any selector. A selector without a namespace selects in `default_namespace`, or
/// in any namespace if that is `None`.
pub(super) fn implicit_priority(
    selectors: &[ResourceSelector],
    object: &Object,
    default_namespace: Option<&str>,
) -> Option<ImplicitPriority> {
    selectors.iter().filter_map(|s| one(s, object, default_namespace)).max()
}

fn one(
    selector: &ResourceSelector,
    object: &Object,
    default_namespace: Option<&str>,
) -> Option<ImplicitPriority> {
    let given = Some(selector.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let namespace = given.or(default_namespace);
    let id = &object.id;
    if selector.api_version != id.api_version
        || selector.kind != id.kind
        || namespace.is_some_and(|n| id.namespace.as_deref() != Some(n))
    {
        return None;
    }
    if !selector.name.is_empty() {
        return (selector.name == id.name).then_some(ImplicitPriority::Name);
    }
    match &selector.label_selector {
        None => Some(ImplicitPriority::All),
        Some(labels) => labels.matches(&object.labels()).then_some(ImplicitPriority::Label),
    }
}
