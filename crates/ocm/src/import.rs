//! Wraps a live object in a set of works, so that the agent takes it over where it runs.
//!
//! Facts: the agent updates an object that it finds as if it had made it, and adds its owner reference. It takes an object
//! over without asking whose it is.

use serde_json::{Value, json};

use federate_dialect::clean;
use federate_dialect::import::{
    ImportEdits, ImportOutcome, Importer, ObjectImportOptions, PolicyName, apply_edits, check_importable,
};
use federate_kubernetes::{Finding, Object};

use crate::kinds::WORK_GROUP;
use crate::member::{CONFIG_HASH, SPEC_HASH};

/// The importer.
pub(super) const IMPORTER: Importer = Importer {
    import_object,
    unnamed: None,
    everywhere: Some("a ManifestWorkReplicaSet goes to all clusters of its placement"),
    wraps: true,
    enables_types: false,
    note: Some(
        "the agent takes objects over in every cluster that the placement selects, and a cluster without them gets them",
    ),
    retain: None,
};

/// Imports an object.
fn import_object(object: &Object, options: &ObjectImportOptions) -> Result<ImportOutcome, Vec<Finding>> {
    if let Some(refused) = check_importable(object, options.dialects) {
        return Err(vec![refused]);
    }
    let Some(PolicyName::Beside(placement)) = &options.policy else {
        let message = format!("{} cannot be wrapped: a Placement is in a namespace", object.id);
        let refused = Finding::error("no-policy", object, message);
        return Err(vec![refused.with_help("name the placement with --policy")]);
    };
    let is_namespace = object.id.kind == "Namespace" && object.id.group().is_empty();
    let own = is_namespace.then_some(object.id.name.as_str());
    let Some(namespace) = object.id.namespace.as_deref().or(own) else {
        let message = format!("{} has no namespace whose placements could place it", object.id);
        let refused = Finding::error("no-policy", object, message).with_pointer("/metadata");
        return Err(vec![
            refused.with_help("write it into a ManifestWorkReplicaSet beside the placement by hand"),
        ]);
    };
    Ok(ImportOutcome::Objects(vec![wrap_object(object, namespace, placement)]))
}

/// Returns the set of works that sends an object to the clusters of a placement.
fn wrap_object(object: &Object, namespace: &str, placement: &str) -> Value {
    let mut edits = ImportEdits::for_object(object);
    clean::remove_server_fields(&mut edits);
    edits.remove_keys("annotations", &[SPEC_HASH, CONFIG_HASH]);
    let mut manifest = object.body.clone();
    apply_edits(&edits.into_edits(), &mut manifest);
    let name = format!("{}-{}", object.id.kind.to_lowercase(), object.id.name.replace(':', "-"));
    json!({
        "apiVersion": format!("{WORK_GROUP}/v1alpha1"),
        "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "placementRefs": [{"name": placement}],
            "manifestWorkTemplate": {"workload": {"manifests": [manifest]}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_and_the_agent_wrote_goes() {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "uid": "u",
            "ownerReferences": [{"kind": "AppliedManifestWork", "name": "w", "uid": "1"}],
            "annotations": {SPEC_HASH: "h", "own": "o"}}, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"}});
        let namespace = Object::from_path("v1", "Namespace", "a", body);
        let options = ObjectImportOptions {
            policy: Some(PolicyName::Beside("everywhere".to_owned())),
            ..ObjectImportOptions::default()
        };
        let Ok(ImportOutcome::Objects(made)) = import_object(&namespace, &options) else {
            panic!("no objects")
        };
        assert_eq!(made[0]["metadata"], json!({"name": "namespace-a", "namespace": "a"}));
        let manifest = &made[0]["spec"]["manifestWorkTemplate"]["workload"]["manifests"][0];
        assert_eq!(manifest["metadata"], json!({"name": "a", "annotations": {"own": "o"}}));
        assert_eq!(manifest.get("status"), None);
        let cluster_wide = Object::from_path("v1", "PersistentVolume", "a", json!({}));
        assert_eq!(import_object(&cluster_wide, &options).unwrap_err()[0].code, "no-policy");
    }
}
