//! Likely mistakes that `federate check` reports: names of what is not there, and fields that an API server drops
//! or refuses. They do not change what a run does.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use federate_apiserver::served::Minor;
use federate_dialect::{Dialects, Plan, References};
use federate_kubernetes::schema::similar;
use federate_kubernetes::{Finding, Object, ObjectRef, finding};
use federate_repo::{Repo, Role};

use super::Engine;

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
mod templates;
mod unplaced;
mod workloads;

pub(crate) use builtin::Defined;
pub use inspection::Inspection;
pub(crate) use unplaced::Unplaced;

/// How many known names a message lists.
const LISTED: usize = 5;

/// Findings about what has no effect, which are explained by the selector that is the cause.
const WITHOUT_EFFECT: [&str; 2] = ["unused-policy", "unused-override"];

/// Findings about documents that cannot be read.
const UNREAD: [&str; 2] = ["invalid-yaml", "invalid-object"];

impl Engine<'_> {
    /// The objects that federated objects are for.
    fn wrapped(&self) -> BTreeMap<ObjectRef, ObjectRef> {
        self.planes.iter().flat_map(|(_, plane)| plane.wrapped()).collect()
    }

    /// Adds likely mistakes to the findings of a run. Findings about policies and overrides without effect get their
    /// cause, where it is known. `kubernetes` is the release to check for, in place of those of the clusters.
    pub fn mistakes(&self, plan: &Plan, kubernetes: Option<Minor>, found: &mut Vec<Finding>) {
        let references: Vec<(&Object, References)> = references(self.dialects, self.repo).collect();
        let wrapped = self.wrapped();
        let kinds = templates::Kinds::new(self.repo);
        let defined = Defined::new(self.repo);
        let releases = releases::Releases::new(self, plan, kubernetes);
        for failed in found.iter_mut().filter(|finding| finding.code == "override-failed") {
            overrides::suggest(self.repo, &kinds, &wrapped, failed);
        }
        let unused: Vec<Finding> = found.extract_if(.., |one| WITHOUT_EFFECT.contains(&one.code)).collect();
        let objects = self.repo.templates.par_iter().map(|template| &template.object);
        let mut misspelt: Vec<Finding> =
            objects.filter_map(|object| self.misspelt(&defined, object)).collect();
        misspelt.extend(self.unknown_own_kinds());
        let unread =
            found.iter().find(|finding| UNREAD.contains(&finding.code)).and_then(|f| f.origin.clone());
        let passes: [&(dyn Fn() -> Vec<Finding> + Sync); 16] = [
            &|| clusters::unknown(self.repo, self.clusters, &references, &misspelt),
            &|| keys::unread(self.repo, self.dialects),
            &|| objects::missing(self.repo, &references),
            &|| workloads::missing(self.repo, &wrapped),
            &|| autoscalers::find_fixed_replicas(self.repo),
            &|| services::mistyped(self.repo),
            &|| services::node_ports(self.repo),
            &|| pods::findings(self.repo),
            &|| rbac::findings(self.repo),
            &|| selectors::without_match(self.repo, &references, &unused, &misspelt, unread.as_ref()),
            &|| templates::refused(self.repo, &kinds, &wrapped),
            &|| releases::outdated(self.repo, &releases, &kinds),
            &|| overrides::containers(self.repo, &references),
            &|| builtin::unserved(self.repo, &kinds, &releases),
            &|| scopes::assumed(self.repo, plan),
            &|| annotations::too_large(self.repo),
        ];
        found.par_extend(passes.par_iter().flat_map(|pass| pass()));
        unplaced::blame_errors(found);
        // An override whose placement is missing is not also reported as unused.
        let dangling: BTreeSet<ObjectRef> = found
            .iter()
            .filter(|one| one.code == "unknown-reference")
            .filter_map(|one| one.object.clone())
            .collect();
        found.retain(|one| {
            one.code != "unused-override" || one.object.as_ref().is_none_or(|id| !dangling.contains(id))
        });
        found.extend(releases::unknown(self.repo));
        found.extend(misspelt);
        let refused: BTreeSet<ObjectRef> = found
            .iter()
            .filter(|one| one.code == "not-served")
            .filter_map(|one| one.object.clone())
            .collect();
        found.extend(
            self.unserved()
                .into_iter()
                .filter(|one| one.object.as_ref().is_none_or(|id| !refused.contains(id))),
        );
    }

    /// The findings about objects in a group of a control plane that does not have their kind.
    pub(crate) fn unknown_own_kinds(&self) -> Vec<Finding> {
        let own = self.repo.claimed.iter().filter(|claimed| claimed.role == Role::ControlPlane);
        let unknown = own
            .map(|claimed| &claimed.object)
            .filter(|object| self.dialects.scope(object.id.group(), &object.id.kind).is_none());
        let mut unknown = unknown.peekable();
        if unknown.peek().is_none() {
            return Vec::new();
        }
        let defined = Defined::new(self.repo);
        unknown.filter_map(|object| self.misspelt(&defined, object)).collect()
    }

    /// The finding about an object whose kind or API group is nearly one of a control plane or of Kubernetes.
    pub(crate) fn misspelt(&self, defined: &Defined, object: &Object) -> Option<Finding> {
        if defined.contains(object) {
            return None;
        }
        lookalike::lookalike(self.dialects, object).or_else(|| builtin::misspelt(defined, object))
    }
}

/// The objects of control planes and the templates, with what they refer to.
pub(crate) fn references(dialects: Dialects, repo: &Repo) -> impl Iterator<Item = (&Object, References)> {
    let claimed = repo.claimed.iter().filter_map(move |claimed| {
        let dialect = dialects.get(claimed.dialect)?;
        Some((&claimed.object, dialect.references(&claimed.object)))
    });
    let templates = repo.templates.iter().flat_map(move |template| {
        dialects.iter().map(|dialect| (&template.object, dialect.references(&template.object)))
    });
    claimed.chain(templates).filter(|(_, references)| *references != References::default())
}

/// The help for a name that is not there: the nearest one, or what there is.
fn instead(name: &str, known: &[&str], what: &str) -> String {
    match similar(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => available(known, what),
    }
}

/// What there is in place of a name that is not there and has no similar one.
fn available(known: &[&str], what: &str) -> String {
    match known {
        [] => format!("the repo has no {what}"),
        known => format!("the repo has {}", finding::list(known, LISTED)),
    }
}

/// The distinct values of an iterator, sorted.
fn distinct<'s>(names: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
    names.collect::<BTreeSet<_>>().into_iter().collect()
}
