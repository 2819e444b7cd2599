//! What `KubeAdmiral`'s CRDs refuse.

use crate::k8s::{Finding, Object};

/// What is wrong with one of the dialect's own objects.
pub(super) fn check(_object: &Object) -> Vec<Finding> {
    Vec::new()
}
