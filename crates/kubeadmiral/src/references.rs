//! What `KubeAdmiral`'s objects, and the labels and annotations of templates, refer to by name.

use federate_dialect::ObjectReferences;
use federate_dialect::references::{ClusterTerm, LocatedName, OtherKind, RepoObjectReference};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

use super::{GROUP, keys};

/// The references of one object.
pub(super) fn find_references(object: &Object) -> ObjectReferences {
    let mut all = ObjectReferences::default();
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    match (object.id.group(), object.id.kind.as_str()) {
        (GROUP, "PropagationPolicy" | "ClusterPropagationPolicy") => {
            add_clusters(&mut all, &spec);
            spec.field("placement").items().for_each(|item| all.add_cluster(&item.field("cluster")));
            let profile = LocatedName::from_cursor(&spec.field("schedulingProfile"));
            all.objects.extend(profile.map(|name| RepoObjectReference {
                group: GROUP,
                kind: "SchedulingProfile",
                namespace: None,
                name,
                consequence: "nothing that names the policy is scheduled",
                other: None,
            }));
        }
        (GROUP, "OverridePolicy" | "ClusterOverridePolicy") => {
            for rule in spec.field("overrideRules").items() {
                let target = rule.field("targetClusters");
                all.add_cluster_list(&target.field("clusters"));
                add_clusters(&mut all, &target);
                add_containers(&mut all, &rule.field("overriders"));
            }
        }
        (GROUP, _) => {}
        _ => add_template(&mut all, object, &body.field("metadata")),
    }
    all
}

/// The labels and terms by which clusters are selected.
fn add_clusters(all: &mut ObjectReferences, at: &Cursor<'_>) {
    let base = ClusterTerm::default().with_labels(&at.field("clusterSelector"));
    let terms: Vec<Cursor<'_>> = at.field("clusterAffinity").items().collect();
    // A policy lists clusters as `placement`, a rule as `clusters`.
    let listed =
        at.field("placement").items().filter_map(|item| LocatedName::from_cursor(&item.field("cluster")));
    let listed: Vec<String> = listed.map(|name| name.name).collect();
    all.add_cluster_labels(&at.field("clusterSelector"));
    let mut selections = Vec::new();
    if terms.is_empty() {
        selections.push(base.clone());
    }
    for term in &terms {
        all.add_label_requirements(&term.field("matchExpressions"));
        let mut selected = base.clone().with_label_requirements(&term.field("matchExpressions"));
        for field in
            term.field("matchFields").items().filter(|one| one.field("key").as_text() == "metadata.name")
        {
            match field.field("operator").as_text() {
                "In" => {
                    selected = selected.only_clusters(&field.field("values"));
                    all.add_cluster_list(&field.field("values"));
                }
                "NotIn" => selected = selected.except_clusters(&field.field("values")),
                _ => {}
            }
        }
        selections.push(selected);
    }
    for mut selected in selections {
        if selected.names.is_empty() {
            selected.names.clone_from(&listed);
        }
        all.cluster_terms.push(selected.only_clusters(&at.field("clusters")));
    }
}

/// The containers that overriders change.
fn add_containers(all: &mut ObjectReferences, overriders: &Cursor<'_>) {
    for list in ["command", "args", "envs"] {
        let names = overriders
            .field(list)
            .items()
            .filter_map(|one| LocatedName::from_cursor(&one.field("containerName")));
        all.containers.extend(names);
    }
    for image in overriders.field("image").items() {
        all.containers
            .extend(image.field("containerNames").items().filter_map(|name| LocatedName::from_cursor(&name)));
    }
}

fn add_template(all: &mut ObjectReferences, object: &Object, metadata: &Cursor<'_>) {
    let labels = metadata.field("labels");
    // A missing override policy is an error of its own.
    let policies = [
        (keys::POLICY, "PropagationPolicy", true),
        (keys::CLUSTER_POLICY, "ClusterPropagationPolicy", false),
    ];
    for (key, kind, namespaced) in policies {
        let Some(name) = LocatedName::from_cursor(&labels.field(key)) else { continue };
        let namespace = object.id.namespace.clone().filter(|_| namespaced);
        if namespaced && namespace.is_none() {
            continue;
        }
        let consequence = "the object is not scheduled until the policy exists";
        let other = if namespaced {
            let help = "name it with the label `kubeadmiral.io/cluster-propagation-policy-name`";
            OtherKind { kind: "ClusterPropagationPolicy", namespace: None, help }
        } else {
            let help = "name it with the label `kubeadmiral.io/propagation-policy-name`";
            OtherKind { kind: "PropagationPolicy", namespace: object.id.namespace.clone(), help }
        };
        all.objects.push(RepoObjectReference {
            group: GROUP,
            kind,
            namespace,
            name,
            consequence,
            other: Some(other),
        });
    }
    // An annotation contains a document of its own, in which the names have no place.
    let annotation = metadata.field("annotations").field(keys::PLACEMENTS);
    let document: Option<serde_json::Value> = serde_json::from_str(annotation.as_text()).ok();
    for placement in document.as_ref().and_then(serde_json::Value::as_array).into_iter().flatten() {
        let name = LocatedName::from_cursor(&Cursor::new(placement).field("cluster"));
        all.clusters
            .extend(name.map(|name| LocatedName { pointer: annotation.pointer().to_owned(), ..name }));
    }
}
