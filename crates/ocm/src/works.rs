//! Works: manifests for the clusters of placements (`ManifestWorkReplicaSet`) or for one cluster (`ManifestWork`).
//!
//! Facts: every cluster of a work gets the same manifests, unchanged but for a `uid`. A set stops at the first of its
//! references whose placement is missing. Several works may own one object; if their manifests differ, they overwrite each
//! other for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use federate_dialect::{
    CarriedTemplate, ControlPlaneAction, DialectDecisions, ManifestVariant, Placed, Placement, PreviousPlan,
    RenderedManifest, Unschedulable,
};
use federate_kubernetes::selector::invalid_value;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, finding, work};

use crate::api::work::{PlacementReference, ReplicaSetSpec, WorkSpec};
use crate::api::{NAME, PLACEMENT_VERSION};
use crate::decision::HubDecisions;
use crate::{OcmPlanner, agent, member};

/// The steps of a cluster of a work.
const STEPS_PER_CLUSTER: u64 = 20;

/// The label of works that names their set, as `NAMESPACE.NAME`.
pub(crate) const SET_LABEL: &str = "work.open-cluster-management.io/manifestworkreplicaset";

/// The label of works that names the placement.
pub(crate) const PLACEMENT_NAME_LABEL: &str = "work.open-cluster-management.io/placementname";

/// Where the manifests of a bundle go.
#[derive(Debug)]
pub(crate) enum Destination {
    /// To the clusters of these placements.
    Placements(Vec<PlacementReference>),
    /// To one cluster.
    Cluster(ClusterName),
}

/// A set of works, or a work, with its manifests.
#[derive(Debug)]
pub(crate) struct WorkBundle<'a> {
    pub object: &'a Object,
    pub spec: WorkSpec,
    pub destination: Destination,
    /// The objects of the manifests, in order.
    pub manifests: Vec<ObjectRef>,
    /// The index of the first manifest of each object.
    indexes: HashMap<ObjectRef, usize>,
}

impl<'a> WorkBundle<'a> {
    /// Reads a set of works, or a work.
    fn read(object: &'a Object) -> Self {
        let spec = object.value_at(&["spec"]).unwrap_or(&Value::Null);
        let (spec, destination) = if is_replica_set(&object.id) {
            let spec = Option::<ReplicaSetSpec>::deserialize(spec).ok().flatten().unwrap_or_default();
            (spec.template, Destination::Placements(spec.placements))
        } else {
            let spec = Option::<WorkSpec>::deserialize(spec).ok().flatten().unwrap_or_default();
            (spec, Destination::Cluster(object.id.namespace.as_deref().unwrap_or_default().into()))
        };
        let manifests: Vec<ObjectRef> = spec.workload.manifests.iter().map(identify).collect();
        let mut indexes = HashMap::new();
        for (index, object) in manifests.iter().enumerate() {
            indexes.entry(object.clone()).or_insert(index);
        }
        Self { object, spec, destination, manifests, indexes }
    }

    /// The index of the manifest of an object.
    pub(crate) fn find_index(&self, object: &ObjectRef) -> Option<usize> {
        self.indexes.get(object).copied()
    }

    /// The JSON pointer to a manifest.
    fn pointer_to(&self, index: usize) -> String {
        match self.destination {
            Destination::Cluster(_) => format!("/spec/workload/manifests/{index}"),
            Destination::Placements(_) => format!("/spec/manifestWorkTemplate/workload/manifests/{index}"),
        }
    }

    /// Its manifests as templates.
    pub(crate) fn list_templates(&self) -> impl Iterator<Item = CarriedTemplate> {
        self.manifests.iter().enumerate().map(|(index, object)| CarriedTemplate {
            carrier: self.object.id.clone(),
            pointer: self.pointer_to(index),
            object: object.clone(),
        })
    }

    /// Why the hub makes no works of it.
    pub(crate) fn refusal(&self) -> Option<Unschedulable> {
        let refusal =
            |reason: &str, message: String| Some(Unschedulable { reason: reason.to_owned(), message });
        if self.object.is_deleting() {
            return refusal("Deleting", "it is being deleted, with its works".to_owned());
        }
        let name = work_label(&self.object.id);
        let is_set = matches!(self.destination, Destination::Placements(_));
        if is_set && invalid_value(&name).is_some() {
            return refusal("InvalidManifestWorkName", format!("`{name}` is not a value of a label"));
        }
        None
    }
}

/// Whether an object is a set of works.
pub(crate) fn is_replica_set(id: &ObjectRef) -> bool {
    id.kind == "ManifestWorkReplicaSet"
}

/// The value of the label that names a set.
pub(crate) fn work_label(set: &ObjectRef) -> String {
    format!("{}.{}", set.namespace.as_deref().unwrap_or_default(), set.name)
}

/// The identity of a manifest.
fn identify(manifest: &Value) -> ObjectRef {
    Object::from_manifest(manifest.clone(), "").id
}

/// The bundles of a repo. Works that a set of the repo makes are left out.
pub(crate) fn read_bundles<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<WorkBundle<'a>> {
    let objects: Vec<&Object> = objects.collect();
    let sets: BTreeSet<String> =
        objects.iter().filter(|object| is_replica_set(&object.id)).map(|set| work_label(&set.id)).collect();
    let is_made = |object: &&&Object| object.label(SET_LABEL).is_some_and(|set| sets.contains(set));
    let mut bundles: Vec<WorkBundle<'_>> =
        objects.iter().filter(|object| !is_made(object)).map(|object| WorkBundle::read(object)).collect();
    bundles.sort_by(|a, b| a.object.id.cmp(&b.object.id));
    bundles
}

/// The clusters that get a bundle, and why it does not get all that it asks for.
pub(crate) struct BundleClusters {
    pub clusters: BTreeSet<ClusterName>,
    pub reason: Option<Unschedulable>,
    /// The clusters that several placements of the bundle select, each with the names of the placements.
    pub overlaps: Vec<(ClusterName, Vec<String>)>,
}

/// Finds the clusters of a bundle. `before` are those that had its manifests.
pub(crate) fn find_clusters(
    plane: &OcmPlanner<'_>,
    bundle: &WorkBundle<'_>,
    decisions: &HubDecisions,
    before: &BTreeSet<ClusterName>,
) -> BundleClusters {
    let mut found =
        BundleClusters { clusters: BTreeSet::new(), reason: bundle.refusal(), overlaps: Vec::new() };
    if let Some(refusal) = &found.reason {
        // Works of a name that is refused stay as they are; others are deleted.
        if refusal.reason == "InvalidManifestWorkName" {
            found.clusters.clone_from(before);
        }
        return found;
    }
    let references = match &bundle.destination {
        Destination::Cluster(name) => {
            let is_known = plane.hub.fleet.index(name).is_some();
            found.clusters.extend(is_known.then(|| name.clone()));
            if !is_known {
                let message = format!("the inventory has no cluster `{name}`");
                found.reason = Some(Unschedulable { reason: "NoCluster".to_owned(), message });
            }
            return found;
        }
        Destination::Placements(references) => references,
    };
    let mut by_cluster: BTreeMap<ClusterName, Vec<String>> = BTreeMap::new();
    let mut reasons = Vec::new();
    for reference in references {
        let placement = placement_id(&bundle.object.id, &reference.name);
        let Some(report) = decisions.of(plane, &placement) else {
            let message = format!("there is no {placement}, and references after it are not looked at");
            found.reason = Some(Unschedulable { reason: "PlacementDecisionNotFound".to_owned(), message });
            break;
        };
        work::charge_steps(STEPS_PER_CLUSTER * report.clusters.len() as u64);
        if work::is_exceeded() {
            break;
        }
        for name in &report.clusters {
            by_cluster.entry(name.clone()).or_default().push(reference.name.clone());
        }
        reasons.extend(report.misconfigured().or_else(|| report.unsatisfied()));
    }
    if let (true, Some(condition)) = (by_cluster.is_empty() && found.reason.is_none(), reasons.first()) {
        let (reason, message) = (condition.reason.to_owned(), condition.message.clone());
        found.reason = Some(Unschedulable { reason, message });
    }
    found.clusters = by_cluster.keys().cloned().collect();
    found.overlaps = by_cluster.into_iter().filter(|(_, names)| names.len() > 1).collect();
    found
}

/// The placement that a set refers to by name.
pub(crate) fn placement_id(set: &ObjectRef, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: PLACEMENT_VERSION.to_owned(),
        kind: "Placement".to_owned(),
        namespace: set.namespace.clone(),
        name: name.to_owned(),
    }
}

/// A bundle that sends an object, with the clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct BundleState {
    /// Present if several bundles send the object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    works: Vec<WorkShare>,
}

/// The part of a row that one bundle sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkShare {
    pub policy: ObjectRef,
    pub clusters: Vec<ClusterName>,
}

/// The parts of a row, by bundle.
pub(crate) fn list_shares(row: &Placement) -> Vec<WorkShare> {
    let state: BundleState = row.read_scheduler_state();
    if !state.works.is_empty() {
        return state.works;
    }
    let clusters = row.clusters.iter().map(|placed| placed.name.clone()).collect();
    row.policy.clone().map(|policy| WorkShare { policy, clusters }).into_iter().collect()
}

/// Decides about the manifests of all bundles.
pub(crate) fn decide_works(
    plane: &OcmPlanner<'_>,
    decisions: &HubDecisions,
    previous: &PreviousPlan,
) -> DialectDecisions {
    let mut decided = DialectDecisions::default();
    let mut shares: BTreeMap<ObjectRef, Vec<(WorkShare, usize, usize)>> = BTreeMap::new();
    let mut reasons: BTreeMap<ObjectRef, Option<Unschedulable>> = BTreeMap::new();
    for (at, bundle) in plane.bundles.iter().enumerate() {
        let before = list_earlier_clusters(bundle, previous);
        let found = find_clusters(plane, bundle, decisions, &before);
        decided.findings.extend(report_bundle(bundle, &found));
        for (index, object) in bundle.manifests.iter().enumerate() {
            work::charge_steps(STEPS_PER_CLUSTER * (1 + found.clusters.len() as u64));
            if work::is_exceeded() {
                return decided;
            }
            let (policy, clusters) = (bundle.object.id.clone(), found.clusters.iter().cloned().collect());
            let share = WorkShare { policy, clusters };
            shares.entry(object.clone()).or_default().push((share, at, index));
            let reason = reasons.entry(object.clone()).or_insert_with(|| found.reason.clone());
            *reason = reason.take().filter(|_| found.reason.is_some());
        }
    }
    for (object, shares) in shares {
        let clusters: usize = shares.iter().map(|(share, ..)| share.clusters.len()).sum();
        work::charge_steps(STEPS_PER_CLUSTER * clusters as u64);
        decided.findings.extend(report_duplicates(plane, &object, &shares));
        let reason = reasons.remove(&object).flatten();
        decided.placements.push(join_shares(object, shares.into_iter().map(|(share, ..)| share), reason));
    }
    decided
}

/// The clusters that had the manifests of a bundle.
fn list_earlier_clusters(bundle: &WorkBundle<'_>, previous: &PreviousPlan) -> BTreeSet<ClusterName> {
    let rows = bundle.manifests.iter().filter_map(|object| previous.find_row(object));
    let shares = rows.flat_map(list_shares).filter(|share| share.policy == bundle.object.id);
    shares.flat_map(|share| share.clusters).collect()
}

/// One row for an object that bundles send. A cluster of several bundles belongs to the first.
fn join_shares(
    object: ObjectRef,
    shares: impl Iterator<Item = WorkShare>,
    reason: Option<Unschedulable>,
) -> Placement {
    let mut taken: BTreeSet<ClusterName> = BTreeSet::new();
    let mut kept = Vec::new();
    for mut share in shares {
        share.clusters.retain(|name| taken.insert(name.clone()));
        kept.push(share);
    }
    let first = kept.iter().find(|share| !share.clusters.is_empty()).or(kept.first());
    let mut row = Placement::new(NAME, object, first.map(|share| share.policy.clone()));
    row.clusters = taken.into_iter().map(|name| Placed { name, replicas: None }).collect();
    row.unschedulable = reason;
    if kept.len() > 1 {
        row.write_scheduler_state(&BundleState { works: kept });
    }
    row
}

/// The variants of a row: the manifests of its bundles.
pub(crate) fn render_row(plane: &OcmPlanner<'_>, row: &Placement) -> Vec<ManifestVariant> {
    let render = |share: WorkShare| {
        let bundle = plane.find_bundle(&share.policy)?;
        let body = manifest_of(bundle, &row.object)?;
        let rendered = Ok(RenderedManifest { body, changes: Vec::new() });
        (!share.clusters.is_empty()).then(|| ManifestVariant { clusters: share.clusters.into(), rendered })
    };
    let mut variants: Vec<ManifestVariant> = list_shares(row).into_iter().filter_map(render).collect();
    variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    variants
}

/// What the agent does about an object of a row in a cluster.
pub(crate) fn reconcile_row(
    plane: &OcmPlanner<'_>,
    row: &Placement,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    let share = list_shares(row).into_iter().find(|share| share.clusters.contains(&cluster.name))?;
    let bundle = plane.find_bundle(&share.policy)?;
    let index = bundle.find_index(&row.object)?;
    let manifest = bundle.spec.workload.manifests.get(index)?;
    let step = agent::plan_manifest(&bundle.spec, index, row.object.clone(), manifest);
    Some(member::reconcile(&step, manifest, live))
}

/// The manifest of an object in a bundle, as the agent reads it.
pub(crate) fn manifest_of(bundle: &WorkBundle<'_>, object: &ObjectRef) -> Option<Value> {
    let index = bundle.find_index(object)?;
    let mut body = bundle.spec.workload.manifests.get(index)?.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("uid");
    }
    Some(body)
}

/// The findings about the destination of a bundle.
fn report_bundle(bundle: &WorkBundle<'_>, found: &BundleClusters) -> Vec<Finding> {
    let mut findings = Vec::new();
    let id = &bundle.object.id;
    if let Some(reason) = &found.reason {
        let message = format!("{id} goes to no further cluster: {}: {}", reason.reason, reason.message);
        findings.push(match reason.reason.as_str() {
            "InvalidManifestWorkName" => Finding::error("invalid-policy", bundle.object, message)
                .with_pointer("/metadata/name")
                .with_help("namespace and name together must have at most 62 characters"),
            "Deleting" => return findings,
            _ => Finding::warning("unschedulable", bundle.object, message)
                .with_help("`federate explain` of the placement shows what keeps each cluster out"),
        });
    }
    if let Some((cluster, references)) = found.overlaps.first() {
        let names: Vec<&str> = found.overlaps.iter().map(|(cluster, _)| &**cluster).collect();
        let message = format!(
            "{id} reaches {} through several placements (on {cluster}: {}): the hub makes a work for each, and leaves \
             outdated ones behind when the template changes; federate places the manifests once",
            finding::join_names(&names, 3),
            references.join(", ")
        );
        findings.push(
            Finding::warning("overlapping-references", bundle.object, message)
                .with_pointer("/spec/placementRefs")
                .with_help("let the placements select different clusters, or use one placement with several predicates"),
        );
    }
    findings
}

/// The findings about an object that several bundles send to one cluster with different manifests.
fn report_duplicates(
    plane: &OcmPlanner<'_>,
    object: &ObjectRef,
    shares: &[(WorkShare, usize, usize)],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let bundle = |share: &(WorkShare, usize, usize)| plane.bundles.get(share.1);
    for (at, first) in shares.iter().enumerate() {
        for second in shares.iter().skip(at + 1) {
            let (Some(a), Some(b)) = (bundle(first), bundle(second)) else { continue };
            work::charge_steps(1 + first.0.clusters.len() as u64);
            if work::is_exceeded() {
                return findings;
            }
            let shared: Vec<&str> = first
                .0
                .clusters
                .iter()
                .filter(|name| second.0.clusters.binary_search(name).is_ok())
                .map(AsRef::as_ref)
                .collect();
            if shared.is_empty() || manifest_of(a, object) == manifest_of(b, object) {
                continue;
            }
            let message = format!(
                "{object} is sent to {} by both {} and {}, with different manifests: their agents overwrite each other",
                finding::join_names(&shared, 3),
                a.object.id,
                b.object.id
            );
            let mut finding = Finding::error("placed-in-duplicate", b.object, message)
                .with_pointer(b.pointer_to(second.2))
                .with_help("keep the manifest in one of the two");
            finding.object = Some(object.clone());
            findings.push(finding);
        }
    }
    findings
}
