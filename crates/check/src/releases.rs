//! Which releases of Kubernetes the clusters run that receive an object, and what these releases do not serve of it.

use std::collections::BTreeMap;

use serde_json::Value;

use federate_apiserver_model::lint::{Problem, ReleaseAddition, find_release_additions};
use federate_apiserver_model::served_versions::{Minor, NEWEST, OLDEST, parse_release};
use federate_dialect::Plan;
use federate_kubernetes::{Finding, Object, ObjectRef, finding, work};
use federate_repo::Repo;

use super::templates::RepoKinds;
use federate_engine::Engine;
use federate_engine::work_limit::map_charged;

/// How many clusters a message names.
const MAX_NAMED: usize = 3;

/// The releases of the clusters.
pub(super) struct ClusterReleases<'e> {
    /// The release to check for, in place of those of the clusters.
    given: Option<Minor>,
    /// The release of clusters that do not report one, if it is configured.
    default: Option<Minor>,
    /// The releases that clusters report.
    reported: BTreeMap<&'e str, Minor>,
    plan: &'e Plan,
}

/// A release, with the clusters that run it; without a release, nothing is known of them.
pub(super) struct ReleaseClusters<'e> {
    pub(super) release: Option<Minor>,
    clusters: Vec<&'e str>,
}

impl<'e> ClusterReleases<'e> {
    pub(super) fn new(engine: &'e Engine<'e>, plan: &'e Plan, given: Option<Minor>) -> Self {
        Self {
            given,
            default: engine.repo().config.kubernetes_version.as_deref().and_then(known_release),
            reported: engine
                .clusters()
                .iter()
                .filter_map(|cluster| {
                    Some((cluster.name.as_ref(), cluster.kubernetes.as_deref().and_then(known_release)?))
                })
                .collect(),
            plan,
        }
    }

    /// Whether any release is known.
    pub(super) fn are_known(&self) -> bool {
        self.given.is_some() || self.default.is_some() || !self.reported.is_empty()
    }

    /// The releases to check an object for: those of its clusters, oldest first.
    pub(super) fn for_object(&self, object: &ObjectRef) -> Vec<ReleaseClusters<'e>> {
        let row = self.plan.placements.binary_search_by(|row| row.object.cmp(object)).ok();
        let placed = row.and_then(|row| self.plan.placements.get(row)).filter(|_| !self.reported.is_empty());
        self.group_clusters(
            placed.into_iter().flat_map(|row| row.clusters.iter()).map(|placed| placed.name.as_ref()),
        )
    }

    /// The releases of these clusters, oldest first.
    pub(super) fn group_clusters(&self, clusters: impl Iterator<Item = &'e str>) -> Vec<ReleaseClusters<'e>> {
        let mut by_release: BTreeMap<Option<Minor>, Vec<&str>> = BTreeMap::new();
        if self.given.is_none() {
            for cluster in clusters.take_while(|_| !work::is_exceeded()) {
                work::charge_steps(1);
                match self.reported.get(cluster) {
                    Some(release) => by_release.entry(Some(*release)).or_default().push(cluster),
                    None => drop(by_release.entry(self.default).or_default()),
                }
            }
        }
        if by_release.is_empty() {
            by_release.insert(self.given.or(self.default), Vec::new());
        }
        by_release.into_iter().map(|(release, clusters)| ReleaseClusters { release, clusters }).collect()
    }

    /// The problems of fields and values that the releases `served` do not have.
    pub(super) fn find_problems(
        &self,
        kinds: &RepoKinds,
        body: &Value,
        served: impl Fn() -> Vec<ReleaseClusters<'e>>,
    ) -> Vec<(Problem, String)> {
        if !self.are_known() {
            return Vec::new();
        }
        let used: Vec<ReleaseAddition> =
            kinds.get(body).map(|kind| find_release_additions(kind, body)).unwrap_or_default();
        if used.is_empty() {
            return Vec::new();
        }
        let served = served();
        used.iter()
            .filter_map(|one| {
                let lacks =
                    served.iter().filter_map(|served| Some((one.find_problem(served.release?)?, served)));
                let lacks: Vec<(Problem, &ReleaseClusters<'_>)> = lacks.collect();
                let (problem, _) = lacks.first()?;
                Some((problem.clone(), describe_clusters(lacks.iter().map(|(_, served)| *served))))
            })
            .collect()
    }
}

/// Which clusters run which release, as the reason of a problem.
pub(super) fn describe_clusters<'s>(served: impl Iterator<Item = &'s ReleaseClusters<'s>>) -> String {
    served
        .map(|served| {
            let release = served.release.unwrap_or(NEWEST);
            match finding::join_names(&served.clusters, MAX_NAMED) {
                names if names.is_empty() => format!("Kubernetes 1.{release}"),
                names => format!("Kubernetes 1.{release} of {names}"),
            }
        })
        .collect::<Vec<_>>()
        .join("; ")
}

/// The release of a version; the newest that is known for later ones.
fn known_release(version: &str) -> Option<Minor> {
    parse_release(version).map(|release| release.min(NEWEST))
}

/// Errors in the versions of `federate.yaml`.
pub(super) fn find_invalid_versions(repo: &Repo) -> Vec<Finding> {
    let clusters = repo.config.clusters.iter().enumerate();
    let of_clusters = clusters.filter_map(|(at, cluster)| {
        Some((format!("/clusters/{at}/kubernetesVersion"), cluster.kubernetes_version.as_deref()?))
    });
    let own = repo.config.kubernetes_version.as_deref();
    let versions =
        own.map(|version| ("/kubernetesVersion".to_owned(), version)).into_iter().chain(of_clusters);
    versions
        .filter(|(_, version)| parse_release(version).is_none_or(|release| release < OLDEST))
        .map(|(pointer, _)| {
            let message = format!("the value is not a version of Kubernetes from 1.{OLDEST} to 1.{NEWEST}");
            repo.invalid_config(&pointer, message).with_help("write it in quotes, such as `\"1.31\"`")
        })
        .collect()
}

/// The findings about templates with what the clusters that receive them do not serve.
pub(super) fn find_unserved(repo: &Repo, releases: &ClusterReleases<'_>, kinds: &RepoKinds) -> Vec<Finding> {
    let found = map_charged(&repo.templates, |template| check_object(releases, kinds, &template.object));
    found.into_iter().flatten().collect()
}

/// The object's own findings: what the clusters that receive it do not serve.
fn check_object(releases: &ClusterReleases<'_>, kinds: &RepoKinds, object: &Object) -> Vec<Finding> {
    let problems = releases.find_problems(kinds, &object.body, || releases.for_object(&object.id));
    problems.into_iter().map(|(problem, by)| super::templates::build_finding(object, problem, &by)).collect()
}
