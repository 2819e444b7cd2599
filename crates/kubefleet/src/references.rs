//! What `KubeFleet`'s objects refer to by name.

use federate_dialect::References;
use federate_dialect::references::{
    ClusterCondition, ClusterOperator, ClusterProperty, ClusterTerm, Name, OtherKind, Reference, Requirement,
    Selector,
};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

use super::PLACEMENT_GROUP;
use super::overrides::variables;

/// The references of one object.
pub(super) fn of(object: &Object) -> References {
    let mut all = References::default();
    if object.id.group() != PLACEMENT_GROUP {
        return all;
    }
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    match object.id.kind.as_str() {
        "ClusterResourcePlacement" | "ResourcePlacement" => {
            all.selectors = select(object, &spec.field("resourceSelectors"));
            placement(&mut all, &spec.field("policy"));
        }
        "ClusterResourceOverride" | "ResourceOverride" => {
            for list in ["clusterResourceSelectors", "resourceSelectors"] {
                all.selectors.extend(select(object, &spec.field(list)));
            }
            for selector in &mut all.selectors {
                (selector.with_content, selector.any_version) = (false, false);
            }
            for rule in spec.field("policy").field("overrideRules").items() {
                terms(&mut all, &rule.field("clusterSelector"));
                all.cluster_terms.extend(required_terms(&rule.field("clusterSelector")));
                for patch in rule.field("jsonPatchOverrides").items() {
                    let value = patch.field("value");
                    all.read_cluster_labels.extend(variables::labels(value.value()));
                    all.cluster_labels.extend(variables::labels(value.value()).into_iter().map(|key| {
                        Requirement {
                            of: ClusterProperty::Label(key),
                            pointer: value.pointer().to_owned(),
                            values: Vec::new(),
                        }
                    }));
                }
            }
            overridden(&mut all, object, &spec.field("placement"));
        }
        "ClusterResourcePlacementEviction" => {
            all.cluster(&spec.field("clusterName"));
            all.objects.extend(placement_name(None, &spec.field("placementName"), "nothing is evicted"));
        }
        "ClusterResourcePlacementDisruptionBudget" => {
            let consequence = "the budget limits nothing";
            let name = body.field("metadata").field("name");
            all.objects.extend(placement_name(None, &name, consequence));
        }
        "ClusterStagedUpdateRun" | "StagedUpdateRun" => run(&mut all, object, &spec),
        "ClusterStagedUpdateStrategy" | "StagedUpdateStrategy" => {
            for stage in spec.field("stages").items() {
                all.cluster_selector(&stage.field("labelSelector"));
                all.cluster_terms.push(ClusterTerm::default().labelled(&stage.field("labelSelector")));
            }
        }
        _ => {}
    }
    all
}

fn placement(all: &mut References, policy: &Cursor<'_>) {
    all.cluster_list(&policy.field("clusterNames"));
    let affinity = policy.field("affinity").field("clusterAffinity");
    terms(all, &affinity.field("requiredDuringSchedulingIgnoredDuringExecution"));
    if policy.field("placementType").text() != "PickFixed" {
        all.cluster_terms.extend(picked(policy, &affinity));
    }
    for constraint in policy.field("topologySpreadConstraints").items() {
        let key = constraint.field("topologyKey");
        all.cluster_labels.extend(Name::at(&key).map(|name| Requirement {
            of: ClusterProperty::Label(name.name),
            pointer: name.pointer,
            values: Vec::new(),
        }));
    }
    for preferred in affinity.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
        all.cluster_selector(&preferred.field("preference").field("labelSelector"));
    }
}

/// What a placement selects that picks clusters by their properties.
fn picked(policy: &Cursor<'_>, affinity: &Cursor<'_>) -> Vec<ClusterTerm> {
    let mut terms = required_terms(&affinity.field("requiredDuringSchedulingIgnoredDuringExecution"));
    if terms.is_empty() {
        terms.push(ClusterTerm::default());
    }
    let spread = policy.field("topologySpreadConstraints");
    for key in spread.items().filter_map(|constraint| Name::at(&constraint.field("topologyKey"))) {
        for term in &mut terms {
            let of = ClusterProperty::Label(key.name.clone());
            term.conditions.push(ClusterCondition {
                of,
                operator: ClusterOperator::Exists,
                values: Vec::new(),
            });
        }
    }
    let first = terms.first().cloned().unwrap_or_default();
    let preferred = affinity.field("preferredDuringSchedulingIgnoredDuringExecution");
    let preferences = preferred.items().map(|one| one.field("preference").field("labelSelector"));
    let preferred: Vec<ClusterTerm> = preferences.map(|selector| first.clone().labelled(&selector)).collect();
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
    let sorted = preferences.iter().map(|one| one.field("propertySorter").field("name").text().to_owned());
    let selected = preferences.iter().flat_map(selected_properties);
    sorted.chain(selected).filter(|name| !name.is_empty()).collect()
}

/// The most clusters that an inventory is to have for a placement.
const MAX_PICKED: usize = 100;

/// What the terms of a selector of clusters select.
fn required_terms(selector: &Cursor<'_>) -> Vec<ClusterTerm> {
    let terms = selector.field("clusterSelectorTerms");
    let read = |term: Cursor<'_>| ClusterTerm {
        status_properties: selected_properties(&term),
        ..ClusterTerm::default().labelled(&term.field("labelSelector"))
    };
    terms.items().map(read).collect()
}

/// The properties by which a term selects, which only the status of clusters has.
fn selected_properties(term: &Cursor<'_>) -> Vec<String> {
    let expressions = term.field("propertySelector").field("matchExpressions");
    let names = expressions.items().map(|expression| expression.field("name").text().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn terms(all: &mut References, selector: &Cursor<'_>) {
    for term in selector.field("clusterSelectorTerms").items() {
        all.cluster_selector(&term.field("labelSelector"));
    }
}

/// The placement to which an override applies.
fn overridden(all: &mut References, object: &Object, placement: &Cursor<'_>) {
    let namespaced = placement.field("scope").text() == "Namespaced";
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
    let reference = placement_name(namespace, &placement.field("name"), consequence);
    all.objects.extend(reference.map(|reference| Reference { other, ..reference }));
}

fn run(all: &mut References, object: &Object, spec: &Cursor<'_>) {
    let namespace = object.id.namespace.as_deref();
    let consequence = "the run cannot start";
    all.objects.extend(placement_name(namespace, &spec.field("placementName"), consequence));
    let kind = if namespace.is_some() { "StagedUpdateStrategy" } else { "ClusterStagedUpdateStrategy" };
    all.objects.extend(Name::at(&spec.field("stagedRolloutStrategyName")).map(|name| Reference {
        group: PLACEMENT_GROUP,
        kind,
        namespace: namespace.map(str::to_owned),
        name,
        consequence,
        other: None,
    }));
}

fn placement_name(
    namespace: Option<&str>,
    name: &Cursor<'_>,
    consequence: &'static str,
) -> Option<Reference> {
    let kind = if namespace.is_some() { "ResourcePlacement" } else { "ClusterResourcePlacement" };
    let namespace = namespace.map(str::to_owned);
    Some(Reference {
        group: PLACEMENT_GROUP,
        kind,
        namespace,
        name: Name::at(name)?,
        consequence,
        other: None,
    })
}

/// The selectors in a list of a placement or override. Those of a namespaced object select in its namespace.
fn select(object: &Object, list: &Cursor<'_>) -> Vec<Selector> {
    let own = object.id.namespace.as_ref();
    let own = own.map(|name| Name { name: name.clone(), pointer: "/metadata/namespace".to_owned() });
    let one = |item: Cursor<'_>| {
        let (kind, labels) = (item.field("kind"), item.field("labelSelector"));
        let name = Name::at(&item.field("name"));
        let (group, version) = (item.field("group"), item.field("version"));
        let in_group = |version: &str| match group.text() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let namespace = kind.text() == "Namespace" && group.text().is_empty();
        let content = !matches!(item.field("selectionScope").text(), "NamespaceOnly");
        Selector {
            pointer: item.pointer().to_owned(),
            group: Some(Name { name: group.text().to_owned(), pointer: group.pointer().to_owned() }),
            api_version: Name::at(&version).map(|version| Name { name: in_group(&version.name), ..version }),
            any_version: true,
            kind: Name::at(&kind).unwrap_or_default(),
            namespace: own.clone(),
            labels: (name.is_none() && labels.present())
                .then(|| (labels.value().clone(), labels.pointer().to_owned())),
            name,
            with_content: namespace && content,
        }
    };
    list.items().map(one).collect()
}
