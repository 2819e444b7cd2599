//! The defaults of volumes and claims.

use serde_json::{Value, json};

use super::{mapping_below, set_default};

/// The spec of a claim or a claim template.
pub(super) fn default_claim_spec(spec: &mut Value) {
    set_default(spec, "volumeMode", || json!("Filesystem"));
}

/// A volume.
pub(super) fn default_volume(volume: &mut Value) {
    let spec = mapping_below(volume, "spec");
    set_default(spec, "persistentVolumeReclaimPolicy", || json!("Retain"));
    set_default(spec, "volumeMode", || json!("Filesystem"));
    if let Some(path) = spec.get_mut("hostPath").filter(|p| p.is_object())
        && path.get("type").is_none()
    {
        path["type"] = json!("");
    }
    set_default(mapping_below(volume, "status"), "phase", || json!("Pending"));
}
