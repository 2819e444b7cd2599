//! `jsonpatch` overriders, and paths with special treatment.

use super::Patch;
use super::api::PatchOverrider;

/// The patch that is written.
pub(super) fn read_patch(written: &PatchOverrider) -> Patch {
    let name = if written.operator.is_empty() { "replace" } else { &written.operator };
    Patch { name: name.to_owned(), path: written.path.clone(), value: written.value.clone() }
}

/// Whether a patch is applied only when the object is sent, because finalizers exist only then.
pub(in super::super) fn applies_last(patch: &Patch) -> bool {
    patch.path.starts_with("/metadata/finalizers")
}

/// Whether the patch would change the identity of the object, so that nothing may be sent.
pub(in super::super) fn is_refused(patch: &Patch) -> bool {
    matches!(
        patch.path.as_str(),
        "/metadata/namespace" | "/metadata/name" | "/metadata/generateName" | "/kind"
    )
}
