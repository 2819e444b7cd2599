//! `federate check`: errors and likely mistakes in a repo.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;

use federate_engine::TOO_MUCH_WORK;
use federate_kubernetes::finding::format_count;
use federate_kubernetes::{Finding, ObjectRef, Origin, Severity, work};
use federate_repo::{Role, find_source_key};
use federate_whatif::{may_hold_scenarios, read_scenarios};
use federate_yaml::Position;

use crate::Session;
use crate::source_review::NOT_BUILT_CODE;

impl Session {
    /// All errors and likely mistakes: the [findings](Self::findings), policies and overrides without effect,
    /// and scripts that fail. Objects with errors are not also reported as having no effect.
    pub fn check_repo(&self) -> Vec<Finding> {
        self.check_for(None)
    }

    /// Like `check`, but for a release of Kubernetes, such as 31 for 1.31, in place of those that the clusters report.
    pub fn check_for(&self, kubernetes: Option<u32>) -> Vec<Finding> {
        let engine = self.build_engine();
        let known = self.inspection.get().filter(|_| kubernetes.is_none()).map(Cow::Borrowed);
        let inspect = || Cow::Owned(federate_check::inspect_manifests(&engine, self.plan(), kubernetes));
        let inspection = known.unwrap_or_else(inspect);
        let mut found = self.loading_findings.clone();
        found.extend(self.compute_plan().findings.iter().chain(&inspection.findings).cloned());
        found.extend(self.source_findings().iter().cloned());
        for finding in found.iter_mut().filter(|finding| finding.code == NOT_BUILT_CODE) {
            finding.severity = Severity::Error;
        }
        let mut found = self.order_findings(found);
        let in_error: BTreeSet<ObjectRef> =
            found.iter().filter(|finding| finding.is_error()).filter_map(|f| f.object.clone()).collect();
        let mut examined = engine.check_thoroughly();
        // Where decisions were stopped, it is not known what has no effect.
        let stopped = found.iter().any(|finding| finding.code == TOO_MUCH_WORK);
        let mut unused = Vec::new();
        if !stopped {
            unused.extend(engine.unused_policies(self.plan()));
            unused.extend(federate_check::find_unused_overrides(&engine, &inspection));
        }
        unused.retain(|finding| !explain_unused(finding, &mut examined));
        // An override that fails has an effect: that of its error.
        let failed = found.iter().filter(|finding| finding.code == "override-failed");
        let failed: BTreeSet<Origin> = failed.filter_map(|finding| finding.origin.clone()).collect();
        unused.retain(|finding| finding.origin.as_ref().is_none_or(|origin| !failed.contains(origin)));
        unused.extend(examined);
        let unused = unused.into_iter();
        found.extend(unused.filter(|f| f.object.as_ref().is_none_or(|id| !in_error.contains(id))));
        federate_check::add_mistakes(&engine, self.plan(), kubernetes, &mut found);
        found.extend(inspection.mistakes.iter().cloned());
        found.extend(self.secrets_in_clear());
        found.extend(self.report_missing());
        if self.clusters().is_empty() {
            // Without clusters, no override has an effect, and nothing can be scheduled.
            found.retain(|finding| {
                finding.is_error() || !matches!(finding.code, "unused-override" | "unschedulable")
            });
        }
        let scenarios = engine.work_limit().run_part("carrying out scenarios", || self.check_scenarios());
        found.extend(scenarios.unwrap_or_else(|exceeded| vec![exceeded.into_finding()]));
        self.order_findings(found)
    }

    /// The expectations of the repo's scenarios that do not hold.
    fn check_scenarios(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let what_if = OnceCell::new();
        for (path, text) in self.repo().texts.iter().filter(|(_, text)| may_hold_scenarios(text)) {
            for scenario in
                read_scenarios(text, self.dialects()).into_iter().take_while(|_| !work::is_exceeded())
            {
                let result = scenario.and_then(|scenario| {
                    let what_if = what_if.get_or_init(|| self.what_if());
                    let violations =
                        what_if.find_violations(&scenario).map_err(|why| (scenario.line, why))?;
                    Ok((scenario, violations))
                });
                let line = match &result {
                    Ok((scenario, _)) => scenario.line,
                    Err((line, _)) => *line,
                };
                let at = Some(Position { line, column: 1 });
                match result {
                    Err((_, why)) => found.push(
                        Finding::in_file(Severity::Error, "invalid-scenario", path, at, why)
                            .with_help("`federate help whatif` describes the events"),
                    ),
                    Ok((scenario, violations)) => found.extend(violations.into_iter().map(|violation| {
                        let message = format!("scenario {}: {violation}", scenario.name);
                        Finding::in_file(Severity::Warning, "expectation-failed", path, at, message)
                            .with_help("`federate whatif` shows the whole effect of the scenario")
                    })),
                }
            }
        }
        found
    }

    /// Findings about what a repo needs and this one lacks: objects, clusters, policies.
    pub fn report_missing(&self) -> Vec<Finding> {
        let repo = self.repo();
        if repo.templates.is_empty() && repo.claimed.is_empty() && !repo.describing.is_empty() {
            let number = format_count(repo.describing.len(), "object");
            let message = format!(
                "the repo contains only {number} of Flux and Argo CD, from which nothing is built here"
            );
            let help = "what they name in other repositories is built once `federate vendor` has written it to the repo";
            return vec![warn_of_repo("empty-repo", &message, help)];
        }
        if repo.templates.is_empty() && repo.claimed.is_empty() {
            let help = "name the folder with the manifests, check `paths` and `exclude` in federate.yaml, or start with \
                        `federate init --cluster NAME…`";
            return vec![warn_of_repo("empty-repo", "the repo contains no Kubernetes object", help)];
        }
        let mut found = Vec::new();
        if self.clusters().is_empty() {
            let nested = repo.texts.keys().find_map(|path| path.strip_suffix("/federate.yaml"));
            let help = match nested {
                Some(folder) => &format!(
                    "{folder}/federate.yaml is not read, because `{folder}` is not the folder of the repo: name that \
                     folder on the command line, or the file with `--config {folder}/federate.yaml`"
                ),
                None => {
                    "`federate init` writes the clusters that the policies name, and `federate init --cluster NAME,NAME` those \
                     that you name; `federate snapshot --hub-context CONTEXT --out snapshot` reads them from a control plane, \
                     for `--snapshot snapshot`"
                }
            };
            found.push(warn_of_repo(
                "no-inventory",
                "the repo's inventory has no cluster, so nothing is rendered",
                help,
            ));
        }
        if !repo.templates.is_empty()
            && !repo.claimed.iter().any(|claimed| matches!(claimed.role, Role::Placement | Role::Bundle))
            && self.plan().placements.is_empty()
        {
            let is_described =
                repo.templates.iter().any(|template| find_source_key(&template.object).is_some());
            let help = if is_described {
                "`federate init` lists the objects of Flux and Argo CD under `sources` in federate.yaml, which then place what they \
                 build; or add a policy, or set `unplaced: everywhere` in federate.yaml"
            } else {
                "`federate init` writes a policy; or add one, for example `PropagationPolicy` of \
                 `policy.karmada.io/v1alpha1`, or set `unplaced: everywhere` in federate.yaml"
            };
            found.push(warn_of_repo(
                "no-policies",
                "the repo has no placement policy, so no template is placed",
                help,
            ));
        }
        found
    }
}

/// A warning about the whole repo.
fn warn_of_repo(code: &'static str, message: &str, help: &str) -> Finding {
    Finding::in_file(Severity::Warning, code, &".".into(), None, message).with_help(help)
}

/// Moves the message about an override without effect to its parts without effect. Returns whether there are such parts.
fn explain_unused(unused: &Finding, examined: &mut [Finding]) -> bool {
    let mut explained = false;
    for part in examined.iter_mut().filter(|part| part.object == unused.object) {
        if part.code == "no-effect" && part.pointer.contains("/overriders/") {
            let what = unused.message.split(": ").next().unwrap_or_default();
            part.message = format!("{what}: {}", part.message);
            part.code = unused.code;
            explained = true;
        }
    }
    explained
}
