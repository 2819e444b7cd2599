//! A record of a run that had nothing to do: what went into it, and what it printed.
//!
//! A run is a function of its arguments, of the files of the repo, and of what it reads in the clusters. One for which all
//! of these are the same has nothing to do either, so that it need neither read the repo's YAML, nor plan, nor compare
//! objects. Modification times and resource versions are not trusted: the files and the answers of the API servers are
//! read again, and their digests are compared.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use federate_kubernetes::ClusterName;
use federate_live::{Access, EarlyReads, read_early};
use federate_publish::cache;
use federate_reconcile::{ActionKind, Actions, ApplySet};
use federate_repo::FileTree;
use federate_source::TreeTrace;

use crate::Session;

/// A run that had nothing to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// A digest of everything else that went into the run, such as its arguments.
    inputs: String,
    files: TreeTrace,
    /// The contexts of the kubeconfig that the repo names.
    contexts: BTreeMap<String, String>,
    /// The namespace and the name of the `ApplySet`'s parent.
    apply_set: (String, String),
    /// A digest of what was read of each cluster.
    clusters: BTreeMap<String, String>,
    /// What the run printed.
    pub output: RunOutput,
}

/// What a run printed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RunOutput {
    /// The result.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

impl RunRecord {
    /// Records a run; `None` if there was something to do, or if it looked at more than `files` and early reads of the
    /// clusters.
    pub fn from_run(session: &Session, files: TreeTrace, set: &ApplySet, actions: &Actions) -> Option<Self> {
        let idle = actions.actions.iter().all(|action| action.action == ActionKind::Unchanged);
        let quiet = actions.clusters.iter().all(|report| report.error.is_none() && report.notes.is_empty());
        if !idle || !quiet || !session.cluster_reads().is_empty() {
            return None;
        }
        let clusters =
            actions.clusters.iter().map(|report| Some((report.name.to_string(), report.digest.clone()?)));
        Some(Self {
            inputs: String::new(),
            files,
            contexts: session.repo().config.contexts.clone(),
            apply_set: (set.namespace.clone(), set.name.clone()),
            clusters: clusters.collect::<Option<_>>()?,
            output: RunOutput::default(),
        })
    }

    /// Reads the record at `path`; `None` if there is none of a run with these inputs.
    pub fn read_matching(path: &Path, inputs: &str) -> Option<Self> {
        let record: Self = serde_json::from_slice(&cache::read_file(path)?).ok()?;
        (record.inputs == inputs).then_some(record)
    }

    /// Replaces the record at `path`, for runs with the same inputs.
    pub fn write_file(self, path: &Path, inputs: String, output: RunOutput) -> io::Result<()> {
        let record = Self { inputs, output, ..self };
        cache::replace_file(path, &serde_json::to_vec(&record)?)
    }

    /// Whether the files of the repo are the same.
    pub fn is_of(&self, source: &dyn FileTree) -> bool {
        self.files.is_same(source)
    }

    /// Begins to read the clusters. What keeps them from being read is reported by a run.
    pub fn read_early(&self, access: Access) -> Option<EarlyReads> {
        let access = Access { contexts: self.contexts.clone(), ..access };
        let clusters: Vec<ClusterName> = self.clusters.keys().map(|name| name.as_str().into()).collect();
        let (namespace, name) = self.apply_set.clone();
        read_early(&access, &clusters, &ApplySet { namespace, name }).ok()
    }

    /// Whether what is read of the clusters is the same.
    pub fn is_same(&self, reads: &EarlyReads) -> bool {
        reads.wait_for_digests().is_some_and(|all| {
            all.len() == self.clusters.len()
                && all.iter().all(|(name, digest)| self.clusters.get(name.as_ref()) == Some(digest))
        })
    }
}
