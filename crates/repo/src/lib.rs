//! Loads a repo: reads the files of a folder or revision, splits them into objects, and sorts these into cluster
//! inventory, other objects of a dialect, and templates.
//!
//! [`load`] reads everything that is the same for every cluster, including the inventory. [`Loaded::expand`] then
//! renders the `*.j2` files for each cluster and completes the [`Repo`].

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Origin, Severity};
use federate_yaml::Position;

pub mod config;
mod ignore;
mod live;
mod load;
mod sort;
pub mod source;
mod template;
mod uniform;
pub mod update;
pub mod walk;

pub use config::Config;
pub use live::{live, objects_of};
pub use source::{EmptySource, File, Source};
pub use update::{ChangedFile, NeedsReload};

/// The role of an object in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The object describes a member cluster.
    Inventory,
    /// The object places templates on clusters.
    Placement,
    /// The object changes manifests for some clusters.
    Override,
    /// The object contains a template with its placement and overrides.
    Bundle,
    /// The dialect reads the object for another purpose.
    Other,
}

/// The objects, kinds and annotations that belong to dialects.
pub trait Claims: Sync {
    /// Returns the dialect that claims objects of an API version and kind, and their role.
    fn role(&self, api_version: &str, kind: &str) -> Option<(&'static str, Role)>;

    /// Returns the scope of a kind that belongs to a dialect.
    fn scope(&self, group: &str, kind: &str) -> Option<Scope> {
        let _ = (group, kind);
        None
    }

    /// Whether `domain`, the part of an annotation's key before `/`, belongs to a dialect. Such annotations may decide
    /// where an object is placed.
    fn own(&self, domain: &str) -> bool {
        let _ = domain;
        false
    }

    /// Returns the dialect's kind that an object declares.
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

/// A kind of a dialect that an object of the repo declares, in all versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The role of its objects in the dialect.
    pub role: Role,
    /// The scope, if it is declared.
    pub scope: Option<Scope>,
}

/// An object that a dialect claims.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The dialect's name.
    pub dialect: &'static str,
    /// The role in the dialect.
    pub role: Role,
    /// The object.
    pub object: Object,
}

/// An object to be placed on clusters.
#[derive(Clone, Debug)]
pub struct Template {
    /// The object. For a `*.j2` file, the object that is rendered for the first cluster by name, because the fields
    /// that decide placement are the same for every cluster.
    pub object: Object,
    /// The object for each cluster, if it comes from a `*.j2` file.
    pub per_cluster: Option<BTreeMap<ClusterName, Arc<Object>>>,
}

impl Template {
    /// Returns the object for one cluster, before overrides.
    pub fn for_cluster(&self, cluster: &str) -> &Object {
        self.per_cluster.as_ref().and_then(|bodies| bodies.get(cluster)).map_or(&self.object, |o| o)
    }

    /// Returns the distinct objects for these clusters before overrides, each with its clusters. Without clusters, the
    /// result is the object that decides placement.
    pub fn bodies<'c>(
        &self,
        clusters: impl IntoIterator<Item = &'c ClusterName>,
    ) -> Vec<(&Object, Vec<&'c ClusterName>)> {
        let mut bodies: Vec<(&Object, Vec<&ClusterName>)> = Vec::new();
        // Clusters share equal objects, so comparing their addresses is enough.
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

/// A loaded repo. All lists are sorted by identity.
#[derive(Clone, Debug, Default)]
pub struct Repo {
    /// The configuration in `federate.yaml`, or the defaults.
    pub config: Config,
    /// The objects that dialects claim: inventory, policies, overrides.
    pub claimed: Vec<Claimed>,
    /// The objects to place.
    pub templates: Vec<Template>,
    /// The errors and warnings of reading.
    pub findings: Vec<Finding>,
    /// The text of each file, for messages that show a line.
    pub texts: BTreeMap<Arc<str>, Arc<[u8]>>,
}

/// A repo whose `*.j2` files are not rendered yet, because this requires its inventory.
#[derive(Clone)]
pub struct Loaded<'a> {
    /// The repo without the objects of `*.j2` files.
    pub repo: Repo,
    /// The `*.j2` files.
    jinja: Vec<File>,
    scopes: sort::Scopes,
    claims: sort::ClaimedKinds<'a>,
}

/// Loads a repo. `output` is its output folder, which is not read. `claims` are the kinds of the dialects. Errors are
/// in the repo's findings.
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
        _ => return Ok(None),
    };
    let bytes = bytes.map_err(|why| walk::unreadable(config::FILE, &why))?;
    Ok(Some(File { path: config::FILE.into(), bytes: bytes.into() }))
}

/// Loads a repo from files in any order.
pub fn load_bytes(mut files: Vec<File>, config: Config, claims: &dyn Claims) -> Loaded<'_> {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
    let (jinja, plain): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| ignore::format(&file.path) == Some(ignore::Format::Jinja));
    let contents: Vec<_> = plain.par_iter().map(load::contents).collect();
    let (mut objects, mut findings) = (Vec::new(), Vec::new());
    for mut file in contents {
        objects.append(&mut file.objects);
        findings.append(&mut file.findings);
    }
    let scopes = sort::Scopes::of(objects.iter(), claims);
    objects.par_iter_mut().for_each(|object| scopes.apply(object, claims));
    let claims = sort::ClaimedKinds::new(claims, objects.iter());
    let (claimed, templates, duplicates) = sort::sort(objects, &claims);
    findings.extend(duplicates);
    let mut repo = Repo { config, claimed, templates, findings: Vec::new(), texts };
    repo.report(findings);
    Loaded { repo, jinja, scopes, claims }
}

/// Returns the objects of one file, of any kind, and its findings. Namespaces are not changed.
pub fn objects(file: &File) -> (Vec<Object>, Vec<Finding>) {
    let contents = load::contents(file);
    (contents.objects, contents.findings)
}

impl Loaded<'_> {
    /// Completes the repo: renders its `*.j2` files for every cluster. Without clusters, these files are left out
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
            // The progress of each file differs from run to run.
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
    /// Adds findings, and sorts all of them by location.
    fn report(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
        self.findings.sort_by(|a, b| a.origin.cmp(&b.origin).then_with(|| a.cmp(b)));
    }

    /// Returns the template with this identity.
    pub fn template(&self, id: &ObjectRef) -> Option<&Template> {
        let index = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(index)
    }

    /// Returns the objects that `dialect` claims in `role`.
    pub fn claimed(&self, dialect: &'static str, role: Role) -> impl Iterator<Item = &Object> {
        self.claimed.iter().filter(move |c| c.dialect == dialect && c.role == role).map(|c| &c.object)
    }

    /// Creates an error about the value at a JSON pointer in `federate.yaml`.
    pub fn invalid_config(&self, pointer: &str, message: impl std::fmt::Display) -> Finding {
        let file: Arc<str> = config::FILE.into();
        let text = self.texts.get(&file);
        let at = text.and_then(|text| federate_yaml::locate(text, 0, pointer));
        let message = format!("invalid configuration: {message}");
        Finding::in_file(Severity::Error, "invalid-config", &file, at, message).at(pointer)
    }

    /// Returns the position in the file of the value at `pointer` in an object: that of its closest existing parent,
    /// or the object's first line.
    pub fn locate(&self, origin: &Origin, pointer: &str) -> Position {
        let prefix = origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
        let text = self.texts.get(&origin.file);
        let found = text.and_then(|text| {
            federate_yaml::locate_nearest(text, origin.document, &format!("{prefix}{pointer}"))
        });
        found.unwrap_or(Position { line: origin.line, column: 1 })
    }
}
