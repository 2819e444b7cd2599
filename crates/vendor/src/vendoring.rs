//! Compares a lock file with what objects ask for, and downloads what it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use federate_gitops::RemoteReference;
use federate_gitops::vendored::{LOCK_PATH, LockedSource, VendorLock};
use federate_kubernetes::finding::join_names;
use federate_kubernetes::hex::to_hex;
use federate_semver::VersionConstraint;
use federate_source::WorkTree;

use crate::base::download_base;
use crate::download::{DownloadedSource, HelmClient};
use crate::folders::{BASES_FOLDER, CHARTS_FOLDER, VendorFolder, compute_digest};
use crate::request::VendorRequest;
use crate::result::{VendorChange, VendorResult, VendoredSource};

/// How many digits of a commit the folder of a base is named by.
const SHORT_COMMIT: usize = 12;

/// The first lines of a lock file.
const LOCK_HEAD: &str = "# Written by `federate vendor`. Builds compare the charts with these digests.\n";

/// Why nothing was vendored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lock file cannot be read.
    #[error("the lock file `{LOCK_PATH}` {0}; restore it with git, or delete it to vendor everything anew")]
    Lock(String),
    /// A name of `--update` is not that of a chart.
    #[error("nothing asks for a chart or base `{name}`: --update takes {known}; REPO is written before it")]
    UnknownName {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// Helm is missing.
    #[error("nothing was vendored: {0}")]
    Program(String),
    /// Charts cannot be downloaded: a sentence for each.
    #[error("nothing was vendored: {}", .0.join("\n  "))]
    Downloads(Vec<String>),
    /// A file or folder of the repo cannot be written.
    #[error("the folder `vendor` cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Which charts are downloaded in the newest version of their range, although the lock file has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UpdateChoice {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those with these names.
    Named(BTreeSet<String>),
}

impl UpdateChoice {
    fn includes(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }
}

/// What objects ask for, and what the lock file has.
pub struct Vendoring<'r> {
    root: &'r Path,
    tree: &'r WorkTree,
    lock: VendorLock,
    requests: &'r [VendorRequest],
}

/// A chart or base that is in the repo, or was downloaded for it.
struct ResolvedSource {
    locked: LockedSource,
    row: VendoredSource,
    /// The files to write.
    downloaded: Option<DownloadedSource>,
}

impl<'r> Vendoring<'r> {
    /// Reads the lock file of the repo in the folder `root`.
    pub fn open(root: &'r Path, tree: &'r WorkTree, requests: &'r [VendorRequest]) -> Result<Self, Error> {
        let lock = VendorLock::read_tree(tree).map_err(Error::Lock)?;
        Ok(Self { root, tree, lock, requests })
    }

    /// What there is to do, without the network.
    pub fn compare(&self) -> VendorResult {
        let mut rows: Vec<VendoredSource> =
            self.requests.iter().map(|request| self.compare_request(request)).collect();
        rows.extend(self.list_unused());
        VendorResult::new(rows)
    }

    fn compare_request(&self, request: &VendorRequest) -> VendoredSource {
        let VendorRequest { reference, used_by } = request;
        let used_by: Vec<String> = used_by.iter().cloned().collect();
        let Some(locked) = self.lock.find_source(reference) else {
            return VendoredSource {
                name: reference.name.clone(),
                repository: reference.repository.clone(),
                folder: reference.folder.clone(),
                requested: reference.version.clone(),
                version: None,
                previous_version: None,
                change: VendorChange::Added,
                reason: None,
                used_by,
            };
        };
        let reason = locked.find_problem(self.tree).or_else(|| {
            let is_other = !has_path_of_version(locked);
            is_other.then(|| format!("`{}` is not the folder of version {}", locked.path, locked.version))
        });
        let change = match &reason {
            Some(_) => VendorChange::Restored,
            None if locked.used_by != used_by => VendorChange::UsersChanged,
            None => VendorChange::Unchanged,
        };
        VendoredSource { reason, used_by, ..VendoredSource::from_locked(locked, change) }
    }

    /// The entries that no object asks for.
    fn list_unused(&self) -> impl Iterator<Item = VendoredSource> {
        let asked: BTreeSet<&RemoteReference> =
            self.requests.iter().map(|request| &request.reference).collect();
        let unused = self.lock.list_sources().filter(move |source| !asked.contains(&source.to_reference()));
        unused.map(|chart| VendoredSource::from_locked(chart, VendorChange::Removed))
    }

    /// Downloads what the lock file lacks and what is to be updated, and writes the lock file. `find_helm` is called if something is to
    /// be downloaded, and `report` before each download, with what is downloaded. If a chart cannot be downloaded, nothing is changed.
    pub fn run(
        &self,
        find_helm: &dyn Fn() -> Result<HelmClient, String>,
        update: &UpdateChoice,
        report: &dyn Fn(&str),
    ) -> Result<VendorResult, Error> {
        self.check_names(update)?;
        let compared = self.compare();
        let is_updated = self.requests.iter().any(|request| update.includes(&request.reference.name));
        if !compared.changed && !is_updated {
            return Ok(compared);
        }
        let needs_helm = self.requests.iter().zip(&compared.sources).any(|(request, row)| {
            let is_missing = row.version.is_none() || row.reason.is_some();
            request.reference.folder.is_none() && (is_missing || update.includes(&request.reference.name))
        });
        let helm = needs_helm.then(find_helm).transpose().map_err(Error::Program)?;
        let folder = VendorFolder::open(self.root)?;
        let mut resolved = Vec::new();
        let mut failures = Vec::new();
        for (index, (request, row)) in self.requests.iter().zip(compared.sources).enumerate() {
            let stage = folder.create_stage(&format!("{index}.pulled"))?;
            match self.resolve(request, row, update, helm.as_ref(), &stage, report) {
                Ok(chart) => resolved.push(chart),
                Err(why) => failures.push(why),
            }
        }
        if !failures.is_empty() {
            return Err(Error::Downloads(failures));
        }
        self.place_sources(&folder, &mut resolved)?;
        let mut rows: Vec<VendoredSource> = resolved.into_iter().map(|chart| chart.row).collect();
        rows.extend(self.list_unused());
        Ok(VendorResult::new(rows))
    }

    fn check_names(&self, update: &UpdateChoice) -> Result<(), Error> {
        let UpdateChoice::Named(names) = update else { return Ok(()) };
        let known: BTreeSet<&str> =
            self.requests.iter().map(|request| request.reference.name.as_str()).collect();
        match names.iter().find(|name| !known.contains(name.as_str())) {
            Some(name) => {
                let known: Vec<&str> = known.into_iter().collect();
                let known =
                    if known.is_empty() { "the names of charts".to_owned() } else { join_names(&known, 10) };
                Err(Error::UnknownName { name: name.clone(), known })
            }
            None => Ok(()),
        }
    }

    /// Downloads a chart, unless the repo has it.
    fn resolve(
        &self,
        request: &VendorRequest,
        mut row: VendoredSource,
        update: &UpdateChoice,
        helm: Option<&HelmClient>,
        stage: &Path,
        report: &dyn Fn(&str),
    ) -> Result<ResolvedSource, String> {
        let reference = &request.reference;
        let is_updated = update.includes(&reference.name);
        let known = self.lock.find_source(reference);
        if let Some(known) = known.filter(|_| row.reason.is_none() && !is_updated) {
            let locked = LockedSource { used_by: row.used_by.clone(), ..known.clone() };
            return Ok(ResolvedSource { locked, row, downloaded: None });
        }
        if let Some(known) = known.filter(|known| !is_updated && !has_path_of_version(known)) {
            check_range(known, reference)?;
        }
        report(&reference.to_string());
        let exact = known.filter(|_| !is_updated).map(|known| known.version.as_str());
        let downloaded = match (&reference.folder, helm) {
            (Some(folder), _) => download_base(reference, folder, exact, stage)?,
            (None, Some(helm)) => helm.download(reference, exact, stage)?,
            (None, None) => return Err("helm was not looked for".to_owned()),
        };
        if let Some(known) = known {
            // A version that was set by hand has another folder, and no digest yet.
            let is_other = downloaded.archive != known.archive && has_path_of_version(known);
            if is_other && !is_updated {
                return Err(format!(
                    "the {reference} was downloaded, and is refused: version {} has other content than when it was vendored; if \
                     that is meant, run `federate vendor --update {}`",
                    known.version, known.name
                ));
            }
            if is_updated && row.reason.is_none() {
                let is_same = downloaded.archive == known.archive && downloaded.version == known.version;
                if !is_same {
                    row.change = VendorChange::Updated;
                }
                row.previous_version = (known.version != downloaded.version).then(|| known.version.clone());
            }
        }
        row.version = Some(downloaded.version.clone());
        let locked = LockedSource {
            name: reference.name.clone(),
            repository: reference.repository.clone(),
            folder: reference.folder.clone(),
            requested: reference.version.clone(),
            version: downloaded.version.clone(),
            path: String::new(),
            digest: String::new(),
            archive: downloaded.archive.clone(),
            used_by: row.used_by.clone(),
        };
        Ok(ResolvedSource { locked, row, downloaded: Some(downloaded) })
    }

    /// Places the folders, writes the lock file, and removes the folders that it does not name.
    fn place_sources(&self, folder: &VendorFolder<'_>, resolved: &mut [ResolvedSource]) -> Result<(), Error> {
        let kept = resolved.iter().filter(|chart| chart.downloaded.is_none());
        let mut taken: BTreeMap<String, SourceContent> =
            kept.map(|chart| (chart.locked.path.clone(), content_of(&chart.locked))).collect();
        for (index, chart) in resolved.iter_mut().enumerate() {
            let Some(downloaded) = chart.downloaded.take() else { continue };
            let content = content_of(&chart.locked);
            let path = choose_path(&chart.locked, &taken);
            chart.locked.path.clone_from(&path);
            let staged = folder.write_files(&format!("{index}.unpacked"), &downloaded.files)?;
            chart.locked.digest = compute_digest(&staged)?;
            if taken.insert(path.clone(), content).is_none() {
                let is_own = self.lock.list_sources().any(|known| known.path == path);
                folder.place_folder(&staged, &path, &chart.locked.digest, is_own)?;
            }
        }
        let mut all: Vec<LockedSource> = resolved.iter().map(|source| source.locked.clone()).collect();
        all.sort();
        let (bases, charts) = all.into_iter().partition(|source| source.folder.is_some());
        let lock = VendorLock { charts, bases, ..VendorLock::default() };
        folder.write_lock(&format_lock(&lock))?;
        for chart in self.lock.list_sources().filter(|chart| !taken.contains_key(&chart.path)) {
            folder.remove_folder(&chart.path)?;
        }
        Ok(())
    }
}

/// The version, the archive and the folder of an entry.
type SourceContent = (String, String, Option<String>);

/// What tells whether two entries have the same content.
fn content_of(source: &LockedSource) -> SourceContent {
    (source.version.clone(), source.archive.clone(), source.folder.clone())
}

/// The folder of a source in its version. If another source has it with other content, the folder has a digest of the address and the
/// folder of this one in its name.
fn choose_path(source: &LockedSource, taken: &BTreeMap<String, SourceContent>) -> String {
    let [plain, distinct] = list_paths(source);
    if taken.get(&plain).is_none_or(|content| *content == content_of(source)) { plain } else { distinct }
}

/// The folders that a source may have in its version.
fn list_paths(source: &LockedSource) -> [String; 2] {
    let LockedSource { name, version, folder, repository, .. } = source;
    let plain = match folder {
        None => format!("{CHARTS_FOLDER}/{name}/{version}"),
        Some(_) => format!("{BASES_FOLDER}/{name}/{}", version.get(..SHORT_COMMIT).unwrap_or(version)),
    };
    let digest = Sha256::digest(format!("{repository}\0{}", folder.as_deref().unwrap_or_default()));
    let distinct = format!("{plain}-{}", to_hex(digest.get(..4).unwrap_or_default()));
    [plain, distinct]
}

/// Refuses a version that a tool has set in the lock file, unless it is in the requested range.
fn check_range(known: &LockedSource, reference: &RemoteReference) -> Result<(), String> {
    let range = VersionConstraint::parse(&reference.version);
    if range.is_none_or(|range| range.includes_version(&known.version)) {
        return Ok(());
    }
    Err(format!(
        "the lock file has version {} of the {reference}, which is not in that range; change the range in what asks for it",
        known.version
    ))
}

/// Whether an entry has a folder of its version. It has not if a tool has set another version in the lock file.
fn has_path_of_version(chart: &LockedSource) -> bool {
    list_paths(chart).contains(&chart.path)
}

fn format_lock(lock: &VendorLock) -> String {
    let mut text = LOCK_HEAD.to_owned();
    federate_yaml::write_document(&serde_json::to_value(lock).unwrap_or_default(), &mut text);
    text
}
