//! What a placement selects from its hub, which is the repo.
//!
//! Facts: selectors are handled in order and their objects stand in one list, which is then sorted
//! (`order`). A Namespace brings everything in it along, unless the selector says otherwise. One
//! selector that cannot be followed, or an object selected twice, and nothing of the placement moves.

use std::collections::BTreeSet;

use federate_kubernetes::kinds::Scope;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, Object, ObjectRef, finding};
use federate_repo::Template;

pub(crate) mod api;
mod hub;
mod order;
mod propagated;
pub(crate) mod sanitise;

use api::{PlacementSpec, ResourceSelector};
pub(crate) use hub::Hub;
use hub::Kind;

/// An object that a placement selects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selected<'a> {
    /// Sent as it is, but for what the hub has stamped on it.
    Plain(&'a Template),
    /// Sent as what it wraps.
    Envelope(&'a Object),
}

impl<'a> Selected<'a> {
    /// The object itself.
    pub(crate) fn object(&self) -> &'a Object {
        match self {
            Self::Plain(template) => &template.object,
            Self::Envelope(object) => object,
        }
    }
}

/// Why nothing is selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    /// A namespace of the system, with all that is in it.
    #[error("namespace `{0}` belongs to the system and must not be propagated")]
    NamespaceNotAllowed(String),
    /// The one namespace that the other selectors look into.
    #[error("there is no namespace `{0}` that its selectors could look into")]
    NamespaceNotFound(String),
    /// The other selectors look into one namespace only.
    #[error("its selectors can look into one namespace, but these are selected: {0}")]
    SeveralNamespaces(String),
    /// A namespaced kind, and no namespace to look into.
    #[error("{0} is a namespaced kind, which a ClusterResourcePlacement selects with its whole namespace")]
    NamespacedResourceInClusterPlacement(String),
    /// A kind of the cluster in a placement of a namespace.
    #[error("{0} is no namespaced kind, and a ResourcePlacement selects nothing else")]
    ClusterScopedResourceInNamespacedPlacement(String),
    /// A kind that the hub does not serve.
    #[error("{0} is no kind that is known: Kubernetes has none, and the repo neither defines nor uses it")]
    UnknownKind(String),
    /// An object that two selectors find.
    #[error("{0} is selected twice")]
    DuplicateResource(ObjectRef),
    /// A label selector that is none.
    #[error("its label selector is invalid: {0}")]
    InvalidLabelSelector(String),
    /// Resource selectors that cannot be read.
    #[error("its resource selectors cannot be read: {0}")]
    Unreadable(String),
}

impl Reason {
    /// The short name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NamespaceNotAllowed(_) => "NamespaceNotAllowed",
            Self::NamespaceNotFound(_) => "NamespaceNotFound",
            Self::SeveralNamespaces(_) => "SeveralNamespaces",
            Self::NamespacedResourceInClusterPlacement(_) => "NamespacedResourceInClusterPlacement",
            Self::ClusterScopedResourceInNamespacedPlacement(_) => {
                "ClusterScopedResourceInNamespacedPlacement"
            }
            Self::UnknownKind(_) => "UnknownKind",
            Self::DuplicateResource(_) => "DuplicateResource",
            Self::InvalidLabelSelector(_) => "InvalidLabelSelector",
            Self::Unreadable(_) => "Unreadable",
        }
    }

    fn help(&self) -> &'static str {
        match self {
            Self::NamespaceNotAllowed(_) => {
                "namespaces named default, kube-* and fleet-* stay where they are: select others, or with \
                 `selectionScope: NamespaceOnly`"
            }
            Self::NamespaceNotFound(_) => "add the Namespace to the repo, or name another",
            Self::SeveralNamespaces(_) => "name one namespace, and write a placement for each other one",
            Self::NamespacedResourceInClusterPlacement(_) => {
                "write a ResourcePlacement in the namespace, or select the Namespace with `selectionScope: \
                 NamespaceWithResourceSelectors`"
            }
            Self::ClusterScopedResourceInNamespacedPlacement(_) => "write a ClusterResourcePlacement for it",
            Self::UnknownKind(_) => "mend group and kind, or add its CustomResourceDefinition to the repo",
            Self::DuplicateResource(_) => "take it out of one of the selectors that find it",
            Self::InvalidLabelSelector(_) | Self::Unreadable(_) => "mend the selector",
        }
    }
}

/// A selector that cannot be followed, which keeps the whole placement as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Which selector, counted from 0.
    pub selector: usize,
    /// Why.
    pub reason: Reason,
}

impl Failure {
    /// The same for the person who mends it.
    pub(crate) fn finding(&self, placement: &Object) -> Finding {
        let message = format!("{} selects nothing: {}", placement.id, self.reason);
        Finding::error("selection-failed", placement, message)
            .at(format!("/spec/resourceSelectors/{}", self.selector))
            .help(self.reason.help())
    }
}

/// What a placement selects, in the control plane's order.
pub(crate) fn select<'a>(hub: &Hub<'a>, placement: &Object) -> Result<Vec<Selected<'a>>, Failure> {
    let spec = PlacementSpec::of(placement)
        .map_err(|e| Failure { selector: 0, reason: Reason::Unreadable(e.to_string()) })?;
    let selectors = spec.resource_selectors;
    let at = |selector: usize| move |reason: Reason| Failure { selector, reason };
    let namespace = placement.id.namespace.as_deref();
    let inside = match (namespace, selectors.iter().position(ResourceSelector::looks_inside)) {
        (None, Some(index)) => selectors
            .get(index)
            .map(|selector| the_namespace(hub, selector).map_err(at(index)))
            .transpose()?,
        _ => None,
    };
    let (mut selected, mut known) = (Vec::new(), BTreeSet::new());
    for (index, selector) in selectors.iter().enumerate() {
        let found = match namespace {
            Some(namespace) => of_namespace(hub, selector, namespace),
            None => of_cluster(hub, selector, inside),
        };
        for one in found.map_err(at(index))? {
            let id = &one.object().id;
            if !known.insert(id) {
                return Err(at(index)(Reason::DuplicateResource(id.clone())));
            }
            selected.push(one);
        }
    }
    selected.sort_by(|a, b| order::compare(&a.object().id, &b.object().id));
    Ok(selected)
}

/// What one selector of a `ClusterResourcePlacement` finds; `inside` is the namespace that namespaced
/// kinds are looked for in.
fn of_cluster<'a>(
    hub: &Hub<'a>,
    selector: &ResourceSelector,
    inside: Option<&'a str>,
) -> Result<Vec<Selected<'a>>, Reason> {
    if hub::skipped(&selector.group, &selector.kind) {
        return Ok(Vec::new());
    }
    if selector.is_namespace() && selector.takes_content() {
        return whole_namespaces(hub, selector);
    }
    match (hub.kind(&selector.group, &selector.kind), inside) {
        (None, _) => Err(Reason::UnknownKind(selector.kind_name())),
        (Some(Kind::Of(Scope::Namespaced)), None) => {
            Err(Reason::NamespacedResourceInClusterPlacement(selector.kind_name()))
        }
        (Some(Kind::Of(Scope::Namespaced)), Some(namespace)) => found(hub, selector, Some(namespace)),
        (Some(_), _) => found(hub, selector, None),
    }
}

/// What one selector of a `ResourcePlacement` finds.
fn of_namespace<'a>(
    hub: &Hub<'a>,
    selector: &ResourceSelector,
    namespace: &str,
) -> Result<Vec<Selected<'a>>, Reason> {
    if hub::skipped(&selector.group, &selector.kind) {
        return Ok(Vec::new());
    }
    match hub.kind(&selector.group, &selector.kind) {
        None => Err(Reason::UnknownKind(selector.kind_name())),
        Some(Kind::Of(Scope::Cluster)) => {
            Err(Reason::ClusterScopedResourceInNamespacedPlacement(selector.kind_name()))
        }
        Some(_) => found(hub, selector, Some(namespace)),
    }
}

/// The objects of a selector's kind in a namespace, or of the cluster, that it matches and that go
/// anywhere.
fn found<'a>(
    hub: &Hub<'a>,
    selector: &ResourceSelector,
    namespace: Option<&str>,
) -> Result<Vec<Selected<'a>>, Reason> {
    let matches = matcher(selector)?;
    let of_kind = hub.of_kind(&selector.group, &selector.kind);
    Ok(of_kind
        .filter(|one| one.object().id.namespace.as_deref() == namespace)
        .filter(|one| matches(one.object()) && propagated::goes_anywhere(hub, one.object()))
        .collect())
}

/// Whether an object is what a selector asks for, by name or labels.
fn matcher(selector: &ResourceSelector) -> Result<impl Fn(&Object) -> bool, Reason> {
    let labels = selector.label_selector.as_ref().filter(|_| selector.name.is_empty());
    if let Some((_, why)) = labels.and_then(LabelSelector::invalid) {
        return Err(Reason::InvalidLabelSelector(why));
    }
    Ok(move |object: &Object| match labels {
        Some(labels) => labels.matches(&object.labels()),
        None => selector.name.is_empty() || selector.name == object.id.name,
    })
}

/// Namespaces with everything in them.
fn whole_namespaces<'a>(hub: &Hub<'a>, selector: &ResourceSelector) -> Result<Vec<Selected<'a>>, Reason> {
    if propagated::reserved(&selector.name) {
        return Err(Reason::NamespaceNotAllowed(selector.name.clone()));
    }
    let matches = matcher(selector)?;
    let mut selected = Vec::new();
    for namespace in hub.of_kind("", "Namespace").filter(|one| matches(one.object())) {
        let name = &namespace.object().id.name;
        if propagated::reserved(name) {
            return Err(Reason::NamespaceNotAllowed(name.clone()));
        }
        if namespace.object().deleting() {
            continue;
        }
        selected.push(namespace);
        let content = hub.of_namespace(name).filter(|one| propagated::goes_along(hub, one.object()));
        selected.extend(content);
    }
    Ok(selected)
}

/// The one namespace in which the other selectors look for namespaced kinds.
fn the_namespace<'a>(hub: &Hub<'a>, selector: &ResourceSelector) -> Result<&'a str, Reason> {
    let namespaces = found(hub, selector, None)?;
    let names: Vec<&str> = namespaces
        .iter()
        .map(|one| one.object().id.name.as_str())
        .filter(|name| !propagated::reserved(name))
        .collect();
    match names.as_slice() {
        [name] => Ok(name),
        [] => Err(Reason::NamespaceNotFound(selector.name.clone())),
        several => Err(Reason::SeveralNamespaces(finding::list(several, 3))),
    }
}

#[cfg(test)]
mod tests;
