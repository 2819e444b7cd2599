//! What the API server and its admission webhooks refuse in `KubeFed`'s objects, told before anything
//! is placed.

use super::config::Config;
use crate::k8s::{Finding, Object};

/// Everything that is wrong with one of `KubeFed`'s own objects.
pub(super) fn check(_object: &Object) -> Vec<Finding> {
    Vec::new()
}

/// A federated object of a kind that no configuration makes one.
pub(super) fn unknown_type(object: &Object, config: &Config) -> Finding {
    let message = format!(
        "{} is not federated: no FederatedTypeConfig in namespace `{}` is about its kind",
        object.id, config.namespace
    );
    Finding::warning("unknown-type", object, message)
        .help("add the FederatedTypeConfig that `kubefedctl enable` writes, or check group and kind")
}
