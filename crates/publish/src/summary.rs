//! What publishing changed.

use std::fmt;

use federate_engine::deletions::ClusterDeletions;

/// What publishing changed, in the order of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The clusters that have files, or had.
    pub clusters: Vec<ClusterSummary>,
    /// Whether the plan itself, `placements.yaml`, was written.
    pub plan_written: bool,
}

/// The changes in one cluster. Paths are below the tree's root, with `/`, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSummary {
    /// The cluster's folder.
    pub cluster: String,
    /// Created files.
    pub created: Vec<String>,
    /// Updated files.
    pub updated: Vec<String>,
    /// Removed files.
    pub removed: Vec<String>,
    /// The number of unchanged files.
    pub unchanged: usize,
}

impl Summary {
    /// Whether nothing changed.
    pub fn is_unchanged(&self) -> bool {
        !self.plan_written
            && self
                .clusters
                .iter()
                .all(|c| c.created.is_empty() && c.updated.is_empty() && c.removed.is_empty())
    }

    /// The files that go, for the guard of deletions.
    pub fn cluster_deletions(&self) -> impl Iterator<Item = ClusterDeletions> + '_ {
        self.clusters.iter().map(|cluster| ClusterDeletions {
            cluster: cluster.cluster.clone(),
            deleted: cluster.removed.clone(),
            before: cluster.removed.len() + cluster.updated.len() + cluster.unchanged,
            after: cluster.created.len() + cluster.updated.len() + cluster.unchanged,
        })
    }

    /// The number of created files.
    pub fn count_created(&self) -> usize {
        self.clusters.iter().map(|c| c.created.len()).sum()
    }

    /// The number of updated files.
    pub fn count_updated(&self) -> usize {
        self.clusters.iter().map(|c| c.updated.len()).sum()
    }

    /// The number of removed files.
    pub fn count_removed(&self) -> usize {
        self.clusters.iter().map(|c| c.removed.len()).sum()
    }

    /// The number of unchanged files.
    pub fn count_unchanged(&self) -> usize {
        self.clusters.iter().map(|c| c.unchanged).sum()
    }
}

/// One line, such as `12 created, 3 updated, 884 unchanged in 5 clusters`. Only manifests count.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.count_created(), "created"),
            (self.count_updated(), "updated"),
            (self.count_removed(), "removed"),
            (self.count_unchanged(), "unchanged"),
        ];
        let parts: Vec<_> =
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        match (parts.is_empty(), self.clusters.len()) {
            (true, _) => f.write_str("no manifests"),
            (false, 1) => write!(f, "{} in 1 cluster", parts.join(", ")),
            (false, n) => write!(f, "{} in {n} clusters", parts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(created: usize, updated: usize, removed: usize, unchanged: usize) -> ClusterSummary {
        let paths = |n: usize| (0..n).map(|i| format!("m/a/configmap_{i}.yaml")).collect();
        ClusterSummary {
            cluster: "m".into(),
            created: paths(created),
            updated: paths(updated),
            removed: paths(removed),
            unchanged,
        }
    }

    #[test]
    fn says_only_what_happened() {
        let shown = |clusters| Summary { clusters, plan_written: true }.to_string();
        assert_eq!(
            shown(vec![cluster(10, 3, 0, 800), cluster(2, 0, 1, 84)]),
            "12 created, 3 updated, 1 removed, 884 unchanged in 2 clusters"
        );
        assert_eq!(shown(vec![cluster(0, 0, 0, 7)]), "7 unchanged in 1 cluster");
        assert_eq!(shown(vec![]), "no manifests");
    }

    #[test]
    fn a_new_plan_alone_is_a_change() {
        let mut summary = Summary { clusters: vec![cluster(0, 0, 0, 7)], plan_written: false };
        assert!(summary.is_unchanged());
        summary.plan_written = true;
        assert!(!summary.is_unchanged());
    }
}
