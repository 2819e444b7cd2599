//! What `KubeAdmiral`'s objects, and the labels and annotations of templates, refer to by name.

use federate_dialect::References;
use federate_dialect::references::{ClusterTerm, Name, OtherKind, Reference};
use federate_kubernetes::Object;
use federate_kubernetes::schema::Cursor;

use super::{GROUP, keys};

/// The references of one object.
pub(super) fn of(object: &Object) -> References {
    let mut all = References::default();
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    match (object.id.group(), object.id.kind.as_str()) {
        (GROUP, "PropagationPolicy" | "ClusterPropagationPolicy") => {
            clusters(&mut all, &spec);
            spec.field("placement").items().for_each(|item| all.cluster(&item.field("cluster")));
            let profile = Name::at(&spec.field("schedulingProfile"));
            all.objects.extend(profile.map(|name| Reference {
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
                all.cluster_list(&target.field("clusters"));
                clusters(&mut all, &target);
                containers(&mut all, &rule.field("overriders"));
            }
        }
        (GROUP, _) => {}
        _ => template(&mut all, object, &body.field("metadata")),
    }
    all
}

/// The labels and terms by which clusters are selected.
fn clusters(all: &mut References, at: &Cursor<'_>) {
    let base = ClusterTerm::default().labelled_map(&at.field("clusterSelector"));
    let terms: Vec<Cursor<'_>> = at.field("clusterAffinity").items().collect();
    // A policy lists clusters as `placement`, a rule as `clusters`.
    let listed = at.field("placement").items().filter_map(|item| Name::at(&item.field("cluster")));
    let listed: Vec<String> = listed.map(|name| name.name).collect();
    let with_names = |term: ClusterTerm| {
        let names = if term.names.is_empty() { listed.clone() } else { term.names };
        ClusterTerm { names, ..term }.named(&at.field("clusters"))
    };
    if terms.is_empty() {
        all.cluster_terms.push(with_names(base.clone()));
    }
    for term in &terms {
        let mut selected = base.clone().labelled_by(&term.field("matchExpressions"));
        for field in
            term.field("matchFields").items().filter(|one| one.field("key").text() == "metadata.name")
        {
            match field.field("operator").text() {
                "In" => selected = selected.named(&field.field("values")),
                "NotIn" => selected = selected.except(&field.field("values")),
                _ => {}
            }
        }
        all.cluster_terms.push(with_names(selected));
    }
    all.cluster_label_map(&at.field("clusterSelector"));
    for term in at.field("clusterAffinity").items() {
        all.cluster_requirements(&term.field("matchExpressions"));
        let names = term.field("matchFields").items().filter(|field| {
            field.field("key").text() == "metadata.name" && field.field("operator").text() == "In"
        });
        names.for_each(|field| all.cluster_list(&field.field("values")));
    }
}

/// The containers that overriders change.
fn containers(all: &mut References, overriders: &Cursor<'_>) {
    for list in ["command", "args", "envs"] {
        let names = overriders.field(list).items().filter_map(|one| Name::at(&one.field("containerName")));
        all.containers.extend(names);
    }
    for image in overriders.field("image").items() {
        all.containers.extend(image.field("containerNames").items().filter_map(|name| Name::at(&name)));
    }
}

fn template(all: &mut References, object: &Object, metadata: &Cursor<'_>) {
    let labels = metadata.field("labels");
    // A missing override policy is an error of its own.
    let policies = [
        (keys::POLICY, "PropagationPolicy", true),
        (keys::CLUSTER_POLICY, "ClusterPropagationPolicy", false),
    ];
    for (key, kind, namespaced) in policies {
        let Some(name) = Name::at(&labels.field(key)) else { continue };
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
        all.objects.push(Reference { group: GROUP, kind, namespace, name, consequence, other: Some(other) });
    }
    // An annotation contains a document of its own, in which the names have no place.
    let annotation = metadata.field("annotations").field(keys::PLACEMENTS);
    let document: Option<serde_json::Value> = serde_json::from_str(annotation.text()).ok();
    for placement in document.as_ref().and_then(serde_json::Value::as_array).into_iter().flatten() {
        let name = Name::at(&Cursor::new(placement).field("cluster"));
        all.clusters.extend(name.map(|name| Name { pointer: annotation.pointer().to_owned(), ..name }));
    }
}
