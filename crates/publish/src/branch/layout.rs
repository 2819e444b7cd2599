//! How clusters are distributed over branches: one branch with one folder per cluster, or one branch per
//! cluster.
//!
//! With one branch per cluster, each branch holds the folder of its cluster and the part of the plan for it.
//! The branch of the host (`hub`) holds the whole plan, which is the previous plan of the next run, and the objects
//! that control planes write on the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use git2::{Branch, Oid, Repository};

use super::hydrator::{DryCommit, write_hydrated_tree};
use super::notes::NOTES_REF;
use super::{BranchContent, BranchFolder, BranchTip, BranchUpdate, Error, write_tree};
use crate::summary::Summary;
use crate::tree::OutputTree;
use federate_dialect::{HUB, Plan, SchedulerState};
use federate_engine::previous;
use federate_kubernetes::ObjectRef;

/// The placeholder for a cluster's name in a branch name.
const CLUSTER_PLACEHOLDER: &str = "{cluster}";

/// The end of the name of a branch whose changes GitOps Promoter proposes for the branch before it.
const PROPOSED_SUFFIX: &str = "-next";

/// How the objects of a cluster are distributed over files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileLayout {
    /// A file per object.
    #[default]
    Plain,
    /// The files of Argo CD's source hydrator: a stream per cluster, and metadata beside it.
    Hydrator,
}

/// The branches to write, the folder within them, and the files in it.
#[derive(Clone, Debug)]
pub struct BranchLayout {
    pattern: String,
    folder: BranchFolder,
    files: FileLayout,
}

/// A branch whose objects are written.
#[derive(Debug)]
pub struct BuiltBranch {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The commit on which the new one is based.
    pub base: Option<Oid>,
    /// The commit of the branch itself; `None` if it does not exist yet.
    pub current: Option<Oid>,
    /// The tree of the new commit; `None` if nothing differs.
    pub tree: Option<Oid>,
    /// The changes.
    pub summary: Summary,
}

impl BranchLayout {
    /// Parses a branch name; `{cluster}` in it requests one branch per cluster.
    pub fn parse_pattern(pattern: &str, folder: BranchFolder) -> Result<Self, Error> {
        let layout = Self { pattern: pattern.to_owned(), folder, files: FileLayout::Plain };
        layout.branch_of_cluster(HUB)?;
        Ok(layout)
    }

    /// The same branches with other files.
    #[must_use]
    pub fn with_files(self, files: FileLayout) -> Self {
        Self { files, ..self }
    }

    /// How the objects of a cluster are distributed over files.
    pub fn files(&self) -> FileLayout {
        self.files
    }

    /// The branch, or pattern, from which a new branch starts: for GitOps Promoter, `env/prod-next` and `env/prod-next/PATH`
    /// propose changes for `env/prod`, and need a common history.
    pub fn find_origin<'b>(&self, branch: &'b str) -> Option<&'b str> {
        if self.files == FileLayout::Plain {
            return None;
        }
        let origin = match branch.strip_suffix(PROPOSED_SUFFIX) {
            Some(origin) => origin,
            None => branch.rsplit_once("-next/")?.0,
        };
        Some(origin).filter(|origin| !origin.is_empty() && !origin.ends_with('/'))
    }

    /// The name as it was given, including `{cluster}`.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether each cluster has its own branch.
    pub fn is_spread(&self) -> bool {
        self.pattern.contains(CLUSTER_PLACEHOLDER)
    }

    /// The branch of a cluster.
    pub fn branch_of_cluster(&self, cluster: &str) -> Result<String, Error> {
        let branch = self.pattern.replace(CLUSTER_PLACEHOLDER, cluster);
        // As git: no leading `-`, not `HEAD`; `@` alone also means HEAD.
        let valid = branch != "@" && branch != NOTES_REF && Branch::name_is_valid(&branch)?;
        if valid { Ok(branch) } else { Err(Error::BranchName(branch)) }
    }

    /// The branch that holds the whole plan.
    pub fn host_branch(&self) -> String {
        self.pattern.replace(CLUSTER_PLACEHOLDER, HUB)
    }

    /// A pattern with `*` that matches all branches.
    pub fn to_glob(&self) -> String {
        self.pattern.replace(CLUSTER_PLACEHOLDER, "*")
    }

    /// Reads the branch with the whole plan. `tip` returns the commit of a branch.
    pub fn read_home(
        &self,
        repository: &Repository,
        tip: impl Fn(&str) -> Result<Option<BranchTip>, Error>,
    ) -> Result<BranchContent, Error> {
        let home = self.host_branch();
        BranchContent::read_folder(repository, &home, &self.folder, self.files, tip(&home)?)
    }

    /// Reads the branches of all `clusters`, by cluster; only that of the host if they share one.
    pub fn read_branches(
        &self,
        repository: &Repository,
        home: BranchContent,
        clusters: &BTreeSet<String>,
        tip: impl Fn(&str) -> Result<Option<BranchTip>, Error>,
    ) -> Result<BranchContents, Error> {
        let mut bases = BTreeMap::new();
        for cluster in clusters.iter().filter(|cluster| self.is_spread() && *cluster != HUB) {
            let branch = self.branch_of_cluster(cluster)?;
            let at = tip(&branch)?;
            let content = BranchContent::read_folder(repository, &branch, &self.folder, self.files, at)?;
            bases.insert(cluster.clone(), content);
        }
        bases.insert(HUB.to_owned(), home);
        Ok(BranchContents(bases))
    }
}

/// The content of the branches, by cluster; that of the host if they share one.
#[derive(Debug)]
pub struct BranchContents(BTreeMap<String, BranchContent>);

impl BranchContents {
    /// The previous manifest of an object for a cluster.
    pub fn read_previous_manifest(
        &self,
        repository: &Repository,
        object: &ObjectRef,
        cluster: &str,
    ) -> Option<Arc<str>> {
        self.0.get(cluster).or_else(|| self.0.get(HUB))?.read_previous_manifest(repository, object, cluster)
    }

    /// Writes the objects of all branches, and moves none. `source` is the commit that was rendered, for the layout of
    /// hydrators.
    pub fn write_trees(
        &self,
        repository: &Repository,
        layout: &BranchLayout,
        tree: &OutputTree,
        plan: &Plan,
        source: Option<&DryCommit>,
    ) -> Result<Vec<BuiltBranch>, Error> {
        let mut built = Vec::new();
        for (cluster, base) in &self.0 {
            let part = match (layout.is_spread(), cluster.as_str()) {
                (false, _) => None,
                (true, HUB) => Some(tree.for_cluster(HUB, tree.placements().to_owned())),
                (true, cluster) => {
                    Some(tree.for_cluster(cluster, previous::serialize_plan(&select_cluster(plan, cluster))))
                }
            };
            let part = part.as_ref().unwrap_or(tree);
            if part.files().is_empty() && base.commit().is_none() && cluster != HUB {
                continue;
            }
            let (root, summary) = match source {
                Some(source) => {
                    let only = layout.is_spread().then_some(cluster.as_str());
                    write_hydrated_tree(repository, base, part, only, source)?
                }
                None => write_tree(repository, base, part)?,
            };
            let tree = Some(root).filter(|root| base.root() != Some(*root));
            let branch = base.name().branch.clone();
            let (base, current) = (base.commit(), base.own_commit());
            built.push(BuiltBranch { branch, base, current, tree, summary });
        }
        Ok(built)
    }
}

/// The part of a plan for one cluster, without scheduler state, which concerns all clusters.
fn select_cluster(plan: &Plan, cluster: &str) -> Plan {
    let rows = plan.placements.iter().filter(|row| row.reaches_cluster(cluster)).map(|row| {
        let mut row = row.clone();
        row.clusters.retain(|placed| &*placed.name == cluster);
        row.withdrawn.retain(|name| &**name == cluster);
        row.suspended.retain(|name| &**name == cluster);
        row.scheduler_state = SchedulerState::default();
        row.unschedulable = None;
        row
    });
    Plan { versions: plan.versions.clone(), placements: rows.collect(), ..Plan::default() }
}

impl BuiltBranch {
    /// The update that moves the branch to its new commit.
    pub fn to_update(&self, from: Option<Oid>, to: Oid) -> BranchUpdate {
        BranchUpdate { branch: self.branch.clone(), from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposed_branches_start_from_what_they_change() {
        let layout = BranchLayout::parse_pattern("a", BranchFolder::default()).unwrap();
        let hydrated = layout.clone().with_files(FileLayout::Hydrator);
        for (branch, origin) in [
            ("env/prod-next", Some("env/prod")),
            ("env/prod-next/shop/web", Some("env/prod")),
            ("env/*-next", Some("env/*")),
            ("env/prod", None),
            ("env/-next", None),
            ("-next/a", None),
        ] {
            assert_eq!(hydrated.find_origin(branch), origin, "{branch}");
            assert_eq!(layout.find_origin(branch), None);
        }
    }

    #[test]
    fn no_branch_is_named_like_the_notes() {
        assert!(BranchLayout::parse_pattern(NOTES_REF, BranchFolder::default()).is_err());
    }
}
