//! The feature gates of a release, and their defaults.
//!
//! Facts: a component does not start with a gate that its release does not know. federate decides with the
//! defaults of the release.

use serde_json::Value;

use super::KarmadaBehaviour;
use federate_dialect::release::FirstPatches;
use federate_kubernetes::{Finding, Severity};
use federate_repo::Repo;

/// The key below `dialects.karmada` in `federate.yaml`.
pub(crate) const SETTING: &str = "featureGates";

/// Since the oldest known release.
const ALWAYS: FirstPatches = &[(13, 0)];
const NEVER: FirstPatches = &[];

/// Each gate: since when it is known, since when it is on, and whether placements or manifests depend on it.
const GATES: [(&str, FirstPatches, FirstPatches, bool); 14] = [
    ("ControllerPriorityQueue", &[(15, 0)], &[(17, 0)], false),
    ("CustomizedClusterResourceModeling", ALWAYS, ALWAYS, true),
    ("Failover", ALWAYS, NEVER, true),
    ("FederatedQuotaEnforcement", &[(14, 0)], NEVER, true),
    ("GracefulEviction", ALWAYS, ALWAYS, true),
    ("MultiClusterService", ALWAYS, NEVER, true),
    ("MultiplePodTemplatesScheduling", &[(15, 0)], NEVER, true),
    ("PriorityBasedScheduling", ALWAYS, &[(19, 0)], false),
    ("PropagateDeps", ALWAYS, ALWAYS, true),
    ("PropagationPolicyPreemption", ALWAYS, NEVER, true),
    ("ResourceQuotaEstimate", ALWAYS, NEVER, true),
    ("SchedulingOvercommitProtection", &[(18, 0)], NEVER, true),
    ("StatefulFailoverInjection", ALWAYS, NEVER, true),
    ("WorkloadAffinity", &[(17, 0)], NEVER, true),
];

/// The most findings about gates.
const MAX_FINDINGS: usize = 100;

impl KarmadaBehaviour {
    /// The findings about the gates that `federate.yaml` names for a dialect.
    pub(crate) fn check_gates(&self, repo: &Repo, dialect: &str) -> Vec<Finding> {
        let settings = repo.config.dialects.get(dialect).and_then(|settings| settings.get(SETTING));
        let pointer = format!("/dialects/{dialect}/{SETTING}");
        let Some(settings) = settings.filter(|settings| !settings.is_null()) else { return Vec::new() };
        let Some(named) = settings.as_object() else {
            let message = format!("`{SETTING}` is a mapping of names to true or false");
            return vec![repo.invalid_config(&pointer, message)];
        };
        // The file is read again for each finding.
        let findings = named.iter().filter_map(|(name, value)| {
            let at = format!("{pointer}/{}", federate_kubernetes::pointer::escape(name));
            self.check_gate(repo, &at, name, value)
        });
        findings.take(MAX_FINDINGS).collect()
    }

    fn check_gate(&self, repo: &Repo, pointer: &str, name: &str, value: &Value) -> Option<Finding> {
        let release = self.release;
        let Some(desired) = value.as_bool() else {
            return Some(repo.invalid_config(pointer, "a feature gate is true or false"));
        };
        let known = GATES.iter().find(|(gate, ..)| *gate == name);
        let Some((_, since, on, decides)) = known else {
            let message =
                format!("Karmada {release} has no feature gate `{name}`: its components do not start");
            return Some(repo.invalid_config(pointer, message));
        };
        if !release.includes_change(since) {
            let first = since.first().map_or(0, |(minor, _)| *minor);
            let message = format!(
                "Karmada {release} has no feature gate `{name}`, which came with 1.{first}: its components do \
                 not start"
            );
            return Some(repo.invalid_config(pointer, message));
        }
        let is_on = release.includes_change(on);
        if desired == is_on || !decides {
            return None;
        }
        let (used, unused) = if is_on { ("on", "off") } else { ("off", "on") };
        let message = format!(
            "federate decides with `{name}` {used}, as Karmada {release} starts it, and not {unused}"
        );
        let finding = repo.invalid_config(pointer, "");
        Some(Finding { severity: Severity::Warning, code: "gate-not-reproduced", message, ..finding })
    }
}
