//! Updates a repo after some of its files changed, without loading the others again.
//!
//! This is possible if only plain templates change, which is the usual edit. All other files (policies,
//! inventory, CRDs, `*.j2` files, files with errors) can change the meaning of other files: then the repo
//! must be loaded again, and [`NeedsReload`] says why.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::classification::ClaimTable;
use super::exclusion::Exclusion;
use super::ownership::FileUse;
use super::pointer_file::find_pointer;
use super::scope::{ScopeSource, Scopes};
use super::sources::owned_identity;
use super::{Claims, Repo, Template, config, documents, ignore_rules, walk};
use federate_file_tree::RepoFile;
use federate_kubernetes::{Object, ObjectRef};

/// A changed file.
#[derive(Clone, Debug)]
pub struct ChangedFile {
    /// Its path.
    pub path: Arc<str>,
    /// The content; `None` if the file was deleted.
    pub bytes: Option<Arc<[u8]>>,
}

/// Why a repo must be loaded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedsReload {
    /// The file.
    pub path: String,
    /// The reason.
    pub why: &'static str,
}

impl fmt::Display for NeedsReload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// How the objects of a file are interpreted in the current repo.
struct Interpretation<'r> {
    repo: &'r Repo,
    scopes: Scopes,
    claiming: ClaimTable<'r>,
    claims: &'r dyn Claims,
}

impl Repo {
    /// Replaces the content of files. Returns the templates that are new, deleted or changed. If the repo
    /// must be loaded again, it stays unchanged.
    pub fn update_files(
        &mut self,
        files: &[ChangedFile],
        claims: &dyn Claims,
    ) -> Result<BTreeSet<ObjectRef>, NeedsReload> {
        let (mut new, mut assumed) = (Vec::new(), BTreeSet::new());
        {
            let meaning = Interpretation::for_repo(self, claims);
            let paths: BTreeSet<&str> = files.iter().map(|file| &*file.path).collect();
            for file in files {
                let read = meaning.read_templates(file, &mut assumed);
                new.extend(read.map_err(|why| NeedsReload { path: file.path.to_string(), why })?);
            }
            if let Some(twice) = meaning.find_duplicate(&new, &paths) {
                let path = twice.origin.file.to_string();
                return Err(NeedsReload { path, why: "it contains an object that the repo already has" });
            }
        }
        let touched = self.replace_files(files, new);
        self.assumed_namespaced.retain(|id| !touched.contains(id));
        self.assumed_namespaced.extend(assumed);
        Ok(touched)
    }

    fn replace_files(&mut self, files: &[ChangedFile], new: Vec<Object>) -> BTreeSet<ObjectRef> {
        let mut touched: BTreeSet<ObjectRef> = new.iter().map(|object| object.id.clone()).collect();
        self.templates.retain(|template| {
            let gone = files.iter().any(|file| file.path == template.object.origin.file);
            if gone {
                touched.insert(template.object.id.clone());
            }
            !gone
        });
        self.templates.extend(new.into_iter().map(Template::new));
        self.templates.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        for file in files {
            match &file.bytes {
                Some(bytes) => drop(self.texts.insert(file.path.clone(), bytes.clone())),
                None => drop(self.texts.remove(&file.path)),
            }
        }
        touched
    }
}

impl<'r> Interpretation<'r> {
    fn for_repo(repo: &'r Repo, claims: &'r dyn Claims) -> Self {
        let objects = repo.claimed.iter().map(|claimed| &claimed.object);
        let objects = objects.chain(repo.templates.iter().map(|template| &template.object));
        // If several objects define a kind, the first one in the order of files counts.
        let mut defining: Vec<&Object> = objects.filter(|object| defines_kind(object, claims)).collect();
        defining.sort_by(|a, b| a.origin.cmp(&b.origin));
        let scopes = Scopes::from_objects(defining.iter().copied(), claims);
        Self { repo, scopes, claiming: ClaimTable::new(claims, defining.iter().copied()), claims }
    }

    /// The templates of a changed file. Those whose scope is not known are noted in `assumed`.
    fn read_templates(
        &self,
        file: &ChangedFile,
        assumed: &mut BTreeSet<ObjectRef>,
    ) -> Result<Vec<Object>, &'static str> {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_config = config::FILE_NAMES.contains(&&*file.path) || *file.path == *self.repo.config_path();
        if is_config || ignore_rules::IGNORE_FILES.contains(&name) {
            return Err("it configures which files are read");
        }
        if self
            .repo
            .texts
            .keys()
            .any(|path| path.strip_prefix(&*file.path).is_some_and(|rest| rest.starts_with('/')))
        {
            return Err("it was a folder");
        }
        let sources = &self.repo.config.sources;
        if sources.iter().any(|source| source.flux.is_some() || source.argocd.is_some()) {
            return Err("objects of Flux or Argo CD may refer to it");
        }
        if !sources.is_empty() && !self.repo.texts.contains_key(&file.path) {
            return Err("it is new, and may be one of the values or overlays of a source");
        }
        let builds = self.repo.build_inputs.iter();
        if self.repo.ownership.concerns_file(&file.path)
            || builds.map(String::as_str).any(|input| federate_file_tree::is_within(&file.path, input))
        {
            return Err("it belongs to what kustomize or Helm builds");
        }
        if self.repo.builds.iter().any(|build| build.files.contains(&file.path)) {
            return Err("it is a template of another engine");
        }
        if walk::detect_language(&file.path).is_some() {
            return Err("federate names it in a finding");
        }
        if self.repo.excluded.iter().any(|object| object.origin.file == file.path) {
            return Err("it contains a hook or a local object");
        }
        let duplicates = self.repo.duplicates.iter();
        let mut origins =
            duplicates.flat_map(|duplicate| std::iter::once(&duplicate.origin).chain(&duplicate.others));
        if origins.any(|origin| origin.file == file.path) {
            return Err("it contains an object that is defined twice");
        }
        let read = self.repo.texts.contains_key(&file.path);
        if !read && (file.bytes.is_none() || ignore_rules::detect_format(&file.path).is_none()) {
            // The file was created and deleted again, like temporary files of editors, or is not a manifest.
            return Ok(Vec::new());
        }
        if ignore_rules::detect_format(&file.path) == Some(ignore_rules::FileFormat::Jinja) {
            return Err("it is rendered for each cluster");
        }
        if !self.repo.texts.contains_key(&file.path) {
            return Err("it is a new file");
        }
        if self.repo.claimed.iter().any(|claimed| claimed.object.origin.file == file.path) {
            return Err("it contains objects of a dialect");
        }
        let old = self.repo.templates.iter().map(|template| &template.object);
        let old: Vec<&Object> = old.filter(|object| object.origin.file == file.path).collect();
        if old.iter().any(|object| defines_kind(object, self.claims)) {
            return Err("it defines kinds");
        }
        let omits = self.repo.config.autoscaled_replicas == config::AutoscaledReplicas::Omit;
        if omits && old.iter().any(|object| is_autoscaler(object)) {
            return Err("it scales other objects");
        }
        let Some(bytes) = &file.bytes else { return Ok(Vec::new()) };
        let file = RepoFile { path: file.path.clone(), bytes: bytes.clone() };
        let mut contents = documents::read_repo_file(&file, FileUse::Plain);
        if contents.engine_syntax.is_some() {
            return Err("it is a template of another engine");
        }
        if contents.objects.iter().any(|object| Exclusion::from_object(object).is_some()) {
            return Err("it contains a hook or a local object");
        }
        if !contents.findings.is_empty() || find_pointer(&file.path, bytes).is_some() {
            return Err("it has errors");
        }
        for object in &mut contents.objects {
            if defines_kind(object, self.claims) {
                return Err("it defines kinds");
            }
            if self.scopes.normalize_namespace(object, self.claims) == ScopeSource::Assumed {
                assumed.insert(object.id.clone());
            }
            if self.claiming.role_of_object(object).is_some() {
                return Err("it contains objects of a dialect");
            }
            if omits && is_autoscaler(object) {
                return Err("it scales other objects");
            }
        }
        Ok(contents.objects)
    }

    /// A new object that is also in another file, or twice in the changed files.
    fn find_duplicate<'o>(&self, new: &'o [Object], changed: &BTreeSet<&str>) -> Option<&'o Object> {
        let kept = self.repo.templates.iter().map(|template| &template.object);
        let kept = kept.filter(|object| !changed.contains(&*object.origin.file));
        let kept = kept.chain(self.repo.claimed.iter().map(|claimed| &claimed.object));
        let wanted: BTreeSet<_> = new.iter().map(owned_identity).collect();
        let names: BTreeSet<&str> = new.iter().map(|object| object.id.name.as_str()).collect();
        let known: BTreeSet<_> = kept
            .filter(|o| names.contains(o.id.name.as_str()))
            .map(owned_identity)
            .filter(|id| wanted.contains(id))
            .collect();
        let mut seen = known;
        new.iter().find(|object| !seen.insert(owned_identity(object)))
    }
}

/// Whether an object decides about the replicas of another one.
fn is_autoscaler(object: &Object) -> bool {
    object.value_at(&["spec", "scaleTargetRef"]).is_some()
}

/// Whether an object defines a kind or the dialect of one.
fn defines_kind(object: &Object, claims: &dyn Claims) -> bool {
    object.id.kind == "CustomResourceDefinition"
        || claims.declared_kind(object).is_some()
        || !claims.implied_scopes(object).is_empty()
}
