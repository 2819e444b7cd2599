//! Values that the API server accepts and that `KubeAdmiral` does not understand: they have no effect.

use federate_dialect::goduration;
use federate_kubernetes::schema::{Cursor, find_nearest};
use federate_kubernetes::{Finding, Object};

use crate::affinity;
use crate::profile::{FilterPlugin, ScorePlugin, SelectPlugin};

const OPERATORS: [&str; 2] = ["Equal", "Exists"];

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The findings about such values in one of `KubeAdmiral`'s own objects.
pub(super) fn without_effect(object: &Object) -> Vec<Finding> {
    let body = Cursor::new(&object.body);
    let spec = body.field("spec");
    let mut found = Values { object, findings: Vec::new() };
    match object.id.kind.as_str() {
        "PropagationPolicy" | "ClusterPropagationPolicy" => found.check_policy(&spec),
        "OverridePolicy" | "ClusterOverridePolicy" => found.check_overrides(&spec),
        "SchedulingProfile" => found.check_profile(&spec.field("plugins")),
        "FederatedCluster" => {
            for taint in spec.field("taints").items() {
                found.check_one_of(&taint.field("effect"), &EFFECTS, "the taint has no effect");
            }
        }
        _ => {}
    }
    found.findings
}

struct Values<'o> {
    object: &'o Object,
    findings: Vec<Finding>,
}

impl Values<'_> {
    fn add_finding(&mut self, at: &Cursor<'_>, message: impl Into<String>, help: impl Into<String>) {
        self.findings.push(
            Finding::warning("no-effect", self.object, message).with_pointer(at.pointer()).with_help(help),
        );
    }

    fn check_one_of(&mut self, at: &Cursor<'_>, allowed: &[&str], consequence: &str) {
        let text = at.as_text();
        if text.is_empty() || allowed.contains(&text) {
            return;
        }
        let message = format!("`{text}` is not one of {}: {consequence}", allowed.join(", "));
        let help = match find_nearest(text, allowed) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "use one of these values".to_owned(),
        };
        self.add_finding(at, message, help);
    }

    fn check_policy(&mut self, spec: &Cursor<'_>) {
        for toleration in spec.field("tolerations").items() {
            let consequence = "the toleration tolerates nothing";
            self.check_one_of(&toleration.field("operator"), &OPERATORS, consequence);
            self.check_one_of(&toleration.field("effect"), &EFFECTS, consequence);
        }
        for term in spec.field("clusterAffinity").items() {
            for field in term.field("matchFields").items() {
                self.check_one_of(&field.field("key"), &["metadata.name"], "the term selects no cluster");
            }
            for expression in term.field("matchExpressions").items() {
                self.check_requirement(&expression);
            }
        }
        let placement = spec.field("placement");
        if placement.is_present() && !placement.has_items() {
            let help = "name the clusters, or remove the empty list if every cluster is meant";
            self.add_finding(&placement, "an empty `placement` allows every cluster", help);
        }
        for cluster in placement.items() {
            let wanted = cluster.field("preferences");
            let (least, most) = (wanted.field("minReplicas"), wanted.field("maxReplicas"));
            if let (Some(min), Some(max)) = (least.value().as_i64(), most.value().as_i64())
                && min > max
            {
                let message = format!(
                    "`minReplicas` {min} is greater than `maxReplicas` {max}: at most {max} are placed there"
                );
                self.add_finding(&least, message, "raise `maxReplicas` or lower `minReplicas`");
            }
        }
        let after = spec.field("autoMigration").field("when").field("podUnschedulableFor");
        if !after.as_text().is_empty() && goduration::parse(after.as_text()).is_none() {
            let message = "`podUnschedulableFor` is not a duration: the control plane cannot read the policy";
            self.add_finding(&after, message, "write it like `60s` or `1m30s`");
        }
    }

    /// Reports a requirement that the scheduler cannot evaluate, and which therefore refuses every cluster.
    fn check_requirement(&mut self, expression: &Cursor<'_>) {
        let Ok(requirement) = serde_json::from_value(expression.value().clone()) else { return };
        if let Err(malformed) = affinity::check_requirement(&requirement) {
            let message = format!("{}: the term refuses every cluster that reaches it", malformed.0);
            let help = "write a requirement as Kubernetes defines it for nodes";
            self.add_finding(expression, message, help);
        }
    }

    fn check_overrides(&mut self, spec: &Cursor<'_>) {
        for rule in spec.field("overrideRules").items() {
            for patch in rule.field("overriders").field("jsonpatch").items() {
                let path = patch.field("path");
                if !path.as_text().is_empty() && !path.as_text().starts_with('/') {
                    let message = "the path does not begin with `/`, so its first part is ignored";
                    self.add_finding(&path, message, format!("did you mean `/{}`?", path.as_text()));
                }
            }
            let names = rule.field("targetClusters").field("clusters");
            if names.is_present() && !names.has_items() {
                let help = "name the clusters, or remove the empty list if every cluster is meant";
                self.add_finding(&names, "an empty `clusters` selects every cluster", help);
            }
        }
    }

    fn check_profile(&mut self, plugins: &Cursor<'_>) {
        let points = [
            ("filter", FilterPlugin::ALL.map(FilterPlugin::name).to_vec()),
            ("score", ScorePlugin::ALL.map(ScorePlugin::name).to_vec()),
            ("select", SelectPlugin::ALL.map(SelectPlugin::name).to_vec()),
        ];
        for (point, mut known) in points {
            known.push("*");
            for plugin in plugins.field(point).field("disabled").items() {
                self.check_one_of(&plugin.field("name"), &known, "nothing is disabled");
            }
        }
    }
}
