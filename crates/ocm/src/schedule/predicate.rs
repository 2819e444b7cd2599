//! Predicates: one of them must match, and all parts of it.

use serde_json::json;

use crate::api::ClusterPredicate;
use crate::cel::{CelValue, CelVariable, CompileError, Expression, ScoreSource};
use crate::fleet::Member;
use crate::schedule::hub::Hub;
use crate::selector::CompiledSelector;

/// The predicates of a placement. Without any, every cluster matches.
#[derive(Debug)]
pub(crate) struct Predicates(Vec<Predicate>);

/// One predicate.
#[derive(Debug)]
pub(crate) struct Predicate {
    labels: CompiledSelector,
    claims: CompiledSelector,
    expressions: Vec<(String, Expression)>,
}

/// Why predicates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PredicateError {
    /// The hub's words for a mistake.
    Mistake(String),
    /// An expression that is not reproduced.
    Expression(UnsupportedExpression),
}

/// An expression that is not reproduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedExpression {
    /// The index of the predicate.
    pub predicate: usize,
    /// The index of the expression in it.
    pub expression: usize,
    /// What is not reproduced.
    pub what: String,
}

/// The scores that add-ons report about a cluster.
struct ClusterScores<'c> {
    hub: &'c Hub<'c>,
    cluster: &'c str,
}

impl ScoreSource for ClusterScores<'_> {
    fn scores(&self, name: &str) -> Option<CelValue> {
        let status = self.hub.scores.find(self.hub.fleet.index(self.cluster)?, name)?;
        let scores = status.scores.iter().map(|score| json!({"name": score.name, "value": score.value}));
        Some(CelValue::from_json(&scores.collect()))
    }
}

impl Predicates {
    /// Compiles predicates. The first mistake in any of them counts.
    pub(super) fn compile(predicates: &[ClusterPredicate]) -> Result<Self, PredicateError> {
        let mut compiled = Vec::new();
        let mut unsupported = None;
        for (at, predicate) in predicates.iter().enumerate() {
            match Predicate::compile(at, predicate) {
                Ok(predicate) => compiled.push(predicate),
                Err(PredicateError::Expression(one)) => unsupported = unsupported.or(Some(one)),
                Err(mistake) => return Err(mistake),
            }
        }
        match unsupported {
            Some(one) => Err(PredicateError::Expression(one)),
            None => Ok(Self(compiled)),
        }
    }

    /// Whether a cluster matches.
    pub(super) fn matches(&self, member: &Member<'_>, hub: &Hub<'_>) -> Result<bool, PredicateError> {
        if self.0.is_empty() {
            return Ok(true);
        }
        for (at, predicate) in self.0.iter().enumerate() {
            if predicate.matches(at, member, hub)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// For each predicate, why a cluster does not match it, in words.
    pub(crate) fn find_unmet(&self, member: &Member<'_>, hub: &Hub<'_>) -> Vec<String> {
        self.0.iter().map(|predicate| predicate.find_unmet(member, hub)).collect()
    }

    /// The expressions, by predicate.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = (usize, &str, &Expression)> {
        let all = self.0.iter().enumerate();
        all.flat_map(|(at, one)| {
            one.expressions.iter().map(move |(text, compiled)| (at, text.as_str(), compiled))
        })
    }
}

/// Whether a cluster matches an expression. `Err` says what is not reproduced.
pub(crate) fn matches_expression(
    expression: &Expression,
    member: &Member<'_>,
    hub: &Hub<'_>,
) -> Result<bool, &'static str> {
    let scores = ClusterScores { hub, cluster: &member.cluster.name };
    expression.matches(member.expression_value(), &scores)
}

impl Predicate {
    fn compile(at: usize, predicate: &ClusterPredicate) -> Result<Self, PredicateError> {
        let required = &predicate.required;
        let labels = CompiledSelector::compile(&required.labels).map_err(PredicateError::Mistake)?;
        let claims = CompiledSelector::compile_requirements(&required.claims.match_expressions)
            .map_err(PredicateError::Mistake)?;
        let mut expressions = Vec::new();
        let mut unsupported = None;
        for (index, text) in required.cel.expressions.iter().enumerate() {
            match Expression::compile(text, CelVariable::ManagedCluster) {
                Ok(compiled) => expressions.push((text.clone(), compiled)),
                Err(CompileError::Invalid(why)) => return Err(PredicateError::Mistake(why)),
                Err(CompileError::Unsupported(what)) => {
                    let one = UnsupportedExpression { predicate: at, expression: index, what };
                    unsupported = unsupported.or(Some(one));
                }
            }
        }
        match unsupported {
            Some(one) => Err(PredicateError::Expression(one)),
            None => Ok(Self { labels, claims, expressions }),
        }
    }

    fn matches(&self, at: usize, member: &Member<'_>, hub: &Hub<'_>) -> Result<bool, PredicateError> {
        if !self.labels.matches(&member.labels) || !self.claims.matches(member.claims()) {
            return Ok(false);
        }
        for (index, (_, expression)) in self.expressions.iter().enumerate() {
            match matches_expression(expression, member, hub) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(what) => {
                    let what = what.to_owned();
                    let one = UnsupportedExpression { predicate: at, expression: index, what };
                    return Err(PredicateError::Expression(one));
                }
            }
        }
        Ok(true)
    }

    fn find_unmet(&self, member: &Member<'_>, hub: &Hub<'_>) -> String {
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
        let mut expressions = self.expressions.iter();
        match expressions.find(|(_, expression)| matches_expression(expression, member, hub) != Ok(true)) {
            Some((text, _)) => format!("`{text}` is not true"),
            None => "it matches".to_owned(),
        }
    }
}
