//! What is desired in each cluster: the rendered objects, and those that are held back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::Value;

use super::cached_create::CachedCreate;
use federate_dialect::{ClusterNames, ControlPlaneAction, SyncOp};
use federate_engine::controlled_fields::to_applied_body;
use federate_engine::{Manifest, Rendering};
use federate_kubernetes::sops::PlainValues;
use federate_kubernetes::{ClusterName, ObjectRef};

/// The rendered objects, by the clusters that they are for.
#[derive(Debug, Default)]
pub struct DesiredObjects {
    /// Sorted by object; each is for other clusters than the others of the same identity.
    objects: Vec<DesiredObject>,
    clusters: BTreeMap<ClusterName, ClusterObjects>,
}

/// What is desired in a cluster.
#[derive(Debug, Default)]
struct ClusterObjects {
    /// The places of the objects that are rendered for it.
    rendered: Vec<usize>,
    /// The objects that are placed there and not sent now: they stay as they are.
    held: Vec<ObjectRef>,
}

impl DesiredObjects {
    /// Indexes the objects of a rendering by cluster. `objects` are its manifests as they are applied.
    pub fn new(objects: Vec<DesiredObject>, rendering: &Rendering) -> Self {
        let mut clusters: BTreeMap<ClusterName, ClusterObjects> = BTreeMap::new();
        for (at, desired) in objects.iter().enumerate() {
            for cluster in desired.clusters.iter() {
                clusters.entry(cluster.clone()).or_default().rendered.push(at);
            }
        }
        for held in &rendering.not_sent {
            for cluster in held.clusters.iter() {
                clusters.entry(cluster.clone()).or_default().held.push(held.object.clone());
            }
        }
        Self { objects, clusters }
    }

    /// The rendered objects, sorted, each once for all clusters that receive the same.
    pub fn objects(&self) -> &[DesiredObject] {
        &self.objects
    }

    /// The objects that are rendered for a cluster, sorted.
    pub fn rendered_for(&self, cluster: &ClusterName) -> impl Iterator<Item = &DesiredObject> {
        let places = self.clusters.get(cluster).into_iter().flat_map(|of| &of.rendered);
        places.filter_map(|at| self.objects.get(*at))
    }

    /// The object that is rendered for a cluster.
    pub fn find(&self, cluster: &ClusterName, object: &ObjectRef) -> Option<&DesiredObject> {
        let from = self.objects.partition_point(|desired| desired.object < *object);
        let mut variants = self.objects.iter().skip(from).take_while(|desired| desired.object == *object);
        variants.find(|desired| desired.clusters.binary_search(cluster).is_ok())
    }

    /// The objects that are placed in a cluster and not sent now.
    pub(super) fn held_for(&self, cluster: &ClusterName) -> &[ObjectRef] {
        self.clusters.get(cluster).map_or(&[], |of| &of.held)
    }
}

/// An object that is rendered for some clusters.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    /// Its identity.
    pub object: ObjectRef,
    /// The clusters, sorted by name.
    pub clusters: ClusterNames,
    /// Its body, as it is applied.
    pub body: Arc<Value>,
    /// The text that the body was read from.
    pub(super) text: Arc<str>,
    /// What SOPS encrypted, in clear, if the object holds some of it.
    pub(super) plain: Option<Arc<PlainValues>>,
    /// The result of creating it.
    pub(super) cached_create: CachedCreate,
}

/// Reads the rendered objects, once for all clusters that share them; only some of them, if `only` names them.
pub fn parse_desired(manifests: &[Manifest], only: Option<&BTreeSet<ObjectRef>>) -> Vec<DesiredObject> {
    let manifests = manifests.par_iter();
    manifests
        .filter(|manifest| only.is_none_or(|only| only.contains(&manifest.object)))
        .filter_map(DesiredObject::from_manifest)
        .collect()
}

impl DesiredObject {
    /// `None` if the text of the manifest has no document.
    fn from_manifest(manifest: &Manifest) -> Option<Self> {
        let body = if let Some(value) = &manifest.value {
            value.clone()
        } else {
            let mut body = federate_yaml::read_stream(manifest.text.as_bytes()).documents.pop()?.value;
            to_applied_body(&mut body);
            body.into()
        };
        let (object, clusters) = (manifest.object.clone(), manifest.clusters.clone());
        let text = manifest.text.clone();
        Some(Self { object, clusters, body, text, plain: None, cached_create: CachedCreate::default() })
    }

    /// The same object in clear; `None` if a value that is encrypted is not known.
    pub fn reveal(self, plain: &Arc<PlainValues>) -> Option<Self> {
        let written = federate_yaml::read_stream(self.text.as_bytes()).documents.pop()?.value;
        let mut body = plain.reveal_document(&written)?;
        to_applied_body(&mut body);
        let plain = Some(plain.clone());
        Some(Self { body: body.into(), plain, cached_create: CachedCreate::default(), ..self })
    }

    /// What a control plane does about the object, in clear if SOPS encrypted it.
    pub(super) fn reveal_action(&self, action: ControlPlaneAction) -> ControlPlaneAction {
        let Some(plain) = &self.plain else { return action };
        let reveal = |body: &Value| plain.reveal_document(body);
        let op = match &action.op {
            SyncOp::Create(body) => reveal(body).map(SyncOp::Create),
            SyncOp::Update(body) => reveal(body).map(SyncOp::Update),
            SyncOp::Release(body) => reveal(body).map(SyncOp::Release),
            SyncOp::Apply { manifest, manager, force } => {
                reveal(manifest).map(|manifest| SyncOp::Apply { manifest, manager, force: *force })
            }
            SyncOp::Delete(_) | SyncOp::Nothing => return action,
        };
        match op {
            Some(op) => ControlPlaneAction { op, ..action },
            None => ControlPlaneAction::do_nothing("Encrypted"),
        }
    }
}
