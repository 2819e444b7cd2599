//! What objects of Flux and Argo CD describe, followed to the leaves: a Kustomization may build other Kustomizations and
//! `HelmRelease`s, and an Application other Applications.
//!
//! The objects are read level by level, so that each program starts for all of a level at once. An object that refers to one that
//! is not built yet, such as a ConfigMap with variables, is read again on the next level, as its controller tries again. An
//! object that several of its kind build, as the Kustomization of Flux's bootstrap builds itself, is read once.

use std::collections::{BTreeMap, BTreeSet};

use federate_file_tree::{is_folder, is_within};
use federate_gitops::vendored::VENDOR_HELP;
use federate_gitops::{
    ArgoReader, ArgoSettings, BuildChanges, DescribedJob, DescribedSource, DescriptionError, FluxCharts,
    FluxReader, FluxSettings, GenerationUsage, KustomizationRules, MissingValues, Note, OwnRepository,
    is_argo_source, is_flux_source, name_kubeconfig_cluster,
};
use federate_kubernetes::finding::join_names;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Severity};
use serde_json::{Map, Value};

use super::described::{drop_repeated, list_job, read_files, record_source, substitute_output};
use super::mistakes::{FoldersOfClusters, review_repository, review_version};
use super::owned_identity;
use super::unknown_values::UnknownUses;
use super::{
    ApiClasses, Builds, BuiltSource, BuiltVariant, DescribingEntry, JobResults, Jobs, ParsedOutput, Runner,
};
use crate::build::{BuildError, BuildJob};
use crate::config::{CLUSTER_PLACEHOLDER, SourceKind, UnplacedTemplates};

/// The name that Argo CD has for the cluster in which it runs.
const OWN_CLUSTER: &str = "in-cluster";

/// The most objects that a finding names.
const MAX_NAMES: usize = 5;

/// The most objects that build each other in a row.
const MAX_LEVELS: usize = 32;

/// The most objects that describe sources.
const MAX_OBJECTS: usize = 20_000;

/// The controller that carries out objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Controller {
    Flux,
    ArgoCd,
}

impl Controller {
    fn describes(self, object: &Object) -> bool {
        match self {
            Self::Flux => is_flux_source(object),
            Self::ArgoCd => is_argo_source(object),
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Flux => "flux",
            Self::ArgoCd => "argocd",
        }
    }

    fn kinds(self) -> &'static str {
        match self {
            Self::Flux => "Kustomization or HelmRelease of Flux",
            Self::ArgoCd => "Application or ApplicationSet",
        }
    }
}

/// The objects that one installation of a controller carries out: those of an item of `sources`, for one cluster if its path names
/// the cluster.
struct Installation {
    controller: Controller,
    /// The item of `sources`.
    index: usize,
    path: String,
    /// The cluster in which the controller runs, and to which what it builds belongs.
    cluster: Option<ClusterName>,
    /// What was built for it, to which its objects may refer.
    objects: Vec<Object>,
}

/// An object that describes sources.
struct DescribingObject {
    object: Object,
    /// The index of its installation.
    installation: usize,
    /// The objects through which it was built, from the first one; none if it is written so in a file.
    chain: Vec<ObjectRef>,
}

/// What identifies an object in an installation.
type DescribingKey = (usize, (String, String, Option<String>, String));

impl DescribingObject {
    fn key(&self) -> DescribingKey {
        (self.installation, owned_identity(&self.object))
    }
}

/// A source to build. `described_by` is the index of the object that describes it; `None` for the folder of an installation.
struct OpenSource {
    source: DescribedSource,
    installation: usize,
    described_by: Option<usize>,
}

/// A source that was built, with the files of the repo that it was built from.
struct FinishedSource {
    built: BuiltSource,
    inputs: Vec<String>,
    installation: usize,
    described_by: Option<usize>,
}

/// Reads and builds what objects describe.
pub(super) struct DescriptionWalk<'r, 'f> {
    runner: &'r Runner<'f>,
    clusters: &'r [Cluster],
    by_name: BTreeMap<&'r str, &'r Cluster>,
    /// The cluster in which Argo CD runs, by the configuration, or by its name in the inventory.
    own_cluster: Option<ClusterName>,
    /// The objects whose destination is not known, and that go everywhere.
    placed_everywhere: Vec<usize>,
    apis: ApiClasses,
    usage: GenerationUsage,
    installations: Vec<Installation>,
    /// All objects that were found.
    found: Vec<DescribingObject>,
    /// Where in `found` the object of an identity is.
    known: BTreeMap<DescribingKey, usize>,
    finished: Vec<FinishedSource>,
    /// The addresses of git repositories that were all taken for this repo, although at most one of them is it.
    assumed: BTreeSet<String>,
    unknown: UnknownUses,
}

impl<'r, 'f> DescriptionWalk<'r, 'f> {
    pub(super) fn new(runner: &'r Runner<'f>, clusters: &'r [Cluster]) -> Self {
        let named = runner.files.config.argocd.cluster.as_deref().map(ClusterName::from);
        // A cluster of that name is the one of Argo CD.
        let own = clusters.iter().find(|cluster| *cluster.name == *OWN_CLUSTER);
        Self {
            runner,
            clusters,
            by_name: clusters.iter().map(|cluster| (&*cluster.name, cluster)).collect(),
            own_cluster: named.or_else(|| own.map(|cluster| cluster.name.clone())),
            placed_everywhere: Vec::new(),
            apis: ApiClasses::new(clusters),
            usage: GenerationUsage::default(),
            installations: Vec::new(),
            found: Vec::new(),
            known: BTreeMap::new(),
            finished: Vec::new(),
            assumed: BTreeSet::new(),
            unknown: UnknownUses::default(),
        }
    }

    /// Builds what the objects describe that items of `sources` name. What only some clusters receive is one source together, as
    /// several objects may describe one application for different clusters.
    pub(super) fn build_descriptions(
        mut self,
        describing: &[DescribingEntry],
        builds: &mut Builds,
    ) -> Vec<(BuiltSource, Vec<String>)> {
        for entry in describing {
            self.add_installations(entry, builds);
        }
        builds.findings.extend(self.review_own_cluster());
        let mut sources = self.list_folders();
        let mut unread = self.find_written(builds);
        for level in 0.. {
            unread.extend(self.build_level(sources, builds));
            let keeps_unknown = self.runner.files.keeps_unknown_values;
            let missing = if keeps_unknown { MissingValues::Awaited } else { MissingValues::Refused };
            let (mut read, mut failed) = self.read_level(&unread, missing, builds);
            if keeps_unknown && read.is_empty() && !failed.is_empty() {
                (read, failed) = self.read_without_missing(failed, builds);
            }
            if read.is_empty() {
                for (index, error) in failed.iter().filter(|(_, error)| error.is_about_reference) {
                    let object = self.found.get(*index).map(|found| &found.object);
                    builds.wrong_references.extend(object.map(|object| error.clone().into_finding(object)));
                }
                builds.findings.extend(self.report_failed(failed));
                break;
            }
            if level == MAX_LEVELS || self.found.len() > MAX_OBJECTS {
                builds.findings.extend(self.report_excess(&read));
                break;
            }
            unread = failed.into_iter().map(|(index, _)| index).collect();
            sources = read;
        }
        builds.findings.extend(self.report_cycles());
        builds.findings.extend(self.report_placed_everywhere());
        builds.findings.extend(self.report_assumed());
        builds.findings.extend(std::mem::take(&mut self.unknown).into_findings());
        builds.findings.extend(self.review_mistakes(describing));
        builds.describing.extend(self.found.iter().map(|found| found.object.clone()));
        self.join_restricted()
    }

    /// The warnings about mistakes with which less is built than is meant.
    fn review_mistakes(&self, describing: &[DescribingEntry]) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.found.iter().filter_map(|found| review_version(&found.object)).collect();
        let repositories = self.installations.iter().map(|runs| {
            let written = runs.cluster.is_none().then(|| self.runner.files.written_objects());
            let beside = written.into_iter().flatten().chain(&runs.objects);
            (runs.controller == Controller::Flux).then(|| FluxCharts::new(beside))
        });
        let repositories: Vec<Option<FluxCharts<'_>>> = repositories.collect();
        findings.extend(self.found.iter().filter_map(|found| {
            let repositories = repositories.get(found.installation)?.as_ref()?;
            review_repository(&found.object, repositories)
        }));
        let built: BTreeSet<&str> =
            self.finished.iter().flat_map(|finished| &finished.inputs).map(String::as_str).collect();
        for DescribingEntry { index, kind } in describing {
            let (SourceKind::Flux(pattern) | SourceKind::ArgoCd(pattern)) = kind else { continue };
            let own = self.installations.iter().filter(|one| one.index == *index);
            let found: BTreeSet<&str> = own.clone().filter_map(|one| one.cluster.as_deref()).collect();
            let key = own.map(|one| one.controller.key()).next();
            if let (Some(key), false) = (key, self.clusters.is_empty()) {
                let folders = FoldersOfClusters { index: *index, key, pattern, found };
                findings.extend(folders.review(self.runner.files, self.clusters, &built));
            }
        }
        findings
    }

    /// The findings about objects that cannot be read. Those whose charts are not vendored have one cause, and one finding.
    fn report_failed(&self, failed: Vec<(usize, DescriptionError)>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut not_vendored: Option<(DescriptionError, &Object, Vec<String>)> = None;
        for (index, error) in failed {
            let Some(object) = self.found.get(index).map(|found| &found.object) else { continue };
            if error.help.as_deref() != Some(VENDOR_HELP) {
                findings.push(error.into_finding(object));
                continue;
            }
            match &mut not_vendored {
                Some((_, _, others)) => others.push(object.id.to_string()),
                None => not_vendored = Some((error, object, Vec::new())),
            }
        }
        findings.extend(not_vendored.map(|(error, object, others)| {
            let others: BTreeSet<&str> = others.iter().map(String::as_str).collect();
            let own = object.id.to_string();
            let names: Vec<&str> = others.into_iter().filter(|name| *name != own).collect();
            let why = match names.len() {
                0 => error.why,
                _ => format!("{}; nor are those of {}", error.why, join_names(&names, MAX_NAMES)),
            };
            DescriptionError { why, ..error }.into_finding(object)
        }));
        findings
    }

    /// Adds the installation that an item of `sources` describes, or one for each cluster that has a folder.
    fn add_installations(&mut self, entry: &DescribingEntry, builds: &mut Builds) {
        let (controller, path) = match &entry.kind {
            SourceKind::Flux(path) => (Controller::Flux, path),
            SourceKind::ArgoCd(path) => (Controller::ArgoCd, path),
            SourceKind::Kustomize(_) | SourceKind::Overlays(_) | SourceKind::Chart(_) => return,
        };
        let index = entry.index;
        if !path.contains(CLUSTER_PLACEHOLDER) {
            let path = path.clone();
            let named =
                self.runner.files.config.sources.get(index).and_then(|source| source.cluster.as_deref());
            let cluster = named.and_then(|name| self.clusters.iter().find(|cluster| *cluster.name == *name));
            if let (Some(name), None, false) = (named, cluster, self.clusters.is_empty()) {
                let why = format!("the inventory has no cluster `{name}`");
                let pointer = format!("/sources/{index}/cluster");
                builds.findings.push(self.runner.files.invalid_config(&pointer, why));
            }
            let cluster = cluster.map(|cluster| cluster.name.clone());
            self.installations.push(Installation { controller, index, path, cluster, objects: Vec::new() });
            return;
        }
        let before = self.installations.len();
        for cluster in self.clusters {
            let path = path.replace(CLUSTER_PLACEHOLDER, &cluster.name);
            if is_folder(self.runner.tree, &path) {
                let cluster = Some(cluster.name.clone());
                self.installations.push(Installation {
                    controller,
                    index,
                    path,
                    cluster,
                    objects: Vec::new(),
                });
            }
        }
        if self.installations.len() == before && !self.clusters.is_empty() {
            let why = format!("no cluster of the inventory has a folder `{path}`");
            builds.findings.push(
                self.runner.files.invalid_config(&format!("/sources/{index}/{}", controller.key()), why),
            );
        }
    }

    /// Whether the folder of an installation is built as a whole: as Flux's bootstrap does for a cluster.
    fn builds_folder(&self, one: &Installation) -> bool {
        one.controller == Controller::Flux && one.cluster.is_some() && is_folder(self.runner.tree, &one.path)
    }

    /// The folders that are built as a whole.
    fn list_folders(&self) -> Vec<OpenSource> {
        let of_clusters = self.installations.iter().enumerate();
        of_clusters
            .filter(|(_, one)| self.builds_folder(one))
            .filter_map(|(installation, one)| {
                let cluster = one.cluster.clone()?;
                let source = DescribedSource {
                    path: one.path.clone(),
                    application: None,
                    unknown_destination: None,
                    kube_config: None,
                    job: DescribedJob::Kustomization { edits: Map::new(), rules: KustomizationRules::Flux },
                    clusters: Some([cluster].into()),
                    namespace: None,
                    changes: BuildChanges::default(),
                    unknown: Vec::new(),
                };
                Some(OpenSource { source, installation, described_by: None })
            })
            .collect()
    }

    /// Finds the objects that are written in the paths of installations whose folders are not built. Returns which they are.
    fn find_written(&mut self, builds: &mut Builds) -> Vec<usize> {
        let mut found = Vec::new();
        // By file, so that those below a path are next to each other.
        let describing = |object: &&'f Object| is_flux_source(object) || is_argo_source(object);
        let mut written: Vec<&'f Object> = self.runner.files.written_objects().filter(describing).collect();
        written.sort_by(|a, b| a.origin.file.cmp(&b.origin.file));
        for installation in 0..self.installations.len() {
            let Some(one) = self.installations.get(installation).filter(|one| !self.builds_folder(one))
            else {
                continue;
            };
            let (controller, index, path) = (one.controller, one.index, one.path.clone());
            let start = written.partition_point(|object| *object.origin.file < *path);
            let below = written.iter().skip(start).take_while(|object| object.origin.file.starts_with(&path));
            let within = below.filter(|object| is_within(&object.origin.file, &path));
            let objects: Vec<Object> = within
                .filter(|object| controller.describes(object))
                .map(|object| (*object).clone())
                .collect();
            if objects.is_empty() {
                let why = format!("`{path}` has no {}", controller.kinds());
                let pointer = format!("/sources/{index}/{}", controller.key());
                builds.findings.push(self.runner.files.invalid_config(&pointer, why));
            }
            for object in objects {
                let object = DescribingObject { object, installation, chain: Vec::new() };
                found.extend(self.add_object(object, builds));
            }
        }
        found
    }

    /// Adds an object that was found. Returns where it is if it is to be read.
    fn add_object(&mut self, new: DescribingObject, builds: &mut Builds) -> Option<usize> {
        let key = new.key();
        let Some(index) = self.known.get(&key).copied() else {
            let index = self.found.len();
            self.known.insert(key, index);
            self.found.push(new);
            return Some(index);
        };
        let known = self.found.get_mut(index)?;
        if known.object.body == new.object.body {
            return None;
        }
        if known.chain.is_empty() && !new.chain.is_empty() {
            // What is built of a file counts in place of what is written in it.
            *known = new;
            self.finished.retain(|finished| finished.described_by != Some(index));
            return Some(index);
        }
        builds.findings.push(self.report_second(index, &new));
        None
    }

    /// The finding about an object that differs from another one of its identity.
    fn report_second(&self, first: usize, second: &DescribingObject) -> Finding {
        let first = self
            .found
            .get(first)
            .map(|first| format!("{}:{}", first.object.origin.file, first.object.origin.line));
        let message =
            format!("{} is in {}, too, with other content", second.object.id, first.unwrap_or_default());
        let path = self.installations.get(second.installation).map_or("", |one| &one.path);
        let help = format!(
            "if each folder in `{path}` is that of a cluster, write `{}/{CLUSTER_PLACEHOLDER}`; otherwise, let `sources` name only \
             one of the two",
            path.trim_end_matches('/')
        );
        Finding::error("duplicate-object", &second.object, message).with_help(help)
    }

    /// Reads objects that wait for others that are in the repo nowhere: what these hold is not known. Those that Flux would carry
    /// out first are read first, as they may build what the rest waits for.
    fn read_without_missing(
        &mut self,
        waiting: Vec<(usize, DescriptionError)>,
        builds: &mut Builds,
    ) -> (Vec<OpenSource>, Vec<(usize, DescriptionError)>) {
        let indices: BTreeSet<usize> = waiting.iter().map(|(index, _)| *index).collect();
        let (first, rest): (Vec<usize>, Vec<usize>) = indices
            .iter()
            .partition(|index| !self.list_dependencies(**index).iter().any(|one| indices.contains(one)));
        let (sources, failed) = self.read_level(&first, MissingValues::Unknown, builds);
        if sources.is_empty() {
            let (sources, more) = self.read_level(&rest, MissingValues::Unknown, builds);
            return (sources, failed.into_iter().chain(more).collect());
        }
        let rest = waiting.into_iter().filter(|(index, _)| rest.contains(index));
        (sources, failed.into_iter().chain(rest).collect())
    }

    /// Reads objects. Returns what they describe, and those that cannot be read yet, with the reasons.
    fn read_level(
        &mut self,
        open: &[usize],
        missing: MissingValues,
        builds: &mut Builds,
    ) -> (Vec<OpenSource>, Vec<(usize, DescriptionError)>) {
        let (mut sources, mut failed) = (Vec::new(), Vec::new());
        let mut notes: Vec<(Note, &Object)> = Vec::new();
        let config = &self.runner.files.config;
        let vendored = &self.runner.vendored;
        let argo_settings = ArgoSettings {
            cluster: self.own_cluster.clone(),
            new_file_globbing: config.argocd.new_git_file_globbing,
            projects: None,
        };
        let own = self.find_own_repository();
        // Those that see what is written only differ in the cluster in which they run.
        let mut shared: Option<ArgoReader<'_>> = None;
        let is_newer = config.flux.is_at_least_2_9();
        let flux_settings =
            FluxSettings { has_strict_substitution: is_newer, has_hooks_in_post_renderers: is_newer };
        let mut open: Vec<(usize, &DescribingObject)> =
            open.iter().filter_map(|index| Some((*index, self.found.get(*index)?))).collect();
        open.sort_by_key(|(index, found)| (found.installation, *index));
        for of_installation in open.chunk_by(|(_, a), (_, b)| a.installation == b.installation) {
            let Some((_, DescribingObject { installation, .. })) = of_installation.first() else { continue };
            let Some(runs) = self.installations.get(*installation) else { continue };
            let flux = (runs.controller == Controller::Flux).then(|| {
                // What one cluster has is not seen in another.
                let written = runs.cluster.is_none().then(|| self.runner.files.written_objects());
                let objects = written.into_iter().flatten().chain(&runs.objects);
                let tree = self.runner.tree;
                FluxReader::new(tree, objects, flux_settings, vendored, &own, missing)
            });
            // Argo CD runs where an item of `sources` says, or where the configuration does.
            let mut single;
            let argo = if runs.objects.is_empty() {
                shared.get_or_insert_with(|| self.build_argo_reader(&[], &argo_settings, &own))
            } else {
                single = self.build_argo_reader(&runs.objects, &argo_settings, &own);
                &mut single
            };
            argo.run_in_cluster(runs.cluster.clone().or_else(|| self.own_cluster.clone()));
            for (index, found) in of_installation {
                let read = match &flux {
                    Some(flux) => flux.read_object(&found.object),
                    None => argo.read_object(&found.object),
                };
                for reference in vendored.take_wanted() {
                    let by = found.object.id.to_string();
                    builds.references.entry(reference).or_default().insert(by);
                }
                match read {
                    Err(error) => failed.push((*index, error)),
                    Ok(description) => {
                        notes.extend(description.notes.into_iter().map(|note| (note, &found.object)));
                        for mut source in description.sources {
                            if source.clusters.is_none() && source.unknown_destination.is_none() {
                                source.clusters = runs.cluster.clone().map(|name| [name].into());
                            }
                            match self.find_remote_cluster(&source, &found.object) {
                                Ok(Some(remote)) => source.clusters = Some([remote].into()),
                                Ok(None) => {}
                                Err(error) => {
                                    builds.findings.push(error.into_finding(&found.object));
                                    continue;
                                }
                            }
                            let (installation, described_by) = (*installation, Some(*index));
                            sources.push(OpenSource { source, installation, described_by });
                        }
                    }
                }
            }
        }
        builds.findings.extend(group_notes(notes));
        self.assumed.extend(own.take_assumed());
        (sources, failed)
    }

    /// A reader of what is written, and of what was built for one Argo CD.
    fn build_argo_reader<'a>(
        &'a self,
        built: &'a [Object],
        settings: &'a ArgoSettings,
        own: &'a OwnRepository,
    ) -> ArgoReader<'a> {
        let all = self.runner.files.written_objects().chain(built);
        let vendored = &self.runner.vendored;
        ArgoReader::new(self.runner.tree, self.clusters, all, settings, &self.usage, vendored)
            .with_decisions(self.runner.decisions)
            .with_own_repository(own)
    }

    /// The addresses of the git repository of this repo, by what is written and was found.
    fn find_own_repository(&self) -> OwnRepository {
        let built = self.installations.iter().flat_map(|one| &one.objects);
        let found = self.found.iter().map(|found| &found.object);
        let objects = self.runner.files.written_objects().chain(built).chain(found);
        OwnRepository::find(objects, &self.runner.files.config.repositories)
    }

    /// The warning that objects name several repositories, all of which were taken for this one.
    fn report_assumed(&self) -> Option<Finding> {
        // At most one of them is this repo.
        if self.assumed.len() < 2 {
            return None;
        }
        let names: Vec<&str> = self.assumed.iter().map(String::as_str).collect();
        let message = format!(
            "objects of Flux or Argo CD name several git repositories, and it is not known which of them is this one: the paths of {} are \
             read in this repo",
            join_names(&names, MAX_NAMES)
        );
        let at = self.runner.files.locate_config("/sources");
        let help =
            Some("list the addresses of this repository in `repositories` of federate.yaml".to_owned());
        let finding = self.runner.files.config_finding("unknown-repository", at, "/sources", &message, help);
        Some(Finding { severity: Severity::Warning, ..finding })
    }

    /// The cluster of the inventory to which Flux applies what an object with a kubeconfig describes.
    fn find_remote_cluster(
        &self,
        source: &DescribedSource,
        by: &Object,
    ) -> Result<Option<ClusterName>, DescriptionError> {
        let Some(config) = &source.kube_config else { return Ok(None) };
        let name = name_kubeconfig_cluster(config, by.id.namespace.as_deref().unwrap_or_default());
        match self.by_name.get(name) {
            Some(cluster) => Ok(Some(cluster.name.clone())),
            None if self.clusters.is_empty() => Ok(None),
            None => Err(DescriptionError::new(
                "/spec/kubeConfig",
                "Flux applies it to the cluster of `spec.kubeConfig`, and that is not known to be one of the inventory",
            )
            .with_help(
                "name the Secret after the cluster (`CLUSTER-kubeconfig`), or the namespace of the object, or leave the object out \
                 of `sources`",
            )),
        }
    }

    /// The warning that Applications go to a cluster outside of the inventory.
    fn review_own_cluster(&self) -> Option<Finding> {
        let named = self.runner.files.config.argocd.cluster.as_deref()?;
        if self.clusters.is_empty() || self.clusters.iter().any(|cluster| *cluster.name == *named) {
            return None;
        }
        let message = format!(
            "`{named}` is not a cluster of the inventory: what Applications place in the cluster of Argo CD is rendered for no cluster"
        );
        let at = self.runner.files.locate_config("/argocd/cluster");
        let finding =
            self.runner.files.config_finding("unknown-destination", at, "/argocd/cluster", &message, None);
        Some(Finding { severity: Severity::Warning, ..finding })
    }

    /// The warning about Applications that go everywhere because their cluster is not known.
    fn report_placed_everywhere(&self) -> Option<Finding> {
        let indices: BTreeSet<usize> = self.placed_everywhere.iter().copied().collect();
        let first = self.found.get(*indices.first()?)?;
        let others = match indices.len() - 1 {
            0 => String::new(),
            1 => " and another object".to_owned(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "{}{others} goes to the cluster in which Argo CD runs, which is not known: `unplaced: everywhere` places what it builds in \
             every cluster",
            first.object.id
        );
        let finding = Finding::warning("unknown-destination", &first.object, message);
        Some(finding.with_help("set argocd.cluster in federate.yaml to the cluster in which Argo CD runs"))
    }

    /// Builds sources. Returns the objects among what was built that are to be read.
    fn build_level(&mut self, sources: Vec<OpenSource>, builds: &mut Builds) -> Vec<usize> {
        let listed: Vec<Result<Jobs, DescriptionError>> =
            sources.iter().map(|open| self.list_jobs(&open.source)).collect();
        let results = self.runner.run_jobs(listed.iter().flatten());
        // What is read as it is built is read at once.
        let as_they_are = sources.iter().zip(&listed).filter(|(open, _)| !open.source.changes.changes_text());
        let as_they_are = as_they_are.filter_map(|(_, jobs)| jobs.as_ref().ok()).flat_map(BTreeMap::keys);
        let as_they_are: BTreeSet<&BuildJob> = as_they_are.collect();
        self.runner.parse_results(&results, &|job| as_they_are.contains(job));
        let (mut results_of, mut inputs_of) = (Vec::new(), Vec::new());
        for (open, jobs) in sources.iter().zip(&listed) {
            let mut inputs = Vec::new();
            let jobs = jobs.as_ref().map_err(Clone::clone);
            let receivers: Vec<ClusterName> = match &open.source.clusters {
                Some(_) => self.select_clusters(&open.source).iter().map(|one| one.name.clone()).collect(),
                None => Vec::new(),
            };
            let mut finished = jobs.and_then(|jobs| {
                self.runner.finish_described(&open.source, jobs, &receivers, &results, builds, &mut inputs)
            });
            if let (Ok(variants), Some(index)) = (&mut finished, open.described_by)
                && let Some(by) = self.found.get(index)
            {
                self.unknown.mark_built(&by.object, &open.source, variants);
            }
            if let (Err(error), Some(values)) = (&mut finished, open.source.unknown.first()) {
                error.help.get_or_insert_with(|| format!("it lacks values of {}", values.holder));
            }
            results_of.push(finished);
            inputs_of.push(inputs);
        }
        let described: Vec<(&DescribedSource, Option<&Object>)> = sources
            .iter()
            .map(|open| {
                let by = open.described_by.and_then(|index| self.found.get(index));
                (&open.source, by.map(|by| &by.object))
            })
            .collect();
        builds.findings.extend(drop_repeated(&described, &mut results_of));
        let mut found = Vec::new();
        for ((open, result), inputs) in sources.into_iter().zip(results_of).zip(inputs_of) {
            let mut result = result.map_err(|error| {
                let failure =
                    BuildError { code: "build-failed", why: error.why.clone(), help: None, place: None };
                builds.findings.push(self.report_failure(&open, error));
                failure
            });
            for object in self.take_describing(&open, result.as_deref_mut().unwrap_or_default()) {
                found.extend(self.add_object(object, builds));
            }
            let has_objects = result.iter().flatten().any(|variant| !variant.objects.is_empty());
            let mut is_restricted = open.source.clusters.is_some();
            if let Some(error) =
                open.source.unknown_destination.clone().filter(|_| has_objects && !self.clusters.is_empty())
            {
                if self.runner.files.config.unplaced == UnplacedTemplates::Everywhere {
                    self.placed_everywhere.extend(open.described_by);
                } else {
                    builds.findings.push(self.report_failure(&open, error));
                    result = Ok(Vec::new());
                    is_restricted = true;
                }
            }
            // What goes to other clusters than those of the inventory is built for what it describes.
            let is_elsewhere = is_restricted && self.select_clusters(&open.source).is_empty();
            if is_elsewhere && !self.clusters.is_empty() && result.is_ok() {
                result = Ok(Vec::new());
            }
            let described_by = open.described_by.and_then(|index| self.found.get(index));
            let built = BuiltSource {
                paths: vec![open.source.path.clone()],
                is_configured: true,
                is_chart: matches!(open.source.job, DescribedJob::Chart(_)),
                is_restricted,
                records: vec![record_source(
                    &open.source,
                    described_by.map(|found| &found.object.id),
                    described_by.map(|found| found.chain.clone()).unwrap_or_default(),
                )],
                result,
            };
            let OpenSource { installation, described_by, .. } = open;
            self.finished.push(FinishedSource { built, inputs, installation, described_by });
        }
        found
    }

    /// The finding about a source that cannot be built.
    fn report_failure(&self, open: &OpenSource, error: DescriptionError) -> Finding {
        if let Some(found) = open.described_by.and_then(|index| self.found.get(index)) {
            return error.into_finding(&found.object);
        }
        let runs = self.installations.get(open.installation);
        let pointer = runs
            .map_or_else(String::new, |runs| format!("/sources/{}/{}", runs.index, runs.controller.key()));
        let folder = if open.source.path.is_empty() { "." } else { &open.source.path };
        let message = format!("the folder `{folder}` cannot be built: {}", error.why);
        let at = self.runner.files.locate_config(&pointer);
        self.runner.files.config_finding("build-failed", at, &pointer, &message, error.help)
    }

    /// Takes the objects that describe sources out of what was built, and keeps what objects may refer to.
    fn take_describing(&mut self, open: &OpenSource, variants: &mut [BuiltVariant]) -> Vec<DescribingObject> {
        let mut taken = Vec::new();
        let Some(runs) = self.installations.get_mut(open.installation) else { return taken };
        let by = open.described_by.and_then(|index| self.found.get(index));
        let chain: Vec<ObjectRef> =
            by.map(|by| by.chain.iter().chain([&by.object.id]).cloned().collect()).unwrap_or_default();
        for variant in variants {
            for object in variant.objects.extract_if(.., |object| runs.controller.describes(object)) {
                let chain = chain.clone();
                taken.push(DescribingObject { object, installation: open.installation, chain });
            }
            runs.objects.extend(variant.objects.iter().filter(|object| is_referred_to(object)).cloned());
        }
        taken
    }

    /// The clusters that receive what is built of a source.
    fn select_clusters(&self, source: &DescribedSource) -> Vec<&'r Cluster> {
        match &source.clusters {
            Some(names) => names.iter().filter_map(|name| self.by_name.get(&**name).copied()).collect(),
            None => self.clusters.iter().collect(),
        }
    }

    fn list_jobs(&self, source: &DescribedSource) -> Result<Jobs, DescriptionError> {
        let mut jobs = Jobs::new();
        let is_chart = matches!(source.job, DescribedJob::Chart(_));
        if self.clusters.is_empty() || (!is_chart && source.clusters.is_none()) {
            jobs.extend(list_job(source, None, &self.apis)?.map(|job| (job, Vec::new())));
            return Ok(jobs);
        }
        let selected = self.select_clusters(source);
        if selected.is_empty() {
            jobs.extend(list_job(source, None, &self.apis)?.map(|job| (job, Vec::new())));
        }
        for cluster in selected {
            let Some(job) = list_job(source, Some(cluster), &self.apis)? else { continue };
            jobs.entry(job).or_default().push(cluster.name.clone());
        }
        Ok(jobs)
    }

    /// The finding about objects that are not read any more.
    fn report_excess(&self, left: &[OpenSource]) -> Option<Finding> {
        let found = left.iter().find_map(|open| self.found.get(open.described_by?))?;
        let what = if self.found.len() > MAX_OBJECTS {
            format!("the repo has more than {MAX_OBJECTS} objects of Flux or Argo CD that build others")
        } else {
            format!("it is built through more than {MAX_LEVELS} other objects")
        };
        Some(DescriptionError::new("", what).into_finding(&found.object))
    }

    /// The findings about Flux objects that wait for each other.
    fn report_cycles(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut finished: BTreeSet<usize> = BTreeSet::new();
        for start in 0..self.found.len() {
            let mut path: Vec<(usize, Vec<usize>)> = vec![(start, self.list_dependencies(start))];
            while let Some((_, next)) = path.last_mut() {
                let Some(index) = next.pop() else {
                    finished.extend(path.pop().map(|(index, _)| index));
                    continue;
                };
                if finished.contains(&index) {
                    continue;
                }
                match path.iter().position(|(on_path, _)| *on_path == index) {
                    Some(at) => {
                        let cycle = path.iter().skip(at).map(|(index, _)| *index).chain([index]);
                        findings.extend(self.report_cycle(&cycle.collect::<Vec<_>>()));
                    }
                    None => path.push((index, self.list_dependencies(index))),
                }
            }
        }
        findings
    }

    /// The objects that one waits for.
    fn list_dependencies(&self, index: usize) -> Vec<usize> {
        let Some(found) = self.found.get(index) else { return Vec::new() };
        let depends = found.object.body.pointer("/spec/dependsOn").and_then(Value::as_array);
        let own = found.object.id.namespace.as_deref();
        depends
            .into_iter()
            .flatten()
            .filter_map(|one| {
                let name = one.get("name")?.as_str()?;
                let namespace = one.get("namespace").and_then(Value::as_str).or(own);
                let (group, kind, ..) = owned_identity(&found.object);
                let identity = (group, kind, namespace.map(str::to_owned), name.to_owned());
                self.known.get(&(found.installation, identity)).copied()
            })
            .collect()
    }

    fn report_cycle(&self, cycle: &[usize]) -> Option<Finding> {
        let names: Vec<String> =
            cycle.iter().filter_map(|index| Some(self.found.get(*index)?.object.id.to_string())).collect();
        let first = self.found.get(*cycle.first()?)?;
        let message =
            format!("Flux would never apply these objects, which wait for each other: {}", names.join(" → "));
        Some(
            Finding::error("dependency-cycle", &first.object, message)
                .with_pointer("/spec/dependsOn")
                .with_help("remove one of the entries in `dependsOn`"),
        )
    }

    /// What was built. What only some clusters receive is one source.
    fn join_restricted(self) -> Vec<(BuiltSource, Vec<String>)> {
        let described: BTreeSet<(usize, String)> = self
            .finished
            .iter()
            .filter(|finished| finished.described_by.is_some())
            .flat_map(|finished| {
                finished.built.paths.iter().map(|path| (finished.installation, path.clone()))
            })
            .collect();
        let mut built: Vec<(BuiltSource, Vec<String>)> = Vec::new();
        let mut restricted: Option<(BuiltSource, Vec<String>)> = None;
        for FinishedSource { built: mut one, inputs, installation, described_by } in self.finished {
            // The folder of a cluster was built to find what describes it: Flux's bootstrap does.
            if described_by.is_none()
                && one.paths.iter().any(|path| described.contains(&(installation, path.clone())))
            {
                continue;
            }
            if !one.is_restricted {
                built.push((one, inputs));
                continue;
            }
            let Some((all, files)) = &mut restricted else {
                restricted = Some((one, inputs));
                continue;
            };
            let record = all.records.len();
            one.result.iter_mut().flatten().for_each(|variant| variant.record = record);
            all.records.append(&mut one.records);
            all.paths.extend(one.paths);
            files.extend(inputs);
            match (&mut all.result, one.result) {
                (Ok(variants), Ok(more)) => variants.extend(more),
                (all @ Err(_), Ok(more)) => *all = Ok(more),
                (_, Err(_)) => {}
            }
        }
        built.extend(restricted);
        built
    }
}

/// The findings of notes. Objects that have the same fields without effect are one finding, at the first of them.
fn group_notes(notes: Vec<(Note, &Object)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut places: BTreeMap<String, (usize, BTreeSet<&ObjectRef>)> = BTreeMap::new();
    for (note, object) in notes {
        let Some(fields) = note.fields.clone() else {
            findings.push(note.into_finding(object));
            continue;
        };
        let (_, objects) = places.entry(fields).or_insert((findings.len(), BTreeSet::new()));
        if objects.is_empty() {
            findings.push(note.into_finding(object));
        }
        objects.insert(&object.id);
    }
    for (fields, (at, objects)) in places.into_iter().filter(|(_, (_, objects))| objects.len() > 1) {
        let Some(finding) = findings.get_mut(at) else { continue };
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        finding.message = format!("{} have {fields}", join_names(&names, MAX_NAMES));
    }
    findings
}

/// Whether objects of Flux and Argo CD may refer to an object: values, variables, sources and decisions.
fn is_referred_to(object: &Object) -> bool {
    matches!(object.id.kind.as_str(), "ConfigMap" | "Secret" | "Namespace" | "FluxInstance")
        || object.id.group().ends_with(".fluxcd.io")
        || object.body.get("status").is_some()
}

impl Runner<'_> {
    /// What was built of a source that an object describes. `receivers` are the clusters that it is for; none if it is for all.
    fn finish_described(
        &self,
        source: &DescribedSource,
        jobs: &Jobs,
        receivers: &[ClusterName],
        results: &JobResults,
        builds: &mut Builds,
        inputs: &mut Vec<String>,
    ) -> Result<Vec<BuiltVariant>, DescriptionError> {
        let mut variants = Vec::new();
        if let DescribedJob::Directory(selection) = &source.job {
            let parsed = read_files(self.tree, &source.path, selection)?;
            variants.push(finish_variant(source, receivers.to_vec(), &parsed, builds, inputs));
        }
        for (job, names) in jobs {
            let Some(result) = results.get(job) else { continue };
            let substituted;
            let parsed = if source.changes.changes_text() {
                let output = result.output.as_ref().map_err(describe_failure)?;
                let output = substitute_output(source, output)
                    .map_err(|why| DescriptionError::new("/spec/postBuild", why))?;
                substituted = self.parse_output(job, output);
                &substituted
            } else {
                self.parse_result(job, result)
            };
            let parsed = parsed.as_ref().map_err(describe_failure)?;
            variants.push(finish_variant(source, names.clone(), parsed, builds, inputs));
        }
        variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
        Ok(variants)
    }
}

/// The error of a build, as one about the object that describes it.
fn describe_failure(error: &BuildError) -> DescriptionError {
    DescriptionError {
        pointer: String::new(),
        why: match &error.place {
            Some((file, line)) if *line > 0 => format!("{file}:{line}: {}", error.why),
            _ => error.why.clone(),
        },
        help: error.help.clone(),
        is_about_reference: false,
    }
}

/// What some clusters receive of a source, with the labels of all of its objects.
fn finish_variant(
    source: &DescribedSource,
    mut clusters: Vec<ClusterName>,
    parsed: &ParsedOutput,
    builds: &mut Builds,
    inputs: &mut Vec<String>,
) -> BuiltVariant {
    clusters.sort();
    inputs.extend(parsed.inputs.iter().map(|file| file.path.clone()));
    builds.findings.extend(parsed.findings.iter().cloned());
    builds.renamed.extend(parsed.renamed.iter().cloned());
    let mut objects = parsed.objects.clone();
    source.changes.label_objects(&mut objects);
    let (namespace, inputs) = (source.namespace.clone(), parsed.inputs.clone());
    BuiltVariant { clusters, namespace, objects, inputs, record: 0 }
}
