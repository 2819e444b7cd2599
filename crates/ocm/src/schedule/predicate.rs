//! Predicates: one of them must match, and all parts of it.

use crate::api::ClusterPredicate;
use crate::fleet::Member;
use crate::schedule::Hub;
use crate::selector::CompiledSelector;

/// The predicates of a placement. Without any, every cluster matches.
#[derive(Debug)]
pub(crate) struct Predicates(pub Vec<Predicate>);

/// One predicate.
#[derive(Debug)]
pub(crate) struct Predicate {
    pub labels: CompiledSelector,
    pub claims: CompiledSelector,
}

impl Predicates {
    /// Compiles predicates, or returns the hub's words for the first mistake.
    pub(super) fn compile(predicates: &[ClusterPredicate]) -> Result<Self, String> {
        let compile = |predicate: &ClusterPredicate| {
            let required = &predicate.required;
            Ok(Predicate {
                labels: CompiledSelector::compile(&required.labels)?,
                claims: CompiledSelector::compile_requirements(&required.claims.match_expressions)?,
            })
        };
        predicates.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a cluster matches.
    pub(super) fn matches(&self, member: &Member<'_>, hub: &Hub<'_>) -> bool {
        self.0.is_empty() || self.0.iter().any(|predicate| predicate.matches(member, hub))
    }

    /// For each predicate, why a cluster does not match it, in words.
    pub(crate) fn find_unmet(&self, member: &Member<'_>) -> Vec<String> {
        self.0.iter().map(|predicate| predicate.find_unmet(member)).collect()
    }
}

impl Predicate {
    fn matches(&self, member: &Member<'_>, _: &Hub<'_>) -> bool {
        self.labels.matches(&member.labels) && self.claims.matches(member.claims())
    }

    fn find_unmet(&self, member: &Member<'_>) -> String {
        if let Some(unmet) = self.labels.find_unmet(&member.labels) {
            return match member.labels.get(unmet.key) {
                Some(value) => format!("its label {}={value} does not match `{unmet}`", unmet.key),
                None => format!("it has no label `{}`, and `{unmet}` is required", unmet.key),
            };
        }
        if let Some(unmet) = self.claims.find_unmet(member.claims()) {
            return match member.claims().get(unmet.key) {
                Some(value) => format!("its claim {}={value} does not match `{unmet}`", unmet.key),
                None => format!("it has no claim `{}`, and `{unmet}` is required", unmet.key),
            };
        }
        "it matches".to_owned()
    }
}
