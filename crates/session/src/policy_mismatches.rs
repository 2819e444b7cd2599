//! What keeps each policy from an object that is placed nowhere.

use federate_dialect::references::TemplateSelector;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Object, finding};
use federate_repo::Role;
use serde::Deserialize;

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
                let words: Vec<&str> = differences.iter().map(String::as_str).collect();
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

/// What a selector wants and the object does not have.
fn find_mismatches(selector: &TemplateSelector, object: &Object) -> Vec<String> {
    let id = &object.id;
    let namespace = id.namespace.as_deref().unwrap_or_default();
    let mut all = Vec::new();
    if selector.with_content && id.namespace.is_some() {
        let wanted = selector.name.as_ref().filter(|wanted| wanted.name != namespace);
        return wanted.map(|wanted| format!("the namespace `{}`", wanted.name)).into_iter().collect();
    }
    for (what, wanted, has) in [
        ("kind", Some(&selector.kind), id.kind.as_str()),
        ("API version", selector.api_version.as_ref(), &id.api_version),
        ("API group", selector.group.as_ref(), id.group()),
        ("namespace", selector.namespace.as_ref(), namespace),
        ("name", selector.name.as_ref(), &id.name),
    ] {
        if let Some(wanted) = wanted.filter(|wanted| wanted.name != has) {
            all.push(format!("the {what} `{}`", wanted.name));
        }
    }
    if let Some((written, _)) = &selector.labels
        && !LabelSelector::deserialize(written).is_ok_and(|wanted| wanted.matches(&object.labels()))
    {
        all.push(format!("the labels `{written}`"));
    }
    all
}
