//! Kinds and API versions of Kubernetes and of the repo's CRDs that no API server serves: typos, and what later
//! releases removed.

use std::collections::BTreeSet;

use federate_apiserver_model::served_versions::{NEWEST, VersionSupport, check_version, preferred_version};
use federate_kubernetes::kinds;
use federate_kubernetes::schema::{find_nearest, find_similar};
use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

use super::releases::{ClusterReleases, ReleaseClusters as Clusters, describe_clusters};
use super::templates::RepoKinds;

/// The groups and kinds of the repo's CRDs.
pub(crate) struct DefinedKinds(BTreeSet<(String, String)>);

impl DefinedKinds {
    pub(crate) fn new(repo: &Repo) -> Self {
        let definitions = repo.templates.iter().map(|template| &template.object);
        let definitions = definitions.filter(|object| object.id.kind == "CustomResourceDefinition");
        let kinds = definitions.map(|definition| {
            let group = definition.text_at(&["spec", "group"]).to_owned();
            (group, definition.text_at(&["spec", "names", "kind"]).to_owned())
        });
        Self(kinds.collect())
    }

    /// Whether a CRD of the repo defines the kind of an object.
    pub(super) fn contains(&self, object: &Object) -> bool {
        self.0.contains(&(object.id.group().to_owned(), object.id.kind.clone()))
    }
}

/// The finding about a template with a kind or an API group that is nearly one of Kubernetes.
pub(crate) fn find_misspelt(defined: &DefinedKinds, object: &Object) -> Option<Finding> {
    let (group, kind) = (object.id.group(), object.id.kind.as_str());
    let own = kinds::api_groups().find(|known| known.group == group);
    if own.is_some_and(|own| own.find_scope(kind).is_some()) {
        return None;
    }
    let elsewhere = preferred_version(kind, NEWEST);
    let shown =
        if group.is_empty() { "the core API group".to_owned() } else { format!("the API group `{group}`") };
    match (own, elsewhere) {
        (Some(_), Some(right)) => {
            let message = format!("{shown} has no kind `{kind}`");
            Some(misspelt_version("unknown-kind", object, message, &right))
        }
        (Some(own), None) => {
            let of_group: Vec<&str> = own.kind_names().collect();
            let near = find_similar(kind, &of_group)?;
            let message = format!("{shown} has no kind `{kind}`");
            Some(
                Finding::warning("unknown-kind", object, message)
                    .with_pointer("/kind")
                    .with_help(format!("did you mean `{near}`?")),
            )
        }
        (None, Some(right)) => {
            let groups: Vec<&str> =
                kinds::api_groups().map(|known| known.group).filter(|g| !g.is_empty()).collect();
            // The groups of custom resources have a domain.
            let near = find_nearest(group, &groups).is_some() || !group.contains('.');
            let message = format!("Kubernetes has no API group `{group}`");
            near.then(|| misspelt_version("unknown-group", object, message, &right))
        }
        (None, None) => of_crd(defined, object).or_else(|| of_other_group(defined, object)),
    }
}

fn misspelt_version(code: &'static str, object: &Object, message: String, right: &str) -> Finding {
    let finding = Finding::warning(code, object, message).with_pointer("/apiVersion");
    finding.with_help(format!("did you mean `{right}`?"))
}

/// The finding about a kind that is nearly that of a CRD in the same group.
fn of_crd(defined: &DefinedKinds, object: &Object) -> Option<Finding> {
    let of_group = defined.0.iter().filter(|(group, _)| group == object.id.group());
    let known: Vec<&str> = of_group.map(|(_, kind)| kind.as_str()).collect();
    let near = find_similar(&object.id.kind, &known)?;
    let message =
        format!("no CRD of the repo defines the kind `{}` of `{}`", object.id.kind, object.id.group());
    Some(
        Finding::warning("unknown-kind", object, message)
            .with_pointer("/kind")
            .with_help(format!("did you mean `{near}`?")),
    )
}

/// The finding about a group that is nearly the one in which a CRD defines the kind.
fn of_other_group(defined: &DefinedKinds, object: &Object) -> Option<Finding> {
    let of_kind = defined.0.iter().filter(|(_, kind)| *kind == object.id.kind);
    let groups: Vec<&str> = of_kind.map(|(group, _)| group.as_str()).collect();
    let near = find_nearest(object.id.group(), &groups)?;
    let message =
        format!("no CRD of the repo defines {} in the API group `{}`", object.id.kind, object.id.group());
    Some(
        Finding::warning("unknown-group", object, message)
            .with_pointer("/apiVersion")
            .with_help(format!("did you mean the group `{near}`?")),
    )
}

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
    let known = kinds.of_group(group);
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
