//! Turns a live object into a template that KubeFleet adopts where it runs: the object without what servers and
//! an earlier KubeFleet wrote. The placement decides whether KubeFleet adopts it.
//!
//! Facts: `spec.strategy.applyStrategy.whenToTakeOver` of a placement is `Always` by default. An object without
//! its owner reference is then adopted; with `IfNoDiff` only where nothing differs; with `Never` not at all.

use super::member::BOOKKEEPING;
use federate_dialect::clean;
use federate_dialect::import::{ImportEdits, ImportOutcome, Importer, ObjectImportOptions, check_importable};
use federate_kubernetes::{Finding, Object};

/// The importer.
pub(super) const IMPORTER: Importer = Importer {
    import_object,
    unnamed: Some("KubeFleet's placements select objects and clusters by themselves"),
    everywhere: None,
    wraps: false,
    enables_types: false,
    note: Some(
        "a placement must select the objects (or their namespace), and its strategy decides whether what runs is \
         taken over: `applyStrategy.whenToTakeOver` Always (the default), or IfNoDiff where nothing differs; not \
         Never",
    ),
    retain: None,
};

/// Imports an object.
fn import_object(object: &Object, options: &ObjectImportOptions) -> Result<ImportOutcome, Vec<Finding>> {
    if let Some(refused) = check_importable(object, options.dialects) {
        return Err(vec![refused]);
    }
    let mut edits = ImportEdits::for_object(object);
    clean::remove_server_fields(&mut edits);
    edits.remove_keys("annotations", &BOOKKEEPING);
    Ok(ImportOutcome::Edits(edits.into_edits()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_dialect::import::apply_edits;

    #[test]
    fn nothing_comes_and_bookkeeping_goes() {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u",
            "ownerReferences": [{"kind": "AppliedWork", "name": "w", "uid": "1"}],
            "annotations": {"kubernetes-fleet.io/spec-hash": "h", "own": "o"}}, "data": {"k": "v"}});
        let mut object = Object::from_path("v1", "ConfigMap", "x/a", body);
        let Ok(ImportOutcome::Edits(edits)) = import_object(&object, &ObjectImportOptions::default()) else {
            panic!("no edits")
        };
        assert!(edits.iter().all(|edit| edit.value.is_none()), "{edits:?}");
        apply_edits(&edits, &mut object.body);
        assert_eq!(object.body["metadata"], json!({"name": "a", "annotations": {"own": "o"}}));
    }
}
