//! Kinds and API versions of Kubernetes and of the repo's CRDs that no API server serves: typos, and what later
//! releases removed.

use federate_apiserver_model::served_versions::{NEWEST, VersionSupport, check_version, preferred_version};
use federate_kubernetes::kinds;
use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

use super::releases::{ClusterReleases, ReleaseClusters as Clusters, describe_clusters};
use super::templates::RepoKinds;

/// The findings about API versions that are not served.
pub(super) fn find_unserved(repo: &Repo, kinds: &RepoKinds, releases: &ClusterReleases<'_>) -> Vec<Finding> {
    let objects = repo.templates.iter().map(|template| &template.object);
    objects
        .filter_map(|object| unserved_version(object, releases).or_else(|| undefined_version(kinds, object)))
        .collect()
}

fn unserved_version(object: &Object, releases: &ClusterReleases<'_>) -> Option<Finding> {
    let (version, kind) = (&object.id.api_version, &object.id.kind);
    kinds::find_scope(object.id.group(), kind)?;
    let all = releases.for_object(&object.id);
    let lacking: Vec<&Clusters<'_>> = all
        .iter()
        .filter(|clusters| {
            let support = check_version(version, kind, clusters.release.unwrap_or(NEWEST));
            !matches!(support, VersionSupport::Yes | VersionSupport::Unknown)
        })
        .collect();
    let first = lacking.first()?;
    let why = match check_version(version, kind, first.release.unwrap_or(NEWEST)) {
        VersionSupport::Yes | VersionSupport::Unknown => return None,
        VersionSupport::Removed(release) => format!("Kubernetes 1.{release} removed `{version}` of {kind}"),
        VersionSupport::Added(release) => {
            format!("Kubernetes serves `{version}` of {kind} since 1.{release}")
        }
        VersionSupport::Never => format!("Kubernetes 1.{NEWEST} has no `{version}` of {kind}"),
    };
    let why = match first.release {
        Some(_) => format!("{why} ({})", describe_clusters(lacking.iter().copied())),
        None => why,
    };
    let help = match preferred_version(kind, first.release.unwrap_or(NEWEST)) {
        Some(right) => format!("use `{right}`"),
        None => "remove the object: nothing replaces its kind".to_owned(),
    };
    Some(Finding::warning("unserved-version", object, why).with_pointer("/apiVersion").with_help(help))
}

/// The finding about a custom resource in a version that its CRD does not serve.
fn undefined_version(kinds: &RepoKinds, object: &Object) -> Option<Finding> {
    let (group, version) = object.id.api_version.split_once('/')?;
    let known = kinds.find_kinds(group);
    let versions: Vec<&str> =
        known.iter().filter(|(kind, _)| *kind == object.id.kind).map(|(_, v)| *v).collect();
    if versions.is_empty() || versions.contains(&version) {
        return None;
    }
    let message = format!("the CRD of {} in the repo does not serve the version `{version}`", object.id.kind);
    let help = format!(
        "its versions are {}",
        versions.iter().map(|v| format!("`{group}/{v}`")).collect::<Vec<_>>().join(", ")
    );
    Some(Finding::warning("unserved-version", object, message).with_pointer("/apiVersion").with_help(help))
}
