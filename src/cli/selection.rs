//! Which files of the repo are read: `--path` and `--config`.

use std::fs;
use std::path::Path;

use clap::Args;

use super::CommandError;
use federate_repo::{ConfigChoice, EmptyTree, FileTree, ReadOptions, RepoFile, normalize_path};
use federate_source::{WorkTree, find_nearest_path};

/// Arguments that choose files of the repo.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Repo options")]
pub(super) struct SelectionArgs {
    /// Read only this folder or file of the repo; repeatable. Relative to REPO
    ///
    /// For example, `--path shared --path envs/prod` reads the clusters and policies of all environments and the
    /// manifests of one. It replaces `paths` in federate.yaml. The ignore files and the federate.yaml of REPO still apply.
    #[arg(long = "path", value_name = "DIR", hide_short_help = true)]
    paths: Vec<String>,

    /// The file to read instead of federate.yaml. Relative to REPO
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    config: Option<String>,
}

impl SelectionArgs {
    /// The paths given with `--path`, from the repo's folder, as far as they are valid.
    pub(super) fn paths_in(&self, repo: &Path) -> Vec<String> {
        self.paths.iter().filter_map(|path| within_repo("--path", repo, path).ok()).collect()
    }

    /// What of `source` is read. Paths that it does not have are an error.
    pub(super) fn read_options(
        &self,
        repo: &Path,
        source: &dyn FileTree,
        output: Option<String>,
    ) -> Result<ReadOptions, CommandError> {
        let given = self.paths.iter().map(|path| within_repo("--path", repo, path));
        let paths = given.collect::<Result<_, _>>()?;
        let config = self.config_choice(repo, source)?;
        let options = ReadOptions { output, paths, config, ..ReadOptions::default() };
        match options.missing_paths(source).first() {
            Some(path) => Err(missing_path_error("--path", repo, path)),
            None => Ok(options),
        }
    }

    /// What of the two sides of a comparison is read. A path that only one side has is empty on the other, but one of them
    /// must have it.
    pub(super) fn select_sides<'s>(
        &self,
        repo: &Path,
        sources: [&'s dyn FileTree; 2],
    ) -> Result<[SelectedTree<'s>; 2], CommandError> {
        let given = self.paths.iter().map(|path| within_repo("--path", repo, path));
        let paths = given.collect::<Result<Vec<_>, _>>()?;
        let missing = paths
            .iter()
            .find(|path| !path.is_empty() && sources.iter().all(|source| !has_path(*source, path)));
        if let Some(path) = missing {
            return Err(missing_path_error("--path", repo, path));
        }
        let config = sources.map(|source| self.config_choice(repo, source));
        let config = match config {
            [Err(fault), Err(_)] => return Err(fault),
            sides => sides.map(|side| side.unwrap_or_else(|_| Some(ConfigChoice::empty()))),
        };
        let [before, after] = config;
        Ok([(sources[0], before), (sources[1], after)].map(|(source, config)| {
            let there = paths.iter().filter(|path| path.is_empty() || has_path(source, path));
            let there: Vec<String> = there.cloned().collect();
            // No paths stand for the whole source.
            let source = if there.is_empty() && !paths.is_empty() { &EmptyTree } else { source };
            let read = ReadOptions { output: None, paths: there, config, keeps_unknown_values: true };
            SelectedTree { source, read }
        }))
    }

    /// The configuration given with `--config`: a file of the repo, or, by its absolute path, any other.
    fn config_choice(
        &self,
        repo: &Path,
        source: &dyn FileTree,
    ) -> Result<Option<ConfigChoice>, CommandError> {
        let Some(given) = &self.config else { return Ok(None) };
        let path = match within_repo("--config", repo, given) {
            Ok(path) => path,
            Err(_) if Path::new(given).is_absolute() => {
                let bytes = fs::read(given)
                    .map_err(|e| CommandError::Failed(format!("cannot read --config {given}: {e}")))?;
                let file = RepoFile { path: given.as_str().into(), bytes: bytes.into() };
                return Ok(Some(ConfigChoice::File(file)));
            }
            Err(fault) => return Err(fault),
        };
        if path.is_empty() || source.list_folder(&path).is_ok() {
            return Err(CommandError::Failed(format!("--config {given} is a folder: name the file in it")));
        }
        if !has_path(source, &path) {
            return Err(missing_path_error("--config", repo, given));
        }
        Ok(Some(ConfigChoice::InTree(path)))
    }
}

/// A source, and what of it is read.
pub(super) struct SelectedTree<'s> {
    pub(super) source: &'s dyn FileTree,
    pub(super) read: ReadOptions,
}

fn has_path(source: &dyn FileTree, path: &str) -> bool {
    let options = ReadOptions { paths: vec![path.to_owned()], ..ReadOptions::default() };
    options.missing_paths(source).is_empty()
}

/// The error about a path that does not exist in the repo.
fn missing_path_error(option: &str, repo: &Path, path: &str) -> CommandError {
    // The path may have been meant from the current folder, as completions write it.
    let from_here = WorkTree::open(repo).ok().and_then(|tree| tree.relative_path(Path::new(path)));
    let meant = from_here.filter(|meant| meant != path && repo.join(meant).exists());
    let near = || {
        let near = find_nearest_path(&repo.join(path))?;
        let near = near.strip_prefix(repo).ok()?.to_str().map(str::to_owned);
        near.map(|near| format!("; did you mean `{near}`?"))
    };
    let meant = meant.map(|meant| format!(": write {option} {meant}")).or_else(near).unwrap_or_default();
    CommandError::Failed(format!(
        "{option} {path}: the repo {} has no such file or folder; the path is relative to the repo{meant}",
        repo.display()
    ))
}

/// A path relative to the repo.
fn within_repo(option: &str, repo: &Path, path: &str) -> Result<String, CommandError> {
    let is_absolute = Path::new(path).is_absolute();
    match normalize_path(path) {
        Ok(normal) => Ok(normal),
        Err(_) if is_absolute && fs::canonicalize(path).ok() == fs::canonicalize(repo).ok() => {
            Ok(String::new())
        }
        Err(why) => {
            let tree = WorkTree::open(repo).ok().filter(|_| is_absolute);
            tree.and_then(|tree| tree.relative_path(Path::new(path))).ok_or_else(|| {
                CommandError::Failed(format!(
                    "{option} {path} is refused: {why}. Paths are relative to REPO ({}): name the folder above as REPO, \
                     and both folders with {option}",
                    repo.display()
                ))
            })
        }
    }
}
