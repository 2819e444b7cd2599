//! Findings about customizations: what admission refuses, and scripts that fail on the repo's objects.

use std::collections::BTreeMap;

use federate_kubernetes::{Finding, Object, Severity};

use super::{CustomizationRule, Interpreter, InterpreterFailure, OperationInput, Script};

/// The finding for scripts that are not run.
fn not_run(customization: &Object) -> Finding {
    let target = customization.text_at(&["spec", "target", "kind"]);
    let message =
        format!("this customization is not run: `{target}` is interpreted as Karmada does without it");
    Finding::warning("not-run", customization, message).with_help(
        "this program was built without Lua: check the replicas and dependencies that the plan shows",
    )
}

/// The finding for a script that fails for an object.
fn script_failed(rule: CustomizationRule, object: &Object, failed: &InterpreterFailure) -> Finding {
    let what = format!("is not interpreted by `{}`", rule.field_name());
    failed.to_finding(Severity::Warning, "script-failed", &object.id, &what)
}

impl Interpreter<'_> {
    /// What admission refuses: scripts that do not compile, and a second script for a rule of a kind.
    pub(crate) fn find_refused_scripts(&self) -> Vec<Finding> {
        let scripts =
            self.scripts.values().flat_map(BTreeMap::values).flat_map(|scripts| check_kind(scripts));
        scripts.chain(self.not_run.iter().map(|customization| not_run(customization))).collect()
    }

    /// Runs the scripts for an object of the repo and returns what fails: rules about templates get the template,
    /// rules about live objects get those that are known.
    pub(crate) fn check_scripts(&self, template: &Object, running: &[&Object]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let workload = self.interpret_workload(template);
        if let Err(failed) = &workload
            && self.has_script(CustomizationRule::Replicas, template)
        {
            findings.push(script_failed(CustomizationRule::Replicas, template, failed));
        }
        let replicas = workload.ok().map_or(1, |workload| workload.replicas.max(1));
        let none = OperationInput::default();
        let mut runs = Vec::new();
        for rule in
            [CustomizationRule::Components, CustomizationRule::Revision, CustomizationRule::Dependencies]
        {
            runs.push((rule, template, OperationInput { replicas, ..none }));
        }
        for live in running {
            runs.push((CustomizationRule::Health, live, none));
            runs.push((CustomizationRule::StatusReflection, live, none));
            runs.push((CustomizationRule::Retention, template, OperationInput { live: Some(live), ..none }));
        }
        if running.is_empty() {
            let input = OperationInput { live: Some(template), ..none };
            runs.push((CustomizationRule::Retention, template, input));
            // Without a status there is no health to interpret.
            if template.value_at(&["status"]).is_some() {
                runs.push((CustomizationRule::Health, template, none));
            }
        }
        for (rule, object, input) in runs {
            if self.has_script(rule, object)
                && let Some(Err(failed)) = self.answer_operation(rule, object, &input)
            {
                findings.push(script_failed(rule, object, &failed));
            }
        }
        findings
    }

    fn has_script(&self, rule: CustomizationRule, object: &Object) -> bool {
        !self.find_customizations(&object.id, rule).is_empty()
    }
}

fn check_kind(scripts: &[Script<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: BTreeMap<CustomizationRule, &Object> = BTreeMap::new();
    for script in scripts {
        if let Some(failed) = script.find_compile_error() {
            let id = &script.customization.id;
            let what = "is refused by admission";
            findings.push(failed.to_finding(Severity::Error, "invalid-customization", id, what));
        }
        if script.rule == CustomizationRule::Dependencies {
            continue;
        }
        let winner = first.entry(script.rule).or_insert(script.customization);
        if winner.id != script.customization.id {
            findings.push(duplicate_script_finding(script, winner));
        }
    }
    findings
}

fn duplicate_script_finding(script: &Script<'_>, winner: &Object) -> Finding {
    let customization = script.customization;
    let (field, kind) = (script.rule.field_name(), customization.text_at(&["spec", "target", "kind"]));
    let message = format!(
        "{} is refused by admission: {} ({}) has a script for `{field}` of `{kind}` already, which is asked \
         first where both are stored",
        customization.id, winner.id, winner.origin
    );
    Finding::error("invalid-customization", customization, message)
        .with_pointer(format!("/spec/customizations/{field}"))
        .with_help("keep one script for each rule of a kind")
}
