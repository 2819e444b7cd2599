//! The repo with its encrypted files in clear, for objects that are built with values from them: a variable of Flux, or a value of a
//! chart, can be anywhere in what is built, and in any form.
//!
//! Only clusters receive what is rendered of it. It is read besides the repo as it is written, which everything else is about: the
//! plan, the files, and all that is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use federate_dialect::Placement;
use federate_engine::{Engine, Manifest, PlanResult};
use federate_kubernetes::sops::{CIPHERTEXT_START, EncryptedFile, PlainValues, SopsFormat, find_ciphertext};
use federate_kubernetes::{Finding, ObjectRef, Severity};
use federate_repo::build::{BuildError, BuildJob, BuildOutput, BuildTime, Builder, Decryptor};
use federate_repo::file_tree::{TreeEntry, TreeError};
use federate_repo::{FileTree, UNKNOWN_VALUES};

use crate::source_review::SOPS_CODE;
use crate::{Session, SessionOptions};

/// The repo with its encrypted files in clear.
pub(crate) struct PlainRepo {
    session: Session,
    /// What was decrypted.
    values: PlainValues,
    /// The files that cannot be decrypted.
    failed: Vec<Finding>,
}

/// What is rendered of objects with their values in clear.
pub(crate) struct PlainManifests {
    pub(crate) manifests: Vec<Manifest>,
    /// Whether objects still lack values.
    pub(crate) lacks_values: bool,
    pub(crate) findings: Vec<Finding>,
}

impl PlainRepo {
    /// Reads a source, with the options of the session over it as it is written.
    pub(crate) fn open(
        source: &dyn FileTree,
        options: SessionOptions,
        decryptor: &dyn Decryptor,
    ) -> Box<Self> {
        let tree = DecryptedTree { source, decryptor, read: Mutex::default() };
        let builder =
            options.builder.clone().map(|builder| Arc::new(UncachedBuilder(builder)) as Arc<dyn Builder>);
        let session = Session::open(&tree, SessionOptions { decryptor: None, builder, ..options });
        let DecryptedFiles { values, failed, .. } =
            tree.read.into_inner().unwrap_or_else(PoisonError::into_inner);
        Box::new(Self { session, values, failed })
    }

    /// The values in clear.
    pub(crate) fn values(&self) -> &PlainValues {
        &self.values
    }

    /// The findings about values that are not even known here.
    pub(crate) fn unknown_values(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.session.loading_findings.iter();
        findings.filter(|finding| finding.code == UNKNOWN_VALUES)
    }

    /// The engine over the files in clear.
    pub(crate) fn build_engine<'s>(&'s self, written: &'s Session) -> Engine<'s> {
        Engine::new(written.dialects(), self.session.repo(), written.clusters(), written.settings())
    }

    /// Renders objects for the clusters where the plan of the repo as it is written places them.
    pub(crate) fn render(&self, written: &Session, objects: &BTreeSet<ObjectRef>) -> PlainManifests {
        let mut plan = written.plan().clone();
        plan.placements.retain(|row| objects.contains(&row.object));
        let plan_rows = plan.placements.clone();
        let planned = PlanResult { plan, findings: Vec::new() };
        let rendered = self.build_engine(written).render_plan(planned).manifests;
        let mut lacking: BTreeSet<&ObjectRef> = BTreeSet::new();
        let mut known: BTreeSet<&ObjectRef> = BTreeSet::new();
        for manifest in &rendered {
            let document = federate_yaml::read_stream(manifest.text.as_bytes()).documents.pop();
            let is_known = document.is_some_and(|document| find_ciphertext(&document.value).is_none());
            if is_known { &mut known } else { &mut lacking }.insert(&manifest.object);
        }
        let divided: BTreeSet<&ObjectRef> =
            plan_rows.iter().filter(|row| divides_unknown(written, row)).map(|row| &row.object).collect();
        let missing = objects.iter().filter(|object| !known.contains(object) && !lacking.contains(object));
        let mut findings: Vec<Finding> = missing.map(|object| report_missing(written, object)).collect();
        findings.extend(divided.iter().map(|object| report_divided(written, object)));
        if !lacking.is_empty() {
            findings.extend(self.failed.iter().cloned());
        }
        let manifests = rendered
            .iter()
            .filter(|manifest| !lacking.contains(&manifest.object) && !divided.contains(&manifest.object));
        let manifests = manifests.cloned().collect();
        PlainManifests { manifests, lacks_values: !lacking.is_empty(), findings }
    }
}

/// Whether the plan divides replicas among clusters of which the number is not known without keys.
fn divides_unknown(written: &Session, row: &Placement) -> bool {
    let template = written.repo().find_template(&row.object);
    let replicas = template.and_then(|template| template.object.value_at(&["spec", "replicas"]));
    replicas.is_some_and(serde_json::Value::is_string)
        && row.clusters.iter().any(|placed| placed.replicas.is_some())
}

/// The error about an object whose replicas are divided, although their number is not known without keys.
fn report_divided(written: &Session, id: &ObjectRef) -> Finding {
    let message = format!("the replicas of {id} are divided among clusters, and SOPS encrypted their number");
    report(written, id, message).with_help("write the number in plain text, as in a ConfigMap")
}

fn report(written: &Session, id: &ObjectRef, message: String) -> Finding {
    match written.repo().find_template(id) {
        Some(template) => Finding::error(SOPS_CODE, &template.object, message),
        None => Finding::in_file(Severity::Error, SOPS_CODE, &"".into(), None, message),
    }
}

/// The error about an object that is not built with its values in clear. What its build says may have them.
fn report_missing(written: &Session, id: &ObjectRef) -> Finding {
    let message = format!(
        "{id} is not built with its decrypted values as it is without them: the build fails, or gives it another name, which is not \
         shown, because it may have these values"
    );
    report(written, id, message)
        .with_help("build it where its values may be seen, as with `flux build` or `helm template`")
}

/// A source whose encrypted files are read in clear, as far as they can be decrypted.
struct DecryptedTree<'s> {
    source: &'s dyn FileTree,
    decryptor: &'s dyn Decryptor,
    read: Mutex<DecryptedFiles>,
}

/// What was decrypted.
#[derive(Default)]
struct DecryptedFiles {
    files: BTreeMap<String, Vec<u8>>,
    values: PlainValues,
    failed: Vec<Finding>,
}

impl DecryptedTree<'_> {
    fn decrypt(&self, path: &str, bytes: Vec<u8>) -> Vec<u8> {
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.contains(CIPHERTEXT_START));
        let Some(file) = text.and_then(|text| EncryptedFile::read(path, text)) else { return bytes };
        let decrypted = self.decryptor.decrypt_file(&file, file.format);
        let mut read = self.lock();
        match decrypted {
            Ok(plain) => {
                if matches!(file.format, SopsFormat::Yaml | SopsFormat::Json) {
                    let documents = federate_yaml::read_stream(&plain).documents.into_iter();
                    let documents: Vec<_> = documents.map(|document| document.value).collect();
                    read.values.add_documents(&file.documents, &documents);
                } else {
                    read.values.add_file(path, plain.clone());
                }
                read.files.insert(path.to_owned(), plain.clone());
                plain
            }
            Err(error) => {
                let message = format!("{path}, which SOPS encrypted, cannot be decrypted: {}", error.why);
                let finding = Finding::in_file(Severity::Error, SOPS_CODE, &path.into(), None, message);
                read.failed.push(Finding { help: error.help, ..finding });
                read.files.insert(path.to_owned(), bytes.clone());
                bytes
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, DecryptedFiles> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileTree for DecryptedTree<'_> {
    fn list_folder(&self, folder: &str) -> Result<Vec<TreeEntry>, TreeError> {
        self.source.list_folder(folder)
    }

    fn read_file(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        if let Some(known) = self.lock().files.get(path) {
            return Ok(known.clone());
        }
        self.source.read_file(path).map(|bytes| self.decrypt(path, bytes))
    }
}

/// Builds without a cache, which may be on a disk.
struct UncachedBuilder(Arc<dyn Builder>);

impl Builder for UncachedBuilder {
    fn build(
        &self,
        tree: &dyn FileTree,
        jobs: &[BuildJob],
        taken: &BuildTime,
    ) -> Vec<Result<BuildOutput, BuildError>> {
        self.0.build_uncached(tree, jobs, taken)
    }

    fn build_uncached(
        &self,
        tree: &dyn FileTree,
        jobs: &[BuildJob],
        taken: &BuildTime,
    ) -> Vec<Result<BuildOutput, BuildError>> {
        self.0.build_uncached(tree, jobs, taken)
    }
}
