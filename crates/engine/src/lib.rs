//! The pipeline over any dialect: inventory, plan, manifests.
//!
//! The engine runs the control planes of all dialects and merges their results. It uses all cores and sorts
//! its output, so that the same input gives the same bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use federate_dialect::{
    ClusterReads, Dialect, Dialects, HostAddresses, PlannerInput, PolicyPlanner, PreviousPlan, SharedLists,
};
use federate_kubernetes::pointer;
use federate_kubernetes::{Cluster, Connection, ConnectionError, Finding, LiveObjects, Object, ObjectRef};
use federate_repo::config::AutoscaledReplicas;
use federate_repo::{Repo, Role};

use autoscalers::Autoscalers;

pub mod autoscalers;
pub mod capacity;
pub mod change;
mod config_clusters;
mod conflict;
pub mod controlled_fields;
pub mod decision_groups;
mod decisions;
pub mod deletions;
mod encryption;
pub mod import;
mod inventory_draft;
mod kept_rows;
pub mod lookalike;
mod manifest;
pub mod misspelt_kinds;
mod plan;
pub mod previous;
pub mod references;
pub mod replicas;
pub mod restart;
pub mod selector_mismatches;
pub mod snapshot;
mod template_index;
pub mod unplaced_templates;
pub mod work_limit;

pub use decisions::DecisionCache;
pub use encryption::{is_copied, report_undecryptable};
pub use inventory_draft::{DraftedInventory, draft_inventory};
pub use manifest::{Manifest, ObjectManifests, Rendering, UnsentObject, serialize_variants};
pub use plan::PlanResult;
pub use template_index::TemplateIndex;
pub use work_limit::{StepAllowance, TOO_MUCH_WORK, TooMuchWork, WorkLimit, map_charged};

/// The most findings about one list of `federate.yaml`. The file is read again for each.
const MAX_SIMILAR_FINDINGS: usize = 100;

/// The inputs of a run besides the repo.
#[derive(Clone, Debug, Default)]
pub struct EngineSettings {
    /// Whether a cluster without `status` counts as its control plane would count it. Otherwise, it counts as
    /// joined, ready and serving every API.
    pub strict_inventory: bool,
    /// The current time for rules about age. Without it, these rules do not apply.
    pub now: Option<Timestamp>,
    /// The plan of an earlier run.
    pub previous: PreviousPlan,
    /// The objects that were observed in the member clusters.
    pub live: LiveObjects,
    /// The addresses of host names.
    pub hosts: HostAddresses,
    /// The cluster lists that the rows and manifests of all plans with these settings share.
    pub lists: SharedLists,
    /// Whether manifests keep their values, to be applied.
    pub keep_manifest_values: bool,
    /// Whether manifests are decrypted before they are sent: what no other reader could decrypt is rendered then.
    pub decrypts: bool,
    /// How much work each part of a run may be.
    pub allowance: StepAllowance,
}

/// Reads the clusters of `federate.yaml` and the inventory objects of all dialects, to which `federate.yaml` may add where their
/// clusters are. Returns the clusters, sorted by name.
pub fn read_inventory(
    dialects: Dialects,
    repo: &Repo,
    settings: &EngineSettings,
) -> (Vec<Cluster>, Vec<Finding>) {
    let (mut configured, mut findings) = config_clusters::read_clusters(repo, settings.strict_inventory);
    let mut clusters: Vec<Cluster> = Vec::new();
    for dialect in dialects.iter() {
        let claimed = repo.claimed.iter().filter(|claimed| claimed.dialect == dialect.name());
        for claimed in claimed.filter(|claimed| claimed.role == Role::Inventory) {
            let found = dialect.validate_object(claimed, &repo.config);
            if found.iter().any(Finding::is_error) {
                findings.extend(found.into_iter().filter(Finding::is_error));
                continue;
            }
            match dialect.read_cluster(&claimed.object, settings.strict_inventory, &repo.config) {
                Ok(mut cluster) => {
                    add_observed(&mut cluster, dialect, &claimed.object, &settings.live);
                    clusters.push(cluster);
                }
                Err(unreadable) => findings.push(unreadable),
            }
        }
    }
    config_clusters::add_locations(&mut configured, &mut clusters);
    configured.append(&mut clusters);
    let mut clusters = configured;
    clusters.sort_by(|a, b| a.name.cmp(&b.name));
    clusters.dedup_by(|later, first| {
        let same = later.name == first.name;
        if same {
            findings.push(conflict::same_cluster(first, later));
        }
        same
    });
    (clusters, findings)
}

/// Adds the free resources and the properties that the inventory does not state, by the nodes and pods that are known to
/// be in a cluster.
fn add_observed(cluster: &mut Cluster, dialect: &dyn Dialect, object: &Object, live: &LiveObjects) {
    let name = object.id.name.as_str();
    let nodes = live.list_kind(name, "", "Node", None);
    if nodes.is_empty() {
        return;
    }
    for (property, value) in dialect.hub().compute_properties(nodes) {
        cluster.properties.entry(property).or_insert(value);
    }
    if cluster.capacity.is_none() {
        let pods =
            live.cluster_objects(name).iter().filter(|o| o.id.group().is_empty() && o.id.kind == "Pod");
        cluster.capacity = dialect.hub().compute_capacity(object, nodes, &pods.cloned().collect::<Vec<_>>());
    }
}

/// The inventory object of a cluster.
#[derive(Clone)]
pub struct InventoryObject {
    /// The identity of the object.
    pub object: ObjectRef,
    /// The dialect of its control plane.
    pub dialect: &'static dyn Dialect,
    /// How to connect to the cluster according to the object, or the reason why the object does not say so.
    pub connection: Result<Connection, ConnectionError>,
}

/// Returns the inventory object of each cluster, by cluster name.
pub fn inventory_objects(
    dialects: Dialects,
    repo: &Repo,
    clusters: &[Cluster],
) -> BTreeMap<String, InventoryObject> {
    let mut known = BTreeMap::new();
    for dialect in dialects.iter() {
        for object in repo.claimed_objects(dialect.name(), Role::Inventory) {
            let at = clusters.binary_search_by(|cluster| cluster.name.as_ref().cmp(&object.id.name));
            if at.is_ok_and(|at| clusters.get(at).is_some_and(|cluster| cluster.id == object.id)) {
                let connection = dialect.hub().read_connection(object);
                let inventory = InventoryObject { object: object.id.clone(), dialect, connection };
                known.insert(object.id.name.clone(), inventory);
            }
        }
    }
    known
}

/// The control planes of all dialects, opened on one repo.
pub struct Engine<'a> {
    dialects: Dialects,
    repo: &'a Repo,
    clusters: &'a [Cluster],
    planners: Arc<Vec<(&'static str, Box<dyn PolicyPlanner + 'a>)>>,
    previous: &'a PreviousPlan,
    lists: &'a SharedLists,
    keep_manifest_values: bool,
    decrypts: bool,
    limit: WorkLimit,
    /// The policies of a dialect take too much work to read; it decides nothing.
    exceeded: Option<TooMuchWork>,
    /// The autoscalers of the repo, if manifests leave the replicas out that they decide about.
    autoscalers: Option<Arc<Autoscalers>>,
}

impl<'a> Engine<'a> {
    /// Compiles the repo's policies.
    pub fn new(
        dialects: Dialects,
        repo: &'a Repo,
        clusters: &'a [Cluster],
        settings: &'a EngineSettings,
    ) -> Self {
        let dialects_in_order: Vec<&'static dyn Dialect> = dialects.iter().collect();
        let limit = WorkLimit::new(repo, settings.allowance);
        let compiled = map_charged(&dialects_in_order, |dialect| {
            let input = PlannerInput {
                repo,
                clusters,
                now: settings.now,
                live: &settings.live,
                hosts: &settings.hosts,
                lists: &settings.lists,
                previous: &settings.previous,
                implicit: applies_implicitly(repo, dialect.name()),
            };
            let compiled = limit.run_part("reading policies", || dialect.compile_policies(input));
            compiled.map(|planner| (dialect.name(), planner))
        });
        let (mut planners, mut exceeded) = (Vec::new(), None);
        for planner in compiled {
            match planner {
                Ok(planner) => planners.push(planner),
                Err(more) => exceeded = Some(more),
            }
        }
        let planners = Arc::new(planners);
        let EngineSettings { previous, lists, keep_manifest_values, decrypts, .. } = settings;
        let omits = repo.config.autoscaled_replicas == AutoscaledReplicas::Omit;
        let autoscalers = omits.then(|| Arc::new(Autoscalers::from_repo(repo)));
        Self {
            dialects,
            repo,
            clusters,
            planners,
            previous,
            lists,
            keep_manifest_values: *keep_manifest_values,
            decrypts: *decrypts,
            limit,
            exceeded,
            autoscalers,
        }
    }

    /// The same control planes, with another previous plan.
    pub fn with_previous<'b>(&self, previous: &'b PreviousPlan) -> Engine<'b>
    where
        'a: 'b,
    {
        let shared: &Engine<'b> = self;
        Engine {
            previous,
            planners: Arc::clone(&self.planners),
            exceeded: self.exceeded.clone(),
            autoscalers: self.autoscalers.clone(),
            ..*shared
        }
    }

    /// The dialects.
    pub fn dialects(&self) -> Dialects {
        self.dialects
    }

    /// The repo.
    pub fn repo(&self) -> &'a Repo {
        self.repo
    }

    /// The clusters, sorted by name.
    pub fn clusters(&self) -> &'a [Cluster] {
        self.clusters
    }

    /// The plan of the earlier run.
    pub fn previous(&self) -> &'a PreviousPlan {
        self.previous
    }

    /// The lists of clusters that rows and manifests share.
    pub fn lists(&self) -> &'a SharedLists {
        self.lists
    }

    /// The control planes with the names of their dialects, in the order in which their decisions are merged.
    pub fn planners(&self) -> impl ExactSizeIterator<Item = (&'static str, &dyn PolicyPlanner)> {
        self.planners.iter().map(|(dialect, planner)| (*dialect, planner.as_ref()))
    }

    /// The limit of the work of each part of a run.
    pub fn work_limit(&self) -> WorkLimit {
        self.limit
    }

    /// Returns what decisions read in the member clusters.
    pub fn cluster_reads(&self) -> ClusterReads {
        let mut all = ClusterReads::default();
        for (_, planner) in self.planners.iter() {
            all.extend(planner.reconciler().cluster_reads());
        }
        all
    }

    /// Why the control planes that the repo has policies for place a template nowhere, if one of them says so.
    fn never_propagated(&self, template: &Object) -> Option<String> {
        let planners = self.planners.iter().filter(|(dialect, _)| {
            let mut claimed = self.repo.claimed.iter();
            claimed.any(|claimed| claimed.dialect == *dialect && claimed.role == Role::Placement)
        });
        planners
            .map(|(_, planner)| planner)
            .find_map(|planner| planner.advice().never_propagated_reason(template))
    }

    /// Returns the control plane of a dialect.
    pub fn find_planner(&self, dialect: &str) -> Option<&dyn PolicyPlanner> {
        self.planners.iter().find(|(name, _)| *name == dialect).map(|(_, planner)| planner.as_ref())
    }
}

/// Reports keys below `dialects` in `federate.yaml` that no dialect supports.
fn unknown_settings(dialects: Dialects, repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, settings) in &repo.config.dialects {
        if findings.len() >= MAX_SIMILAR_FINDINGS {
            break;
        }
        let pointer = format!("/dialects/{}", pointer::escape(name));
        let Some(dialect) = dialects.get(name) else {
            let known = dialects.names();
            let message = format!("there is no dialect `{name}`; the dialects are: {}", known.join(", "));
            findings.push(repo.invalid_config(&pointer, message));
            continue;
        };
        let unknown = settings.keys().filter(|key| !dialect.kinds().setting_keys().contains(&key.as_str()));
        for key in unknown.take(MAX_SIMILAR_FINDINGS - findings.len()) {
            let message = format!(
                "{name} has no setting `{key}`; its settings are: {}",
                dialect.kinds().setting_keys().join(", ")
            );
            let pointer = format!("{pointer}/{}", pointer::escape(key));
            findings.push(repo.invalid_config(&pointer, message));
        }
    }
    findings
}

/// Whether the implicit rules of a dialect apply: the repo contains policies of the dialect, or inventory objects of the dialect and no
/// policies of any dialect.
fn applies_implicitly(repo: &Repo, dialect: &str) -> bool {
    let policies =
        repo.claimed.iter().filter(|claimed| !matches!(claimed.role, Role::Inventory | Role::ControlPlane));
    let mut inventory = repo.claimed.iter().filter(|claimed| claimed.role == Role::Inventory);
    if policies.clone().next().is_none() {
        return inventory.any(|claimed| claimed.dialect == dialect);
    }
    policies.into_iter().any(|claimed| claimed.dialect == dialect)
}

/// Whether any finding is an error.
pub fn any_error(findings: &[Finding]) -> bool {
    findings.iter().any(Finding::is_error)
}
