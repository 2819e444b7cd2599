//! Findings about customizations: what admission refuses, and scripts that fail on the repo's objects.

use std::collections::BTreeMap;

use federate_kubernetes::{Finding, Object, Severity};

use super::{Failed, Interpreter, OperationInput, Rule, Script};

/// The finding for scripts that are not run.
fn not_run(customization: &Object) -> Finding {
    let target = customization.text(&["spec", "target", "kind"]);
    let message =
        format!("this customization is not run: `{target}` is interpreted as Karmada does without it");
    Finding::warning("not-run", customization, message)
        .help("this program was built without Lua: check the replicas and dependencies that the plan shows")
}

impl Interpreter<'_> {
    /// What admission refuses: scripts that do not compile, and a second script for a rule of a kind.
    pub(crate) fn refused(&self) -> Vec<Finding> {
        let scripts = self.scripts.values().flat_map(BTreeMap::values).flat_map(|scripts| of_kind(scripts));
        scripts.chain(self.not_run.iter().map(|customization| not_run(customization))).collect()
    }

    /// Runs the scripts for an object of the repo and returns what fails: rules about templates get the template,
    /// rules about live objects get those that are known.
    pub(crate) fn examine(&self, template: &Object, running: &[&Object]) -> Vec<Finding> {
        let finding = |rule: Rule, object: &Object, failed: &Failed| {
            let what = format!("is not interpreted by `{}`", rule.field());
            failed.finding(Severity::Warning, "script-failed", &object.id, &what)
        };
        let is_scripted = |rule: Rule, object: &Object| !self.customizations(&object.id, rule).is_empty();
        let mut findings = Vec::new();
        let workload = self.workload(template);
        if let Err(failed) = &workload
            && is_scripted(Rule::Replicas, template)
        {
            findings.push(finding(Rule::Replicas, template, failed));
        }
        let replicas = workload.ok().map_or(1, |workload| workload.replicas.max(1));
        let mut run = |rule: Rule, object: &Object, input: &OperationInput<'_>| {
            if is_scripted(rule, object)
                && let Some(Err(failed)) = self.answer(rule, object, input)
            {
                findings.push(finding(rule, object, &failed));
            }
        };
        for rule in [Rule::Components, Rule::Revision, Rule::Dependencies] {
            run(rule, template, &OperationInput { replicas, ..OperationInput::default() });
        }
        for live in running {
            for rule in [Rule::Health, Rule::StatusReflection] {
                run(rule, live, &OperationInput::default());
            }
            run(Rule::Retention, template, &OperationInput { live: Some(live), ..OperationInput::default() });
        }
        if running.is_empty() {
            run(
                Rule::Retention,
                template,
                &OperationInput { live: Some(template), ..OperationInput::default() },
            );
            // Without a status there is no health to interpret.
            if template.at(&["status"]).is_some() {
                run(Rule::Health, template, &OperationInput::default());
            }
        }
        findings
    }
}

fn of_kind(scripts: &[Script<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: BTreeMap<Rule, &Object> = BTreeMap::new();
    for script in scripts {
        if let Some(failed) = script.uncompiled() {
            let id = &script.customization.id;
            let what = "is refused by admission";
            findings.push(failed.finding(Severity::Error, "invalid-customization", id, what));
        }
        if script.rule == Rule::Dependencies {
            continue;
        }
        let winner = first.entry(script.rule).or_insert(script.customization);
        if winner.id != script.customization.id {
            findings.push(second(script, winner));
        }
    }
    findings
}

fn second(script: &Script<'_>, winner: &Object) -> Finding {
    let customization = script.customization;
    let (field, kind) = (script.rule.field(), customization.text(&["spec", "target", "kind"]));
    let message = format!(
        "{} is refused by admission: {} ({}) has a script for `{field}` of `{kind}` already, which is asked \
         first where both are stored",
        customization.id, winner.id, winner.origin
    );
    Finding::error("invalid-customization", customization, message)
        .at(format!("/spec/customizations/{field}"))
        .help("keep one script for each rule of a kind")
}
