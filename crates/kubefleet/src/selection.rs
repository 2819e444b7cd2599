//! The selection of a placement from its hub, which is the repo.
//!
//! Facts: the objects of all selectors are in one list, which is then sorted (`order`). A selected Namespace
//! includes everything in it, unless the selector's scope excludes that. If one selector fails, or an object is
//! selected twice, nothing of the placement changes.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_kubernetes::kinds::Scope;
use federate_kubernetes::schema::Cursor;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Finding, Object, ObjectRef, finding, work};
use federate_repo::ImpliedScope;

pub(crate) mod api;
mod hub;
mod order;
mod propagation;
mod selected_object;

pub(crate) use selected_object::SelectedObject;
pub(crate) mod sanitization;

use api::ResourceSelectorTerm;
pub(crate) use hub::HubIndex;
use hub::ServedKind;
pub(crate) use propagation::stays_on_hub;

/// The steps of an object in a selection.
const STEPS_PER_OBJECT: u64 = 20;

/// Why the selection fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectionError {
    /// A reserved namespace with everything in it.
    #[error("namespace `{0}` is reserved and is not propagated")]
    NamespaceNotAllowed(String),
    /// The namespace in which the other selectors select does not exist.
    #[error("there is no namespace `{0}` in which its selectors could select")]
    NamespaceNotFound(String),
    /// More than one namespace in which other selectors select.
    #[error("its selectors can select in one namespace only, but these are selected: {0}")]
    SeveralNamespaces(String),
    /// A namespaced kind without a namespace in which to select.
    #[error("{0} is a namespaced kind, which a ClusterResourcePlacement selects with its whole namespace")]
    NamespacedResourceInClusterPlacement(String),
    /// A cluster-scoped kind in a `ResourcePlacement`.
    #[error("{0} is not a namespaced kind, and a ResourcePlacement selects only namespaced ones")]
    ClusterScopedResourceInNamespacedPlacement(String),
    /// A kind that the hub does not serve.
    #[error("{0} is not a known kind: it is not built in, and the repo neither defines nor uses it")]
    UnknownKind(String),
    /// An object that two selectors find.
    #[error("{0} is selected twice")]
    DuplicateResource(ObjectRef),
    /// An invalid label selector.
    #[error("its label selector is invalid: {0}")]
    InvalidLabelSelector(String),
    /// Resource selectors that cannot be read.
    #[error("its resource selectors cannot be read: {0}")]
    Unreadable(String),
}

impl SelectionError {
    /// The code.
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
                "namespaces named default, kube-* and fleet-* are not propagated: select others, or use \
                 `selectionScope: NamespaceOnly`"
            }
            Self::NamespaceNotFound(_) => "add the Namespace to the repo, or select another",
            Self::SeveralNamespaces(_) => "select one namespace, and write one placement per namespace",
            Self::NamespacedResourceInClusterPlacement(_) => {
                "write a ResourcePlacement in the namespace, or select the Namespace with `selectionScope: \
                 NamespaceWithResourceSelectors`"
            }
            Self::ClusterScopedResourceInNamespacedPlacement(_) => "write a ClusterResourcePlacement for it",
            Self::UnknownKind(_) => {
                "fix the group and the kind, or add the CustomResourceDefinition to the repo"
            }
            Self::DuplicateResource(_) => "remove it from one of the selectors",
            Self::InvalidLabelSelector(_) | Self::Unreadable(_) => "fix the selector",
        }
    }
}

/// The code of findings about selectors that fail.
pub(crate) const SELECTION_FAILED: &str = "selection-failed";

/// A selector that fails, so that the whole placement stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedSelector {
    /// The index of the selector.
    pub selector: usize,
    /// Why.
    pub reason: SelectionError,
}

impl FailedSelector {
    /// The failure as a finding.
    pub(crate) fn to_finding(&self, placement: &Object) -> Finding {
        let message = format!("{} selects nothing: {}", placement.id, self.reason);
        Finding::error(SELECTION_FAILED, placement, message)
            .with_pointer(format!("/spec/resourceSelectors/{}", self.selector))
            .with_help(self.reason.help())
    }
}

/// The findings about selectors of a version that the API server does not serve, for which admission refuses the
/// placement.
pub(crate) fn refuse_unserved_versions(hub: &HubIndex<'_>, placement: &Object) -> Vec<Finding> {
    let selectors = Cursor::new(&placement.body).field("spec").field("resourceSelectors");
    let unserved = selectors.items().filter_map(|selector| {
        let [group, version, kind] = ["group", "version", "kind"].map(|field| selector.field(field));
        if version.as_text().is_empty()
            || hub.serves_version(group.as_text(), kind.as_text(), version.as_text())
        {
            return None;
        }
        let api_version = match group.as_text() {
            "" => version.as_text().to_owned(),
            group => format!("{group}/{}", version.as_text()),
        };
        let message = format!("the API server serves no {} in `{api_version}`", kind.as_text());
        let help =
            "write a version that the API server of the hub serves: `kubectl api-resources` lists them";
        Some(
            Finding::error("invalid-policy", placement, message)
                .with_pointer(version.pointer())
                .with_help(help),
        )
    });
    unserved.collect()
}

/// Returns the selection of a placement, in the control plane's order.
pub(crate) fn select_objects<'a>(
    hub: &HubIndex<'a>,
    placement: &Object,
) -> Result<Vec<SelectedObject<'a>>, FailedSelector> {
    let selectors = api::resource_selectors(placement)
        .map_err(|e| FailedSelector { selector: 0, reason: SelectionError::Unreadable(e.to_string()) })?;
    let namespace = placement.id.namespace.as_deref();
    let inside = match (namespace, selectors.iter().position(ResourceSelectorTerm::selects_inside)) {
        (None, Some(index)) => selectors
            .get(index)
            .map(|selector| {
                find_namespace(hub, selector).map_err(|reason| FailedSelector { selector: index, reason })
            })
            .transpose()?,
        _ => None,
    };
    let (mut selected, mut known) = (Vec::new(), BTreeSet::new());
    for (index, selector) in selectors.iter().enumerate() {
        let found = match namespace {
            Some(namespace) => select_in_namespace(hub, selector, namespace),
            None => select_in_cluster(hub, selector, inside),
        };
        let found = found.map_err(|reason| FailedSelector { selector: index, reason })?;
        work::charge_steps(STEPS_PER_OBJECT * found.len() as u64);
        for one in found.into_iter().take_while(|_| !work::is_exceeded()) {
            let id = &one.object().id;
            if !known.insert(id) {
                let reason = SelectionError::DuplicateResource(id.clone());
                return Err(FailedSelector { selector: index, reason });
            }
            selected.push(one);
        }
    }
    selected.sort_by(|a, b| order::compare_objects(&a.object().id, &b.object().id));
    Ok(selected)
}

/// The selection of one selector of a `ClusterResourcePlacement`. `inside` is the namespace for namespaced
/// kinds.
fn select_in_cluster<'a>(
    hub: &HubIndex<'a>,
    selector: &ResourceSelectorTerm,
    inside: Option<&'a str>,
) -> Result<Vec<SelectedObject<'a>>, SelectionError> {
    if hub::is_skipped(&selector.group, &selector.kind, &hub.behaviour) {
        return Ok(Vec::new());
    }
    if selector.is_namespace() && selector.includes_content() {
        return select_whole_namespaces(hub, selector);
    }
    match (hub.find_kind(&selector.group, &selector.kind), inside) {
        (None, _) => Err(SelectionError::UnknownKind(selector.kind_name())),
        (Some(ServedKind::Of(Scope::Namespaced)), None) => {
            Err(SelectionError::NamespacedResourceInClusterPlacement(selector.kind_name()))
        }
        (Some(ServedKind::Of(Scope::Namespaced)), Some(namespace)) => {
            find_objects(hub, selector, Some(namespace))
        }
        (Some(_), _) => find_objects(hub, selector, None),
    }
}

/// The selection of one selector of a `ResourcePlacement`.
fn select_in_namespace<'a>(
    hub: &HubIndex<'a>,
    selector: &ResourceSelectorTerm,
    namespace: &str,
) -> Result<Vec<SelectedObject<'a>>, SelectionError> {
    if hub::is_skipped(&selector.group, &selector.kind, &hub.behaviour) {
        return Ok(Vec::new());
    }
    match hub.find_kind(&selector.group, &selector.kind) {
        None => Err(SelectionError::UnknownKind(selector.kind_name())),
        Some(ServedKind::Of(Scope::Cluster)) => {
            Err(SelectionError::ClusterScopedResourceInNamespacedPlacement(selector.kind_name()))
        }
        Some(_) => find_objects(hub, selector, Some(namespace)),
    }
}

/// The objects of a selector's kind, in a namespace or cluster-scoped, that match it and leave the hub.
fn find_objects<'a>(
    hub: &HubIndex<'a>,
    selector: &ResourceSelectorTerm,
    namespace: Option<&str>,
) -> Result<Vec<SelectedObject<'a>>, SelectionError> {
    let matches = build_matcher(selector)?;
    let candidates = hub.find_candidates(selector);
    work::charge_items(candidates.len());
    Ok(candidates
        .into_iter()
        .filter(|one| one.object().id.namespace.as_deref() == namespace)
        .filter(|one| matches(one.object()) && propagation::leaves_hub(hub, one.object()))
        .collect())
}

/// Whether an object matches a selector by name or labels.
fn build_matcher(selector: &ResourceSelectorTerm) -> Result<impl Fn(&Object) -> bool, SelectionError> {
    let labels = selector.label_selector.as_ref().filter(|_| selector.name.is_empty());
    if let Some((_, why)) = labels.and_then(LabelSelector::find_mistake) {
        return Err(SelectionError::InvalidLabelSelector(why));
    }
    Ok(move |object: &Object| match labels {
        Some(labels) => labels.matches(&object.labels()),
        None => selector.name.is_empty() || selector.name == object.id.name,
    })
}

/// Namespaces with everything in them.
fn select_whole_namespaces<'a>(
    hub: &HubIndex<'a>,
    selector: &ResourceSelectorTerm,
) -> Result<Vec<SelectedObject<'a>>, SelectionError> {
    if propagation::is_reserved(&selector.name) {
        return Err(SelectionError::NamespaceNotAllowed(selector.name.clone()));
    }
    let matches = build_matcher(selector)?;
    let mut selected = Vec::new();
    let candidates = hub.find_candidates(selector);
    work::charge_items(candidates.len());
    for namespace in candidates.into_iter().filter(|one| matches(one.object())) {
        let name = &namespace.object().id.name;
        if propagation::is_reserved(name) {
            return Err(SelectionError::NamespaceNotAllowed(name.clone()));
        }
        if namespace.object().is_deleting() {
            continue;
        }
        selected.push(namespace);
        let content = hub
            .objects_of_namespace(name)
            .filter(|one| propagation::is_selected_with_namespace(hub, one.object()));
        selected.extend(content);
    }
    Ok(selected)
}

/// The namespace in which the other selectors select namespaced kinds.
fn find_namespace<'a>(
    hub: &HubIndex<'a>,
    selector: &ResourceSelectorTerm,
) -> Result<&'a str, SelectionError> {
    let namespaces = find_objects(hub, selector, None)?;
    let names: Vec<&str> = namespaces
        .iter()
        .map(|one| one.object().id.name.as_str())
        .filter(|name| !propagation::is_reserved(name))
        .collect();
    match names.as_slice() {
        [name] => Ok(name),
        [] => Err(SelectionError::NamespaceNotFound(selector.name.clone())),
        several => Err(SelectionError::SeveralNamespaces(finding::join_names(several, 3))),
    }
}

/// The scopes of the kinds that a placement or an override selects by name: those of the whole cluster select
/// cluster-scoped objects only, and those of a namespace the objects in it.
pub(crate) fn implied_scopes(object: &Object) -> Vec<ImpliedScope> {
    if object.id.group() != crate::api::PLACEMENT_GROUP {
        return Vec::new();
    }
    let (scope, selectors) = match object.id.kind.as_str() {
        "ClusterResourcePlacement" => (Scope::Cluster, "resourceSelectors"),
        "ClusterResourceOverride" => (Scope::Cluster, "clusterResourceSelectors"),
        "ResourcePlacement" | "ResourceOverride" => (Scope::Namespaced, "resourceSelectors"),
        _ => return Vec::new(),
    };
    let selectors = object.value_at(&["spec", selectors]).and_then(Value::as_array);
    let implied = selectors.into_iter().flatten().map(|selector| {
        let [group, kind] =
            ["group", "kind"].map(|key| selector[key].as_str().unwrap_or_default().to_owned());
        ImpliedScope { group, kind, scope }
    });
    implied.collect()
}

#[cfg(test)]
mod tests;
