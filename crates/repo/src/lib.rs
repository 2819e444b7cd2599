//! A repo: the files of a folder or revision, parsed into objects and sorted into cluster inventory, other
//! objects of dialects, and templates.
//!
//! [`read_files`] reads and parses files. What programs build of them ([`build_sources`]) is added by
//! `assemble_repo`, which gives what is the same for all clusters. With the inventory in it, `into_repo`
//! renders the `*.j2` files for each cluster and completes the [`Repo`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use federate_gitops::RemoteReference;
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Origin, Severity};
use federate_yaml::{Position, Positions};

pub mod build;
mod classification;
mod cluster_independent;
pub mod config;
mod documents;
pub mod duplicates;
mod encrypted_inputs;
pub mod engine_syntax;
pub mod exclusion;
mod ignore_rules;
mod jinja;
mod live_dump;
mod other_tools;
pub mod ownership;
pub mod pointer_file;
mod repetitions;
mod scope;
mod selection;
pub mod source_ignore;
mod sources;
mod unreadable;
pub mod update;
pub mod walk;

use scope::{ScopeSource, Scopes};

pub use config::Config;
pub use duplicates::Duplicate;
pub use encrypted_inputs::{CiphertextPlace, EncryptedInputs};
pub use engine_syntax::TemplateEngine;
pub use federate_file_tree as file_tree;
pub use federate_file_tree::{
    EmptyTree, FileTree, InvalidPath, RepoFile, TreeError, find_entry, normalize_path,
};
pub use live_dump::{objects_of, read_live_objects};
pub use ownership::{BuildRoot, BuildTool};
pub use selection::{ConfigChoice, ReadOptions};
pub use sources::{
    Builds, RenamedObject, SourceBuild, SourceDestination, SourceObjects, SourceRecord, build_sources,
};
pub use update::{ChangedFile, NeedsReload};

use classification::ClassifiedObjects;
use cluster_independent::PlacementDecider;
use engine_syntax::{EngineSyntax, UNKNOWN_NAME};
use exclusion::{ExcludedObject, Exclusion};
use ownership::{FileUse, OwnedObjects, Ownership};
use sources::BuiltVariant;

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
    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<(&'static str, Role)>;

    /// The scope of a kind that belongs to a dialect.
    fn scope_of_kind(&self, group: &str, kind: &str) -> Option<Scope> {
        let _ = (group, kind);
        None
    }

    /// The dialect whose control plane has an API group, all of whose kinds stay on the control plane but for those
    /// with another `role`.
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
    fn owns_domain(&self, domain: &str) -> bool {
        let _ = domain;
        false
    }

    /// The kind that an object declares for a dialect.
    fn declared_kind(&self, object: &Object) -> Option<(&'static str, DeclaredKind)>;
}

impl<F: Fn(&str, &str) -> Option<(&'static str, Role)> + Sync> Claims for F {
    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<(&'static str, Role)> {
        self(api_version, kind)
    }

    fn declared_kind(&self, _: &Object) -> Option<(&'static str, DeclaredKind)> {
        None
    }
}

/// A kind that an object of the repo declares for a dialect, in all its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredKind {
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
pub struct ClaimedObject {
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
    /// The object. If it differs between clusters, that of the first cluster by name; fields that affect
    /// placement are the same for every cluster.
    pub object: Object,
    /// The body for each cluster, if it comes from a `*.j2` file, or from a kustomization or chart that is built per cluster.
    pub per_cluster: Option<BTreeMap<ClusterName, Arc<Object>>>,
    /// Whether its source says which clusters receive it: those of `per_cluster` do, unless a policy places it.
    pub has_destination: bool,
}

impl Template {
    /// A template that is the same for every cluster.
    pub fn new(object: Object) -> Self {
        Self { object, per_cluster: None, has_destination: false }
    }

    /// The object for one cluster, before overrides.
    pub fn for_cluster(&self, cluster: &str) -> &Object {
        self.per_cluster.as_ref().and_then(|bodies| bodies.get(cluster)).map_or(&self.object, |o| o)
    }

    /// The objects for all clusters, before overrides.
    pub fn bodies(&self) -> impl Iterator<Item = &Object> {
        let others = self.per_cluster.iter().flat_map(BTreeMap::values).map(|object| &**object);
        std::iter::once(&self.object).chain(others)
    }

    /// The bodies for these clusters before overrides, each with its clusters. There is at least one: without
    /// clusters, it is the body that decides placement.
    pub fn group_bodies<'c>(
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

/// A loaded repo. `claimed` and `templates` are sorted by object, `findings` by place.
#[derive(Clone, Debug, Default)]
pub struct Repo {
    /// `federate.yaml`, or the defaults.
    pub config: Config,
    /// The file of the configuration; `None` for `federate.yaml` at the root.
    pub config_path: Option<Arc<str>>,
    /// All objects that dialects claim: inventory, policies, overrides.
    pub claimed: Vec<ClaimedObject>,
    /// The objects to place.
    pub templates: Vec<Template>,
    /// What other tools build from files of the repo. Its objects are not templates.
    pub builds: Vec<BuildRoot>,
    /// The objects that several documents define. Policies and clusters that differ are errors instead.
    pub duplicates: Vec<Duplicate>,
    /// Findings from loading.
    pub findings: Vec<Finding>,
    /// The objects without a namespace that count as namespaced although nothing says so.
    pub assumed_namespaced: BTreeSet<ObjectRef>,
    /// The files that belong to kustomizations and charts.
    pub ownership: Ownership,
    /// Hooks and local objects.
    pub excluded: Vec<ExcludedObject>,
    /// The files that programs have built objects from, and the folders of all sources.
    pub build_inputs: BTreeSet<String>,
    /// The objects whose names builds change.
    pub renamed: BTreeSet<RenamedObject>,
    /// The objects of Flux and Argo CD that describe sources, which are not templates.
    pub describing: Vec<Object>,
    /// The sources, with the files that they were built from.
    pub sources: Vec<SourceRecord>,
    /// The charts in repositories of charts that objects of Flux and Argo CD name, each with these objects.
    pub references: BTreeMap<RemoteReference, BTreeSet<String>>,
    /// What is wrong about the names of such charts, which is among the findings, too.
    pub wrong_references: Vec<Finding>,
    /// The files among these that SOPS encrypted.
    pub encrypted_inputs: EncryptedInputs,
    /// The text of each file, for quoting lines in messages.
    pub texts: BTreeMap<Arc<str>, Arc<[u8]>>,
}

/// A repo whose `*.j2` files are not rendered yet, because its clusters must be read first.
#[derive(Clone)]
pub struct UnexpandedRepo<'a> {
    /// The repo without the output of `*.j2` files.
    pub repo: Repo,
    /// The `*.j2` files.
    jinja: Vec<RepoFile>,
    /// What was built for each cluster, completed by what is the same for all.
    per_cluster: Vec<Template>,
    scopes: Scopes,
    claims: classification::ClaimTable<'a>,
}

/// The files of a repo, parsed, before anything is built from them.
pub struct RepoFiles {
    pub(crate) config: Config,
    config_path: Option<Arc<str>>,
    findings: Vec<Finding>,
    plain: Vec<RepoFile>,
    contents: Vec<documents::FileContents>,
    jinja: Vec<RepoFile>,
    pub(crate) ownership: Ownership,
    pub(crate) texts: BTreeMap<Arc<str>, Arc<[u8]>>,
    pub(crate) keeps_unknown_values: bool,
}

/// Loads a repo. `claims` knows the kinds of dialects. Errors are in the repo's findings.
pub fn load_repo<'a>(
    tree: &dyn FileTree,
    options: &ReadOptions,
    claims: &'a dyn Claims,
) -> UnexpandedRepo<'a> {
    read_files(tree, options).assemble_repo(Builds::default(), claims)
}

/// Reads the files of a repo.
pub fn read_files(tree: &dyn FileTree, options: &ReadOptions) -> RepoFiles {
    let mut findings = Vec::new();
    let config_file = selection::read_config(tree, options).unwrap_or_else(|finding| {
        findings.push(finding);
        None
    });
    let config = config_file.as_ref().map_or(Ok(Config::default()), Config::parse);
    let config = config.unwrap_or_else(|finding| {
        findings.push(finding);
        Config::default()
    });
    let config_path = config_file.as_ref().map(|file| file.path.clone());
    let (selection, bad_patterns) = walk::FileSelection::new(&config, config_path.as_ref(), options);
    findings.extend(bad_patterns);
    let (files, unread) = walk::read_selected_files(tree, &selection);
    findings.extend(unread);
    let mut files = RepoFiles::new(files, config);
    files.texts.extend(config_file.map(|file| (file.path, file.bytes)));
    files.config_path = config_path;
    files.findings = findings;
    files.keeps_unknown_values = options.keeps_unknown_values;
    files
}

/// Loads a repo from files in memory, in any order.
pub fn load_bytes(files: Vec<RepoFile>, config: Config, claims: &dyn Claims) -> UnexpandedRepo<'_> {
    RepoFiles::new(files, config).assemble_repo(Builds::default(), claims)
}

impl RepoFiles {
    fn new(mut files: Vec<RepoFile>, config: Config) -> Self {
        files.par_sort_by(|a, b| a.path.cmp(&b.path));
        let texts = files.iter().map(|file| (file.path.clone(), file.bytes.clone())).collect();
        let (jinja, plain): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| {
            ignore_rules::detect_format(&file.path) == Some(ignore_rules::FileFormat::Jinja)
        });
        let ownership = Ownership::from_files(&plain);
        let contents = plain
            .par_iter()
            .map(|file| documents::read_repo_file(file, ownership.file_use(&file.path)))
            .collect();
        let (config_path, findings, keeps_unknown_values) = (None, Vec::new(), false);
        Self { config, config_path, findings, plain, contents, jinja, ownership, texts, keeps_unknown_values }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the repo has anything that programs build.
    pub fn has_sources(&self) -> bool {
        !self.config.sources.is_empty() || !self.ownership.list_roots().is_empty()
    }

    /// The objects in the files as they are written, except for templates of engines.
    pub fn written_objects(&self) -> impl Iterator<Item = &Object> + Clone {
        self.contents.iter().flat_map(|contents| &contents.objects)
    }

    /// The files as they are written, by path.
    pub fn written_texts(&self) -> impl Iterator<Item = (&Arc<str>, &[u8])> {
        self.texts.iter().map(|(path, text)| (path, text.as_ref()))
    }

    /// A repo with only these objects, which dialects claim, and the settings: enough to read the inventory.
    pub fn inventory_repo(&self, objects: Vec<Object>, claims: &dyn Claims) -> Repo {
        let table = classification::ClaimTable::new(claims, [].iter());
        let scopes = Scopes::from_objects(objects.iter(), claims);
        let mut objects = objects;
        for object in &mut objects {
            scopes.normalize_namespace(object, claims);
        }
        let ClassifiedObjects { claimed, .. } = classification::classify_objects(objects, &table);
        Repo {
            config: self.config.clone(),
            config_path: self.config_path.clone(),
            claimed,
            ..Repo::default()
        }
    }

    /// The position of a value in the configuration.
    pub(crate) fn locate_config(&self, pointer: &str) -> Option<Position> {
        let file = self.config_path.as_deref().unwrap_or(config::DEFAULT_FILE_NAME);
        self.texts.get(file).and_then(|text| federate_yaml::locate_value(text, 0, pointer))
    }

    /// The position of a text below a value in the configuration, or that of the value.
    pub(crate) fn locate_text(&self, pointer: &str, text: &str) -> Option<Position> {
        let file = self.config_path.as_deref().unwrap_or(config::DEFAULT_FILE_NAME);
        let start = self.locate_config(pointer)?;
        let config = String::from_utf8_lossy(self.texts.get(file)?);
        let mut found = (1..).zip(config.lines()).skip_while(|(line, _)| *line < start.line);
        let found = found.find_map(|(line, content)| Some((line, content.find(text)?)));
        let position = found.and_then(|(line, at): (u32, usize)| {
            Some(Position { line, column: u32::try_from(at).ok()? + 1 })
        });
        Some(position.unwrap_or(start))
    }

    /// A finding about the configuration.
    pub(crate) fn config_finding(
        &self,
        code: &'static str,
        at: Option<Position>,
        pointer: &str,
        message: &str,
        help: Option<String>,
    ) -> Finding {
        let file: Arc<str> = self.config_path.clone().unwrap_or_else(|| config::DEFAULT_FILE_NAME.into());
        let finding = Finding::in_file(Severity::Error, code, &file, at, message).with_pointer(pointer);
        Finding { help, ..finding }
    }

    /// An error in the configuration.
    pub(crate) fn invalid_config(&self, pointer: &str, message: impl std::fmt::Display) -> Finding {
        let message = format!("invalid configuration: {message}");
        self.config_finding("invalid-config", self.locate_config(pointer), pointer, &message, None)
    }

    /// Sorts what was read and what was built from it into a repo.
    pub fn assemble_repo(self, builds: Builds, claims: &dyn Claims) -> UnexpandedRepo<'_> {
        let Self {
            config,
            config_path,
            findings: mut unreadable,
            plain,
            contents,
            jinja,
            ownership,
            texts,
            ..
        } = self;
        let mut objects = Vec::with_capacity(contents.iter().map(|file| file.objects.len()).sum());
        let mut findings = other_tools::report_tools(&plain);
        let mut unread = Vec::new();
        let all = plain.iter().zip(contents);
        for (file, mut read) in all.filter(|(file, _)| !builds.inputs.contains(&*file.path)) {
            objects.append(&mut read.objects);
            let is_owned = ownership.file_use(&file.path) != FileUse::Plain;
            if read.engine_syntax.is_some() || (is_owned && !read.findings.is_empty()) {
                unread.push(UnreadFile {
                    file: file.clone(),
                    syntax: read.engine_syntax,
                    findings: read.findings,
                });
            } else {
                findings.append(&mut read.findings);
            }
        }
        let scopes = Scopes::from_objects(objects.iter().chain(builds.built_objects()), claims);
        let mut assumed: BTreeSet<ObjectRef> = objects
            .par_iter_mut()
            .filter_map(|object| {
                (scopes.normalize_namespace(object, claims) == ScopeSource::Assumed)
                    .then(|| object.id.clone())
            })
            .collect();
        let claims = classification::ClaimTable::new(claims, objects.iter().chain(builds.built_objects()));
        let mut owned = separate_owned(&mut objects, &ownership, &claims);
        let mut engine_files = EngineFiles::default();
        for file in unread {
            let name = ownership.chart_name(&file.file.path).unwrap_or(UNKNOWN_NAME);
            let outlines = file.outline_objects(name, &scopes, claims.claims);
            let (policies, rest) = separate_policies(outlines, &claims);
            match (file.syntax, ownership.file_use(&file.file.path)) {
                (Some(syntax), FileUse::Plain) => {
                    engine_files.add_file(&file.file, syntax, rest, &policies);
                }
                (syntax, _) => {
                    if syntax.is_none() && !policies.is_empty() {
                        findings.extend(file.findings);
                    }
                    owned.unread.extend(policies.into_iter().filter(|_| syntax.is_some()));
                    owned.objects.extend(rest);
                }
            }
        }
        let described_by = builds.describing.clone();
        let references = builds.references().clone();
        let wrong_references = builds.wrong_references.clone();
        let has_policies = objects.iter().chain(builds.built_objects()).any(|object| {
            let role = claims.role_of_object(object).map(|(_, role)| role);
            !matches!(role, None | Some(Role::Inventory | Role::ControlPlane))
        });
        let decider = match config.unplaced {
            _ if has_policies => {
                BuildDecider { all: PlacementDecider::Policies, restricted: PlacementDecider::Policies }
            }
            config::UnplacedTemplates::Everywhere => {
                BuildDecider { all: PlacementDecider::Nothing, restricted: PlacementDecider::Nothing }
            }
            _ => BuildDecider { all: PlacementDecider::Policies, restricted: PlacementDecider::Nothing },
        };
        let mut roots = ownership.build_roots(owned);
        let BuiltObjects {
            objects: built,
            per_cluster,
            findings: wrong,
            build_inputs,
            renamed,
            mut sources,
            encrypted_inputs,
        } = builds.into_objects(&scopes, &claims, decider, &mut assumed, &mut roots);
        objects.extend(built);
        // What describes a source is not placed itself.
        let described: BTreeSet<_> = described_by.iter().map(|object| default_identity(&object.id)).collect();
        let is_describing =
            |object: &Object| !described.is_empty() && described.contains(&default_identity(&object.id));
        let mut describing: Vec<Object> = objects.extract_if(.., |object| is_describing(object)).collect();
        // Those that others build are not among the objects.
        let mut known: BTreeSet<_> = describing.iter().map(|object| default_identity(&object.id)).collect();
        describing
            .extend(described_by.into_iter().filter(|object| known.insert(default_identity(&object.id))));
        if config.sources.iter().any(|source| source.argocd.is_some()) {
            objects.retain(|object| !federate_gitops::is_argo_setting(object));
        }
        name_describing_objects(&mut sources, &describing);
        findings.extend(wrong);
        let ClassifiedObjects { claimed, templates, duplicates, excluded, findings: wrong } =
            classification::classify_objects(objects, &claims);
        findings.extend(wrong);
        roots.extend(engine_files.into_roots());
        let mut repo = Repo {
            config,
            config_path,
            claimed,
            templates,
            builds: roots,
            duplicates,
            findings: Vec::new(),
            assumed_namespaced: assumed,
            ownership,
            excluded,
            build_inputs,
            renamed,
            describing,
            sources,
            references,
            wrong_references,
            encrypted_inputs,
            texts,
        };
        findings.append(&mut unreadable);
        repo.add_findings(findings);
        UnexpandedRepo { repo, jinja, per_cluster, scopes, claims }
    }
}

/// The key of `sources` in the configuration for objects of a kind that describe sources; `None` for other kinds.
pub fn find_source_key(object: &Object) -> Option<&'static str> {
    if federate_gitops::is_argo_source(object) {
        return Some("argocd");
    }
    federate_gitops::is_flux_source(object).then_some("flux")
}

/// Gives the objects that describe sources the namespaces that they have in the repo.
fn name_describing_objects(sources: &mut [SourceRecord], describing: &[Object]) {
    let known: BTreeMap<_, &ObjectRef> =
        describing.iter().map(|object| (default_identity(&object.id), &object.id)).collect();
    for object in sources.iter_mut().filter_map(|source| source.described_by.as_mut()) {
        if let Some(id) = known.get(&default_identity(object)) {
            *object = (*id).clone();
        }
    }
}

/// The identity of an object without its version, which may lack the default namespace.
fn default_identity(id: &ObjectRef) -> (String, String, String, String) {
    let namespace = id.namespace.as_deref().unwrap_or("default");
    (id.group().to_owned(), id.kind.clone(), namespace.to_owned(), id.name.clone())
}

/// What decides where objects go that differ between clusters: those of all sources, and of sources that are for some clusters.
#[derive(Clone, Copy)]
struct BuildDecider {
    all: PlacementDecider,
    restricted: PlacementDecider,
}

/// What was built, with scopes applied.
struct BuiltObjects {
    /// The objects that are the same for all clusters, and policies.
    objects: Vec<Object>,
    /// The templates that differ between clusters.
    per_cluster: Vec<Template>,
    findings: Vec<Finding>,
    /// The files that were built from, and the folders of all sources.
    build_inputs: BTreeSet<String>,
    renamed: BTreeSet<RenamedObject>,
    sources: Vec<SourceRecord>,
    encrypted_inputs: EncryptedInputs,
}

impl Builds {
    fn built_objects(&self) -> impl Iterator<Item = &Object> + Clone {
        let variants = self.sources.iter().filter_map(|source| source.result.as_ref().ok()).flatten();
        variants.flat_map(|variant: &BuiltVariant| &variant.objects)
    }

    /// Applies scopes to what was built, and combines what was built for each cluster. `roots` keep what was not built.
    fn into_objects(
        self,
        scopes: &Scopes,
        claims: &classification::ClaimTable<'_>,
        decider: BuildDecider,
        assumed: &mut BTreeSet<ObjectRef>,
        roots: &mut Vec<BuildRoot>,
    ) -> BuiltObjects {
        ownership::record_builds(roots, &self);
        let mut all = BuiltObjects {
            objects: Vec::new(),
            per_cluster: Vec::new(),
            findings: self.findings,
            build_inputs: self.inputs,
            renamed: self.renamed,
            sources: Vec::new(),
            encrypted_inputs: EncryptedInputs::default(),
        };
        for source in self.sources {
            all.build_inputs.extend(source.paths);
            let first = all.sources.len();
            all.sources.extend(source.records);
            let Ok(mut variants) = source.result else { continue };
            for variant in &mut variants {
                all.encrypted_inputs.add_files(&variant.inputs);
                for object in &mut variant.objects {
                    if let Some(namespace) = variant.namespace.as_deref() {
                        scopes.apply_default(object, namespace, claims.claims);
                    }
                    if scopes.normalize_namespace(object, claims.claims) == ScopeSource::Assumed {
                        assumed.insert(object.id.clone());
                    }
                }
                if let Some(record) = all.sources.get_mut(first + variant.record) {
                    record.add_variant(variant);
                }
            }
            if variants.len() == 1 && !source.is_restricted {
                all.objects.extend(variants.into_iter().flat_map(|variant| variant.objects));
                continue;
            }
            let decider = if source.is_restricted { decider.restricted } else { decider.all };
            let combined =
                cluster_independent::combine_built(variants, source.is_restricted, decider, claims);
            all.objects.extend(combined.objects);
            all.per_cluster.extend(combined.per_cluster);
            all.findings.extend(combined.findings);
        }
        all
    }
}

/// A file whose text is not read as YAML.
struct UnreadFile {
    file: RepoFile,
    syntax: Option<EngineSyntax>,
    findings: Vec<Finding>,
}

impl UnreadFile {
    /// What the text seems to define; `name` stands for expressions.
    fn outline_objects(&self, name: &str, scopes: &Scopes, claims: &dyn Claims) -> Vec<Object> {
        let text = String::from_utf8_lossy(&self.file.bytes);
        let mut outlines = engine_syntax::outline_objects(&self.file.path, &text, name);
        for object in &mut outlines {
            scopes.normalize_namespace(object, claims);
        }
        outlines
    }
}

/// Separates what decides placement from what would be placed. Other objects of dialects are neither.
fn separate_policies(
    objects: Vec<Object>,
    claims: &classification::ClaimTable<'_>,
) -> (Vec<Object>, Vec<Object>) {
    let (mut policies, mut rest) = (Vec::new(), Vec::new());
    for object in objects {
        match claims.role_of_object(&object) {
            Some((_, Role::Other)) => {}
            Some(_) => policies.push(object),
            None => rest.push(object),
        }
    }
    (policies, rest)
}

/// The files that other template engines render, by engine.
#[derive(Default)]
struct EngineFiles(BTreeMap<TemplateEngine, BuildRoot>);

impl EngineFiles {
    fn add_file(&mut self, file: &RepoFile, syntax: EngineSyntax, objects: Vec<Object>, policies: &[Object]) {
        let EngineSyntax { engine, line } = syntax;
        let build = self.0.entry(engine).or_insert_with(|| BuildRoot {
            line,
            ..BuildRoot::new(BuildTool::Template(engine), file.path.clone())
        });
        build.files.push(file.path.clone());
        build.objects.extend(objects);
        build.unread.extend(policies.iter().map(|object| object.id.clone()));
    }

    fn into_roots(self) -> impl Iterator<Item = BuildRoot> {
        self.0.into_values()
    }
}

/// Takes the objects of owned files that are not policies or inventory out of `objects`.
fn separate_owned(
    objects: &mut Vec<Object>,
    ownership: &Ownership,
    claims: &classification::ClaimTable<'_>,
) -> OwnedObjects {
    let mut owned = OwnedObjects::default();
    if ownership.is_empty() {
        return owned;
    }
    let mut read = Vec::new();
    for object in objects.extract_if(.., |object| ownership.file_use(&object.origin.file) != FileUse::Plain) {
        match claims.role_of_object(&object) {
            Some((dialect, role @ Role::Bundle)) => {
                owned.bundles.push(ClaimedObject { dialect, role, object });
            }
            // Other objects of a dialect that a chart holds belong to what it installs.
            Some((_, Role::Other)) if ownership.chart_name(&object.origin.file).is_some() => {}
            Some(_) => read.push(object),
            None if Exclusion::from_object(&object).is_some_and(|one| one.is_never_placed()) => {}
            None => owned.objects.push(object),
        }
    }
    owned.read.clone_from(&read);
    objects.append(&mut read);
    owned
}

/// The objects of one file, unchanged: none is claimed, and no namespace is added.
pub fn parse_objects(file: &RepoFile) -> (Vec<Object>, Vec<Finding>) {
    let contents = documents::parse_file(file);
    (contents.objects, contents.findings)
}

impl UnexpandedRepo<'_> {
    /// Completes the repo by rendering its `*.j2` files for each cluster. Without clusters, they are skipped
    /// with a warning.
    pub fn into_repo(self, clusters: &[Cluster]) -> Repo {
        let mut repo = self.render_jinja_files(clusters);
        let hooks = exclusion::report_hooks(&repo.excluded);
        repo.add_findings(hooks);
        repo
    }

    fn render_jinja_files(self, clusters: &[Cluster]) -> Repo {
        let Self { mut repo, jinja, per_cluster, scopes, claims } = self;
        for template in per_cluster {
            repo.add_template(template);
        }
        let findings = if clusters.is_empty() {
            let (ansible, others): (Vec<_>, Vec<_>) =
                jinja.into_iter().partition(|file| other_tools::is_of_ansible(&file.path));
            let (others, ours): (Vec<_>, Vec<_>) = others.into_iter().partition(is_for_another_program);
            repo.add_jinja_of_others(&others, &scopes, &claims);
            report_no_clusters(&ours).into_iter().chain(other_tools::report_ansible(&ansible)).collect()
        } else {
            let renderer = jinja::Renderer::new(clusters, &repo.config, jinja.len(), &scopes, &claims);
            let expanded: Vec<_> = jinja.par_iter().map(|file| renderer.expand_file(file)).collect();
            match renderer.total().report_excess() {
                // How many files were rendered before the limit differs from run to run.
                Some(exceeded) => vec![exceeded],
                None => repo.add_expanded(jinja, expanded, &scopes, &claims),
            }
        };
        repo.separate_duplicate_templates();
        repo.add_findings(findings);
        repo
    }
}

/// The finding about `*.j2` files that no cluster can be rendered for.
fn report_no_clusters(jinja: &[RepoFile]) -> Option<Finding> {
    let first = jinja.first()?;
    let message = match jinja.len() {
        1 => "a template is rendered for each cluster, but the repo has no clusters".to_owned(),
        count => format!("{count} templates are rendered for each cluster, but the repo has no clusters"),
    };
    Some(Finding::in_file(Severity::Warning, "no-clusters", &first.path, None, message))
}

/// Whether a `*.j2` file is a template of another program.
fn is_for_another_program(file: &RepoFile) -> bool {
    engine_syntax::is_for_another_program(&String::from_utf8_lossy(&file.bytes))
}

impl Repo {
    /// Adds a template, unless it is never placed.
    fn add_template(&mut self, template: Template) {
        let exclusion = Exclusion::from_object(&template.object);
        let is_placed = !exclusion.as_ref().is_some_and(Exclusion::is_never_placed);
        self.excluded.extend(exclusion.map(|one| ExcludedObject::new(&template.object, one)));
        self.templates.extend(is_placed.then_some(template));
    }

    /// Adds what `*.j2` files give. Returns the findings about them.
    fn add_expanded(
        &mut self,
        jinja: Vec<RepoFile>,
        expanded: Vec<(Vec<Template>, Vec<Finding>)>,
        scopes: &Scopes,
        claims: &classification::ClaimTable<'_>,
    ) -> Vec<Finding> {
        let (mut findings, mut others, mut ansible) = (Vec::new(), Vec::new(), Vec::new());
        for (file, (templates, wrong)) in jinja.into_iter().zip(expanded) {
            if wrong.iter().any(Finding::is_error) && other_tools::is_of_ansible(&file.path) {
                ansible.push(file);
                continue;
            }
            if wrong.iter().any(Finding::is_error) && is_for_another_program(&file) {
                others.push(file);
                continue;
            }
            for template in templates {
                self.add_template(template);
            }
            findings.extend(wrong);
        }
        self.add_jinja_of_others(&others, scopes, claims);
        findings.extend(other_tools::report_ansible(&ansible));
        findings
    }

    /// Leaves one of each object among the templates, sorted by object.
    fn separate_duplicate_templates(&mut self) {
        let (mut templates, duplicates) = duplicates::separate_duplicates(
            std::mem::take(&mut self.templates),
            |template| &template.object,
            |a, b| {
                a.per_cluster.is_some()
                    || b.per_cluster.is_some()
                    || duplicates::objects_differ(&a.object, &b.object)
            },
        );
        templates.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        self.templates = templates;
        self.duplicates.extend(duplicates);
    }

    /// Adds `*.j2` files of other programs to what other engines build.
    fn add_jinja_of_others(
        &mut self,
        files: &[RepoFile],
        scopes: &Scopes,
        claims: &classification::ClaimTable<'_>,
    ) {
        let mut engine_files = EngineFiles::default();
        for build in
            self.builds.extract_if(.., |build| build.tool == BuildTool::Template(TemplateEngine::Jinja))
        {
            engine_files.0.insert(TemplateEngine::Jinja, build);
        }
        for file in files {
            let syntax = EngineSyntax { engine: TemplateEngine::Jinja, line: 1 };
            let unread = UnreadFile { file: file.clone(), syntax: Some(syntax), findings: Vec::new() };
            let outlines = unread.outline_objects(UNKNOWN_NAME, scopes, claims.claims);
            let (policies, rest) = separate_policies(outlines, claims);
            engine_files.add_file(file, syntax, rest, &policies);
        }
        self.builds.extend(engine_files.into_roots());
    }

    /// Adds findings, and sorts all by place.
    fn add_findings(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
        self.findings.sort_by(|a, b| a.origin.cmp(&b.origin).then_with(|| a.cmp(b)));
    }

    /// The template of this object.
    pub fn find_template(&self, id: &ObjectRef) -> Option<&Template> {
        let index = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(index)
    }

    /// The objects that `dialect` claims with `role`.
    pub fn claimed_objects(&self, dialect: &'static str, role: Role) -> impl Iterator<Item = &Object> {
        self.claimed.iter().filter(move |c| c.dialect == dialect && c.role == role).map(|c| &c.object)
    }

    /// The path of the file with the configuration, whether or not it exists.
    pub fn config_path(&self) -> &str {
        self.config_path.as_deref().unwrap_or(config::DEFAULT_FILE_NAME)
    }

    /// An error in `federate.yaml`, at the value that the pointer refers to.
    pub fn invalid_config(&self, pointer: &str, message: impl std::fmt::Display) -> Finding {
        let file: Arc<str> = self.config_path().into();
        let text = self.texts.get(&file);
        let at = text.and_then(|text| federate_yaml::locate_value(text, 0, pointer));
        let message = format!("invalid configuration: {message}");
        Finding::in_file(Severity::Error, "invalid-config", &file, at, message).with_pointer(pointer)
    }

    /// The position of the value at `pointer` in the object's file: that of the closest existing parent, or
    /// the object's first line.
    pub fn locate_value(&self, origin: &Origin, pointer: &str) -> Position {
        Locator::new(self).locate_value(origin, pointer)
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
    pub fn unparsed_bytes(&self, file: &str) -> usize {
        if self.files.contains_key(file) { 0 } else { self.repo.texts.get(file).map_or(0, |text| text.len()) }
    }

    /// The position of the value at `pointer` in the object's file; see `locate_value`.
    pub fn locate_value(&mut self, origin: &Origin, pointer: &str) -> Position {
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
