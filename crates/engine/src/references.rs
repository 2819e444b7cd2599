//! What the objects of a repo refer to.

use federate_dialect::{Dialects, ObjectReferences};
use federate_kubernetes::Object;
use federate_repo::Repo;

/// The objects of control planes and the templates, with what they refer to.
pub fn collect_references(
    dialects: Dialects,
    repo: &Repo,
) -> impl Iterator<Item = (&Object, ObjectReferences)> {
    let claimed = repo.claimed.iter().filter_map(move |claimed| {
        let dialect = dialects.get(claimed.dialect)?;
        Some((&claimed.object, dialect.advice().find_references(&claimed.object)))
    });
    let templates = repo.templates.iter().flat_map(move |template| {
        dialects.iter().map(|dialect| (&template.object, dialect.advice().find_references(&template.object)))
    });
    claimed.chain(templates).filter(|(_, references)| *references != ObjectReferences::default())
}
