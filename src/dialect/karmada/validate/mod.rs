//! What Karmada's API server and admission refuse, with the field to blame.
//!
//! Invalid objects never reach the scheduler, so they are errors, and left out of every decision.

use serde_json::Value;

use crate::k8s::selector::LabelSelector;
use crate::k8s::{Finding, Object, schema};

mod kinds;
mod overrides;
mod propagation;

/// Everything wrong with one of the dialect's objects.
pub(super) fn check(object: &Object) -> Vec<Finding> {
    let Some(kind) = kinds::spec(&object.id.kind) else { return Vec::new() };
    let spec = object.at(&["spec"]).cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let mut report = Report { object, findings: Vec::new() };
    for misfit in schema::check(&spec, kind, "/spec") {
        report.misfit(&misfit);
    }
    if report.findings.iter().any(|f| f.severity == crate::k8s::Severity::Error) {
        // The rules below read the fields by their types.
        return report.findings;
    }
    match object.id.kind.as_str() {
        "PropagationPolicy" | "ClusterPropagationPolicy" => propagation::check(&mut report),
        "OverridePolicy" | "ClusterOverridePolicy" => overrides::check(&mut report, &spec),
        _ => {}
    }
    report.findings
}

/// The findings about one object.
struct Report<'o> {
    object: &'o Object,
    findings: Vec<Finding>,
}

impl Report<'_> {
    fn code(&self) -> &'static str {
        if self.object.id.kind == "Cluster" { "invalid-cluster" } else { "invalid-policy" }
    }

    fn misfit(&mut self, misfit: &schema::Misfit) {
        let field = misfit.pointer.rsplit('/').next().unwrap_or_default();
        let mut finding = if misfit.dropped {
            Finding::warning("unknown-field", self.object, misfit.message.clone())
        } else {
            let message = format!("{} is invalid at `{field}`: {}", self.object.id, misfit.message);
            Finding::error(self.code(), self.object, message)
        };
        if let Some(meant) = misfit.meant {
            finding = finding.help(format!("did you mean `{meant}`?"));
        }
        self.findings.push(finding.at(misfit.pointer.clone()));
    }

    /// An error at a field.
    fn error(&mut self, pointer: impl Into<String>, why: impl std::fmt::Display) {
        let message = format!("{} is invalid: {why}", self.object.id);
        self.findings.push(Finding::error(self.code(), self.object, message).at(pointer));
    }

    /// An error at a field, with a remedy.
    fn error_with_help(&mut self, pointer: impl Into<String>, why: impl std::fmt::Display, help: &str) {
        self.error(pointer, why);
        if let Some(finding) = self.findings.pop() {
            self.findings.push(finding.help(help));
        }
    }

    fn label_selector(&mut self, pointer: &str, selector: Option<&LabelSelector>) {
        if let Some((below, why)) = selector.and_then(LabelSelector::invalid) {
            self.error(format!("{pointer}{below}"), why);
        }
    }
}
