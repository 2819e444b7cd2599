//! The defaults of volumes and claims.

use serde_json::{Value, json};

use super::{default, mapping_below};

/// The spec of a claim or a claim template.
pub(super) fn claim_spec(spec: &mut Value) {
    default(spec, "volumeMode", || json!("Filesystem"));
}

/// A volume.
pub(super) fn volume(volume: &mut Value) {
    let spec = mapping_below(volume, "spec");
    default(spec, "persistentVolumeReclaimPolicy", || json!("Retain"));
    default(spec, "volumeMode", || json!("Filesystem"));
    if let Some(path) = spec.get_mut("hostPath").filter(|p| p.is_object())
        && path.get("type").is_none()
    {
        path["type"] = json!("");
    }
    default(mapping_below(volume, "status"), "phase", || json!("Pending"));
}
