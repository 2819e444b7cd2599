//! The manifests of a repo as values, for comparison.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{ClusterNames, Dialects, HUB};
use federate_engine::{Engine, EngineSettings, Manifest, Rendering, map_charged};
use federate_kubernetes::{Cluster, Object, ObjectRef, work};
use federate_repo::{ClaimedObject, Repo, Template};
use federate_session::{Session, share_cluster_states};
use serde_json::{Map, Value};

/// The steps of reading a manifest, and of comparing it with that of the other side.
const STEPS_PER_VARIANT: u64 = 500;

/// What some clusters receive of an object.
#[derive(Clone, Debug)]
pub(crate) struct SentVariant {
    /// The clusters.
    pub clusters: ClusterNames,
    /// The manifest, without what control planes put into it for themselves.
    pub body: Value,
    /// The values that override rules have changed, as JSON pointers.
    pub overridden: BTreeSet<String>,
    /// The policies with these rules.
    pub policies: BTreeSet<ObjectRef>,
}

impl SentVariant {
    /// Reads a manifest; `None` if it is for the hub.
    fn from_manifest(manifest: &Manifest, dialects: Dialects) -> Option<Self> {
        if manifest.clusters.iter().any(|name| name.as_ref() == HUB) {
            return None;
        }
        let stream = federate_yaml::read_stream(manifest.text.as_bytes());
        let mut body = stream.documents.into_iter().next()?.value;
        remove_bookkeeping(dialects, &mut body);
        let overridden = manifest.changes.iter().flat_map(|change| change.paths.iter().cloned()).collect();
        let policies = manifest.changes.iter().map(|change| change.policy.clone()).collect();
        Some(Self { clusters: manifest.clusters.clone(), body, overridden, policies })
    }

    /// Whether an override rule has changed the value at a pointer, one around it or one in it.
    pub(crate) fn is_overridden(&self, pointer: &str) -> bool {
        let is_within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.overridden.iter().any(|changed| is_within(pointer, changed) || is_within(changed, pointer))
    }
}

/// The manifests of member clusters, by object of the plan.
#[derive(Debug, Default)]
pub(crate) struct SentVariants(BTreeMap<ObjectRef, Vec<SentVariant>>);

impl SentVariants {
    /// Reads the manifests of a rendering.
    pub(crate) fn from_rendering(rendering: &Rendering, dialects: Dialects) -> Self {
        let sent: Vec<Option<SentVariant>> = map_charged(&rendering.manifests, |manifest| {
            work::charge_steps(STEPS_PER_VARIANT);
            if work::is_exceeded() { None } else { SentVariant::from_manifest(manifest, dialects) }
        });
        let mut variants: BTreeMap<ObjectRef, Vec<SentVariant>> = BTreeMap::new();
        for (manifest, variant) in rendering.manifests.iter().zip(sent) {
            if let Some(variant) = variant {
                variants.entry(manifest.object.clone()).or_default().push(variant);
            }
        }
        Self(variants)
    }

    /// What clusters receive of an object.
    pub(crate) fn find_variants(&self, object: &ObjectRef) -> &[SentVariant] {
        self.0.get(object).map_or(&[], Vec::as_slice)
    }
}

/// The annotations by which controllers of Kubernetes count the revisions of a workload.
const CONTROLLER_ANNOTATIONS: [&str; 2] =
    ["deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"];

/// The metadata that API servers set, whatever they are sent.
const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes what is not compared from a manifest: the labels and annotations that belong to control planes, what API servers and
/// controllers of Kubernetes decide about, and the maps that this leaves empty.
pub fn remove_bookkeeping(dialects: Dialects, body: &mut Value) {
    let Some(object) = body.as_object_mut() else { return };
    object.shift_remove("status");
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|key, _| !SERVER_METADATA.contains(&key.as_str()));
    for field in ["labels", "annotations"] {
        if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            map.retain(|key, _| {
                let domain = key.split_once('/').map_or("", |(domain, _)| domain);
                !dialects.is_of_control_plane(domain) && !CONTROLLER_ANNOTATIONS.contains(&key.as_str())
            });
        }
        let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if metadata.get(field).is_some_and(is_empty) {
            metadata.shift_remove(field);
        }
    }
}

/// The new side of a migration in memory.
pub(crate) struct MigratedRepo {
    /// The repo.
    pub repo: Repo,
    /// What members receive.
    pub rendering: Rendering,
    clusters: Vec<Cluster>,
    settings: EngineSettings,
    dialects: Dialects,
}

impl MigratedRepo {
    /// The repo with these templates, policies and clusters, in the state in which the old side has them.
    pub(crate) fn new(
        old: &Session,
        mut repo: Repo,
        mut templates: Vec<Template>,
        mut claimed: Vec<ClaimedObject>,
        settings: EngineSettings,
    ) -> Self {
        templates.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        claimed.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        (repo.templates, repo.claimed) = (templates, claimed);
        let dialects = old.dialects();
        let (mut clusters, _) = federate_engine::read_inventory(dialects, &repo, &settings);
        share_cluster_states(dialects, &mut clusters, old.clusters());
        let mut migrated = Self { repo, rendering: Rendering::default(), clusters, settings, dialects };
        let rendering = migrated.build_engine().render_repo();
        migrated.rendering = rendering;
        migrated
    }

    /// The engine over it.
    pub(crate) fn build_engine(&self) -> Engine<'_> {
        Engine::new(self.dialects, &self.repo, &self.clusters, &self.settings)
    }
}

/// An object of a dialect in memory, with its role; `None` if no dialect has the kind.
pub(crate) fn claim_object(dialects: Dialects, value: &Value) -> Option<ClaimedObject> {
    let object = Object::from_manifest(value.clone(), "");
    dialects.iter().find_map(|dialect| {
        let role = dialect.role_of_kind(&object.id.api_version, &object.id.kind)?;
        Some(ClaimedObject { dialect: dialect.name(), role, object: object.clone() })
    })
}

/// A mapping with its keys in order, without empty values.
pub(crate) fn build_mapping<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let filled = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    let entries = entries.into_iter().filter(|(_, value)| filled(value));
    Value::Object(entries.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}
