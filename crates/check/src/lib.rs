//! Likely mistakes that `federate check` reports: names of what is not there, and fields that an API server drops
//! or refuses. They do not change what a run does.
//!
//! - [`add_mistakes`] looks at the objects of the repo, each control plane's and the templates.
//! - [`inspect_manifests`] looks at what overrides make of the templates, and [`find_unused_overrides`] at what they leave.

use std::collections::BTreeSet;

use rayon::prelude::*;

use federate_apiserver_model::served_versions::Minor;
use federate_dialect::{ObjectReferences, Plan};
use federate_kubernetes::{Finding, Object, ObjectRef};

use federate_engine::misspelt_kinds::DefinedKinds;
use federate_engine::references::collect_references;
use federate_engine::{Engine, TooMuchWork, lookalike, map_charged, unplaced_templates};

mod annotations;
mod autoscalers;
mod builtin;
mod clusters;
mod inspection;
mod keys;
mod objects;
mod overrides;
mod pods;
mod rbac;
mod releases;
mod scopes;
mod selectors;
mod services;
mod suggestions;
mod templates;
mod workloads;

pub use inspection::{Inspection, ManifestInspector, find_unused_overrides, inspect_manifests};

/// Findings about what has no effect, which are explained by the selector that is the cause.
const NO_EFFECT_CODES: [&str; 2] = ["unused-policy", "unused-override"];

/// Findings about documents that cannot be read.
const UNREADABLE_CODES: [&str; 2] = ["invalid-yaml", "invalid-object"];

/// Adds likely mistakes to the findings of a run. Findings about policies and overrides without effect get their
/// cause, where it is known. `kubernetes` is the release to check for, in place of those of the clusters.
pub fn add_mistakes(engine: &Engine<'_>, plan: &Plan, kubernetes: Option<Minor>, found: &mut Vec<Finding>) {
    let repo = engine.repo();
    let references: Vec<(&Object, ObjectReferences)> = collect_references(engine.dialects(), repo).collect();
    let index = engine.index_templates();
    let kinds = templates::RepoKinds::new(repo);
    let defined = DefinedKinds::new(repo);
    let releases = releases::ClusterReleases::new(engine, plan, kubernetes);
    // Without a suggestion, the error says what is wrong.
    let _ = engine.work_limit().run_part("suggesting paths", || {
        for failed in found.iter_mut().filter(|finding| finding.code == "override-failed") {
            overrides::suggest_path(repo, &kinds, &index, failed);
        }
    });
    let unused: Vec<Finding> = found.extract_if(.., |one| NO_EFFECT_CODES.contains(&one.code)).collect();
    let what = "looking for mistakes";
    let misspelt = engine.work_limit().run_part(what, || {
        let templates = &repo.templates;
        let found = map_charged(templates, |one| engine.find_misspelt_kind(&defined, &one.object));
        found.into_iter().flatten().chain(engine.unknown_own_kinds()).collect::<Vec<Finding>>()
    });
    let (misspelt, mut exceeded) = match misspelt {
        Ok(misspelt) => (misspelt, None),
        Err(more) => (Vec::new(), Some(more)),
    };
    let unread =
        found.iter().find(|finding| UNREADABLE_CODES.contains(&finding.code)).and_then(|f| f.origin.clone());
    let passes: [&(dyn Fn() -> Vec<Finding> + Sync); 16] = [
        &|| clusters::find_unknown_clusters(repo, engine.clusters(), &references, &misspelt),
        &|| keys::find_unread_keys(repo, engine.dialects()),
        &|| objects::find_missing(repo, &references),
        &|| workloads::find_missing(repo, &index),
        &|| autoscalers::find_fixed_replicas(repo),
        &|| services::find_mistyped(repo),
        &|| services::node_ports(repo),
        &|| pods::check_pods(repo),
        &|| rbac::check_roles(repo),
        &|| selectors::without_match(repo, &references, &unused, &misspelt, unread.as_ref()),
        &|| templates::find_refused(repo, &kinds, &index),
        &|| releases::find_unserved(repo, &releases, &kinds),
        &|| overrides::find_unknown_containers(repo, &references),
        &|| builtin::find_unserved(repo, &kinds, &releases),
        &|| scopes::find_assumed(repo, plan),
        &|| annotations::too_large(repo),
    ];
    let mistakes: Vec<Result<Vec<Finding>, TooMuchWork>> =
        passes.par_iter().map(|pass| engine.work_limit().run_part(what, pass)).collect();
    for pass in mistakes {
        match pass {
            Ok(mistakes) => found.extend(mistakes),
            Err(more) => exceeded = Some(more),
        }
    }
    found.extend(exceeded.map(TooMuchWork::into_finding));
    unplaced_templates::blame_errors(found);
    // An override whose placement is missing is not also reported as unused.
    let dangling: BTreeSet<ObjectRef> = found
        .iter()
        .filter(|one| one.code == "unknown-reference")
        .filter_map(|one| one.object.clone())
        .collect();
    found.retain(|one| {
        one.code != "unused-override" || one.object.as_ref().is_none_or(|id| !dangling.contains(id))
    });
    found.extend(releases::find_invalid_versions(repo));
    found.extend(misspelt);
    let refused: BTreeSet<ObjectRef> =
        found.iter().filter(|one| one.code == "not-served").filter_map(|one| one.object.clone()).collect();
    found.extend(
        lookalike::find_unserved_objects(engine.dialects(), repo)
            .into_iter()
            .filter(|one| one.object.as_ref().is_none_or(|id| !refused.contains(id))),
    );
}
