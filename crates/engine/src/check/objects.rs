//! References to objects of control planes that no file contains.

use federate_dialect::ObjectReferences;
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_repo::Repo;

use super::{distinct_names, suggest_instead};

/// The findings.
pub(super) fn find_missing(repo: &Repo, references: &[(&Object, ObjectReferences)]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (object, reference) in references.iter().flat_map(|(o, all)| all.objects.iter().map(move |r| (o, r)))
    {
        let of_kind = |id: &ObjectRef| {
            id.group() == reference.group && id.kind == reference.kind && id.namespace == reference.namespace
        };
        let ids = || repo.claimed.iter().map(|claimed| &claimed.object.id).filter(|id| of_kind(id));
        if ids().any(|id| id.name == reference.name.name) {
            continue;
        }
        let place =
            reference.namespace.as_ref().map_or_else(String::new, |ns| format!(" in the namespace `{ns}`"));
        let message = format!(
            "there is no {} `{}`{place}: {}",
            reference.kind, reference.name.name, reference.consequence
        );
        let other = repo.claimed.iter().map(|claimed| &claimed.object.id).find(|id| {
            reference.other.as_ref().is_some_and(|other| {
                id.group() == reference.group
                    && id.kind == other.kind
                    && id.namespace == other.namespace
                    && id.name == reference.name.name
            })
        });
        let names = distinct_names(ids().map(|id| id.name.as_str()));
        let help = other.map(|id| {
            let help = reference.other.as_ref().map(|other| other.help).unwrap_or_default();
            format!("the repo has the {id}: {help}")
        });
        let help = help.unwrap_or_else(|| {
            suggest_instead(&reference.name.name, &names, &format!("{}{place}", reference.kind))
        });
        found.push(
            Finding::warning("unknown-reference", object, message)
                .with_pointer(&reference.name.pointer)
                .with_help(help),
        );
    }
    found
}
