//! Takes the causes of a verdict away: from objects, from clusters, and from the earlier plan.

use federate_dialect::{ClusterCause, VerdictCause};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Apis, Capacity, Cluster, Liveness, Object, ObjectRef};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The factor by which the replicas of an object are multiplied.
const MORE_REPLICAS: i64 = 10_000;

/// The changes that take causes away.
#[derive(Default)]
pub(crate) struct Edits {
    /// Whether the earlier plan and what was observed are forgotten.
    pub(crate) forgets: bool,
    /// The causes in objects, each with the clusters that they are about.
    objects: BTreeMap<VerdictCause, BTreeSet<String>>,
    clusters: BTreeSet<(String, ClusterCause)>,
}

impl Edits {
    /// Adds the change that takes a cause away from a cluster.
    pub(super) fn add(&mut self, cause: &VerdictCause, cluster: &str) {
        match cause {
            VerdictCause::PreviousPlan => self.forgets = true,
            VerdictCause::Cluster(cause) => drop(self.clusters.insert((cluster.to_owned(), cause.clone()))),
            cause => drop(self.objects.entry(cause.clone()).or_default().insert(cluster.to_owned())),
        }
    }

    /// Whether no object changes.
    pub(super) fn keep_objects(&self) -> bool {
        self.objects.is_empty()
    }

    /// Changes the objects of a repo.
    pub(super) fn change_objects(&self, objects: &mut Vec<Value>) {
        // Backwards, so that the indexes of other items of a list stay.
        for (cause, clusters) in self.objects.iter().rev() {
            match cause {
                VerdictCause::Missing { object } => {
                    let new = permissive(object, objects);
                    objects.retain(|old| old["kind"] != new["kind"] || old["metadata"] != new["metadata"]);
                    objects.push(new);
                }
                VerdictCause::Field { object, path } => {
                    with_object(objects, object, |body| remove(body, path));
                }
                VerdictCause::NotListed { object, path } => {
                    with_object(objects, object, |body| list_clusters(body, path, clusters));
                }
                VerdictCause::NotSelected { object, path } => with_object(objects, object, |body| {
                    let term = body.pointer_mut(path).and_then(Value::as_object_mut).expect("a term");
                    for selector in ["labelSelector", "fieldSelector", "exclude"] {
                        term.shift_remove(selector);
                    }
                    term.insert("clusterNames".to_owned(), json!(clusters));
                }),
                VerdictCause::Absent { object, path } if path.ends_with("propagation-policy-name") => {
                    name_policy(objects, object);
                }
                VerdictCause::Absent { object, path } => {
                    with_object(objects, object, |body| *place(body, path) = json!({}));
                }
                VerdictCause::TooFew { object, path } => {
                    let (annotated, number) = (path.contains("/annotations/"), clusters.len() + 1000);
                    with_object(objects, object, |body| {
                        *place(body, path) =
                            if annotated { json!(number.to_string()) } else { json!(number) };
                    });
                }
                VerdictCause::Replicas { object } => with_object(objects, object, |body| {
                    let is_known = ["", "apps", "batch"].contains(&object.group());
                    multiply_replicas(place(body, "/spec"), is_known);
                }),
                other => panic!("{other:?} is in no object"),
            }
        }
    }

    /// Changes the clusters.
    pub(super) fn change_clusters(&self, clusters: &mut Vec<Cluster>, objects: &[Value]) {
        for (name, cause) in &self.clusters {
            let found = clusters.iter_mut().find(|cluster| *cluster.name == **name);
            let Some(cluster) = found else {
                let manifest = json!({"kind": "MemberCluster", "metadata": {"name": name}});
                clusters.push(Cluster::from_object(&Object::from_manifest(manifest, "new")));
                clusters.sort_by(|a, b| a.name.cmp(&b.name));
                continue;
            };
            match cause {
                ClusterCause::Api => cluster.apis = Apis::All,
                ClusterCause::Taint { key, value, .. } => {
                    cluster.taints.retain(|taint| (&taint.key, &taint.value) != (key, value));
                }
                ClusterCause::Location { field: "region" } => "r".clone_into(&mut cluster.region),
                ClusterCause::Location { field: "zone" } => cluster.zones = vec!["z".to_owned()],
                ClusterCause::Location { .. } => "p".clone_into(&mut cluster.provider),
                ClusterCause::Namespace { namespace } => {
                    cluster.namespaces.get_or_insert_default().insert(namespace.clone());
                }
                ClusterCause::InventoryNamespace { namespace } => {
                    cluster.id.namespace = Some(namespace.clone());
                }
                ClusterCause::NotReady => {
                    (cluster.ready, cluster.unready_condition) = (true, None);
                    cluster.liveness = Liveness::default();
                }
                ClusterCause::NotJoined => {
                    (cluster.joined, cluster.liveness) = (true, Liveness::default());
                }
                ClusterCause::Deleting => cluster.deleting = false,
                ClusterCause::Resources => cluster.capacity = Some(plenty(objects)),
                other => panic!("{other:?} cannot be taken away"),
            }
        }
    }
}

/// Plenty of each resource that is asked for.
fn plenty(objects: &[Value]) -> Capacity {
    let mut names: BTreeSet<String> =
        ["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu"].map(str::to_owned).into();
    for object in objects {
        collect_resources(object, &mut names);
    }
    // The sum of pods over all clusters must fit into 32 bits.
    let amount = |name: &str| if name == "pods" { "100000" } else { "1000000000000000" };
    let amounts: BTreeMap<String, Quantity> = names
        .into_iter()
        .map(|name| (name.clone(), Quantity::parse(amount(&name)).expect("a quantity")))
        .collect();
    Capacity { total: amounts.clone(), allocatable: amounts.clone(), available: amounts, shapes: None }
}

fn collect_resources(value: &Value, names: &mut BTreeSet<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        if ["requests", "limits", "resourceRequest"].contains(&key.as_str()) {
            names.extend(value.as_object().into_iter().flatten().map(|(name, _)| name.clone()));
        }
        collect_resources(value, names);
    }
    value.as_array().into_iter().flatten().for_each(|value| collect_resources(value, names));
}

fn with_object(objects: &mut [Value], id: &ObjectRef, change: impl FnOnce(&mut Value)) {
    let is_it = |object: &&mut Value| {
        let metadata = &object["metadata"];
        object["kind"] == id.kind.as_str()
            && metadata["name"] == id.name.as_str()
            && object["apiVersion"].as_str().and_then(|v| v.rsplit_once('/')).map(|(group, _)| group)
                == id.api_version.rsplit_once('/').map(|(group, _)| group)
            && match (metadata["namespace"].as_str(), id.namespace.as_deref()) {
                (None | Some(""), namespace) => namespace.is_none_or(|namespace| namespace == "default"),
                (stated, namespace) => namespace.is_none() || stated == namespace,
            }
    };
    match objects.iter_mut().find(is_it) {
        Some(object) => change(object),
        None => panic!("there is no {id}"),
    }
}

/// Removes a field, or gives it the value that lets most through, if it is required.
fn remove(body: &mut Value, path: &str) {
    let required = match path {
        "/spec/propagation" => Some("Enabled"),
        "/spec/scope" => Some("Cluster"),
        _ => None,
    };
    if let Some(value) = required {
        *place(body, path) = json!(value);
        return;
    }
    let (parent, key) = path.rsplit_once('/').expect("a pointer");
    let key = key.replace("~1", "/").replace("~0", "~");
    match body.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.shift_remove(&key)),
        Some(Value::Array(list)) => drop(list.remove(key.parse().expect("an index"))),
        _ => panic!("there is no {path} in {body}"),
    }
}

/// The value at a pointer, which is made where it is not there.
fn place<'v>(body: &'v mut Value, path: &str) -> &'v mut Value {
    path.split('/').skip(1).fold(body, |value, key| {
        if value.is_null() {
            *value = json!({});
        }
        let key = key.replace("~1", "/").replace("~0", "~");
        value.as_object_mut().expect("a map").entry(key).or_insert(Value::Null)
    })
}

/// Adds clusters to the field that names clusters.
fn list_clusters(body: &mut Value, path: &str, clusters: &BTreeSet<String>) {
    let field = place(body, path);
    if path == "/metadata/namespace" {
        *field = json!(clusters.first());
        return;
    }
    if field.is_null() {
        *field = json!([]);
    }
    field.as_array_mut().expect("a list").extend(clusters.iter().map(|name| match path {
        "/spec/placement/clusters" => json!({"name": name}),
        "/spec/staticAssignments" => json!({"clusterName": name, "hard": {}}),
        _ => json!(name),
    }));
}

/// Multiplies whatever is a number of replicas. In a kind that is not `known`, any number may be one.
fn multiply_replicas(value: &mut Value, is_known: bool) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.to_lowercase();
                let counts = !is_known || ["replicas", "parallelism", "completions"].contains(&key.as_str());
                match value.as_i64() {
                    Some(number) if counts => *value = json!(number.max(1) * MORE_REPLICAS),
                    _ => multiply_replicas(value, is_known),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| multiply_replicas(value, is_known)),
        _ => {}
    }
}

/// Gives a template of `KubeAdmiral` a policy of its own.
fn name_policy(objects: &mut Vec<Value>, template: &ObjectRef) {
    let policy = ObjectRef {
        api_version: "core.kubeadmiral.io/v1alpha1".to_owned(),
        kind: if template.namespace.is_some() { "PropagationPolicy" } else { "ClusterPropagationPolicy" }
            .to_owned(),
        namespace: template.namespace.clone(),
        name: "accepts-all".to_owned(),
    };
    let label = if template.namespace.is_some() {
        "kubeadmiral.io/propagation-policy-name"
    } else {
        "kubeadmiral.io/cluster-propagation-policy-name"
    };
    with_object(objects, template, |body| {
        let labels = place(body, "/metadata/labels");
        if labels.is_null() {
            *labels = json!({});
        }
        labels[label] = json!("accepts-all");
    });
    let policy = permissive(&policy, objects);
    objects.push(policy);
}

/// An object that lets everything through.
fn permissive(id: &ObjectRef, objects: &[Value]) -> Value {
    let mut metadata = Map::from_iter([("name".to_owned(), json!(id.name))]);
    if let Some(namespace) = &id.namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    let spec = match id.kind.as_str() {
        "FederatedNamespace" => json!({"placement": {"clusterSelector": {}}}),
        "ManagedClusterSetBinding" => json!({"clusterSet": id.name}),
        "PropagationPolicy" | "ClusterPropagationPolicy" => json!({"schedulingMode": "Duplicate"}),
        "FederatedTypeConfig" => {
            let typed = objects.iter().map(type_to_federate).find(|(name, _)| *name == id.name);
            json!({"sourceType": typed.map(|(_, source)| source)})
        }
        _ => json!({}),
    };
    json!({"apiVersion": id.api_version, "kind": id.kind, "metadata": metadata, "spec": spec})
}

/// The name of the `FederatedTypeConfig` of an object's type, and what it says of the type.
fn type_to_federate(object: &Value) -> (String, Value) {
    let (version, kind) =
        (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    let plural = federate_kubernetes::kinds::pluralize_kind(&kind.to_lowercase());
    let scope = if object["metadata"]["namespace"].is_string() { "Namespaced" } else { "Cluster" };
    let source =
        json!({"group": group, "version": version, "kind": kind, "pluralName": &plural, "scope": scope});
    let name = if group.is_empty() { plural } else { format!("{plural}.{group}") };
    (name, source)
}
