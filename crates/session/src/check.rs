//! `federate check`: errors and likely mistakes in a repo.

use std::collections::BTreeSet;

use federate_kubernetes::{Finding, ObjectRef, Severity};
use federate_repo::Role;

use crate::Session;

impl Session {
    /// All errors and likely mistakes: the [findings](Self::findings), policies and overrides without effect,
    /// and scripts that fail. Objects with errors are not also reported as having no effect.
    pub fn check(&self) -> Vec<Finding> {
        let mut found = self.findings();
        let in_error: BTreeSet<ObjectRef> =
            found.iter().filter(|finding| finding.is_error()).filter_map(|f| f.object.clone()).collect();
        let engine = self.engine();
        let unused = (engine.examine().into_iter())
            .chain(engine.unused_policies(self.plan()))
            .chain(engine.unused_overrides(self.rendering()));
        found.extend(unused.filter(|f| f.object.as_ref().is_none_or(|id| !in_error.contains(id))));
        engine.mistakes(self.rendering(), &mut found);
        found.extend(self.missing());
        self.ordered(found)
    }

    /// Findings about what a repo needs and this one lacks: objects, clusters, policies.
    fn missing(&self) -> Vec<Finding> {
        let repo = self.repo();
        let whole = |code: &'static str, message: &str, help: &str| {
            Finding::in_file(Severity::Warning, code, &".".into(), None, message).help(help)
        };
        if repo.templates.is_empty() && repo.claimed.is_empty() {
            let help = "name the folder with the manifests, or check `paths` and `exclude` in federate.yaml";
            return vec![whole("empty-repo", "the repo contains no Kubernetes object", help)];
        }
        let mut found = Vec::new();
        if self.clusters().is_empty() {
            let help = "add one inventory object for each cluster, for example `Cluster` of `cluster.karmada.io/v1alpha1`";
            found.push(whole(
                "no-inventory",
                "the repo's inventory has no cluster, so nothing is rendered",
                help,
            ));
        }
        let places = |role| matches!(role, Role::Placement | Role::Bundle);
        if !repo.claimed.iter().any(|claimed| places(claimed.role)) && self.plan().placements.is_empty() {
            let help = "add a policy, for example `PropagationPolicy` of `policy.karmada.io/v1alpha1`";
            found.push(whole(
                "no-policies",
                "the repo has no placement policy, so no template is placed",
                help,
            ));
        }
        found
    }
}
