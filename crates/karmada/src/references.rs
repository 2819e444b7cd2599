//! What Karmada's objects refer to by name.

use federate_dialect::References;
use federate_dialect::references::{ClusterProperty, ClusterTerm, Name, Selector};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

/// The references of one object.
pub(super) fn of(object: &Object) -> References {
    let mut all = References::default();
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    match (object.id.group(), object.id.kind.as_str()) {
        ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => {
            selectors(&mut all, object, &spec);
            propagation(&mut all, &spec.field("placement"));
            let suspended = spec.field("suspension").field("dispatchingOnClusters");
            all.cluster_list(&suspended.field("clusterNames"));
        }
        ("policy.karmada.io", "OverridePolicy" | "ClusterOverridePolicy") => {
            selectors(&mut all, object, &spec);
            for rule in spec.field("overrideRules").items().chain([spec]) {
                affinity(&mut all, &rule.field("targetCluster"));
                for list in ["commandOverrider", "argsOverrider"] {
                    let changes = rule.field("overriders").field(list);
                    all.containers
                        .extend(changes.items().filter_map(|one| Name::at(&one.field("containerName"))));
                }
            }
        }
        ("policy.karmada.io", "ClusterTaintPolicy") => affinity(&mut all, &spec.field("targetClusters")),
        ("policy.karmada.io", "FederatedResourceQuota") => {
            for assignment in spec.field("staticAssignments").items() {
                all.cluster(&assignment.field("clusterName"));
            }
        }
        ("remedy.karmada.io", "Remedy") => affinity(&mut all, &spec.field("clusterAffinity")),
        ("networking.karmada.io", "MultiClusterService") => {
            for list in ["providerClusters", "consumerClusters"] {
                spec.field(list).items().for_each(|cluster| all.cluster(&cluster.field("name")));
            }
            for list in ["serviceProvisionClusters", "serviceConsumptionClusters"] {
                all.cluster_list(&spec.field(list));
            }
        }
        ("apps.karmada.io", "WorkloadRebalancer") => {
            all.selectors = spec.field("workloads").items().map(|item| selector(&item, None)).collect();
        }
        _ => {}
    }
    all
}

fn propagation(all: &mut References, placement: &Cursor<'_>) {
    let first = all.cluster_terms.len();
    let alternatives = placement.field("clusterAffinities");
    if !alternatives.present() {
        affinity(all, &placement.field("clusterAffinity"));
    }
    for term in alternatives.items() {
        affinity(all, &term);
        term.field("overflowAffinities").items().for_each(|overflow| affinity(all, &overflow));
    }
    for (at, term) in all.cluster_terms.iter_mut().skip(first).enumerate() {
        term.fallback = at > 0;
        spread(term, &placement.field("spreadConstraints"));
    }
    let weights = placement.field("replicaScheduling").field("weightPreference").field("staticWeightList");
    weights.items().for_each(|weight| affinity(all, &weight.field("targetCluster")));
}

/// Adds how far the clusters of a placement are spread.
fn spread(term: &mut ClusterTerm, constraints: &Cursor<'_>) {
    for constraint in constraints.items() {
        let groups = constraint.field("minGroups").value().as_u64().unwrap_or(1);
        let groups = usize::try_from(groups).unwrap_or(1).clamp(1, MAX_GROUPS);
        term.count = term.count.max(groups);
        let label = constraint.field("spreadByLabel");
        let property = match (constraint.field("spreadByField").text(), label.text()) {
            ("cluster", _) => continue,
            ("", "") => continue,
            ("", key) => Some(ClusterProperty::Label(key.to_owned())),
            (field, _) => cluster_field(field),
        };
        term.distinct.extend(property.map(|property| (property, groups)));
    }
}

/// The most groups of clusters that an inventory is to have for a placement.
const MAX_GROUPS: usize = 100;

fn cluster_field(key: &str) -> Option<ClusterProperty> {
    match key {
        "provider" => Some(ClusterProperty::Provider),
        "region" => Some(ClusterProperty::Region),
        "zone" => Some(ClusterProperty::Zone),
        _ => None,
    }
}

fn affinity(all: &mut References, affinity: &Cursor<'_>) {
    let fields = affinity.field("fieldSelector").field("matchExpressions");
    all.cluster_terms.push(
        ClusterTerm::default()
            .named(&affinity.field("clusterNames"))
            .except(&affinity.field("exclude"))
            .labelled(&affinity.field("labelSelector"))
            .that_meet(&fields, cluster_field),
    );
    all.cluster_list(&affinity.field("clusterNames"));
    all.cluster_list(&affinity.field("exclude"));
    all.cluster_selector(&affinity.field("labelSelector"));
    all.requirements(&fields, cluster_field);
}

/// The selectors of a policy. Those of a namespaced one only select in its namespace.
fn selectors(all: &mut References, policy: &Object, spec: &Cursor<'_>) {
    let own = policy.id.namespace.as_ref();
    let own = own.map(|name| Name { name: name.clone(), pointer: "/metadata/namespace".to_owned() });
    all.selectors.extend(spec.field("resourceSelectors").items().map(|item| selector(&item, own.as_ref())));
}

fn selector(item: &Cursor<'_>, own: Option<&Name>) -> Selector {
    let named = Name::at(&item.field("name"));
    let labels = item.field("labelSelector");
    Selector {
        pointer: item.pointer().to_owned(),
        group: None,
        api_version: Name::at(&item.field("apiVersion")),
        any_version: false,
        kind: Name::at(&item.field("kind")).unwrap_or_default(),
        namespace: Name::at(&item.field("namespace")).or_else(|| own.cloned()),
        labels: (named.is_none() && labels.present())
            .then(|| (labels.value().clone(), labels.pointer().to_owned())),
        name: named,
        with_content: false,
    }
}
