//! Names of branches that exclude each other: git stores a branch as a file, so that none can be named like a folder of
//! another.

use std::collections::BTreeSet;

use git2::{BranchType, Repository};

use super::Error;

/// One of the `wanted` branches that cannot be stored together with one of the `existing`, and that one.
pub fn find_excluding<'w>(
    wanted: impl IntoIterator<Item = &'w str>,
    existing: &BTreeSet<String>,
) -> Option<(&'w str, &str)> {
    wanted.into_iter().find_map(|branch| {
        let mut folders = branch.match_indices('/').filter_map(|(at, _)| branch.get(..at));
        let above = folders.find_map(|folder| existing.get(folder));
        let folder = format!("{branch}/");
        above
            .or_else(|| existing.range(folder.clone()..).next().filter(|other| other.starts_with(&folder)))
            .map(|other| (branch, other.as_str()))
    })
}

/// Refuses branches that cannot be stored together with a local one.
pub fn check_local_names<'w>(
    repository: &Repository,
    wanted: impl IntoIterator<Item = &'w str>,
) -> Result<(), Error> {
    let branches = repository.branches(Some(BranchType::Local))?;
    let names = branches.flatten().filter_map(|(branch, _)| Some(branch.name().ok()??.to_owned()));
    match find_excluding(wanted, &names.collect()) {
        Some((branch, other)) => {
            Err(Error::Excluded { branch: branch.to_owned(), other: other.to_owned(), remote: None })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_excludes_its_folders() {
        let existing = ["main", "rendered", "env/eu/x", "env-old"].map(str::to_owned).into();
        let found = |wanted: &str| find_excluding([wanted], &existing).map(|(_, other)| other.to_owned());
        assert_eq!(found("rendered/eu").as_deref(), Some("rendered"));
        assert_eq!(found("rendered/a/b").as_deref(), Some("rendered"));
        assert_eq!(found("env").as_deref(), Some("env/eu/x"));
        assert_eq!(found("env/eu").as_deref(), Some("env/eu/x"));
        for wanted in ["rendered", "env/us", "env/eu/y", "rendered-2", "en"] {
            assert_eq!(found(wanted), None, "{wanted}");
        }
    }
}
