//! The `sources` that `federate init` proposes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::files::format_yaml;
use federate_kubernetes::ObjectRef;
use federate_kubernetes::finding::join_names;
use federate_repo::BuildRoot;
use federate_repo::config::ConfiguredCluster;
use federate_session::Session;

/// How many folders a note names.
const MAX_FOLDERS: usize = 5;

/// The sources that the repo lacks.
pub(super) struct ProposedSources<'s> {
    entries: Vec<Value>,
    /// The folders that build what a chosen one builds.
    not_chosen: Vec<String>,
    /// What the sources build from.
    builds: Vec<&'s BuildRoot>,
}

impl<'s> ProposedSources<'s> {
    /// Looks for charts and kustomizations. `drafted` are clusters that the inventory does not have yet.
    pub(super) fn new(session: &'s Session, drafted: &[ConfiguredCluster]) -> Self {
        let known = session.clusters().iter().map(|cluster| cluster.name.as_ref());
        let names: BTreeSet<&str> =
            known.chain(drafted.iter().map(|cluster| cluster.name.as_str())).collect();
        let proposals = session.propose_sources(&names);
        let not_chosen = proposals.iter().flat_map(|proposal| proposal.not_chosen.iter().cloned()).collect();
        let entries: Vec<Value> = proposals.into_iter().map(|proposal| proposal.entry).collect();
        let builds = if entries.is_empty() { Vec::new() } else { session.repo().builds.iter().collect() };
        Self { entries, not_chosen, builds }
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
        if !self.not_chosen.is_empty() {
            let folders: Vec<&str> = self.not_chosen.iter().map(String::as_str).collect();
            let one = folders.len() == 1;
            notes.push(format!(
                "{} {} what a listed kustomization builds: choose, and list the {} in .federateignore",
                join_names(&folders, MAX_FOLDERS),
                if one { "builds" } else { "build" },
                if one { "other" } else { "others" },
            ));
        }
        notes
    }
}
