//! Explains which scripts interpret an object, and their answers.

use federate_kubernetes::Object;
use serde_json::Value;

use super::{CustomizationRule, Interpreter};
use crate::schedule::SchedulingTrace;

impl Interpreter<'_> {
    /// Adds a step for each rule that a script answers.
    pub(crate) fn explain_scripts(
        &self,
        template: &Object,
        running: &[&Object],
        trace: &mut SchedulingTrace,
    ) {
        for rule in CustomizationRule::ALL {
            let customizations: Vec<String> = self
                .find_customizations(&template.id, rule)
                .iter()
                .map(|one| format!("{} ({})", one.id, one.origin))
                .collect();
            if customizations.is_empty() {
                continue;
            }
            let answer = self.answer_text(rule, template, running);
            trace.add_step(|| {
                format!("{} is answered by {}{answer}", rule.field_name(), customizations.join(", "))
            });
        }
    }

    /// The answer of a rule's scripts, where it fits on a line.
    fn answer_text(&self, rule: CustomizationRule, template: &Object, running: &[&Object]) -> String {
        let answer = match rule {
            CustomizationRule::Replicas => self.interpret_replicas(template),
            CustomizationRule::Components => self.interpret_components(template),
            CustomizationRule::Dependencies => {
                self.interpret_dependencies(template).map(|found| found.map(Value::Array))
            }
            CustomizationRule::Health => {
                let verdicts = running.iter().filter_map(|live| self.is_healthy(live));
                let verdicts: Result<Vec<Value>, _> =
                    verdicts.map(|verdict| verdict.map(Value::Bool)).collect();
                (!running.is_empty()).then(|| verdicts.map(Value::Array))
            }
            CustomizationRule::Revision
            | CustomizationRule::Retention
            | CustomizationRule::StatusReflection
            | CustomizationRule::StatusAggregation => None,
        };
        match answer {
            Some(Ok(answer)) => format!(": {answer}"),
            Some(Err(failed)) => format!(": {}", failed.message),
            None => String::new(),
        }
    }
}
