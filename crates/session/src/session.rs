//! An opened repo, with everything derived from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;

use federate_check::{Inspection, ManifestInspector};
use federate_dialect::health_checks::{HealthChecks, InvalidHealthCheck};
use federate_dialect::release::VERSION_SETTING as RELEASE;
use federate_dialect::{
    ClusterReads, Dialects, HostAddresses, ManifestVariant, Plan, PreviousPlan, SharedLists,
};
use federate_engine::deletions::PruneLimit;
use federate_engine::snapshot::{self, StoredSnapshot};
use federate_engine::{
    DecisionCache, Engine, EngineSettings, InventoryObject, PlanResult, Rendering, StepAllowance, TooMuchWork,
};
use federate_kubernetes::sops::CiphertextForm;
use federate_kubernetes::{Cluster, ClusterName, Finding, LiveObjects, Object, ObjectRef, Severity};
use federate_repo::build::{Builder, Decryptor};
use federate_repo::config::{AutoscaledReplicas, UnplacedTemplates};
use federate_repo::{
    Builds, ChangedFile, Claims, Config, FileTree, NeedsReload, ReadOptions, Repo, RepoFile, RepoFiles, Role,
    UnexpandedRepo,
};
use federate_report::findings;

use crate::cluster_states::share_cluster_states;
use crate::decryption::DecryptedObjects;
use crate::excluding_tree::ExcludingTree;
use crate::known_kinds::KnownKinds;
use crate::limited_tree::LimitedTree;
use crate::outages::{self, OutageTimes, UnreachableClusters};
use crate::release;
use crate::source_review::{MAC_CODE, NOT_BUILT_CODE, SOPS_CODE, SourceReview};

/// The code of the finding about a template that no policy places.
const UNMATCHED: &str = "unmatched";

/// The most findings about health checks.
const MAX_INVALID_HEALTH_CHECKS: usize = 100;

/// The codes of findings that stand for it, where a kind or a group is misspelt.
const UNMATCHED_CAUSE_CODES: [&str; 3] = ["unknown-kind", "unknown-group", "unserved-version"];

/// The inputs of a session besides the repo's files.
#[derive(Clone)]
#[non_exhaustive]
pub struct SessionOptions {
    /// The dialects that may claim objects.
    pub dialects: Dialects,
    /// What of the repo is read.
    pub read: ReadOptions,
    /// Whether manifests leave out the replicas that autoscalers decide about, whatever the configuration says.
    pub omit_autoscaled_replicas: bool,
    /// Whether a cluster without `status` is taken as its control plane would take it. By default, it counts
    /// as joined, ready and serving every API.
    pub strict_inventory: bool,
    /// The time for rules about age; without it, they do not apply.
    pub now: Option<Timestamp>,
    /// The previous plan: that of an earlier run, from which schedulers start.
    pub previous: Plan,
    /// The live objects of member clusters, as far as they are known.
    pub observed: LiveObjects,
    /// The addresses of host names.
    pub hosts: HostAddresses,
    /// The releases of control planes, by dialect; they override `dialects.<name>.version` in
    /// `federate.yaml`.
    pub versions: BTreeMap<String, String>,
    /// The snapshot with the status of the clusters. Its plan and its objects are not used: those to decide by are
    /// `previous` and `observed`.
    pub snapshot: Option<Arc<StoredSnapshot>>,
    /// The members that cannot be reached, whose control planes act on it; `None` if they do not.
    pub unreachable: Option<UnreachableClusters>,
    /// Another folder within the repo that is not read.
    pub excluded: Option<String>,
    /// Findings about these options, which the session includes in its own.
    pub findings: Vec<Finding>,
    /// Codes of findings that count as errors.
    pub errors: Vec<String>,
    /// What builds kustomizations and charts; without it, they are not built.
    pub builder: Option<Arc<dyn Builder>>,
    /// What decrypts objects for API servers; without it, those that SOPS encrypted are not sent.
    pub decryptor: Option<Arc<dyn Decryptor>>,
    /// How much work each part of a run may be.
    pub allowance: StepAllowance,
}

impl SessionOptions {
    /// The options of a repo about which nothing else is known.
    pub fn new(dialects: Dialects) -> Self {
        Self {
            dialects,
            read: ReadOptions::default(),
            omit_autoscaled_replicas: false,
            strict_inventory: false,
            now: None,
            previous: Plan::default(),
            observed: LiveObjects::default(),
            hosts: HostAddresses::default(),
            versions: BTreeMap::new(),
            snapshot: None,
            unreachable: None,
            excluded: None,
            findings: Vec::new(),
            errors: Vec::new(),
            builder: None,
            decryptor: None,
            allowance: StepAllowance::default(),
        }
    }

    /// With another [`read`](Self::read).
    #[must_use]
    pub fn with_read(self, read: ReadOptions) -> Self {
        Self { read, ..self }
    }

    /// With another [`omit_autoscaled_replicas`](Self::omit_autoscaled_replicas).
    #[must_use]
    pub fn with_omit_autoscaled_replicas(self, omit_autoscaled_replicas: bool) -> Self {
        Self { omit_autoscaled_replicas, ..self }
    }

    /// With another [`strict_inventory`](Self::strict_inventory).
    #[must_use]
    pub fn with_strict_inventory(self, strict_inventory: bool) -> Self {
        Self { strict_inventory, ..self }
    }

    /// With another [`now`](Self::now).
    #[must_use]
    pub fn with_now(self, now: Option<Timestamp>) -> Self {
        Self { now, ..self }
    }

    /// With another [`previous`](Self::previous).
    #[must_use]
    pub fn with_previous(self, previous: Plan) -> Self {
        Self { previous, ..self }
    }

    /// With another [`observed`](Self::observed).
    #[must_use]
    pub fn with_observed(self, observed: LiveObjects) -> Self {
        Self { observed, ..self }
    }

    /// With another [`hosts`](Self::hosts).
    #[must_use]
    pub fn with_hosts(self, hosts: HostAddresses) -> Self {
        Self { hosts, ..self }
    }

    /// With another [`versions`](Self::versions).
    #[must_use]
    pub fn with_versions(self, versions: BTreeMap<String, String>) -> Self {
        Self { versions, ..self }
    }

    /// With another [`snapshot`](Self::snapshot).
    #[must_use]
    pub fn with_snapshot(self, snapshot: Option<Arc<StoredSnapshot>>) -> Self {
        Self { snapshot, ..self }
    }

    /// With another [`unreachable`](Self::unreachable).
    #[must_use]
    pub fn with_unreachable(self, unreachable: Option<UnreachableClusters>) -> Self {
        Self { unreachable, ..self }
    }

    /// With another [`excluded`](Self::excluded).
    #[must_use]
    pub fn with_excluded(self, excluded: Option<String>) -> Self {
        Self { excluded, ..self }
    }

    /// With another [`findings`](Self::findings).
    #[must_use]
    pub fn with_findings(self, findings: Vec<Finding>) -> Self {
        Self { findings, ..self }
    }

    /// With another [`errors`](Self::errors).
    #[must_use]
    pub fn with_errors(self, errors: Vec<String>) -> Self {
        Self { errors, ..self }
    }

    /// With another [`builder`](Self::builder).
    #[must_use]
    pub fn with_builder(self, builder: Option<Arc<dyn Builder>>) -> Self {
        Self { builder, ..self }
    }

    /// With another [`decryptor`](Self::decryptor).
    #[must_use]
    pub fn with_decryptor(self, decryptor: Option<Arc<dyn Decryptor>>) -> Self {
        Self { decryptor, ..self }
    }

    /// With another [`allowance`](Self::allowance).
    #[must_use]
    pub fn with_allowance(self, allowance: StepAllowance) -> Self {
        Self { allowance, ..self }
    }
}

/// An opened repo with its inventory. Plan, manifests and findings are computed once, on first use.
pub struct Session {
    dialects: Dialects,
    /// The dialects with what was observed when the repo was loaded.
    known: KnownKinds,
    repo: Repo,
    clusters: Vec<Cluster>,
    settings: EngineSettings,
    errors: Vec<String>,
    read_options: ReadOptions,
    omit_autoscaled_replicas: bool,
    versions: BTreeMap<String, String>,
    snapshot: Option<Arc<StoredSnapshot>>,
    unreachable: Option<UnreachableClusters>,
    /// When something happened to the lost members, if their control planes act on it.
    pub(crate) outage_times: Option<OutageTimes>,
    excluded: Option<String>,
    builder: Option<Arc<dyn Builder>>,
    pub(crate) decryptor: Option<Arc<dyn Decryptor>>,
    /// Findings about the options.
    option_findings: Vec<Finding>,
    /// Findings from loading.
    pub(crate) loading_findings: Vec<Finding>,
    /// The decisions to reuse after an [update](Self::update_files); `None` before the first one.
    decision_cache: Mutex<Option<DecisionCache>>,
    planned: OnceLock<PlanResult>,
    rendering: OnceLock<Rendering>,
    /// What an inspection of the manifests finds, if they were inspected when they were rendered.
    pub(crate) inspection: OnceLock<Inspection>,
    /// The plan with the replicas of its manifests.
    plan_with_counts: OnceLock<Result<Plan, TooMuchWork>>,
    /// When objects are healthy for the repo.
    health_checks: HealthChecks,
    /// What is known about files that are not templates as they are written.
    pub(crate) sources: OnceLock<SourceReview>,
    /// The templates that hold what SOPS encrypted.
    pub(crate) encrypted: OnceLock<BTreeMap<ObjectRef, CiphertextForm>>,
    /// What SOPS encrypted, in clear.
    pub(crate) decrypted: OnceLock<DecryptedObjects>,
}

/// Where a rendering goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Files, for another reader, or a comparison.
    Files,
    /// Member clusters.
    Clusters,
}

/// How much of a repo was loaded and decided again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateScope {
    /// Only these templates, which are new, deleted or changed.
    Templates(BTreeSet<ObjectRef>),
    /// Everything, with the reason.
    Everything(NeedsReload),
}

/// Sets the releases of control planes in the configuration.
fn set_releases(repo: &mut Repo, releases: &BTreeMap<String, String>) {
    for (dialect, release) in releases {
        let settings = repo.config.dialects.entry(dialect.clone()).or_default();
        settings.insert(RELEASE.to_owned(), release.as_str().into());
    }
}

/// Sets the versions of Kubernetes that a snapshot has seen.
fn set_versions(clusters: &mut [Cluster], snapshot: Option<&StoredSnapshot>) {
    let seen = snapshot.map(|stored| &stored.kubernetes);
    for cluster in clusters {
        let seen = seen.and_then(|versions| versions.get(cluster.name.as_ref()));
        cluster.kubernetes = seen.cloned().or(cluster.kubernetes.take());
    }
}

/// The repo with only these objects, and the clusters that builds are for, before anything is built.
fn read_unbuilt_repo(
    files: &RepoFiles,
    objects: Vec<Object>,
    known: &KnownKinds,
    options: &SessionOptions,
) -> (Repo, Vec<Cluster>) {
    let mut repo = files.inventory_repo(objects, known);
    if let Some(stored) = &options.snapshot {
        // What it does not know is reported when the whole repo is read.
        let _ = snapshot::apply_status(options.dialects, &mut repo, stored);
    }
    let settings = EngineSettings {
        strict_inventory: options.strict_inventory,
        now: options.now,
        allowance: options.allowance,
        ..EngineSettings::default()
    };
    let (mut clusters, _) = federate_engine::read_inventory(options.dialects, &repo, &settings);
    set_versions(&mut clusters, options.snapshot.as_deref());
    (repo, clusters)
}

/// The clusters that the `Placement`s choose that are written in a repo, by namespace and name, before anything is built of it.
fn decide_written_placements(
    files: &RepoFiles,
    known: &KnownKinds,
    options: &SessionOptions,
) -> BTreeMap<(String, String), Vec<ClusterName>> {
    let claimed = files
        .written_objects()
        .filter(|object| known.role_of_kind(&object.id.api_version, &object.id.kind).is_some());
    let claimed: Vec<Object> = claimed.cloned().collect();
    let (repo, clusters) = read_unbuilt_repo(files, claimed, known, options);
    let settings = EngineSettings {
        now: options.now,
        allowance: options.allowance,
        previous: PreviousPlan::new(options.previous.clone()),
        ..EngineSettings::default()
    };
    let plan = Engine::new(options.dialects, &repo, &clusters, &settings).compute_placements();
    let is_placement = |object: &ObjectRef| {
        object.kind == "Placement" && object.group() == "cluster.open-cluster-management.io"
    };
    let of_placements = plan.placements.iter().filter(|row| is_placement(&row.object));
    of_placements
        .map(|row| {
            let namespace = row.object.namespace.clone().unwrap_or_default();
            let chosen = row.clusters.iter().map(|placed| placed.name.clone()).collect();
            ((namespace, row.object.name.clone()), chosen)
        })
        .collect()
}

impl Session {
    /// Opens a repo. Errors are among the [findings](Self::findings); everything else is still available.
    pub fn open(source: &dyn FileTree, mut options: SessionOptions) -> Self {
        let limited = LimitedTree::new(source, options.allowance);
        let source: &dyn FileTree = &limited;
        let known = KnownKinds::new(options.dialects, &options.observed, options.snapshot.as_deref());
        let excluding = options.excluded.clone().map(|folder| ExcludingTree { source, folder });
        let source = excluding.as_ref().map_or(source, |excluding| excluding as &dyn FileTree);
        let files = federate_repo::read_files(source, &options.read);
        let decided = OnceLock::new();
        let builds = match &options.builder {
            Some(builder) if files.has_sources() => federate_repo::build_sources(
                &files,
                source,
                builder.as_ref(),
                &known,
                &|objects| read_unbuilt_repo(&files, objects, &known, &options).1,
                &|namespace: &str, name: &str| {
                    let all = decided.get_or_init(|| decide_written_placements(&files, &known, &options));
                    all.get(&(namespace.to_owned(), name.to_owned())).cloned()
                },
            ),
            _ => Builds::default(),
        };
        if let Some(excess) = limited.find_excess() {
            options.findings.push(excess);
            return Self::from_files(Vec::new(), Config::default(), options);
        }
        let loaded = files.assemble_repo(builds, &known);
        Self::from_repo(loaded, known.clone(), options)
    }

    /// Like `open`, over files in memory, in any order.
    pub fn from_files(files: Vec<RepoFile>, config: Config, options: SessionOptions) -> Self {
        let known = KnownKinds::new(options.dialects, &options.observed, options.snapshot.as_deref());
        let loaded = federate_repo::load_bytes(files, config, &known);
        Self::from_repo(loaded, known.clone(), options)
    }

    fn from_repo(mut loaded: UnexpandedRepo<'_>, known: KnownKinds, options: SessionOptions) -> Self {
        let SessionOptions {
            dialects,
            read: read_options,
            omit_autoscaled_replicas,
            strict_inventory,
            now,
            previous,
            observed,
            hosts,
            versions,
            snapshot,
            unreachable,
            excluded,
            findings: option_findings,
            errors,
            builder,
            decryptor,
            allowance,
        } = options;
        set_releases(&mut loaded.repo, &versions);
        if omit_autoscaled_replicas {
            loaded.repo.config.autoscaled_replicas = AutoscaledReplicas::Omit;
        }
        let (installed, unknown_releases) = release::find_installed_releases(dialects, &loaded.repo);
        set_releases(&mut loaded.repo, &installed);
        let unseen =
            snapshot.as_ref().map(|stored| snapshot::apply_status(dialects, &mut loaded.repo, stored));
        let settings = EngineSettings {
            strict_inventory,
            now,
            live: observed,
            hosts,
            decrypts: decryptor.is_some(),
            allowance,
            ..EngineSettings::default()
        };
        let (mut clusters, inventory_findings) =
            federate_engine::read_inventory(dialects, &loaded.repo, &settings);
        set_versions(&mut clusters, snapshot.as_deref());
        let outage_times = unreachable
            .as_ref()
            .map(|lost| outages::apply_outages(dialects, &loaded.repo, &mut clusters, lost));
        let mut repo = loaded.into_repo(&clusters);
        let mut loading_findings = std::mem::take(&mut repo.findings);
        loading_findings
            .extend(unseen.into_iter().flatten().chain(inventory_findings).chain(unknown_releases));
        loading_findings.extend(option_findings.iter().cloned());
        let health_checks =
            HealthChecks::from_config(&repo.config.apply.health_checks).unwrap_or_else(|invalid| {
                // The file is read again for each.
                loading_findings.extend(invalid.into_iter().take(MAX_INVALID_HEALTH_CHECKS).map(
                    |InvalidHealthCheck { pointer, message }| {
                        repo.invalid_config(&format!("/apply/healthChecks{pointer}"), message)
                    },
                ));
                HealthChecks::default()
            });
        let (planned, rendering) = (OnceLock::new(), OnceLock::new());
        let decision_cache = Mutex::new(None);
        let mut session = Self {
            dialects,
            known,
            repo,
            clusters,
            settings,
            errors,
            read_options,
            omit_autoscaled_replicas,
            versions,
            snapshot,
            unreachable,
            outage_times,
            excluded,
            builder,
            decryptor,
            option_findings,
            loading_findings,
            decision_cache,
            planned,
            rendering,
            health_checks,
            inspection: OnceLock::new(),
            plan_with_counts: OnceLock::new(),
            sources: OnceLock::new(),
            encrypted: OnceLock::new(),
            decrypted: OnceLock::new(),
        };
        session.settings.previous =
            PreviousPlan::new(session.evict_placements(session.rescope_plan(previous)));
        session
    }

    /// When objects are healthy for the repo, by the checks in its settings.
    pub fn health_checks(&self) -> &HealthChecks {
        &self.health_checks
    }

    /// Updates the session after the files `changed`. If they contain only templates, only these files are
    /// loaded and only these templates are decided again. The result equals that of a new session over the
    /// same files with the same options.
    pub fn update_files(&mut self, source: &dyn FileTree, changed: &[String]) -> UpdateScope {
        let files: Vec<ChangedFile> = changed
            .iter()
            .map(|path| ChangedFile {
                path: path.as_str().into(),
                bytes: source.read_file(path).ok().map(Into::into),
            })
            .collect();
        let folder = changed.iter().find(|path| source.list_folder(path).is_ok());
        let folder = folder.map(|path| NeedsReload { path: path.clone(), why: "the path is a folder" });
        let update = match folder.or_else(|| self.reload_reason(&files)) {
            Some(reason) => Err(reason),
            None => self.repo.update_files(&files, &self.known),
        };
        let update =
            update.and_then(|templates| match self.names_release(|object| templates.contains(&object.id)) {
                Some(reason) => Err(reason),
                None => Ok(templates),
            });
        self.drop_old_lists();
        self.forget_results();
        match update {
            Ok(templates) => {
                if let Ok(cache) = self.decision_cache.get_mut() {
                    cache.get_or_insert_default().forget_templates(&templates);
                }
                UpdateScope::Templates(templates)
            }
            Err(reason) => {
                let previous = std::mem::take(&mut self.settings.previous);
                let mut session = Self::open(source, self.to_options());
                session.settings.previous = previous;
                session.decision_cache = Mutex::new(Some(DecisionCache::default()));
                *self = session;
                UpdateScope::Everything(reason)
            }
        }
    }

    /// Lists of clusters that plans no longer have are kept until they are more than the present ones.
    fn drop_old_lists(&mut self) {
        let rows = self.planned.get().map_or(0, |planned| planned.plan.placements.len());
        if self.settings.lists.len() > 2 * rows + 1000 {
            self.settings.lists = SharedLists::default();
        }
    }

    /// Keeps the values of manifests when it renders, so that applying them need not read their text. Call it before anything
    /// is rendered.
    pub fn keep_manifest_values(&mut self) {
        self.settings.keep_manifest_values = true;
    }

    /// Replaces the previous plan.
    pub fn set_previous(&mut self, previous: Plan) {
        let previous = PreviousPlan::new(self.evict_placements(self.rescope_plan(previous)));
        let before = std::mem::replace(&mut self.settings.previous, previous);
        if let Ok(Some(cache)) = self.decision_cache.get_mut() {
            cache.forget_replanned(&before, &self.settings.previous);
        }
        self.forget_results();
    }

    /// Forgets everything that is derived from the repo and its settings.
    pub(crate) fn forget_results(&mut self) {
        (self.planned, self.rendering) = (OnceLock::new(), OnceLock::new());
        self.inspection = OnceLock::new();
        (self.plan_with_counts, self.sources) = (OnceLock::new(), OnceLock::new());
        (self.encrypted, self.decrypted) = (OnceLock::new(), OnceLock::new());
    }

    /// Decrypts what is sent to API servers from now on.
    pub(crate) fn set_decryptor(&mut self, decryptor: Arc<dyn Decryptor>) {
        self.decryptor = Some(decryptor);
        self.settings.decrypts = true;
        self.forget_results();
    }

    /// A plan with the objects that it names as this repo does: the scope of a kind may have been unknown when it was
    /// made, or be unknown now.
    fn rescope_plan(&self, mut plan: Plan) -> Plan {
        let mut renamed = false;
        for row in &mut plan.placements {
            let namespace = match row.object.namespace.as_deref() {
                None => Some("default".to_owned()),
                Some("default") => None,
                Some(_) => continue,
            };
            let other = ObjectRef { namespace, ..row.object.clone() };
            if self.repo.find_template(&row.object).is_none() && self.repo.find_template(&other).is_some() {
                row.object = other;
                renamed = true;
            }
        }
        if renamed {
            plan.placements.sort_by(|a, b| a.object.cmp(&b.object));
        }
        plan
    }

    /// Returns what decisions read in the member clusters.
    pub fn cluster_reads(&self) -> ClusterReads {
        self.build_engine().cluster_reads()
    }

    /// Decides by these objects of the member clusters from now on. Free resources that the inventory does not state
    /// are those of the nodes and pods among them.
    pub fn observe_objects(&mut self, observed: LiveObjects) {
        self.settings.live = observed;
        (self.clusters, _) = federate_engine::read_inventory(self.dialects, &self.repo, &self.settings);
        if let Some(lost) = &self.unreachable {
            self.outage_times =
                Some(outages::apply_outages(self.dialects, &self.repo, &mut self.clusters, lost));
        }
        self.forget_results();
        if let Ok(Some(cache)) = self.decision_cache.get_mut() {
            *cache = DecisionCache::default();
        }
    }

    /// Gives the clusters the state that other inventory objects report of them.
    pub fn share_cluster_states(&mut self, others: &[Cluster]) {
        share_cluster_states(self.dialects, &mut self.clusters, others);
        self.forget_results();
    }

    /// Why findings from loading prevent loading only the changed files.
    fn reload_reason(&self, files: &[ChangedFile]) -> Option<NeedsReload> {
        let twice = self.loading_findings.iter().find(|finding| finding.code == "duplicate-object");
        if let Some(origin) = twice.and_then(|finding| finding.origin.as_ref()) {
            return Some(NeedsReload {
                path: origin.file.to_string(),
                why: "it contains an object of a dialect that is defined twice",
            });
        }
        let origins = self.loading_findings.iter().filter_map(|finding| finding.origin.as_ref());
        if let Some(file) = files.iter().find(|file| origins.clone().any(|origin| origin.file == file.path)) {
            return Some(NeedsReload { path: file.path.to_string(), why: "it had errors" });
        }
        self.names_release(|object| files.iter().any(|file| file.path == object.origin.file))
    }

    /// Why the files must be read again, if one of these objects is the Deployment of a control plane, whose release decides the
    /// rules.
    fn names_release(&self, which: impl Fn(&Object) -> bool) -> Option<NeedsReload> {
        let objects = self.repo.templates.iter().map(|template| &template.object);
        let object = objects.filter(|object| which(object)).find(|object| {
            self.dialects.iter().any(|dialect| dialect.hub().detect_release(&[object]).is_some())
        })?;
        let path = object.origin.file.to_string();
        Some(NeedsReload { path, why: "it names the release of a control plane" })
    }

    fn to_options(&self) -> SessionOptions {
        SessionOptions {
            dialects: self.dialects,
            read: self.read_options.clone(),
            omit_autoscaled_replicas: self.omit_autoscaled_replicas,
            strict_inventory: self.settings.strict_inventory,
            now: self.settings.now,
            previous: Plan::default(),
            observed: self.settings.live.clone(),
            hosts: self.settings.hosts.clone(),
            versions: self.versions.clone(),
            snapshot: self.snapshot.clone(),
            unreachable: self.unreachable.clone(),
            excluded: self.excluded.clone(),
            findings: self.option_findings.clone(),
            errors: self.errors.clone(),
            builder: self.builder.clone(),
            decryptor: self.decryptor.clone(),
            allowance: self.settings.allowance,
        }
    }

    /// The snapshot with the status of the clusters, if there is one.
    pub fn snapshot(&self) -> Option<&StoredSnapshot> {
        self.snapshot.as_deref()
    }

    /// The dialects.
    pub fn dialects(&self) -> Dialects {
        self.dialects
    }

    /// The repo.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// The inventory: all clusters of all dialects, sorted by name.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The inputs of decisions besides the repo.
    pub(crate) fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// The time for rules about age, if set.
    pub fn now(&self) -> Option<Timestamp> {
        self.settings.now
    }

    /// The inventory object of each cluster, with the connection details in it.
    pub fn inventory_objects(&self) -> BTreeMap<String, InventoryObject> {
        federate_engine::inventory_objects(self.dialects, &self.repo, &self.clusters)
    }

    /// The observed live objects of member clusters.
    pub fn observed(&self) -> &LiveObjects {
        &self.settings.live
    }

    /// The engine over this repo, with compiled policies.
    pub fn build_engine(&self) -> Engine<'_> {
        Engine::new(self.dialects, &self.repo, &self.clusters, &self.settings)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        match self.rendering.get() {
            Some(rendering) => &rendering.plan,
            None => &self.compute_plan().plan,
        }
    }

    /// The plan for people: with the replicas that manifests have, and with each object once. A template that no policy
    /// places may have a row that is only scheduler state. If counting takes too much work, the replicas are those
    /// that were decided, and [`plan_findings`](Self::plan_findings) has an error.
    pub fn plan_with_replicas(&self) -> Plan {
        let mut plan = self.counted_plan().as_ref().unwrap_or(self.plan()).clone();
        let unmatched: BTreeSet<&ObjectRef> = plan.unmatched.iter().collect();
        plan.placements.retain(|row| !row.clusters.is_empty() || !unmatched.contains(&row.object));
        plan
    }

    /// The plan with the replicas that manifests have.
    fn counted_plan(&self) -> &Result<Plan, TooMuchWork> {
        self.plan_with_counts.get_or_init(|| self.build_engine().fill_in_replicas(self.plan()))
    }

    /// The plan with the manifests of each cluster. Its findings are all but those from loading;
    /// [`findings`](Self::findings) has both.
    pub fn render(&self) -> &Rendering {
        self.rendering.get_or_init(|| {
            let engine = self.build_engine();
            // A plan that is needed only for rendering is not kept.
            let keeps_plan = self.planned.get().is_some() || self.lock_decisions().is_some();
            if keeps_plan {
                engine.render_plan(self.planned.get_or_init(|| self.plan_by_engine(&engine)).clone())
            } else {
                engine.render_repo()
            }
        })
    }

    /// Whether earlier placements or observed objects are known.
    pub fn has_memory(&self) -> bool {
        let EngineSettings { previous, live, .. } = &self.settings;
        !previous.rows().is_empty() || self.clusters.iter().any(|cluster| live.knows_cluster(&cluster.name))
    }

    /// Renders the repo and its clusters in another state. Without memory, nothing was placed before, and nothing observed.
    pub fn render_state(&self, repo: &Repo, clusters: &[Cluster], with_memory: bool) -> Rendering {
        let mut settings = self.settings.clone();
        if !with_memory {
            (settings.previous, settings.live) = (PreviousPlan::default(), LiveObjects::default());
        }
        Engine::new(self.dialects(), repo, clusters, &settings).render_repo()
    }

    /// Renders the manifests, and inspects them for [`check_repo`](Self::check_repo) at the same time, for commands that do both and
    /// count replicas.
    pub fn render_inspected(&self) -> &Rendering {
        self.rendering.get_or_init(|| {
            let engine = self.build_engine();
            let planned = self.planned.get_or_init(|| self.plan_by_engine(&engine));
            self.plan_with_counts.get_or_init(|| engine.fill_in_replicas(&planned.plan));
            let inspector = ManifestInspector::new(&engine, &planned.plan, None);
            let (rendering, rows) = engine.render_observed(planned.clone(), |row, variants| {
                inspector.inspect_variants(&row.object, variants)
            });
            if rows.len() < planned.plan.placements.len() {
                // Both together are too much work, each alone may not be.
                return engine.render_plan(planned.clone());
            }
            let _ = self.inspection.set(Inspection::merge_rows(rows));
            rendering
        })
    }

    /// The variants of an object for the clusters, as values instead of text.
    pub fn object_variants(&self, object: &ObjectRef) -> Vec<ManifestVariant> {
        self.build_engine().object_variants(self.plan(), object)
    }

    /// The findings from loading and planning, sorted, and from counting replicas, if that was done.
    pub fn plan_findings(&self) -> Vec<Finding> {
        let mut found = self.loading_findings.clone();
        found.extend(self.compute_plan().findings.iter().cloned());
        let uncounted = self.plan_with_counts.get().and_then(|counted| counted.as_ref().err());
        found.extend(uncounted.cloned().map(TooMuchWork::into_finding));
        found.extend(self.source_findings().iter().cloned());
        self.order_findings(found)
    }

    /// The findings from loading and planning, with the errors of overrides that fail, sorted.
    pub fn plan_findings_with_overrides(&self) -> Vec<Finding> {
        let mut claimed = self.repo.claimed.iter();
        if !claimed.any(|claimed| matches!(claimed.role, Role::Override | Role::Bundle)) {
            return self.plan_findings();
        }
        let mut found = self.plan_findings();
        let known: BTreeSet<Finding> = found.iter().cloned().collect();
        let failed =
            self.order_findings(self.render().findings.iter().filter(|f| f.is_error()).cloned().collect());
        found.extend(failed.into_iter().filter(|finding| !known.contains(finding)));
        findings::sort_findings(&mut found);
        found
    }

    /// The findings from loading, planning and rendering, sorted, for a command that only shows the result.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = self.loading_findings.clone();
        found.extend(self.render().findings.iter().cloned());
        found.extend(self.source_findings().iter().cloned());
        self.order_findings(found)
    }

    /// [`findings`](Self::findings) for a command that writes the result: what would be wrong there is an error.
    pub fn findings_for(&self, destination: Destination) -> Vec<Finding> {
        let mut found = self.findings();
        for finding in &mut found {
            if finding.code == NOT_BUILT_CODE
                || (finding.code == SOPS_CODE && destination == Destination::Clusters)
            {
                finding.severity = Severity::Error;
            }
        }
        match destination {
            Destination::Clusters => {
                found.retain(|finding| finding.code != MAC_CODE);
                found.extend(self.decrypted_objects().findings.iter().cloned());
            }
            Destination::Files => found.extend(self.undecryptable_files()),
        }
        findings::sort_findings(&mut found);
        found
    }

    /// The largest share of earlier output that this rendering may delete. What a file holds that cannot be read is not
    /// deleted: nothing tells it from what is no longer rendered.
    pub fn prune_limit(&self, limit: PruneLimit) -> PruneLimit {
        let confirms = limit.percent() == 100;
        if !confirms
            && self.loading_findings.iter().any(|finding| finding.is_error() && finding.code == "unreadable")
        {
            PruneLimit::new(0)
        } else {
            limit
        }
    }

    pub(crate) fn compute_plan(&self) -> &PlanResult {
        self.planned.get_or_init(|| self.plan_by_engine(&self.build_engine()))
    }

    /// Plans with an engine over this repo. Decisions that a change of files leaves as they are, are not taken again.
    fn plan_by_engine(&self, engine: &Engine<'_>) -> PlanResult {
        engine.compute_plan_with(self.lock_decisions().as_mut())
    }

    fn lock_decisions(&self) -> MutexGuard<'_, Option<DecisionCache>> {
        self.decision_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes findings errors that the options or the configuration count as such, leaves out what only follows from sources that
    /// are not built, and sorts by place.
    pub(crate) fn order_findings(&self, mut found: Vec<Finding>) -> Vec<Finding> {
        found.retain(|finding| !self.follows_from_sources(finding));
        let by_config = self.repo.config.unplaced == UnplacedTemplates::Error;
        let fails_unmatched = by_config || self.errors.iter().any(|code| code == UNMATCHED);
        let unmatched = if fails_unmatched { self.plan().unmatched.as_slice() } else { &[] };
        // A template that is placed nowhere may have another finding that says why. What would follow an object that is
        // on no cluster is unschedulable with it, but not placed either.
        // It may be a policy with a mistyped kind, which is not among the templates.
        let own = if fails_unmatched { self.repo.claimed.as_slice() } else { &[] };
        let own = own.iter().filter(|claimed| claimed.role == Role::ControlPlane);
        let misspelt: BTreeSet<&ObjectRef> = own.map(|claimed| &claimed.object.id).collect();
        for finding in &mut found {
            let says_why = UNMATCHED_CAUSE_CODES.contains(&finding.code)
                || (by_config && finding.code == "unschedulable");
            let object = finding.object.as_ref().filter(|_| says_why);
            let of_template = finding.code == UNMATCHED
                || object.is_some_and(|id| unmatched.binary_search(id).is_ok() || misspelt.contains(id));
            let fails = if finding.code == UNMATCHED {
                fails_unmatched
            } else {
                of_template || self.errors.iter().any(|code| code == finding.code)
            };
            if !fails {
                continue;
            }
            if by_config && of_template && !finding.is_error() {
                let help = finding.help.take().map_or_else(String::new, |help| format!("{help}; "));
                finding.help = Some(format!("{help}`unplaced: error` in federate.yaml makes this an error"));
            }
            finding.severity = Severity::Error;
        }
        findings::sort_findings(&mut found);
        found
    }
}
