//! A repo: the files of a folder or revision, parsed into objects and sorted into cluster inventory, other
//! objects of dialects, and templates.
//!
//! [`load`] reads what is the same for all clusters. With the inventory in it, [`Loaded::expand`] renders the
//! `*.j2` files for each cluster and completes the [`Repo`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Origin, Severity};
use federate_yaml::{Position, Positions};

mod cluster_independent;
pub mod config;
mod ignore;
mod live;
mod load;
pub mod pointer_file;
mod scope;
mod sort;
pub mod source;
mod template;
pub mod update;
pub mod walk;

use scope::{ScopeSource, Scopes};

pub use config::Config;
pub use live::{live, objects_of};
pub use source::{EmptySource, File, Source};
pub use update::{ChangedFile, NeedsReload};

/// The role of an object in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Describes a member cluster.
    Inventory,
    /// Selects the clusters for templates.
    Placement,
    /// Changes manifests for some clusters.
    Override,
    /// Contains a template with its placement and overrides.
    Bundle,
    /// Any other object that the dialect reads.
    Other,
    /// Stays on the control plane, which reads or writes it: no decision of federate depends on it.
    ControlPlane,
}

/// Which objects the dialects claim.
pub trait Claims: Sync {
    /// The dialect that claims objects of an API version and kind, with their role.
    fn role(&self, api_version: &str, kind: &str) -> Option<(&'static str, Role)>;

    /// The scope of a kind that belongs to a dialect.
    fn scope(&self, group: &str, kind: &str) -> Option<Scope> {
        let _ = (group, kind);
        None
    }

    /// The dialect whose control plane has an API group, all of whose kinds stay on the control plane but for those
    /// with another [role](Self::role).
    fn control_plane(&self, group: &str) -> Option<&'static str> {
        let _ = group;
        None
    }

    /// The scopes of kinds that an object of a dialect takes for granted.
    fn implied_scopes(&self, object: &Object) -> Vec<ImpliedScope> {
        let _ = object;
        Vec::new()
    }

    /// Whether `domain`, the prefix of an annotation key, belongs to a dialect, so that the annotation may
    /// affect placement.
    fn own(&self, domain: &str) -> bool {
        let _ = domain;
        false
    }

    /// The kind that an object declares for a dialect.
    fn declares(&self, object: &Object) -> Option<(&'static str, Declared)>;
}

impl<F: Fn(&str, &str) -> Option<(&'static str, Role)> + Sync> Claims for F {
    fn role(&self, api_version: &str, kind: &str) -> Option<(&'static str, Role)> {
        self(api_version, kind)
    }

    fn declares(&self, _: &Object) -> Option<(&'static str, Declared)> {
        None
    }
}

/// A kind that an object of the repo declares for a dialect, in all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The role of its objects.
    pub role: Role,
    /// Its scope, if declared.
    pub scope: Option<Scope>,
}

/// The scope that an object implies for a kind, such as a selector that can only select cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpliedScope {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Its scope.
    pub scope: Scope,
}

/// An object that a dialect claims.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The dialect's name.
    pub dialect: &'static str,
    /// The role in that dialect.
    pub role: Role,
    /// The object.
    pub object: Object,
}

/// An object to place on clusters.
#[derive(Clone, Debug)]
pub struct Template {
    /// The object. For a `*.j2` file, the rendering for the first cluster by name; fields that affect
    /// placement are the same for every cluster.
    pub object: Object,
    /// The body for each cluster, if it comes from a `*.j2` file.
    pub per_cluster: Option<BTreeMap<ClusterName, Arc<Object>>>,
}

impl Template {
    /// The object for one cluster, before overrides.
    pub fn for_cluster(&self, cluster: &str) -> &Object {
        self.per_cluster.as_ref().and_then(|bodies| bodies.get(cluster)).map_or(&self.object, |o| o)
    }

    /// The bodies for these clusters before overrides, each with its clusters. There is at least one: without
    /// clusters, it is the body that decides placement.
    pub fn bodies<'c>(
        &self,
        clusters: impl IntoIterator<Item = &'c ClusterName>,
    ) -> Vec<(&Object, Vec<&'c ClusterName>)> {
        let mut bodies: Vec<(&Object, Vec<&ClusterName>)> = Vec::new();
        // Equal bodies are shared, so comparing addresses is enough.
        let mut known: BTreeMap<*const Object, usize> = BTreeMap::new();
        for cluster in clusters {
            let body = self.for_cluster(cluster);
            let index = *known.entry(body).or_insert_with(|| {
                bodies.push((body, Vec::new()));
                bodies.len() - 1
            });
            bodies[index].1.push(cluster);
        }
        if bodies.is_empty() {
            bodies.push((&self.object, Vec::new()));
        }
        bodies
    }
}

/// A loaded repo. Every list is sorted by object.
#[derive(Clone, Debug, Default)]
pub struct Repo {
    /// `federate.yaml`, or the defaults.
    pub config: Config,
    /// All objects that dialects claim: inventory, policies, overrides.
    pub claimed: Vec<Claimed>,
    /// The objects to place.
    pub templates: Vec<Template>,
    /// Findings from loading.
    pub findings: Vec<Finding>,
    /// The objects without a namespace that count as namespaced although nothing says so.
    pub assumed_namespaced: BTreeSet<ObjectRef>,
    /// The text of each file, for quoting lines in messages.
    pub texts: BTreeMap<Arc<str>, Arc<[u8]>>,
}

/// A repo whose `*.j2` files are not rendered yet, because its clusters must be read first.
#[derive(Clone)]
pub struct Loaded<'a> {
    /// The repo without the output of `*.j2` files.
    pub repo: Repo,
    /// The `*.j2` files.
    jinja: Vec<File>,
    scopes: Scopes,
    claims: sort::ClaimTable<'a>,
}

/// Loads a repo. `output` is the output folder in it, which is not read; `claims` knows the kinds of
/// dialects. Errors are in the repo's findings.
pub fn load<'a>(source: &dyn Source, output: Option<&str>, claims: &'a dyn Claims) -> Loaded<'a> {
    let mut findings = Vec::new();
    let config_file = read_config(source).unwrap_or_else(|finding| {
        findings.push(finding);
        None
    });
    let config = config_file.as_ref().map_or(Ok(Config::default()), |file| Config::read(&file.bytes));
    let config = config.unwrap_or_else(|finding| {
        findings.push(finding);
        Config::default()
    });
    let (selection, bad_patterns) = walk::Selection::new(&config, output);
    findings.extend(bad_patterns);
    let (files, unread) = walk::read(source, &selection);
    findings.extend(unread);
    let mut loaded = load_bytes(files, config, claims);
    loaded.repo.texts.extend(config_file.map(|file| (file.path, file.bytes)));
    loaded.repo.report(findings);
    loaded
}

/// Reads `federate.yaml` at the root, if it exists.
fn read_config(source: &dyn Source) -> Result<Option<File>, Finding> {
    let entries = source.list("").map_err(|why| walk::unreadable("", &why))?;
    let Some(entry) = entries.into_iter().find(|e| e.name == config::FILE) else { return Ok(None) };
    let bytes = match entry.kind {
        source::EntryKind::File => source.read(config::FILE),
        source::EntryKind::LinkToFile(real) => source.read(&real),
        source::EntryKind::LinkOutside(to) => return Err(walk::outside(config::FILE, &to)),
        source::EntryKind::Unreadable(why) => Err(why),
        source::EntryKind::SparseFile => return Err(walk::sparse(config::FILE, &[])),
        _ => return Ok(None),
    };
    let bytes = bytes.map_err(|why| walk::unreadable(config::FILE, &why))?;
    if let Some(pointer) = pointer_file::find_pointer(config::FILE, &bytes) {
        return Err(pointer);
    }
    Ok(Some(File { path: config::FILE.into(), bytes: bytes.into() }))
}

/// Loads a repo from files in memory, in any order.
pub fn load_bytes(mut files: Vec<File>, config: Config, claims: &dyn Claims) -> Loaded<'_> {
    files.par_sort_by(|a, b| a.path.cmp(&b.path));
    let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
    let (jinja, plain): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| ignore::format(&file.path) == Some(ignore::Format::Jinja));
    let contents: Vec<_> = plain.par_iter().map(load::contents).collect();
    let mut objects = Vec::with_capacity(contents.iter().map(|file| file.objects.len()).sum());
    let mut findings = Vec::new();
    for mut file in contents {
        objects.append(&mut file.objects);
        findings.append(&mut file.findings);
    }
    let scopes = Scopes::of(objects.iter(), claims);
    let assumed: BTreeSet<ObjectRef> = objects
        .par_iter_mut()
        .filter_map(|object| {
            (scopes.apply(object, claims) == ScopeSource::Assumed).then(|| object.id.clone())
        })
        .collect();
    let claims = sort::ClaimTable::new(claims, objects.iter());
    let (claimed, templates, duplicates) = sort::sort(objects, &claims);
    findings.extend(duplicates);
    let mut repo =
        Repo { config, claimed, templates, findings: Vec::new(), assumed_namespaced: assumed, texts };
    repo.report(findings);
    Loaded { repo, jinja, scopes, claims }
}

/// The objects of one file, unchanged: none is claimed, and no namespace is added.
pub fn objects(file: &File) -> (Vec<Object>, Vec<Finding>) {
    let contents = load::contents(file);
    (contents.objects, contents.findings)
}

impl Loaded<'_> {
    /// Completes the repo by rendering its `*.j2` files for each cluster. Without clusters, they are skipped
    /// with a warning.
    pub fn expand(self, clusters: &[Cluster]) -> Repo {
        let Self { mut repo, jinja, scopes, claims } = self;
        if clusters.is_empty() {
            let left_out = |file: &File| {
                let message = "a template is rendered for each cluster, but the repo has no clusters";
                Finding::in_file(Severity::Warning, "no-clusters", &file.path, None, message)
            };
            repo.report(jinja.iter().map(left_out).collect());
            return repo;
        }
        let renderer = template::Renderer::new(clusters, &repo.config, jinja.len(), &scopes, &claims);
        let expanded: Vec<_> = jinja.par_iter().map(|file| renderer.expand(file)).collect();
        if let Some(exceeded) = renderer.total().exceeded() {
            // How many files were rendered before the limit differs from run to run.
            repo.report(vec![exceeded]);
            return repo;
        }
        let mut findings = Vec::new();
        for (mut templates, mut wrong) in expanded {
            repo.templates.append(&mut templates);
            findings.append(&mut wrong);
        }
        let (mut templates, duplicates) = sort::unique(repo.templates, |template| &template.object);
        templates.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        repo.templates = templates;
        findings.extend(duplicates);
        repo.report(findings);
        repo
    }
}

impl Repo {
    /// Adds findings, and sorts all by place.
    fn report(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
        self.findings.sort_by(|a, b| a.origin.cmp(&b.origin).then_with(|| a.cmp(b)));
    }

    /// The template of this object.
    pub fn template(&self, id: &ObjectRef) -> Option<&Template> {
        let index = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(index)
    }

    /// The objects that `dialect` claims with `role`.
    pub fn claimed(&self, dialect: &'static str, role: Role) -> impl Iterator<Item = &Object> {
        self.claimed.iter().filter(move |c| c.dialect == dialect && c.role == role).map(|c| &c.object)
    }

    /// An error in `federate.yaml`, at the value that the pointer refers to.
    pub fn invalid_config(&self, pointer: &str, message: impl std::fmt::Display) -> Finding {
        let file: Arc<str> = config::FILE.into();
        let text = self.texts.get(&file);
        let at = text.and_then(|text| federate_yaml::locate(text, 0, pointer));
        let message = format!("invalid configuration: {message}");
        Finding::in_file(Severity::Error, "invalid-config", &file, at, message).at(pointer)
    }

    /// The position of the value at `pointer` in the object's file: that of the closest existing parent, or
    /// the object's first line.
    pub fn locate(&self, origin: &Origin, pointer: &str) -> Position {
        Locator::new(self).locate(origin, pointer)
    }
}

/// Finds positions in the files of a repo. Each file is parsed at most once.
pub struct Locator<'r> {
    repo: &'r Repo,
    files: BTreeMap<Arc<str>, Positions<'r>>,
}

impl<'r> Locator<'r> {
    /// A locator that has parsed no file yet.
    pub fn new(repo: &'r Repo) -> Self {
        Self { repo, files: BTreeMap::new() }
    }

    /// How many bytes are parsed when a position in the file is searched next.
    pub fn unparsed(&self, file: &str) -> usize {
        if self.files.contains_key(file) { 0 } else { self.repo.texts.get(file).map_or(0, |text| text.len()) }
    }

    /// The position of the value at `pointer` in the object's file; see [`Repo::locate`].
    pub fn locate(&mut self, origin: &Origin, pointer: &str) -> Position {
        let prefix = origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
        if !self.files.contains_key(&origin.file)
            && let Some(text) = self.repo.texts.get(&origin.file)
        {
            self.files.insert(origin.file.clone(), Positions::new(text));
        }
        let positions = self.files.get(&origin.file);
        let found =
            positions.and_then(|file| file.locate_nearest(origin.document, &format!("{prefix}{pointer}")));
        found.unwrap_or(Position { line: origin.line, column: 1 })
    }
}
