//! Reads federated objects of `KubeFed` with their placements, overrides and scheduling preferences, and templates
//! annotated for Federation v1.

use std::collections::BTreeMap;

use federate_dialect::Placement;
use federate_kubernetes::patch::{self, JsonPatchOperation, PatchRules};
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::{Repo, Role};
use federate_session::Session;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::claimed::add_joins;
use crate::Reason;
use crate::difference;
use crate::intent::{
    Adoption, ClusterOperations, ClusterRule, ManifestOperation, OverrideIntent, PatchAction,
    PlacementIntent, ReplicaRule, RepoIntent, Suspended, TaintRule, TemplateIntent, TemplateSource,
    group_operations, unequal_rule,
};

mod preferences;
pub(crate) mod v1;

const NAME: &str = "kubefed";

/// The name of the configuration that counts.
const CONFIG: &str = "kubefed";

/// The namespace of the control plane where its configuration is not in the repo.
const HOST_NAMESPACE: &str = "kube-federation-system";

const REPLICAS: &str = "/spec/replicas";

/// Reads everything of `KubeFed` in a repo.
pub(crate) fn read_intent(session: &Session, intent: &mut RepoIntent) {
    let reader = KubeFedReader::new(session);
    for row in session.plan().placements.iter().filter(|row| row.dialect == NAME) {
        match &row.policy {
            Some(policy) if *policy == row.object => v1::read_template(session, row, intent),
            Some(policy) => {
                if let Some(federated) = reader.find_federated(policy) {
                    reader.read_federated(row, federated, intent);
                }
            }
            None => {}
        }
    }
    add_joins(session, NAME, intent);
    for claimed in session.repo().claimed.iter().filter(|claimed| claimed.dialect == NAME) {
        let (object, origin) = (&claimed.object, Some(&claimed.object.origin));
        if matches!(object.id.kind.as_str(), "ServiceDNSRecord" | "IngressDNSRecord") {
            intent.unequal_of_repo.push(unequal_rule(Reason::Dns, object.id.to_string(), origin, ""));
        }
    }
}

/// Whether the control plane sees a cluster of its inventory: one in its own namespace.
pub(crate) fn sees_cluster(repo: &Repo, cluster: &ObjectRef) -> bool {
    let mut configs = repo.claimed.iter().map(|claimed| &claimed.object);
    let config = configs.find(|object| object.id.kind == "KubeFedConfig" && object.id.name == CONFIG);
    let host = config.and_then(|config| config.id.namespace.as_deref()).unwrap_or(HOST_NAMESPACE);
    cluster.kind != "KubeFedCluster" || cluster.namespace.as_deref() == Some(host)
}

/// The templates of federated objects, by the objects that members receive.
pub(crate) fn find_templates(session: &Session) -> BTreeMap<ObjectRef, TemplateSource> {
    let reader = KubeFedReader::new(session);
    let rows = session.plan().placements.iter().filter(|row| row.dialect == NAME);
    let found = rows.filter_map(|row| {
        let federated = reader.find_federated(row.policy.as_ref()?)?;
        Some((row.object.clone(), cut_from(federated, build_template(row, federated))))
    });
    found.collect()
}

/// A template of a federated object.
fn cut_from(federated: &Object, body: Value) -> TemplateSource {
    let (origin, pointer) = (federated.origin.clone(), "/spec/template".to_owned());
    TemplateSource::Embedded { origin, pointer, body }
}

/// How a preference names its target: by namespace, name and kind.
type TargetName<'s> = (Option<&'s str>, &'s str, &'s str);

/// The federated objects of a repo, with what else decides about them.
struct KubeFedReader<'s> {
    session: &'s Session,
    federated: BTreeMap<&'s ObjectRef, &'s Object>,
    /// The same in the order of their names, as preferences name them.
    by_name: BTreeMap<TargetName<'s>, &'s Object>,
    preferences: BTreeMap<&'s ObjectRef, &'s Object>,
    /// The placements of namespaces.
    namespaces: BTreeMap<&'s str, ClusterRule>,
    /// Whether the control plane is for its own namespace only.
    is_namespaced: bool,
    adoption: Adoption,
}

impl<'s> KubeFedReader<'s> {
    fn new(session: &'s Session) -> Self {
        let claimed = session.repo().claimed.iter().filter(|claimed| claimed.dialect == NAME);
        let (mut federated, mut preferences) = (BTreeMap::new(), BTreeMap::new());
        let (mut is_namespaced, mut adoption) = (false, Adoption::Overwrite);
        for claimed in claimed {
            let object = &claimed.object;
            match object.id.kind.as_str() {
                "ReplicaSchedulingPreference" => drop(preferences.insert(&object.id, object)),
                "KubeFedConfig" if object.id.name == CONFIG => {
                    is_namespaced |= object.text_at(&["spec", "scope"]) == "Namespaced";
                    if object.text_at(&["spec", "syncController", "adoptResources"]) == "Disabled" {
                        adoption = Adoption::Abort;
                    }
                }
                _ if claimed.role == Role::Bundle => drop(federated.insert(&object.id, object)),
                _ => {}
            }
        }
        let rows = session.plan().placements.iter();
        let namespaces = rows
            .filter(|row| row.dialect == NAME && row.object.kind == "Namespace")
            .filter_map(|row| {
                let object = *federated.get(row.policy.as_ref()?)?;
                let namespace = object.id.namespace.as_deref()?;
                (namespace == object.id.name).then(|| (namespace, read_placement(object)))
            })
            .collect();
        // Of several versions, the first counts.
        let by_name = federated.iter().rev().map(|(id, object)| {
            let name: TargetName<'s> = (id.namespace.as_deref(), &id.name, &id.kind);
            (name, *object)
        });
        let by_name = by_name.collect();
        Self { session, federated, by_name, preferences, namespaces, is_namespaced, adoption }
    }

    /// The federated object that a policy places: itself, or the target of a preference.
    fn find_federated(&self, policy: &ObjectRef) -> Option<&'s Object> {
        let Some(preference) = self.preferences.get(policy) else {
            return self.federated.get(policy).copied();
        };
        let kind = preference.text_at(&["spec", "targetKind"]);
        self.by_name.get(&(policy.namespace.as_deref(), &*policy.name, kind)).copied()
    }

    fn read_federated(&self, row: &Placement, federated: &'s Object, intent: &mut RepoIntent) {
        let refusal = row.unschedulable.as_ref().map(|why| why.reason.as_str());
        if matches!(refusal, Some("SystemNamespace" | "InvalidName")) {
            return;
        }
        let mut body = build_template(row, federated);
        let preference = row.policy.as_ref().and_then(|policy| self.preferences.get(policy).copied());
        let own = read_placement(federated);
        let namespace = self.namespace_rule(row);
        let mut replicas = ReplicaRule::Duplicated;
        let mut clusters = own.clone().intersect(&namespace);
        let mut taints = TaintRule::Ignored;
        if let Some(preference) = preference {
            let division = preferences::read_preference(preference, federated, &namespace);
            for rule in division.unequal {
                intent.add_unequal(&row.object, rule);
            }
            clusters = division.clusters.intersect(&namespace);
            replicas = division.replicas;
            taints = TaintRule::Respected(Vec::new());
            set_replicas(&mut body, division.total);
        } else if row.scheduler_state.contains_key("written") {
            let detail = "a ReplicaSchedulingPreference that is gone or without effect has decided";
            intent.add_unequal(
                &row.object,
                unequal_rule(Reason::Sticky, detail, Some(&federated.origin), "/spec/placement"),
            );
        }
        let id = ObjectRef {
            api_version: body.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ..row.object.clone()
        };
        let retains = federated.value_at(&["spec", "retainReplicas"]) == Some(&Value::Bool(true));
        let operations = self.read_overrides(federated, &body, preference.is_some());
        let rules = group_operations(operations);
        if !rules.is_empty() {
            intent.overrides.push(OverrideIntent::from_rules(id.clone(), rules));
        }
        let source = cut_from(federated, body);
        let template = TemplateIntent::unchanged(row.object.clone(), id.clone(), source);
        intent.templates.push(TemplateIntent { retains_replicas: retains, ..template });
        let is_disabled = refusal == Some("PropagationDisabled");
        if is_disabled {
            // What was placed before stays as it is.
            clusters = ClusterRule::from_names(row.clusters.iter().map(|placed| placed.name.to_string()));
        }
        if clusters.is_nowhere() || refusal.is_some() && !is_disabled {
            return;
        }
        intent.placements.push(PlacementIntent {
            replicas,
            taints,
            adoption: self.adoption,
            suspension: if is_disabled { Suspended::Everywhere } else { Suspended::Nowhere },
            ..PlacementIntent::from_object(id, clusters)
        });
    }

    /// The clusters in which the namespace of an object is federated.
    fn namespace_rule(&self, row: &Placement) -> ClusterRule {
        match row.object.namespace.as_deref() {
            None => ClusterRule::every_cluster(),
            Some(namespace) => match self.namespaces.get(namespace) {
                Some(rule) => rule.clone(),
                None if self.is_namespaced => ClusterRule::every_cluster(),
                None => ClusterRule::nowhere(),
            },
        }
    }

    /// The overrides of each cluster of the inventory. Replicas of a preference replace those of overrides.
    fn read_overrides(&self, federated: &Object, body: &Value, is_scheduled: bool) -> Vec<ClusterOperations> {
        let overrides: Vec<ClusterOverride> = federated
            .value_at(&["spec", "overrides"])
            .and_then(|overrides| Vec::deserialize(overrides).ok())
            .unwrap_or_default();
        let clusters: BTreeMap<&str, _> =
            self.session.clusters().iter().map(|cluster| (cluster.name.as_ref(), &cluster.name)).collect();
        let known = overrides.iter().filter_map(|one| Some((one, *clusters.get(one.cluster_name.as_str())?)));
        known
            .map(|(one, name)| {
                let steps: Vec<&OverrideStep> = one
                    .cluster_overrides
                    .iter()
                    .flatten()
                    .filter(|step| !(is_scheduled && step.path == REPLICAS))
                    .collect();
                ClusterOperations { clusters: vec![name.clone()], operations: convert_steps(&steps, body) }
            })
            .collect()
    }
}

/// The overrides of one cluster.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClusterOverride {
    #[serde(default)]
    cluster_name: String,
    cluster_overrides: Option<Vec<OverrideStep>>,
}

/// One operation.
#[derive(Deserialize)]
struct OverrideStep {
    op: Option<String>,
    path: String,
    #[serde(default)]
    value: Value,
}

/// The operations as a strict JSON patch has them: what does not exist is added and not replaced. Operations that only
/// `KubeFed` knows are written as their result.
fn convert_steps(steps: &[&OverrideStep], body: &Value) -> Vec<ManifestOperation> {
    let (mut patched, mut operations) = (body.clone(), Vec::new());
    let mut is_plain = true;
    for step in steps {
        let name = step.op.as_deref().filter(|op| !op.is_empty()).unwrap_or("replace");
        let exists = patch::parse_pointer(&step.path)
            .is_ok_and(|tokens| patch::find_value(&patched, &tokens).is_some());
        let operation = JsonPatchOperation { name, path: &step.path, value: Some(&step.value) };
        if patch::apply_by(PatchRules::Lenient, &mut patched, operation).is_err() {
            // The cluster receives nothing, which is reported as an error of the repo.
            return Vec::new();
        }
        is_plain &= step.path.starts_with('/') && !step.path.contains("/-");
        let action = match name {
            "remove" => PatchAction::Remove,
            "add" => PatchAction::Add(step.value.clone()),
            "replace" if exists => PatchAction::Replace(step.value.clone()),
            "replace" => PatchAction::Add(step.value.clone()),
            _ => {
                is_plain = false;
                continue;
            }
        };
        operations.push(ManifestOperation { action, pointer: step.path.clone() });
    }
    if is_plain { operations } else { difference::compute_patch(body, &patched) }
}

/// The clusters that a placement selects: a list decides before a selector, and without both there are none.
fn read_placement(federated: &Object) -> ClusterRule {
    match federated.value_at(&["spec", "placement", "clusters"]).and_then(Value::as_array) {
        Some(named) => ClusterRule::from_names(
            named.iter().map(|one| federate_kubernetes::object::field_text(one, "name")),
        ),
        None => read_selector(federated),
    }
}

/// The clusters that the selector of a placement selects.
fn read_selector(federated: &Object) -> ClusterRule {
    match federated.value_at(&["spec", "placement", "clusterSelector"]).filter(|value| !value.is_null()) {
        Some(selector) => ClusterRule::from_labels(LabelSelector::deserialize(selector).unwrap_or_default()),
        None => ClusterRule::nowhere(),
    }
}

/// The target of a federated object. Annotations and finalizers of its template are never sent.
fn build_template(row: &Placement, federated: &Object) -> Value {
    let template = federated.value_at(&["spec", "template"]).and_then(Value::as_object);
    let template_text = |key: &str| template.and_then(|t| t.get(key)).and_then(Value::as_str);
    // A version of another group is not one of this kind.
    let group_of = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let api_version = template_text("apiVersion")
        .filter(|version| !version.is_empty() && group_of(version) == row.object.group());
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), row.object.name.as_str().into());
    if let Some(namespace) = &row.object.namespace {
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
    }
    let own = template.and_then(|template| template.get("metadata")).and_then(Value::as_object);
    for (key, value) in own.into_iter().flatten() {
        let is_sent = !matches!(key.as_str(), "name" | "namespace" | "annotations" | "finalizers");
        if is_sent {
            metadata.insert(key.clone(), value.clone());
        }
    }
    let mut body = Map::new();
    body.insert("apiVersion".to_owned(), api_version.unwrap_or(&row.object.api_version).into());
    body.insert("kind".to_owned(), row.object.kind.as_str().into());
    body.insert("metadata".to_owned(), metadata.into());
    for (key, value) in template.into_iter().flatten() {
        if !body.contains_key(key) {
            body.insert(key.clone(), value.clone());
        }
    }
    Value::Object(body)
}

fn set_replicas(body: &mut Value, replicas: i64) {
    if let Some(body) = body.as_object_mut()
        && let Some(spec) = body.entry("spec").or_insert_with(|| json!({})).as_object_mut()
    {
        spec.insert("replicas".to_owned(), replicas.into());
    }
}
