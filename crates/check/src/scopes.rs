//! Objects without a namespace whose kind is not known, where it matters whether the kind is namespaced.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Plan;
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_repo::Repo;

/// The findings about objects that count as namespaced although nothing says so: one per kind, if no policy places an
/// object of it, or if a policy places one because of the namespace.
pub(super) fn find_assumed(repo: &Repo, plan: &Plan) -> Vec<Finding> {
    if repo.assumed_namespaced.is_empty() {
        return Vec::new();
    }
    let unmatched: BTreeSet<&ObjectRef> = plan.unmatched.iter().collect();
    let by_namespace: BTreeMap<&ObjectRef, &ObjectRef> = plan
        .placements
        .iter()
        .filter_map(|row| {
            Some((&row.object, row.policy.as_ref().filter(|policy| policy.namespace.is_some())?))
        })
        .collect();
    let (assumed, stated): (Vec<&Object>, Vec<&Object>) = repo
        .templates
        .iter()
        .map(|template| &template.object)
        .partition(|object| repo.assumed_namespaced.contains(&object.id));
    // Another object of the kind has a namespace.
    let written = stated.iter().filter(|object| object.id.namespace.is_some());
    let written: BTreeSet<(&str, &str)> =
        written.map(|object| (object.id.group(), object.id.kind.as_str())).collect();
    let mut reported = BTreeSet::new();
    let mut found = Vec::new();
    for object in assumed {
        let decides = match by_namespace.get(&object.id) {
            Some(policy) => format!("{policy} places it there"),
            None if unmatched.contains(&object.id) => "no policy places it there".to_owned(),
            None => continue,
        };
        let kind = (object.id.group(), object.id.kind.as_str());
        if written.contains(&kind) || !reported.insert(kind) {
            continue;
        }
        let message = format!(
            "nothing says whether {} of {} is namespaced: {} has no namespace and counts as one in `default`; {decides}",
            object.id.kind, object.id.api_version, object.id.name
        );
        let help = "write `metadata.namespace`, or add the CustomResourceDefinition of the kind to the repo";
        found.push(
            Finding::warning("unknown-scope", object, message).with_pointer("/metadata").with_help(help),
        );
    }
    found
}
