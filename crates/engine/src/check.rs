//! Likely mistakes that `federate check` reports: names of what is not there, and fields that an API server drops
//! or refuses. They do not change what a run does.

use std::collections::BTreeSet;

use rayon::prelude::*;

use federate_apiserver_model::served_versions::Minor;
use federate_dialect::{Dialects, ObjectReferences, Plan};
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_repo::{Repo, Role};

use super::{Engine, TooMuchWork, map_charged};

mod annotations;
mod autoscalers;
mod builtin;
mod clusters;
mod inspection;
mod keys;
mod lookalike;
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
mod unplaced_templates;
mod workloads;

pub(crate) use builtin::DefinedKinds;
pub use inspection::Inspection;
pub(crate) use unplaced_templates::PlacementSelectors;

/// Findings about what has no effect, which are explained by the selector that is the cause.
const NO_EFFECT_CODES: [&str; 2] = ["unused-policy", "unused-override"];

/// Findings about documents that cannot be read.
const UNREADABLE_CODES: [&str; 2] = ["invalid-yaml", "invalid-object"];

impl Engine<'_> {
    /// Adds likely mistakes to the findings of a run. Findings about policies and overrides without effect get their
    /// cause, where it is known. `kubernetes` is the release to check for, in place of those of the clusters.
    pub fn add_mistakes(&self, plan: &Plan, kubernetes: Option<Minor>, found: &mut Vec<Finding>) {
        let references: Vec<(&Object, ObjectReferences)> =
            collect_references(self.dialects, self.repo).collect();
        let index = self.index_templates();
        let kinds = templates::RepoKinds::new(self.repo);
        let defined = DefinedKinds::new(self.repo);
        let releases = releases::ClusterReleases::new(self, plan, kubernetes);
        // Without a suggestion, the error says what is wrong.
        let _ = self.limit.run_part("suggesting paths", || {
            for failed in found.iter_mut().filter(|finding| finding.code == "override-failed") {
                overrides::suggest_path(self.repo, &kinds, &index, failed);
            }
        });
        let unused: Vec<Finding> = found.extract_if(.., |one| NO_EFFECT_CODES.contains(&one.code)).collect();
        let what = "looking for mistakes";
        let misspelt = self.limit.run_part(what, || {
            let templates = &self.repo.templates;
            let found = map_charged(templates, |one| self.find_misspelt_kind(&defined, &one.object));
            found.into_iter().flatten().chain(self.unknown_own_kinds()).collect::<Vec<Finding>>()
        });
        let (misspelt, mut exceeded) = match misspelt {
            Ok(misspelt) => (misspelt, None),
            Err(more) => (Vec::new(), Some(more)),
        };
        let unread = found
            .iter()
            .find(|finding| UNREADABLE_CODES.contains(&finding.code))
            .and_then(|f| f.origin.clone());
        let passes: [&(dyn Fn() -> Vec<Finding> + Sync); 16] = [
            &|| clusters::find_unknown_clusters(self.repo, self.clusters, &references, &misspelt),
            &|| keys::find_unread_keys(self.repo, self.dialects),
            &|| objects::find_missing(self.repo, &references),
            &|| workloads::find_missing(self.repo, &index),
            &|| autoscalers::find_fixed_replicas(self.repo),
            &|| services::find_mistyped(self.repo),
            &|| services::node_ports(self.repo),
            &|| pods::check_pods(self.repo),
            &|| rbac::check_roles(self.repo),
            &|| selectors::without_match(self.repo, &references, &unused, &misspelt, unread.as_ref()),
            &|| templates::find_refused(self.repo, &kinds, &index),
            &|| releases::find_unserved(self.repo, &releases, &kinds),
            &|| overrides::find_unknown_containers(self.repo, &references),
            &|| builtin::find_unserved(self.repo, &kinds, &releases),
            &|| scopes::find_assumed(self.repo, plan),
            &|| annotations::too_large(self.repo),
        ];
        let mistakes: Vec<Result<Vec<Finding>, TooMuchWork>> =
            passes.par_iter().map(|pass| self.limit.run_part(what, pass)).collect();
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
        found.extend(releases::find_invalid_versions(self.repo));
        found.extend(misspelt);
        let refused: BTreeSet<ObjectRef> = found
            .iter()
            .filter(|one| one.code == "not-served")
            .filter_map(|one| one.object.clone())
            .collect();
        found.extend(
            self.find_unserved_objects()
                .into_iter()
                .filter(|one| one.object.as_ref().is_none_or(|id| !refused.contains(id))),
        );
    }

    /// The findings about objects in a group of a control plane that does not have their kind.
    pub(crate) fn unknown_own_kinds(&self) -> Vec<Finding> {
        let own = self.repo.claimed.iter().filter(|claimed| claimed.role == Role::ControlPlane);
        let unknown = own
            .map(|claimed| &claimed.object)
            .filter(|object| self.dialects.find_scope(object.id.group(), &object.id.kind).is_none());
        let mut unknown = unknown.peekable();
        if unknown.peek().is_none() {
            return Vec::new();
        }
        let defined = DefinedKinds::new(self.repo);
        unknown.filter_map(|object| self.find_misspelt_kind(&defined, object)).collect()
    }

    /// The finding about an object whose kind or API group is nearly one of a control plane or of Kubernetes.
    pub(crate) fn find_misspelt_kind(&self, defined: &DefinedKinds, object: &Object) -> Option<Finding> {
        if defined.contains(object) {
            return None;
        }
        lookalike::find_lookalike(self.dialects, object).or_else(|| builtin::find_misspelt(defined, object))
    }
}

/// The objects of control planes and the templates, with what they refer to.
pub(crate) fn collect_references(
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
