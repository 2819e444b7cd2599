//! The builds of sources that objects of Flux and Argo CD describe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_gitops::{
    DescribedJob, DescribedSource, DescriptionError, DirectoryFiles, KustomizationRules, read_directory,
};
use federate_kubernetes::sops::EncryptedFile;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, Origin, Severity};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{ApiClasses, BuiltVariant, CachedTree, ParsedOutput, SourceDestination, SourceRecord};
use crate::build::{BuildJob, BuildOutput, ChartJob, InputFile, KustomizationJob};
use crate::config::is_release_name;
use crate::documents;

/// The job for a cluster; for no cluster in particular if there are none. The files of a folder need no program.
pub(super) fn list_job(
    source: &DescribedSource,
    cluster: Option<&Cluster>,
    apis: &ApiClasses,
) -> Result<Option<BuildJob>, DescriptionError> {
    let chart = match &source.job {
        DescribedJob::Directory(_) => return Ok(None),
        DescribedJob::Kustomization { edits, rules } => {
            return Ok(Some(BuildJob::Kustomization(Box::new(KustomizationJob {
                folder: source.path.clone(),
                // Flux restricts no files; Argo CD does, as kustomize by itself.
                is_unrestricted: *rules == KustomizationRules::Flux,
                edits: if edits.is_empty() {
                    String::new()
                } else {
                    Value::Object(edits.clone()).to_string()
                },
                rules: *rules,
            }))));
        }
        DescribedJob::Chart(chart) => chart,
    };
    if !is_release_name(&chart.release) {
        let why =
            format!("{:?} is not the name of a release: at most 53 of a-z, 0-9, `-` and `.`", chart.release);
        return Err(DescriptionError::new("/metadata/name", why)
            .with_help("set `releaseName` to a shorter name in lower case"));
    }
    let apis = match (&chart.apis, cluster) {
        (Some(apis), _) => apis.as_slice().into(),
        (None, Some(cluster)) => apis.list_for(cluster),
        (None, None) => Arc::from([]),
    };
    Ok(Some(BuildJob::Chart(Box::new(ChartJob {
        path: source.path.clone(),
        release: Some(chart.release.clone()),
        namespace: chart.namespace.clone(),
        values: chart.values.clone(),
        replaces_values: chart.replaces_values,
        set: if chart.set.is_empty() { String::new() } else { Value::Object(chart.set.clone()).to_string() },
        parameters: chart.parameters.clone(),
        kubernetes: chart
            .kubernetes
            .clone()
            .or_else(|| cluster.and_then(|cluster| cluster.kubernetes.clone())),
        apis,
        skips_crds: chart.skips_crds,
        drops_hooks: chart.drops_hooks,
        skips_schema: chart.skips_schema,
        post_rendering: chart.post_rendering.clone(),
    }))))
}

/// The objects of the files of a folder.
pub(super) fn read_files(
    tree: &CachedTree<'_>,
    folder: &str,
    selection: &DirectoryFiles,
) -> Result<ParsedOutput, DescriptionError> {
    let content = read_directory(tree, folder, selection)?;
    let (mut objects, mut findings, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
    for file in content.files {
        let path: Arc<str> = file.path.as_str().into();
        let read = documents::split_documents(&path, file.stream);
        objects.extend(read.objects);
        findings.extend(read.findings);
        let encrypted =
            std::str::from_utf8(&file.bytes).ok().and_then(|text| EncryptedFile::read(&path, text));
        inputs.push(InputFile {
            path: file.path,
            digest: Sha256::digest(&file.bytes).into(),
            encrypted: encrypted.map(|_| file.bytes.as_slice().into()),
        });
    }
    findings.extend(content.links.iter().map(|link| {
        let message = format!("`{folder}` is read without the link `{link}`");
        Finding::in_file(Severity::Warning, "build-link", &link.as_str().into(), None, message)
            .with_help("commit the file itself in place of the link")
    }));
    Ok(ParsedOutput { objects, renamed: Vec::new(), findings, inputs: inputs.into() })
}

/// The output with its variables substituted. The error says what cannot be substituted.
pub(super) fn substitute_output(
    source: &DescribedSource,
    output: &BuildOutput,
) -> Result<BuildOutput, String> {
    let stream = federate_yaml::read_stream(&output.text);
    if let Some(error) = stream.errors.first() {
        return Err(format!("the output of the build is not valid YAML: {error}"));
    }
    let documents =
        stream.documents.into_iter().map(|document| document.value).filter(|value| !value.is_null());
    let text = source.changes.substitute_documents(documents.collect())?;
    Ok(BuildOutput { text: text.into_bytes().into(), ..output.clone() })
}

/// Takes the objects of an Application out that a later one of its sources has, too: the last one counts. Returns warnings about them.
pub(super) fn drop_repeated(
    described: &[(&DescribedSource, Option<&Object>)],
    finished: &mut [Result<Vec<BuiltVariant>, DescriptionError>],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    // What later sources have, by the place of the object and the Application, and where.
    let mut later: BTreeMap<(&Origin, &str), BTreeMap<ObjectRef, Receivers>> = BTreeMap::new();
    for ((source, object), finished) in described.iter().zip(finished).rev() {
        let (Some(application), Some(object)) = (&source.application, object) else { continue };
        let Ok(variants) = finished else { continue };
        let later = later.entry((&object.origin, application)).or_default();
        let mut own: Vec<(ObjectRef, Vec<ClusterName>)> = Vec::new();
        for variant in variants {
            let clusters = &variant.clusters;
            for repeated in variant.objects.extract_if(.., |built| {
                later.get(&built.id).is_some_and(|known| known.share_clusters(clusters))
            }) {
                let message = format!(
                    "several sources of the Application {application} have {}, and the last one counts",
                    repeated.id
                );
                let finding = Finding::error("duplicate-object", object, message);
                findings.push(Finding { severity: Severity::Warning, ..finding });
            }
            own.extend(variant.objects.iter().map(|built| (built.id.clone(), clusters.clone())));
        }
        for (id, clusters) in own {
            later.entry(id).or_default().add_clusters(clusters);
        }
    }
    findings
}

/// The clusters that receive an object.
#[derive(Default)]
struct Receivers {
    are_all: bool,
    named: BTreeSet<ClusterName>,
}

impl Receivers {
    /// Adds clusters. An empty list stands for all.
    fn add_clusters(&mut self, clusters: Vec<ClusterName>) {
        self.are_all |= clusters.is_empty();
        self.named.extend(clusters);
    }

    fn share_clusters(&self, clusters: &[ClusterName]) -> bool {
        self.are_all || clusters.is_empty() || clusters.iter().any(|cluster| self.named.contains(cluster))
    }
}

/// What is noted of a source. `described_by` is the object that describes it, `chain` the objects through which that was built.
pub(super) fn record_source(
    source: &DescribedSource,
    described_by: Option<&ObjectRef>,
    chain: Vec<ObjectRef>,
) -> SourceRecord {
    let release = match &source.job {
        DescribedJob::Chart(chart) => Some(chart.release.clone()),
        DescribedJob::Kustomization { .. } | DescribedJob::Directory(_) => None,
    };
    SourceRecord {
        path: source.path.clone(),
        is_chart: release.is_some(),
        release,
        described_by: described_by.cloned(),
        chain,
        destination: find_destination(source, described_by),
        ..SourceRecord::default()
    }
}

/// Where what is built is applied, if the object says so.
fn find_destination(source: &DescribedSource, described_by: Option<&ObjectRef>) -> Option<SourceDestination> {
    let remote = source.kube_config.as_ref().and(described_by).map(|id| &id.name);
    let name = source.application.as_ref().or(remote)?.clone();
    Some(SourceDestination { name, clusters: source.clusters.clone() })
}
