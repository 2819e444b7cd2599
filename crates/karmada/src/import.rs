//! Turns a live object into a template that Karmada adopts: the object itself, with the annotation that
//! resolves conflicts by overwriting, and without the labels and annotations of an earlier Karmada.
//!
//! Facts: Karmada updates an object that it does not manage only if the manifest has the annotation
//! `work.karmada.io/conflict-resolution: overwrite`. The template's own annotation takes precedence over
//! `conflictResolution` of its policy.

use serde_json::Value;

use super::NAME;
use super::interpreter::Interpreter;
use super::member::retention;
use super::pruning::{CONFLICT_RESOLUTION, STAMPED_ANNOTATIONS, STAMPED_LABELS};
use super::version::KarmadaBehaviour;
use federate_dialect::clean;
use federate_dialect::import::{ImportEdits, ImportOutcome, Importer, ObjectImportOptions, check_importable};
use federate_kubernetes::{Finding, Object};
use federate_repo::{Repo, Role};

/// The importer.
pub(super) const IMPORTER: Importer = Importer {
    import_object,
    unnamed: Some(
        "Karmada's policies select objects by themselves, and Karmada adopts what runs in the clusters that they choose",
    ),
    everywhere: None,
    wraps: false,
    enables_types: false,
    note: Some(
        "a PropagationPolicy or ClusterPropagationPolicy must select the objects; `federate plan` says which",
    ),
    retain: Some(retain_live_fields),
};

/// What Karmada sends in place of `known`, an object of the repo: the fields that a retention script or a built-in
/// rule keeps are those of `live`.
fn retain_live_fields(repo: &Repo, known: &Object, live: &Object) -> Option<Value> {
    let (behaviour, _) = KarmadaBehaviour::from_repo(repo, NAME);
    let customizations = repo.claimed.iter().filter(|one| one.dialect == NAME && one.role == Role::Other);
    let interpreter = Interpreter::with_behaviour(customizations.map(|one| &one.object), None, behaviour);
    if let Some(retained) = interpreter.retain_live_fields(&known.body, &live.body, &live.id) {
        retained.ok()
    } else {
        let mut body = known.body.clone();
        retention::retain_by_kind(&mut body, live, behaviour.service_accounts).ok()?;
        Some(body)
    }
}

/// Imports an object.
fn import_object(object: &Object, options: &ObjectImportOptions) -> Result<ImportOutcome, Vec<Finding>> {
    if let Some(refused) = check_importable(object, options.dialects) {
        return Err(vec![refused]);
    }
    let mut edits = ImportEdits::for_object(object);
    clean::remove_server_fields(&mut edits);
    edits.remove_keys("labels", &STAMPED_LABELS);
    edits.remove_keys("annotations", &STAMPED_ANNOTATIONS);
    edits.set_key("annotations", CONFLICT_RESOLUTION, "overwrite");
    Ok(ImportOutcome::Edits(edits.into_edits()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_dialect::Dialects;
    use federate_dialect::import::apply_edits;

    fn taken(body: Value) -> Result<Value, &'static str> {
        let mut object = Object::from_manifest(body, "a.yaml");
        let dialects = Dialects::new(&[&crate::Karmada]);
        match import_object(&object, &ObjectImportOptions { dialects, ..ObjectImportOptions::default() })
            .map_err(|findings| findings[0].code)?
        {
            ImportOutcome::Edits(edits) => apply_edits(&edits, &mut object.body),
            ImportOutcome::Objects(_) => panic!("it is the object itself"),
        }
        Ok(object.body)
    }

    #[test]
    fn the_object_says_that_it_takes_over() {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u",
            "labels": {"karmada.io/managed": "true", "app": "a"},
            "annotations": {"work.karmada.io/name": "n", CONFLICT_RESOLUTION: "abort"}}});
        let result = taken(body).unwrap();
        assert_eq!(
            result["metadata"],
            json!({"name": "a", "labels": {"app": "a"}, "annotations": {CONFLICT_RESOLUTION: "overwrite"}})
        );
        assert_eq!(taken(result.clone()).unwrap(), result);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        let owner = json!([{"kind": "ReplicaSet", "name": "web-1", "controller": true}]);
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "ownerReferences": owner}});
        assert_eq!(taken(pod), Err("controlled"));
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"});
        assert_eq!(taken(policy), Err("not-a-template"));
    }
}
