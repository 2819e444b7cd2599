//! Clusters that a run with `--cluster` would forget: the plan names them no more, and what they have stays as it is.

use std::collections::BTreeSet;

use federate_dialect::Plan;

/// A cluster that receives nothing any more, and is not among those that are written. No later run would know of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{cluster} would receive nothing any more, but --cluster leaves {} as it is: {} without --cluster, or name it, too",
    .output.describe_output(), .output.command()
)]
pub struct LeftOutCluster {
    /// The cluster.
    pub cluster: String,
    /// Where it has what it received.
    pub output: ClusterOutput,
}

/// Where clusters have what is rendered for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterOutput {
    /// A branch per cluster.
    Branch,
    /// An artifact per cluster.
    Artifact,
}

impl ClusterOutput {
    fn describe_output(self) -> &'static str {
        match self {
            Self::Branch => "its branch",
            Self::Artifact => "what was pushed for it",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Branch => "commit",
            Self::Artifact => "push",
        }
    }
}

/// Refuses a plan that would forget a cluster of an earlier one. `clusters` are those that are written; empty for all.
pub(crate) fn check_left_out(
    plan: &Plan,
    before: &Plan,
    clusters: &[String],
    output: ClusterOutput,
) -> Result<(), LeftOutCluster> {
    if clusters.is_empty() {
        return Ok(());
    }
    let receiving = plan.affected_clusters();
    let written: BTreeSet<&str> = clusters.iter().map(String::as_str).collect();
    let left_out = before
        .affected_clusters()
        .into_iter()
        .find(|&name| !receiving.contains(name) && !written.contains(AsRef::<str>::as_ref(name)));
    left_out.map_or(Ok(()), |name| Err(LeftOutCluster { cluster: name.to_string(), output }))
}
