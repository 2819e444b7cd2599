//! Which scripts speak of an object, and what they say.

use federate_kubernetes::Object;
use serde_json::Value;

use super::{Interpreter, Rule};
use crate::schedule::Trace;

impl Interpreter<'_> {
    /// Notes who answers for an object and what, where it is not what is built in.
    pub(crate) fn explain(&self, template: &Object, running: &[&Object], trace: &mut Trace) {
        for rule in Rule::ALL {
            let who: Vec<String> = self
                .who(&template.id, rule)
                .iter()
                .map(|one| format!("{} ({})", one.id, one.origin))
                .collect();
            if who.is_empty() {
                continue;
            }
            let said = self.said(rule, template, running);
            trace.step(|| format!("{} is answered by {}{said}", rule.field(), who.join(", ")));
        }
    }

    /// What a rule's scripts say, as far as it can be told in a line.
    fn said(&self, rule: Rule, template: &Object, running: &[&Object]) -> String {
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
