//! What helps the authors of a repo: first objects, an importer, references, words.

use federate_kubernetes::{Object, ObjectRef};
use federate_repo::config::ConfiguredCluster;

use crate::{ObjectReferences, Starter, import};

/// What helps the authors of a repo. By default there is little to say.
pub trait AuthorAdvice {
    /// The objects that a new repo starts with: these clusters, and a policy that places these templates on all of
    /// them.
    fn build_starter(&self, clusters: &[ConfiguredCluster], templates: &[&ObjectRef]) -> Starter {
        let _ = (clusters, templates);
        Starter::default()
    }

    /// The importer for objects that already run, if there is one.
    fn importer(&self) -> Option<import::Importer> {
        None
    }

    /// What an object refers to by name: one of its own objects, or a template with its labels and annotations.
    /// The object need not be valid.
    fn find_references(&self, object: &Object) -> ObjectReferences {
        let _ = object;
        ObjectReferences::default()
    }

    /// What becomes of an object that stays on the control plane, and how its manifests are placed by federate instead; `None` where
    /// there is nothing to say.
    fn describe_kept_object(&self, object: &ObjectRef) -> Option<&'static str> {
        let _ = object;
        None
    }

    /// How a template is selected, as advice: `select it in …`.
    fn selected_by(&self) -> &'static str {
        "select it in a placement policy"
    }
}
