//! What Karmada's objects refer to by name.

use federate_dialect::ObjectReferences;
use federate_dialect::references::{ClusterProperty, ClusterTerm, LocatedName, TemplateSelector};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

/// The references of one object.
pub(super) fn find_references(object: &Object) -> ObjectReferences {
    let mut all = ObjectReferences::default();
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    match (object.id.group(), object.id.kind.as_str()) {
        ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => {
            add_selectors(&mut all, object, &spec);
            add_placement(&mut all, &spec.field("placement"));
            let suspended = spec.field("suspension").field("dispatchingOnClusters");
            all.add_cluster_list(&suspended.field("clusterNames"));
        }
        ("policy.karmada.io", "OverridePolicy" | "ClusterOverridePolicy") => {
            add_selectors(&mut all, object, &spec);
            for rule in spec.field("overrideRules").items().chain([spec]) {
                add_affinity(&mut all, &rule.field("targetCluster"));
                for list in ["commandOverrider", "argsOverrider"] {
                    let changes = rule.field("overriders").field(list);
                    all.containers.extend(
                        changes
                            .items()
                            .filter_map(|one| LocatedName::from_cursor(&one.field("containerName"))),
                    );
                }
            }
        }
        ("policy.karmada.io", "ClusterTaintPolicy") => add_affinity(&mut all, &spec.field("targetClusters")),
        ("policy.karmada.io", "FederatedResourceQuota") => {
            for assignment in spec.field("staticAssignments").items() {
                all.add_cluster(&assignment.field("clusterName"));
            }
        }
        ("remedy.karmada.io", "Remedy") => add_affinity(&mut all, &spec.field("clusterAffinity")),
        ("networking.karmada.io", "MultiClusterService") => {
            for list in ["providerClusters", "consumerClusters"] {
                spec.field(list).items().for_each(|cluster| all.add_cluster(&cluster.field("name")));
            }
            for list in ["serviceProvisionClusters", "serviceConsumptionClusters"] {
                all.add_cluster_list(&spec.field(list));
            }
        }
        ("apps.karmada.io", "WorkloadRebalancer") => {
            all.selectors = spec.field("workloads").items().map(|item| read_selector(&item, None)).collect();
        }
        _ => {}
    }
    all
}

fn add_placement(all: &mut ObjectReferences, placement: &Cursor<'_>) {
    let first = all.cluster_terms.len();
    let alternatives = placement.field("clusterAffinities");
    if !alternatives.is_present() {
        add_affinity(all, &placement.field("clusterAffinity"));
    }
    for term in alternatives.items() {
        add_affinity(all, &term);
        term.field("overflowAffinities").items().for_each(|overflow| add_affinity(all, &overflow));
    }
    for (at, term) in all.cluster_terms.iter_mut().skip(first).enumerate() {
        term.fallback = at > 0;
        add_spread(term, &placement.field("spreadConstraints"));
    }
    let weights = placement.field("replicaScheduling").field("weightPreference").field("staticWeightList");
    weights.items().for_each(|weight| add_affinity(all, &weight.field("targetCluster")));
}

/// Adds how far the clusters of a placement are spread.
fn add_spread(term: &mut ClusterTerm, constraints: &Cursor<'_>) {
    for constraint in constraints.items() {
        let groups = constraint.field("minGroups").value().as_u64().unwrap_or(1);
        let groups = usize::try_from(groups).unwrap_or(1).clamp(1, MAX_GROUPS);
        term.count = term.count.max(groups);
        let label = constraint.field("spreadByLabel");
        let property = match (constraint.field("spreadByField").as_text(), label.as_text()) {
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

fn add_affinity(all: &mut ObjectReferences, affinity: &Cursor<'_>) {
    let fields = affinity.field("fieldSelector").field("matchExpressions");
    all.cluster_terms.push(
        ClusterTerm::default()
            .only_clusters(&affinity.field("clusterNames"))
            .except_clusters(&affinity.field("exclude"))
            .with_label_selector(&affinity.field("labelSelector"))
            .with_requirements(&fields, cluster_field),
    );
    all.add_cluster_list(&affinity.field("clusterNames"));
    all.add_cluster_list(&affinity.field("exclude"));
    all.add_cluster_selector(&affinity.field("labelSelector"));
    all.add_requirements(&fields, cluster_field);
}

/// The selectors of a policy. Those of a namespaced one only select in its namespace.
fn add_selectors(all: &mut ObjectReferences, policy: &Object, spec: &Cursor<'_>) {
    let own = policy.id.namespace.as_ref();
    let own = own.map(|name| LocatedName { name: name.clone(), pointer: "/metadata/namespace".to_owned() });
    all.selectors
        .extend(spec.field("resourceSelectors").items().map(|item| read_selector(&item, own.as_ref())));
}

fn read_selector(item: &Cursor<'_>, own: Option<&LocatedName>) -> TemplateSelector {
    let named = LocatedName::from_cursor(&item.field("name"));
    let labels = item.field("labelSelector");
    TemplateSelector {
        pointer: item.pointer().to_owned(),
        group: None,
        api_version: LocatedName::from_cursor(&item.field("apiVersion")),
        any_version: false,
        kind: LocatedName::from_cursor(&item.field("kind")).unwrap_or_default(),
        namespace: LocatedName::from_cursor(&item.field("namespace")).or_else(|| own.cloned()),
        labels: (named.is_none() && labels.is_present())
            .then(|| (labels.value().clone(), labels.pointer().to_owned())),
        name: named,
        with_content: false,
    }
}
