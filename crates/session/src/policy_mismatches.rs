//! What keeps each policy from an object that is placed nowhere.

use federate_engine::selector_mismatches::{SelectorMismatch, find_mismatches};
use federate_kubernetes::{Object, finding};
use federate_repo::Role;

use crate::Session;

/// How many policies are named.
const MAX_NAMED_POLICIES: usize = 10;

/// A line for each policy, those that come nearest first.
pub(crate) fn explain_policies(session: &Session, object: &Object) -> Vec<String> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for claimed in session.repo().claimed.iter().filter(|claimed| claimed.role == Role::Placement) {
        let Some(dialect) = session.dialects().get(claimed.dialect) else { continue };
        let selectors = dialect.advice().find_references(&claimed.object).selectors;
        let nearest = selectors.iter().map(|one| find_mismatches(one, object)).min_by_key(Vec::len);
        let (distance, why) = match nearest {
            None => (usize::MAX, dialect.advice().selected_by().to_owned()),
            Some(differences) if differences.is_empty() => (0, "selects it".to_owned()),
            Some(differences) => {
                let words = differences
                    .iter()
                    .map(|SelectorMismatch { what, wanted, .. }| format!("the {what} `{wanted}`"));
                let words: Vec<String> = words.collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                (differences.len(), format!("selects only {}", finding::join_names(&words, words.len())))
            }
        };
        lines.push((distance, format!("{} ({}): {why}", claimed.object.id, claimed.object.origin)));
    }
    lines.sort();
    let more = lines.len().saturating_sub(MAX_NAMED_POLICIES);
    let mut lines: Vec<String> = lines.into_iter().take(MAX_NAMED_POLICIES).map(|(_, line)| line).collect();
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    lines
}
