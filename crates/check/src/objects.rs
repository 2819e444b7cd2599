//! References to objects of control planes that no file contains.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::ObjectReferences;
use federate_kubernetes::{Finding, Object, work};
use federate_repo::Repo;

use super::suggestions::Suggestions;

/// The group and the kind of objects, and their namespace.
type PlacedKind<'o> = (&'o str, &'o str, Option<&'o str>);

/// The findings.
pub(super) fn find_missing(repo: &Repo, references: &[(&Object, ObjectReferences)]) -> Vec<Finding> {
    let mut found = Vec::new();
    let claimed = || repo.claimed.iter().map(|claimed| &claimed.object.id);
    let mut names: BTreeMap<PlacedKind<'_>, BTreeSet<&str>> = BTreeMap::new();
    for id in claimed() {
        let kind = (id.group(), id.kind.as_str(), id.namespace.as_deref());
        names.entry(kind).or_default().insert(id.name.as_str());
    }
    let mut suggestions = Suggestions::new();
    for (object, reference) in references.iter().flat_map(|(o, all)| all.objects.iter().map(move |r| (o, r)))
    {
        let kind = (reference.group, reference.kind, reference.namespace.as_deref());
        let known = names.get(&kind);
        if known.is_some_and(|known| known.contains(reference.name.name.as_str())) {
            continue;
        }
        let place =
            reference.namespace.as_ref().map_or_else(String::new, |ns| format!(" in the namespace `{ns}`"));
        let message = format!(
            "there is no {} `{}`{place}: {}",
            reference.kind, reference.name.name, reference.consequence
        );
        let other = reference.other.as_ref().and_then(|other| {
            work::charge_items(repo.claimed.len());
            claimed().take_while(|_| !work::is_exceeded()).find(|id| {
                id.group() == reference.group
                    && id.kind == other.kind
                    && id.namespace == other.namespace
                    && id.name == reference.name.name
            })
        });
        let known: Vec<&str> = known.into_iter().flatten().copied().collect();
        work::charge_items(known.len());
        let help = other.map(|id| {
            let help = reference.other.as_ref().map(|other| other.help).unwrap_or_default();
            format!("the repo has the {id}: {help}")
        });
        let help = help.unwrap_or_else(|| {
            suggestions.suggest_instead(&reference.name.name, &known, &format!("{}{place}", reference.kind))
        });
        found.push(
            Finding::warning("unknown-reference", object, message)
                .with_pointer(&reference.name.pointer)
                .with_help(help),
        );
    }
    found
}
