//! The `sources` that `federate init` proposes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::files::format_yaml;
use federate_kubernetes::ObjectRef;
use federate_kubernetes::finding::{format_count, join_names};
use federate_repo::BuildRoot;
use federate_repo::config::ConfiguredCluster;
use federate_session::{Session, SourceProposal, ToolLayout};

/// How many folders a note names.
const MAX_FOLDERS: usize = 5;

/// How many groups of folders are named.
const MAX_CHOICES: usize = 3;

/// The sources that the repo lacks.
pub(super) struct ProposedSources<'s> {
    entries: Vec<Value>,
    /// Whether the sources place what they build.
    has_destinations: bool,
    /// Whether Applications go to the cluster in which Argo CD runs, and to no other.
    uses_own_cluster: bool,
    /// The paths of the repo that they need; none for all.
    paths: Vec<String>,
    /// Folders that build the same, of which one must be chosen.
    choices: Vec<Vec<String>>,
    /// What the sources build from.
    builds: Vec<&'s BuildRoot>,
}

impl<'s> ProposedSources<'s> {
    /// Looks for charts and kustomizations. `drafted` are clusters that the inventory does not have yet.
    pub(super) fn new(
        session: &'s Session,
        drafted: &[ConfiguredCluster],
        layout: Option<&ToolLayout>,
    ) -> Self {
        // What Flux or Argo CD builds of charts and kustomizations is not built a second time.
        if let Some(layout) = layout {
            let mut entries =
                if session.repo().config.sources.is_empty() { layout.sources.clone() } else { Vec::new() };
            let known = session.clusters().iter().map(|one| &*one.name);
            let all = known.chain(drafted.iter().map(|one| one.name.as_str()));
            // Those that a kubeconfig leads to are not the one in which Flux runs.
            let mut all = all.filter(|name| !layout.clusters.contains(*name));
            if let (true, Some(cluster), None) = (layout.is_one_cluster, all.next(), all.next()) {
                for entry in &mut entries {
                    entry["cluster"] = cluster.into();
                }
            }
            let paths = layout.paths.clone();
            let uses_own_cluster = layout.uses_own_cluster && layout.clusters.is_empty();
            let (choices, builds) = (Vec::new(), Vec::new());
            return Self { entries, has_destinations: true, uses_own_cluster, paths, choices, builds };
        }
        let known = session.clusters().iter().map(|cluster| cluster.name.as_ref());
        let names: BTreeSet<&str> =
            known.chain(drafted.iter().map(|cluster| cluster.name.as_str())).collect();
        let proposals = session.propose_sources(&names);
        let (mut entries, mut choices) = (Vec::new(), Vec::new());
        for proposal in proposals {
            match proposal {
                SourceProposal::Source(entry) => entries.push(entry),
                SourceProposal::Choice(folders) => choices.push(folders),
            }
        }
        let builds = if entries.is_empty() { Vec::new() } else { session.repo().builds.iter().collect() };
        let (has_destinations, uses_own_cluster, paths) = (false, false, Vec::new());
        Self { entries, has_destinations, uses_own_cluster, paths, choices, builds }
    }

    /// Whether the sources place what they build, without a policy.
    pub(super) fn have_destinations(&self) -> bool {
        self.has_destinations
    }

    /// Whether Applications go to the cluster in which Argo CD runs, which no object names, and to no other.
    pub(super) fn uses_own_cluster(&self) -> bool {
        self.uses_own_cluster
    }

    /// The paths of the repo that the sources need.
    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// What they are, for the user.
    pub(super) fn describe(&self) -> &'static str {
        if self.has_destinations {
            "what their controllers build for each"
        } else {
            "what kustomize and Helm build: set releases, namespaces and values"
        }
    }

    /// The items of `sources`.
    pub(super) fn entries(&self) -> &[Value] {
        &self.entries
    }

    /// What the sources seem to build.
    pub(super) fn objects(&self) -> impl Iterator<Item = &'s ObjectRef> {
        let builds: Vec<&'s BuildRoot> = self.builds.clone();
        builds.into_iter().flat_map(|build| &build.objects).map(|object| &object.id)
    }

    /// What is to be known about the sources: the lines, where they are not written.
    pub(super) fn list_notes(&self, is_written: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if !is_written && !self.entries.is_empty() {
            let lines = format_yaml(&[json!({ "sources": self.entries })]);
            notes.push(format!(
                "federate.yaml exists and lacks these sources, which are built when it lists them:\n{}",
                lines.trim_end()
            ));
        }
        for folders in self.choices.iter().take(MAX_CHOICES) {
            let names: Vec<&str> = folders.iter().map(String::as_str).collect();
            let first = names.first().copied().unwrap_or_default();
            notes.push(format!(
                "{} build the same objects, and no cluster is named like their folders: name the clusters so, or choose one with \
                 `sources: [{{kustomize: {first}}}]` in federate.yaml",
                join_names(&names, MAX_FOLDERS),
            ));
        }
        if self.choices.len() > MAX_CHOICES {
            let more = self.choices.len() - MAX_CHOICES;
            notes.push(format!(
                "{} of kustomizations {} the same objects",
                format_count(more, "more group"),
                if more == 1 { "builds" } else { "build" }
            ));
        }
        notes
    }
}
