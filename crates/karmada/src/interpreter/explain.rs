//! Explains which scripts interpret an object, and their answers.

use federate_kubernetes::Object;
use serde_json::Value;

use super::{Interpreter, Rule};
use crate::schedule::Trace;

impl Interpreter<'_> {
    /// Adds a step for each rule that a script answers.
    pub(crate) fn explain(&self, template: &Object, running: &[&Object], trace: &mut Trace) {
        for rule in Rule::ALL {
            let customizations: Vec<String> = self
                .customizations(&template.id, rule)
                .iter()
                .map(|one| format!("{} ({})", one.id, one.origin))
                .collect();
            if customizations.is_empty() {
                continue;
            }
            let answer = self.answer_text(rule, template, running);
            trace.step(|| format!("{} is answered by {}{answer}", rule.field(), customizations.join(", ")));
        }
    }

    /// The answer of a rule's scripts, where it fits on a line.
    fn answer_text(&self, rule: Rule, template: &Object, running: &[&Object]) -> String {
        let answer = match rule {
            Rule::Replicas => self.replicas(template),
            Rule::Components => self.components(template),
            Rule::Dependencies => self.references(template).map(|found| found.map(Value::Array)),
            Rule::Health => {
                let verdicts = running.iter().filter_map(|live| self.is_healthy(live));
                let verdicts: Result<Vec<Value>, _> =
                    verdicts.map(|verdict| verdict.map(Value::Bool)).collect();
                (!running.is_empty()).then(|| verdicts.map(Value::Array))
            }
            Rule::Revision | Rule::Retention | Rule::StatusReflection | Rule::StatusAggregation => None,
        };
        match answer {
            Some(Ok(answer)) => format!(": {answer}"),
            Some(Err(failed)) => format!(": {}", failed.message),
            None => String::new(),
        }
    }
}
