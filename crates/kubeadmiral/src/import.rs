//! Turns a live object into a template that KubeAdmiral adopts: follows its guide to resource federalization,
//! adds the annotation that adoption requires since November 2023, and removes what servers and controllers
//! write.
//!
//! The pod template stays exactly as it was, so that pods do not restart when a member cluster's object
//! is adopted.

use serde_json::json;

use super::keys::{self, CLUSTER_POLICY, POLICY};
use federate_dialect::clean;
use federate_dialect::import::{
    ImportEdits, ImportOutcome, Importer, ObjectImportOptions, PolicyName, check_importable,
};
use federate_kubernetes::kinds::{self, Scope};
use federate_kubernetes::{Finding, Object};

/// The importer.
pub(super) const IMPORTER: Importer = Importer {
    import_object,
    unnamed: None,
    everywhere: None,
    wraps: false,
    enables_types: false,
    note: None,
    retain: None,
};

const CLUSTERS_TO_ADOPT_ANNOTATION: &str = "kubeadmiral.io/clusters-to-adopt";

/// Annotations of an object that was propagated before. Those of clients and workload controllers stay, as in
/// the guide.
const SYNC_ANNOTATIONS: [&str; 4] = [
    "kubeadmiral.io/adopted",
    "kubeadmiral.io/propagated-annotation-keys",
    "kubeadmiral.io/propagated-label-keys",
    "kubeadmiral.io/source-generation",
];

/// Imports an object.
fn import_object(object: &Object, options: &ObjectImportOptions) -> Result<ImportOutcome, Vec<Finding>> {
    let Some(policy) = &options.policy else {
        let message = format!("no policy is named for {}", object.id);
        return Err(vec![
            Finding::error("no-policy", object, message)
                .with_help("name it with --policy or --cluster-policy"),
        ]);
    };
    if let Some(refused) = check_importable(object, options.dialects) {
        return Err(vec![refused]);
    }
    let mut edits = ImportEdits::for_object(object);
    clean::remove_server_fields(&mut edits);
    edits.remove_keys("annotations", &SYNC_ANNOTATIONS);
    edits.remove_keys("labels", &[keys::MANAGED]);
    let (label, other, name) = match policy {
        PolicyName::Beside(name) if is_namespaced(object) => (POLICY, CLUSTER_POLICY, name),
        PolicyName::Beside(name) | PolicyName::OfCluster(name) => (CLUSTER_POLICY, POLICY, name),
    };
    edits.remove_keys("labels", &[other]);
    edits.set_key("labels", label, name);
    edits.set_key("annotations", CLUSTERS_TO_ADOPT_ANNOTATION, &clusters_to_adopt(&options.clusters));
    edits.set_key("annotations", keys::CONFLICTS, "adopt");
    Ok(ImportOutcome::Edits(edits.into_edits()))
}

/// The scope of an unknown kind follows from the object.
fn is_namespaced(object: &Object) -> bool {
    match kinds::find_scope(object.id.group(), &object.id.kind) {
        Some(scope) => scope == Scope::Namespaced,
        None => object.id.namespace.is_some(),
    }
}

/// The value of the annotation: the clusters in which the object is adopted.
fn clusters_to_adopt(names: &[String]) -> String {
    if names.is_empty() { json!({"regexp": ".*"}) } else { json!({"clusters": names}) }.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use federate_dialect::Dialects;

    fn named(policy: PolicyName) -> ObjectImportOptions {
        let dialects = Dialects::new(&[&crate::KubeAdmiral]);
        ObjectImportOptions { policy: Some(policy), dialects, ..ObjectImportOptions::default() }
    }

    /// The edits.
    fn edits(body: Value, options: &ObjectImportOptions) -> (Vec<String>, Vec<(String, String)>) {
        let ImportOutcome::Edits(edits) =
            import_object(&Object::from_manifest(body, "a.yaml"), options).unwrap()
        else {
            panic!("no edits")
        };
        let gone = edits.iter().filter(|e| e.value.is_none()).map(|e| e.pointer.clone()).collect();
        let come =
            edits.iter().filter_map(|e| Some((e.pointer.clone(), e.value.as_ref()?.as_str()?.to_owned())));
        (gone, come.collect())
    }

    fn gone(body: Value) -> Vec<String> {
        edits(body, &named(PolicyName::Beside("p".into()))).0
    }

    const LABEL: &str = "/metadata/labels/kubeadmiral.io~1propagation-policy-name";
    const CLUSTER_LABEL: &str = "/metadata/labels/kubeadmiral.io~1cluster-propagation-policy-name";

    #[test]
    fn the_policy_stands_where_the_object_does() {
        let label = |version: &str, kind: &str, namespace: Value, policy: PolicyName| {
            let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": namespace}});
            edits(body, &named(policy)).1.remove(0).0
        };
        let beside = || PolicyName::Beside("p".into());
        assert_eq!(label("apps/v1", "Deployment", json!("x"), beside()), LABEL);
        assert_eq!(label("apps/v1", "Deployment", Value::Null, beside()), LABEL);
        assert_eq!(label("v1", "Namespace", Value::Null, beside()), CLUSTER_LABEL);
        assert_eq!(label("x.io/v1", "Custom", Value::Null, beside()), CLUSTER_LABEL);
        assert_eq!(label("x.io/v1", "Custom", json!("x"), beside()), LABEL);
        assert_eq!(
            label("apps/v1", "Deployment", json!("x"), PolicyName::OfCluster("p".into())),
            CLUSTER_LABEL
        );
    }

    #[test]
    fn one_label_decides_and_adoption_names_clusters() {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x",
            "labels": {"kubeadmiral.io/cluster-propagation-policy-name": "old", "kubeadmiral.io/managed": "true"}}});
        let options = ObjectImportOptions {
            clusters: vec!["m1".into(), "m2".into()],
            ..named(PolicyName::Beside("p".into()))
        };
        let (gone, come) = edits(body, &options);
        assert_eq!(gone, ["/metadata/labels/kubeadmiral.io~1managed", CLUSTER_LABEL]);
        let adopting = "/metadata/annotations/kubeadmiral.io~1clusters-to-adopt";
        assert_eq!(come[1], (adopting.to_owned(), r#"{"clusters":["m1","m2"]}"#.to_owned()));
        assert_eq!(come[0], (LABEL.to_owned(), "p".to_owned()));
    }

    #[test]
    fn a_template_has_nothing_to_change() {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x",
            "labels": {"kubeadmiral.io/propagation-policy-name": "p"}, "annotations": {
                "kubeadmiral.io/conflict-resolution": "adopt",
                "kubeadmiral.io/clusters-to-adopt": "{\"regexp\":\".*\"}"}}});
        assert_eq!(edits(body, &named(PolicyName::Beside("p".into()))), (vec![], vec![]));
    }

    #[test]
    fn what_servers_fill_in_goes() {
        let of = |version: &str, kind: &str, spec: Value| {
            gone(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}))
        };
        let addresses = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "NodePort"});
        assert_eq!(of("v1", "Service", addresses), ["/spec/clusterIP", "/spec/clusterIPs"]);
        assert!(of("v1", "Service", json!({"clusterIP": "None", "clusterIPs": ["None"]})).is_empty());
        assert_eq!(of("v1", "Namespace", json!({"finalizers": ["kubernetes"]})), ["/spec"]);
        let job = json!({"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "x"}},
            "template": {"metadata": {"labels": {"controller-uid": "x", "job-name": "a"}, "creationTimestamp": null}}});
        assert_eq!(
            of("batch/v1", "Job", job.clone()),
            [
                "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
                "/spec/template/metadata/labels/controller-uid"
            ]
        );
        let mut manual = job;
        manual["manualSelector"] = json!(true);
        assert!(of("batch/v1", "Job", manual).is_empty());
        assert!(of("v1", "PersistentVolumeClaim", json!({"volumeName": "v"})).is_empty());
        let bound = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "v"},
            "metadata": {"name": "a", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}});
        assert!(gone(bound).contains(&"/spec/volumeName".to_owned()));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        let refused = |body: Value, options: &ObjectImportOptions| {
            import_object(&Object::from_manifest(body, "a.yaml"), options).unwrap_err()[0].code
        };
        let options = named(PolicyName::Beside("p".into()));
        let owner = json!([{"kind": "ReplicaSet", "name": "web-1", "controller": true}]);
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "ownerReferences": owner}});
        assert_eq!(refused(pod.clone(), &options), "controlled");
        let policy = json!({"apiVersion": "core.kubeadmiral.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "a"}});
        assert_eq!(refused(policy, &options), "not-a-template");
        assert_eq!(refused(pod, &ObjectImportOptions::default()), "no-policy");
    }
}
