//! From `sources` in `federate.yaml` and the kustomizations of a repo to what a [`Builder`] builds of them, per cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use federate_file_tree::{CachedTree, EntryKind, FileTree, is_folder};
use federate_gitops::{
    KUSTOMIZATIONS, PlacementDecisions, RemoteReference, ValuesError, VendoredSources, expand_values,
};
use federate_kubernetes::cluster::Apis;
use federate_kubernetes::sops::is_encrypted;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Origin, Severity};
use rayon::prelude::*;
use serde_json::Value;

use crate::build::{
    BuildError, BuildJob, BuildOutput, BuildTime, Builder, ChartJob, InputFile, KustomizationJob,
    KustomizationRules, PostRendering,
};
use crate::config::{CLUSTER_PLACEHOLDER, Hooks, LoadRestrictor, PerCluster, SourceConfig, SourceKind};
use crate::{Claims, RepoFiles, Role, documents};

mod described;
mod descriptions;
mod mistakes;
mod origin;
mod record;
mod unknown_values;

use descriptions::DescriptionWalk;
use origin::OriginFinder;

pub use record::{SourceBuild, SourceDestination, SourceRecord};

/// What programs built from files of the repo.
#[derive(Default)]
pub struct Builds {
    pub(crate) sources: Vec<BuiltSource>,
    /// The roots that build the same objects, with these objects.
    pub(crate) ambiguous: Vec<AmbiguousRoots>,
    /// The files that are read by a build instead of as they are written.
    pub(crate) inputs: BTreeSet<String>,
    pub(crate) renamed: BTreeSet<RenamedObject>,
    /// The objects of Flux and Argo CD that describe sources.
    pub(crate) describing: Vec<Object>,
    /// The charts in repositories of charts that objects of Flux and Argo CD name, each with these objects.
    pub(crate) references: BTreeMap<RemoteReference, BTreeSet<String>>,
    /// What is wrong about the names of such charts.
    pub(crate) wrong_references: Vec<Finding>,
    pub(crate) findings: Vec<Finding>,
}

/// An object whose name a build changes, with a prefix, a suffix or a hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RenamedObject {
    /// The kind.
    pub kind: String,
    /// The name as it is written.
    pub written: String,
    /// The name that is built.
    pub built: String,
}

/// A source, with what was built of it.
pub(crate) struct BuiltSource {
    /// The folders and packaged charts.
    pub(crate) paths: Vec<String>,
    /// Whether `federate.yaml` names it.
    pub(crate) is_configured: bool,
    pub(crate) is_chart: bool,
    /// Whether only the clusters of its variants receive what is built.
    pub(crate) is_restricted: bool,
    /// What it consists of: several descriptions may be one source.
    pub(crate) records: Vec<SourceRecord>,
    pub(crate) result: Result<Vec<BuiltVariant>, BuildError>,
}

/// The objects for some clusters.
#[derive(Clone)]
pub(crate) struct BuiltVariant {
    /// The clusters, sorted; none if it is for all.
    pub(crate) clusters: Vec<ClusterName>,
    /// The namespace of objects without one.
    pub(crate) namespace: Option<String>,
    pub(crate) objects: Vec<Object>,
    /// The files that they were built from.
    pub(crate) inputs: Arc<[InputFile]>,
    /// The record of the source that it belongs to.
    pub(crate) record: usize,
}

/// Kustomizations that build the same objects.
pub(crate) struct AmbiguousRoots {
    pub(crate) folders: Vec<String>,
    pub(crate) objects: Vec<Object>,
}

/// A source to build.
struct SourceEntry<'c> {
    kind: SourceKind,
    /// Its settings, and its index in `federate.yaml`; `None` for a kustomization that is built without being named.
    config: Option<(usize, &'c SourceConfig)>,
}

/// The jobs of a source, each with the clusters that it is for.
type Jobs = BTreeMap<BuildJob, Vec<ClusterName>>;

/// What was built of each job.
type JobResults = BTreeMap<BuildJob, JobResult>;

/// What was built of a job: its output, and the objects in it, which are read when they are needed as they are.
struct JobResult {
    output: Result<BuildOutput, BuildError>,
    parsed: OnceLock<Result<ParsedOutput, BuildError>>,
}

impl SourceEntry<'_> {
    /// Whether what is built depends on the cluster.
    fn is_per_cluster(&self) -> bool {
        matches!(self.kind, SourceKind::Chart(_))
            || self.config.is_some_and(|(_, config)| config.per_cluster.is_some())
    }

    fn path(&self) -> &str {
        match &self.kind {
            SourceKind::Kustomize(path)
            | SourceKind::Overlays(path)
            | SourceKind::Chart(path)
            | SourceKind::Flux(path)
            | SourceKind::ArgoCd(path) => path,
        }
    }

    /// The jobs for clusters; for no cluster in particular if there are none.
    fn list_jobs(
        &self,
        tree: &dyn FileTree,
        clusters: &[Cluster],
        apis: &ApiClasses,
    ) -> Result<Jobs, SourceProblem> {
        let mut jobs = Jobs::new();
        if let SourceKind::Overlays(pattern) = &self.kind {
            for cluster in clusters {
                let folder = pattern.replace(CLUSTER_PLACEHOLDER, &cluster.name);
                if has_kustomization(tree, &folder) {
                    jobs.insert(self.kustomization_job(folder), vec![cluster.name.clone()]);
                }
            }
            return Ok(jobs);
        }
        if clusters.is_empty() || !self.is_per_cluster() {
            jobs.insert(self.job_for(tree, None, &[].into())?, Vec::new());
            return Ok(jobs);
        }
        for cluster in clusters {
            let job = self.job_for(tree, Some(cluster), &apis.list_for(cluster))?;
            jobs.entry(job).or_default().push(cluster.name.clone());
        }
        for names in jobs.values_mut() {
            names.sort();
        }
        Ok(jobs)
    }

    fn kustomization_job(&self, folder: String) -> BuildJob {
        let restrictor = self.config.map(|(_, config)| config.load_restrictor);
        BuildJob::Kustomization(Box::new(KustomizationJob {
            folder,
            is_unrestricted: restrictor == Some(LoadRestrictor::None),
            edits: String::new(),
            rules: KustomizationRules::Kustomize,
        }))
    }

    fn job_for(
        &self,
        tree: &dyn FileTree,
        cluster: Option<&Cluster>,
        apis: &Arc<[String]>,
    ) -> Result<BuildJob, SourceProblem> {
        let config = self.config.map(|(_, config)| config);
        let SourceKind::Chart(path) = &self.kind else {
            let overlay = match (config.and_then(|config| config.per_cluster.as_ref()), cluster) {
                (Some(PerCluster::Overlay(folder)), Some(cluster)) => {
                    let folder = folder.trim_start_matches("./").trim_end_matches('/');
                    Some(folder.replace(CLUSTER_PLACEHOLDER, &cluster.name))
                        .filter(|folder| has_kustomization(tree, folder))
                }
                _ => None,
            };
            return Ok(self.kustomization_job(overlay.unwrap_or_else(|| self.path().to_owned())));
        };
        let default = SourceConfig::default();
        let config = config.unwrap_or(&default);
        let (files, set) = config.values_for(cluster);
        let values = expand_values(tree, &files)?;
        Ok(BuildJob::Chart(Box::new(ChartJob {
            path: path.clone(),
            release: config.release.clone(),
            namespace: config.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            values,
            replaces_values: false,
            set: if set.is_empty() { String::new() } else { Value::Object(set).to_string() },
            parameters: Vec::new(),
            kubernetes: cluster.and_then(|cluster| cluster.kubernetes.clone()),
            apis: apis.clone(),
            skips_crds: config.skip_crds,
            drops_hooks: config.hooks == Hooks::Drop,
            skips_schema: false,
            post_rendering: PostRendering::default(),
        })))
    }
}

/// Why the jobs of a source cannot be listed.
enum SourceProblem {
    Values(ValuesError),
}

impl From<ValuesError> for SourceProblem {
    fn from(error: ValuesError) -> Self {
        Self::Values(error)
    }
}

/// The lists of APIs of clusters; equal ones are shared.
#[derive(Default)]
struct ApiClasses(BTreeMap<ClusterName, Arc<[String]>>);

impl ApiClasses {
    fn new(clusters: &[Cluster]) -> Self {
        let mut known: BTreeMap<Vec<String>, Arc<[String]>> = BTreeMap::new();
        Self(
            clusters
                .iter()
                .map(|cluster| {
                    let Apis::Listed(listed) = &cluster.apis else {
                        return (cluster.name.clone(), Arc::from([]));
                    };
                    let kinds = listed.iter().map(|(version, kind)| format!("{version}/{kind}"));
                    let versions: BTreeSet<&String> = listed.iter().map(|(version, _)| version).collect();
                    let all: Vec<String> = versions.into_iter().cloned().chain(kinds).collect();
                    let shared = known.entry(all).or_insert_with_key(|all| all.as_slice().into());
                    (cluster.name.clone(), shared.clone())
                })
                .collect(),
        )
    }

    fn list_for(&self, cluster: &Cluster) -> Arc<[String]> {
        self.0.get(&cluster.name).cloned().unwrap_or_else(|| [].into())
    }
}

/// The paths that a kustomization may have in a folder.
fn kustomization_paths(folder: &str) -> [String; 3] {
    KUSTOMIZATIONS.map(|name| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
}

/// Whether a folder has a kustomization.
fn has_kustomization(tree: &dyn FileTree, folder: &str) -> bool {
    is_folder(tree, folder)
        && tree.list_folder(folder).is_ok_and(|entries| {
            entries
                .iter()
                .any(|entry| entry.kind == EntryKind::File && KUSTOMIZATIONS.contains(&entry.name.as_str()))
        })
}

/// Builds the sources of a repo. `inventory` returns the clusters of the objects that it is given; `decisions`, the clusters of a `Placement`
/// by its namespace and name, if it can be decided from what is written.
pub fn build_sources(
    files: &RepoFiles,
    tree: &dyn FileTree,
    builder: &dyn Builder,
    claims: &dyn Claims,
    inventory: &dyn Fn(Vec<Object>) -> Vec<Cluster>,
    decisions: &PlacementDecisions<'_>,
) -> Builds {
    let mut builds = Builds::default();
    let (entries, described) = list_entries(files, &mut builds.findings);
    if entries.is_empty() && described.is_empty() {
        return builds;
    }
    let tree = CachedTree::new(tree);
    let time = BuildTime::default();
    let vendored = VendoredSources::new(&tree);
    let runner =
        Runner { files, tree: &tree, builder, time, finder: OriginFinder::new(files), vendored, decisions };
    let (late, early): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.is_per_cluster());
    let mut built = runner.build_entries(&early, &[], &mut builds);
    if !late.is_empty() || !described.is_empty() {
        let built_inputs: BTreeSet<&String> = built.iter().flat_map(|(_, inputs)| inputs).collect();
        let plain =
            files.written_objects().filter(|object| !built_inputs.contains(&object.origin.file.to_string()));
        let known = plain.chain(objects_of(&built)).filter(|object| is_cluster(object, claims));
        let mut known: Vec<Object> = known.cloned().collect();
        let mut per_cluster = runner.build_late(&late, &described, &inventory(known.clone()), &mut builds);
        // A chart may contain clusters itself.
        let more = objects_of(&per_cluster).filter(|object| is_cluster(object, claims));
        let more: Vec<Object> = more.cloned().collect();
        if !more.is_empty() {
            known.extend(more);
            builds.findings.retain(|finding| finding.code == "invalid-config");
            per_cluster = runner.build_late(&late, &described, &inventory(known), &mut builds);
        }
        // What an object describes, and what is a part of that, is not built again as it lies there.
        let inputs: BTreeSet<&String> = per_cluster.iter().flat_map(|(_, inputs)| inputs).collect();
        built.retain(|(source, _)| {
            source.is_configured
                || !source
                    .paths
                    .iter()
                    .any(|folder| kustomization_paths(folder).iter().any(|path| inputs.contains(path)))
        });
        built.extend(per_cluster);
    }
    for (source, inputs) in built {
        builds.inputs.extend(inputs);
        builds.sources.push(source);
    }
    builds.separate_ambiguous(claims);
    builds.findings.sort();
    builds.findings.dedup();
    builds
}

/// Whether an object is a cluster of the inventory.
fn is_cluster(object: &Object, claims: &dyn Claims) -> bool {
    let role = claims.role_of_kind(&object.id.api_version, &object.id.kind);
    role.is_some_and(|(_, role)| role == Role::Inventory)
}

fn objects_of(built: &[(BuiltSource, Vec<String>)]) -> impl Iterator<Item = &Object> {
    let variants = built.iter().filter_map(|(source, _)| source.result.as_ref().ok()).flatten();
    variants.flat_map(|variant| &variant.objects)
}

/// An item of `sources` that names objects of Flux or Argo CD.
struct DescribingEntry {
    index: usize,
    kind: SourceKind,
}

/// The configured sources, those that objects describe, and the kustomizations that are built without being named.
fn list_entries<'f>(
    files: &'f RepoFiles,
    findings: &mut Vec<Finding>,
) -> (Vec<SourceEntry<'f>>, Vec<DescribingEntry>) {
    let mut entries = Vec::new();
    let mut describing = Vec::new();
    for (index, config) in files.config.sources.iter().enumerate() {
        match config.read_kind() {
            Ok(kind @ (SourceKind::Flux(_) | SourceKind::ArgoCd(_))) => {
                describing.push(DescribingEntry { index, kind });
            }
            Ok(kind) => entries.push(SourceEntry { kind, config: Some((index, config)) }),
            Err((key, why)) => findings.push(files.invalid_config(&format!("/sources/{index}{key}"), why)),
        }
    }
    let claimed: Vec<&str> = entries.iter().map(SourceEntry::path).collect();
    let overlays: Vec<&str> = entries
        .iter()
        .filter_map(|entry| match &entry.config?.1.per_cluster {
            Some(PerCluster::Overlay(folder)) => Some(folder.trim_start_matches("./").trim_end_matches('/')),
            _ => None,
        })
        .collect();
    let roots: Vec<SourceEntry<'_>> = files
        .ownership
        .list_roots()
        .into_iter()
        .filter(|folder| {
            !claimed.contains(folder) && !overlays.iter().any(|pattern| matches_overlay(pattern, folder))
        })
        .map(|folder| SourceEntry { kind: SourceKind::Kustomize(folder.to_owned()), config: None })
        .collect();
    entries.extend(roots);
    (entries, describing)
}

/// Whether a folder is that of an overlay, for any name of a cluster.
fn matches_overlay(pattern: &str, folder: &str) -> bool {
    let (pattern, folder): (Vec<&str>, Vec<&str>) =
        (pattern.split('/').collect(), folder.split('/').collect());
    pattern.len() == folder.len()
        && pattern.iter().zip(folder).all(|(pattern, part)| match pattern.split_once(CLUSTER_PLACEHOLDER) {
            Some((start, end)) => {
                part.len() > start.len() + end.len() && part.starts_with(start) && part.ends_with(end)
            }
            None => *pattern == part,
        })
}

struct Runner<'f> {
    files: &'f RepoFiles,
    tree: &'f CachedTree<'f>,
    builder: &'f dyn Builder,
    /// The time of all builds.
    time: BuildTime,
    finder: OriginFinder<'f>,
    vendored: VendoredSources<'f>,
    decisions: &'f PlacementDecisions<'f>,
}

impl Runner<'_> {
    /// Builds sources that depend on the clusters, and those that objects describe.
    fn build_late(
        &self,
        entries: &[&SourceEntry<'_>],
        describing: &[DescribingEntry],
        clusters: &[Cluster],
        builds: &mut Builds,
    ) -> Vec<(BuiltSource, Vec<String>)> {
        let mut built = self.build_entries(entries, clusters, builds);
        builds.describing.clear();
        built.extend(DescriptionWalk::new(self, clusters).build_descriptions(describing, builds));
        built
    }

    /// Builds sources for clusters. Returns each with the files that it was built from.
    fn build_entries(
        &self,
        entries: &[&SourceEntry<'_>],
        clusters: &[Cluster],
        builds: &mut Builds,
    ) -> Vec<(BuiltSource, Vec<String>)> {
        let apis = ApiClasses::new(clusters);
        let listed: Vec<Result<Jobs, SourceProblem>> =
            entries.par_iter().map(|entry| entry.list_jobs(self.tree, clusters, &apis)).collect();
        let results = self.run_jobs(listed.iter().flatten());
        self.parse_results(&results, &|_| true);
        entries
            .iter()
            .zip(listed)
            .map(|(entry, listed)| self.finish_entry(entry, listed, &results, builds))
            .collect()
    }

    /// Builds each distinct job once.
    fn run_jobs<'j>(&self, listed: impl Iterator<Item = &'j Jobs>) -> JobResults {
        let jobs: BTreeSet<&BuildJob> = listed.flat_map(BTreeMap::keys).collect();
        let jobs: Vec<BuildJob> = jobs.into_iter().cloned().collect();
        let results = self.builder.build(self.tree, &jobs, &self.time);
        let results = results.into_iter().map(|output| JobResult { output, parsed: OnceLock::new() });
        jobs.into_iter().zip(results).collect()
    }

    /// Reads the objects of the jobs that are chosen.
    fn parse_results(&self, results: &JobResults, is_chosen: &(dyn Fn(&BuildJob) -> bool + Sync)) {
        results.par_iter().filter(|(job, _)| is_chosen(job)).for_each(|(job, result)| {
            self.parse_result(job, result);
        });
    }

    fn parse_result<'r>(
        &self,
        job: &BuildJob,
        result: &'r JobResult,
    ) -> &'r Result<ParsedOutput, BuildError> {
        result.parsed.get_or_init(|| self.parse_output(job, result.output.clone()?))
    }

    fn finish_entry(
        &self,
        entry: &SourceEntry<'_>,
        listed: Result<Jobs, SourceProblem>,
        results: &JobResults,
        builds: &mut Builds,
    ) -> (BuiltSource, Vec<String>) {
        let mut inputs = Vec::new();
        let index = entry.config.map(|(index, _)| index);
        let is_chart = matches!(entry.kind, SourceKind::Chart(_));
        let namespace = entry.config.filter(|_| is_chart).and_then(|(_, config)| config.namespace.clone());
        let result = match listed {
            Err(SourceProblem::Values(error)) => {
                let pointer = index.map_or_else(String::new, |index| format!("/sources/{index}"));
                let at = self.files.locate_text(&pointer, &error.written);
                builds.findings.push(self.files.config_finding(
                    "build-failed",
                    at,
                    &pointer,
                    &error.why,
                    error.help,
                ));
                Err(BuildError { code: "build-failed", why: error.why, help: None, place: None })
            }
            Ok(jobs) => jobs
                .iter()
                .filter_map(|(job, clusters)| Some((job, clusters, results.get(job)?)))
                .map(|(job, clusters, result)| {
                    let parsed = self.parse_result(job, result).as_ref().map_err(Clone::clone)?;
                    inputs.extend(parsed.inputs.iter().map(|file| file.path.clone()));
                    builds.findings.extend(parsed.findings.iter().cloned());
                    builds.renamed.extend(parsed.renamed.iter().cloned());
                    let (clusters, namespace) = (clusters.clone(), namespace.clone());
                    let (objects, inputs) = (parsed.objects.clone(), parsed.inputs.clone());
                    Ok(BuiltVariant { clusters, namespace, objects, inputs, record: 0 })
                })
                .collect::<Result<Vec<BuiltVariant>, BuildError>>(),
        };
        if let (Err(error), Some(index)) = (&result, index)
            && builds.findings.iter().all(|finding| finding.pointer != format!("/sources/{index}"))
        {
            builds.findings.push(self.report_failure(entry, error, index));
        }
        let mut variants = result;
        if let Ok(variants) = &mut variants {
            variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
        }
        let built = BuiltSource {
            paths: vec![entry.path().to_owned()],
            is_configured: index.is_some(),
            is_chart,
            is_restricted: matches!(entry.kind, SourceKind::Overlays(_)),
            records: vec![SourceRecord {
                path: entry.path().to_owned(),
                is_chart,
                config_index: index,
                release: entry.config.and_then(|(_, config)| config.release.clone()),
                ..SourceRecord::default()
            }],
            result: variants,
        };
        (built, inputs)
    }

    fn report_failure(&self, entry: &SourceEntry<'_>, error: &BuildError, index: usize) -> Finding {
        let what = match &entry.kind {
            SourceKind::Chart(path) => format!("the chart `{path}`"),
            _ => format!("the kustomization `{}`", entry.path()),
        };
        let message = format!("{what} cannot be built: {}", error.why);
        let Some((file, line)) = &error.place else {
            let pointer = format!("/sources/{index}");
            let at = self.files.locate_config(&pointer);
            return self.files.config_finding(error.code, at, &pointer, &message, error.help.clone());
        };
        let at = (*line > 0).then_some(federate_yaml::Position { line: *line, column: 1 });
        let finding = Finding::in_file(Severity::Error, error.code, &file.as_str().into(), at, message);
        Finding { help: error.help.clone(), ..finding }
    }

    fn parse_output(&self, job: &BuildJob, output: BuildOutput) -> Result<ParsedOutput, BuildError> {
        let path: Arc<str> = job.path().into();
        let mut contents = documents::split_documents(&path, federate_yaml::read_stream(&output.text));
        let errors: Vec<&Finding> = contents.findings.iter().filter(|finding| finding.is_error()).collect();
        if let Some(first) = errors.first() {
            let line = first.origin.as_ref().map_or(0, |origin| origin.line);
            return Err(BuildError {
                code: "build-failed",
                why: format!("line {line} of its output is wrong: {}", first.message),
                help: first.help.clone(),
                place: None,
            });
        }
        let renamed = self.finder.locate_objects(job, &output, &mut contents.objects);
        contents.findings.iter_mut().for_each(|finding| {
            if let Some(origin) = &mut finding.origin {
                *origin = Origin { file: path.clone(), document: u32::MAX, item: None, line: 0 };
            }
        });
        contents.findings.extend(output.warnings.iter().map(|warning| {
            let (file, line) = warning.place.clone().unwrap_or_else(|| (job.path().to_owned(), 0));
            let at = (line > 0).then_some(federate_yaml::Position { line, column: 1 });
            Finding::in_file(Severity::Warning, warning.code, &file.into(), at, warning.message.clone())
                .with_help(warning.help.clone())
        }));
        let documents::FileContents { objects, findings, .. } = contents;
        Ok(ParsedOutput { objects, renamed, findings, inputs: output.inputs })
    }
}

/// The objects of an output.
struct ParsedOutput {
    objects: Vec<Object>,
    renamed: Vec<RenamedObject>,
    findings: Vec<Finding>,
    inputs: Arc<[InputFile]>,
}

/// What was built of a source for some clusters.
#[derive(Clone, Copy, Debug)]
pub struct SourceObjects<'b> {
    /// The object of Flux or Argo CD that describes the source.
    pub described_by: Option<&'b ObjectRef>,
    /// The clusters; none if it is for all.
    pub clusters: &'b [ClusterName],
    /// The objects.
    pub objects: &'b [Object],
}

impl Builds {
    /// What was built, in the order of the sources.
    pub fn list_objects(&self) -> Vec<SourceObjects<'_>> {
        let variants = self.sources.iter().flat_map(|source| {
            let variants = source.result.iter().flatten();
            variants.map(|variant| SourceObjects {
                described_by: source
                    .records
                    .get(variant.record)
                    .and_then(|record| record.described_by.as_ref()),
                clusters: &variant.clusters,
                objects: &variant.objects,
            })
        });
        variants.collect()
    }

    /// The charts in repositories of charts that objects of Flux and Argo CD name, each with these objects.
    pub fn references(&self) -> &BTreeMap<RemoteReference, BTreeSet<String>> {
        &self.references
    }

    /// What is wrong with the sources, and what is worth knowing about them.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Takes the templates out of what kustomizations build that others build too, unless `federate.yaml` names them: only
    /// the user knows which one is meant.
    fn separate_ambiguous(&mut self, claims: &dyn Claims) {
        self.drop_built_by_others();
        let mut builders: BTreeMap<(String, String, Option<String>, String), BTreeSet<usize>> =
            BTreeMap::new();
        for (index, source) in self
            .sources
            .iter()
            .enumerate()
            .filter(|(_, source)| !source.is_configured && source.result.is_ok())
        {
            for object in source.result.iter().flatten().flat_map(|variant| &variant.objects) {
                builders.entry(owned_identity(object)).or_default().insert(index);
            }
        }
        builders.retain(|_, sources| sources.len() > 1);
        if builders.is_empty() {
            return;
        }
        let mut taken: BTreeMap<BTreeSet<usize>, Vec<Object>> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for source in self.sources.iter_mut().filter(|source| !source.is_configured) {
            for variant in source.result.iter_mut().flatten() {
                for object in variant.objects.extract_if(.., |object| {
                    claims.role_of_kind(&object.id.api_version, &object.id.kind).is_none()
                        && builders.contains_key(&owned_identity(object))
                }) {
                    let Some(sources) = builders.get(&owned_identity(&object)) else { continue };
                    if known.insert(owned_identity(&object)) {
                        taken.entry(sources.clone()).or_default().push(object);
                    }
                }
            }
        }
        for (sources, objects) in taken {
            let folders = sources.iter().filter_map(|index| self.sources.get(*index));
            let folders = folders.flat_map(|source| source.paths.iter().cloned()).collect();
            self.ambiguous.push(AmbiguousRoots { folders, objects });
        }
    }

    /// Takes the objects out of what unnamed kustomizations build that a source of `federate.yaml` builds, which was chosen thereby.
    fn drop_built_by_others(&mut self) {
        let (named, unnamed): (Vec<_>, Vec<_>) =
            self.sources.iter_mut().partition(|source| source.is_configured);
        let chosen: BTreeMap<_, &str> = named
            .iter()
            .flat_map(|source| {
                let path = source.paths.first().map_or("", String::as_str);
                let variants = source.result.iter().flatten();
                variants
                    .flat_map(|variant| &variant.objects)
                    .map(move |object| (owned_identity(object), path))
            })
            .collect();
        if chosen.is_empty() {
            return;
        }
        for source in unnamed {
            let folder = source.paths.first().map_or("", String::as_str);
            let variants = source.result.iter_mut().flatten();
            let dropped: Vec<Object> = variants
                .flat_map(|variant| {
                    variant.objects.extract_if(.., |object| chosen.contains_key(&owned_identity(object)))
                })
                .collect();
            let Some(first) = dropped.first() else { continue };
            let by = chosen.get(&owned_identity(first)).copied().unwrap_or_default();
            let (what, pronoun) = match dropped.len() {
                1 => (first.id.to_string(), "it"),
                count => (format!("{count} objects, {} among them", first.id), "them"),
            };
            let message = format!(
                "the kustomization `{folder}` builds {what}, but `sources` in federate.yaml takes {pronoun} from `{by}`"
            );
            let file = kustomization_paths(folder);
            let file = file.iter().find(|path| self.inputs.contains(*path)).unwrap_or(&file[0]);
            let finding =
                Finding::in_file(Severity::Warning, "not-chosen", &file.as_str().into(), None, message);
            self.findings.push(finding.with_help(format!(
                "list `{folder}/` in .federateignore, or name it in `sources` for some clusters"
            )));
        }
    }

    /// The file of the kustomization in a folder, which was built.
    pub(crate) fn find_kustomization(&self, folder: &str) -> String {
        let paths = kustomization_paths(folder);
        let [first, ..] = &paths;
        paths.iter().find(|path| self.inputs.contains(*path)).unwrap_or(first).clone()
    }

    /// The source that was built from a folder.
    pub(crate) fn find_source(&self, path: &str) -> Option<&BuiltSource> {
        self.sources.iter().find(|source| source.paths.iter().any(|own| own == path))
    }
}

pub(crate) fn owned_identity(object: &Object) -> (String, String, Option<String>, String) {
    let (group, kind, namespace, name) = object.id.unversioned();
    (group.to_owned(), kind.to_owned(), namespace.map(str::to_owned), name.to_owned())
}

/// Whether an object that SOPS encrypted is as it is written in a file.
fn is_as_written(built: &Object, written: &Object) -> bool {
    !is_encrypted(&built.body) || built.body == written.body
}
