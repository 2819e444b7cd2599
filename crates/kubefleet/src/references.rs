//! What `KubeFleet`'s objects refer to by name.

use federate_dialect::ObjectReferences;
use federate_dialect::references::{
    ClusterOperator, ClusterProperty, ClusterRequirement, ClusterTerm, LocatedName, OtherKind,
    PropertyCondition, RepoObjectReference, TemplateSelector,
};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

use super::overrides::variables;
use crate::api::PLACEMENT_GROUP;

/// The references of one object.
pub(super) fn collect_references(object: &Object) -> ObjectReferences {
    let mut all = ObjectReferences::default();
    if object.id.group() != PLACEMENT_GROUP {
        return all;
    }
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    match object.id.kind.as_str() {
        "ClusterResourcePlacement" | "ResourcePlacement" => {
            all.selectors = read_selectors(object, &spec.field("resourceSelectors"));
            add_placement(&mut all, &spec.field("policy"));
        }
        "ClusterResourceOverride" | "ResourceOverride" => {
            for list in ["clusterResourceSelectors", "resourceSelectors"] {
                all.selectors.extend(read_selectors(object, &spec.field(list)));
            }
            for selector in &mut all.selectors {
                (selector.with_content, selector.any_version) = (false, false);
            }
            for rule in spec.field("policy").field("overrideRules").items() {
                add_terms(&mut all, &rule.field("clusterSelector"));
                all.cluster_terms.extend(required_terms(&rule.field("clusterSelector")));
                for patch in rule.field("jsonPatchOverrides").items() {
                    let value = patch.field("value");
                    all.read_cluster_labels.extend(variables::label_keys(value.value()));
                    all.cluster_labels.extend(variables::label_keys(value.value()).into_iter().map(|key| {
                        ClusterRequirement {
                            property: ClusterProperty::Label(key),
                            pointer: value.pointer().to_owned(),
                            values: Vec::new(),
                        }
                    }));
                }
            }
            add_override_target(&mut all, object, &spec.field("placement"));
        }
        "ClusterResourcePlacementEviction" => {
            all.add_cluster(&spec.field("clusterName"));
            all.objects.extend(placement_reference(None, &spec.field("placementName"), "nothing is evicted"));
        }
        "ClusterResourcePlacementDisruptionBudget" => {
            let consequence = "the budget limits nothing";
            let name = body.field("metadata").field("name");
            all.objects.extend(placement_reference(None, &name, consequence));
        }
        "ClusterStagedUpdateRun" | "StagedUpdateRun" => add_run(&mut all, object, &spec),
        "ClusterStagedUpdateStrategy" | "StagedUpdateStrategy" => {
            for stage in spec.field("stages").items() {
                all.add_cluster_selector(&stage.field("labelSelector"));
                all.cluster_terms
                    .push(ClusterTerm::default().with_label_selector(&stage.field("labelSelector")));
            }
        }
        _ => {}
    }
    all
}

fn add_placement(all: &mut ObjectReferences, policy: &Cursor<'_>) {
    all.add_cluster_list(&policy.field("clusterNames"));
    let affinity = policy.field("affinity").field("clusterAffinity");
    add_terms(all, &affinity.field("requiredDuringSchedulingIgnoredDuringExecution"));
    if policy.field("placementType").as_text() != "PickFixed" {
        all.cluster_terms.extend(picked_terms(policy, &affinity));
    }
    for constraint in policy.field("topologySpreadConstraints").items() {
        let key = constraint.field("topologyKey");
        all.cluster_labels.extend(LocatedName::from_cursor(&key).map(|name| ClusterRequirement {
            property: ClusterProperty::Label(name.name),
            pointer: name.pointer,
            values: Vec::new(),
        }));
    }
    for preferred in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        all.add_cluster_selector(&preferred.field("preference").field("labelSelector"));
    }
}

/// What a placement selects that picks clusters by their properties.
fn picked_terms(policy: &Cursor<'_>, affinity: &Cursor<'_>) -> Vec<ClusterTerm> {
    let mut terms = required_terms(&affinity.field("requiredDuringSchedulingIgnoredDuringExecution"));
    if terms.is_empty() {
        terms.push(ClusterTerm::default());
    }
    let spread = policy.field("topologySpreadConstraints");
    for key in
        spread.items().filter_map(|constraint| LocatedName::from_cursor(&constraint.field("topologyKey")))
    {
        for term in &mut terms {
            let of = ClusterProperty::Label(key.name.clone());
            term.conditions.push(PropertyCondition {
                property: of,
                operator: ClusterOperator::Exists,
                values: Vec::new(),
            });
        }
    }
    let first = terms.first().cloned().unwrap_or_default();
    let preferred = affinity.field("preferredDuringSchedulingIgnoredDuringExecution");
    let preferences = preferred.items().map(|one| one.field("preference").field("labelSelector"));
    let preferred: Vec<ClusterTerm> =
        preferences.map(|selector| first.clone().with_label_selector(&selector)).collect();
    let sorted_by = preferred_properties(affinity);
    let count =
        policy.field("numberOfClusters").value().as_u64().and_then(|count| usize::try_from(count).ok());
    if let Some(term) = terms.first_mut() {
        term.count = count.unwrap_or(1).min(MAX_PICKED);
        term.status_properties.extend(sorted_by);
    }
    terms.extend(preferred);
    terms
}

/// The properties by which a placement prefers clusters, which only their status has.
fn preferred_properties(affinity: &Cursor<'_>) -> Vec<String> {
    let preferred = affinity.field("preferredDuringSchedulingIgnoredDuringExecution");
    let preferences: Vec<Cursor<'_>> = preferred.items().map(|one| one.field("preference")).collect();
    let sorted = preferences.iter().map(|one| one.field("propertySorter").field("name").as_text().to_owned());
    let selected = preferences.iter().flat_map(selected_properties);
    sorted.chain(selected).filter(|name| !name.is_empty()).collect()
}

/// The most clusters that an inventory is to have for a placement.
const MAX_PICKED: usize = 100;

/// What the terms of a selector of clusters select.
fn required_terms(selector: &Cursor<'_>) -> Vec<ClusterTerm> {
    let terms = selector.field("clusterSelectorTerms");
    let terms = terms.items().map(|term| ClusterTerm {
        status_properties: selected_properties(&term),
        ..ClusterTerm::default().with_label_selector(&term.field("labelSelector"))
    });
    terms.collect()
}

/// The properties by which a term selects, which only the status of clusters has.
fn selected_properties(term: &Cursor<'_>) -> Vec<String> {
    let expressions = term.field("propertySelector").field("matchExpressions");
    let names = expressions.items().map(|expression| expression.field("name").as_text().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn add_terms(all: &mut ObjectReferences, selector: &Cursor<'_>) {
    for term in selector.field("clusterSelectorTerms").items() {
        all.add_cluster_selector(&term.field("labelSelector"));
    }
}

/// The placement to which an override applies.
fn add_override_target(all: &mut ObjectReferences, object: &Object, placement: &Cursor<'_>) {
    let namespaced = placement.field("scope").as_text() == "Namespaced";
    let namespace = object.id.namespace.as_deref().filter(|_| namespaced);
    let consequence = "the override applies to nothing";
    let other = match (namespaced, object.id.namespace.as_ref()) {
        (_, None) => None,
        (true, _) => Some(OtherKind {
            kind: "ClusterResourcePlacement",
            namespace: None,
            help: "write `scope: Cluster`, or leave `scope` out, to name it",
        }),
        (false, Some(own)) => Some(OtherKind {
            kind: "ResourcePlacement",
            namespace: Some(own.clone()),
            help: "add `scope: Namespaced` to name it; the default is `Cluster`",
        }),
    };
    let reference = placement_reference(namespace, &placement.field("name"), consequence);
    all.objects.extend(reference.map(|reference| RepoObjectReference { other, ..reference }));
}

fn add_run(all: &mut ObjectReferences, object: &Object, spec: &Cursor<'_>) {
    let namespace = object.id.namespace.as_deref();
    let consequence = "the run cannot start";
    all.objects.extend(placement_reference(namespace, &spec.field("placementName"), consequence));
    let kind = if namespace.is_some() { "StagedUpdateStrategy" } else { "ClusterStagedUpdateStrategy" };
    all.objects.extend(LocatedName::from_cursor(&spec.field("stagedRolloutStrategyName")).map(|name| {
        RepoObjectReference {
            group: PLACEMENT_GROUP,
            kind,
            namespace: namespace.map(str::to_owned),
            name,
            consequence,
            other: None,
        }
    }));
}

fn placement_reference(
    namespace: Option<&str>,
    name: &Cursor<'_>,
    consequence: &'static str,
) -> Option<RepoObjectReference> {
    let kind = if namespace.is_some() { "ResourcePlacement" } else { "ClusterResourcePlacement" };
    let namespace = namespace.map(str::to_owned);
    Some(RepoObjectReference {
        group: PLACEMENT_GROUP,
        kind,
        namespace,
        name: LocatedName::from_cursor(name)?,
        consequence,
        other: None,
    })
}

/// The selectors in a list of a placement or override. Those of a namespaced object select in its namespace.
fn read_selectors(object: &Object, list: &Cursor<'_>) -> Vec<TemplateSelector> {
    let own = object.id.namespace.as_ref();
    let own = own.map(|name| LocatedName { name: name.clone(), pointer: "/metadata/namespace".to_owned() });
    let selectors = list.items().map(|item| {
        let (kind, labels) = (item.field("kind"), item.field("labelSelector"));
        let name = LocatedName::from_cursor(&item.field("name"));
        let (group, version) = (item.field("group"), item.field("version"));
        let namespace = kind.as_text() == "Namespace" && group.as_text().is_empty();
        let content = !matches!(item.field("selectionScope").as_text(), "NamespaceOnly");
        TemplateSelector {
            pointer: item.pointer().to_owned(),
            group: Some(LocatedName {
                name: group.as_text().to_owned(),
                pointer: group.pointer().to_owned(),
            }),
            api_version: LocatedName::from_cursor(&version).map(|version| match group.as_text() {
                "" => version,
                group => LocatedName { name: format!("{group}/{}", version.name), ..version },
            }),
            any_version: true,
            kind: LocatedName::from_cursor(&kind).unwrap_or_default(),
            namespace: own.clone(),
            labels: (name.is_none() && labels.is_present())
                .then(|| (labels.value().clone(), labels.pointer().to_owned())),
            name,
            with_content: namespace && content,
        }
    });
    selectors.collect()
}
