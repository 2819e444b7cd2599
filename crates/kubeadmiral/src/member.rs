//! What the sync controller does about an object in one member cluster: it creates, updates, adopts, deletes or
//! leaves it.
//!
//! Facts: an object in a member is managed if it has the label `kubeadmiral.io/managed: "true"`. Any other
//! object of the name is a conflict, unless the template allows to adopt it there.

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::overrides;
use super::state::KubeAdmiralState;
use super::types::TypeConfig;
use super::{KubeAdmiralPlanner, keys, manifest, source};
use federate_dialect::{ControlPlaneAction, Placement, SyncOp};
use federate_kubernetes::object::value_at;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Cluster, Object};

mod retention;

/// The annotation of an adopted object.
const ADOPTED_ANNOTATION: &str = "kubeadmiral.io/adopted";

/// The annotations that allow adoption, and name the clusters. The internal ones take precedence.
const CONFLICT_RESOLUTION: [&str; 2] =
    ["internal.kubeadmiral.io/conflict-resolution", "kubeadmiral.io/conflict-resolution"];
const CLUSTERS_TO_ADOPT: [&str; 2] =
    ["internal.kubeadmiral.io/clusters-to-adopt", "kubeadmiral.io/clusters-to-adopt"];

/// Decides what to do in a cluster; `None` where the controller does not look at it.
pub(super) fn reconcile_member(
    plane: &KubeAdmiralPlanner<'_>,
    placement: &Placement,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    let template = plane.find_template(&placement.object)?;
    let object = template.for_cluster(&cluster.name);
    let config = plane.types.get(&object.id.api_version, &object.id.kind)?;
    if !cluster.joined || manifest::not_sent_reason(object, placement).is_some() {
        return None;
    }
    let managed = live.filter(|o| o.label(keys::MANAGED) == Some("true"));
    let placed = placement.clusters.find_cluster(&cluster.name);
    let Some(placed) = placed.filter(|_| !cluster.deleting) else {
        managed?;
        let propagated = KubeAdmiralState::from_row(placement).propagated.unwrap_or_default();
        let removable = cluster.ready && propagated.contains(&cluster.name);
        return removable.then_some(ControlPlaneAction {
            op: SyncOp::Delete([("propagationPolicy".to_owned(), "Background".into())].into_iter().collect()),
            adopts: false,
            status: "WaitingForRemoval",
            hint: None,
        });
    };
    let policies = overrides::named_policies(plane, object).ok()?;
    let classes = overrides::evaluate_policies(plane, object, &policies, &placement.clusters).ok()?;
    if !cluster.ready {
        return Some(ControlPlaneAction::do_nothing("ClusterNotReady"));
    }
    let class = classes.iter().find(|class| class.clusters.iter().any(|p| p.name == cluster.name))?;
    let sending = Sending { config, object, replicas: placed.replicas, patches: &class.patches };
    Some(match (managed, live) {
        (Some(live), _) => sending.update_action(live, false),
        (None, None) => sending.create_action(),
        (None, Some(live)) => match check_adoption(plane, object, &cluster.name) {
            Err(missing) => ControlPlaneAction::do_nothing("AlreadyExists").with_hint(missing),
            Ok(()) if live.label(keys::MANAGED) == Some("false") => {
                let forbidden =
                    format!("the label `{}: \"false\"` of the live object forbids it", keys::MANAGED);
                ControlPlaneAction::do_nothing("ManagedLabelFalse").with_hint(forbidden)
            }
            Ok(()) => sending.update_action(live, true),
        },
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ToAdopt {
    #[serde(deserialize_with = "null_default")]
    clusters: Vec<String>,
    #[serde(deserialize_with = "null_default")]
    regexp: String,
}

/// Checks that an existing object is adopted in a cluster. The error is the missing setting.
fn check_adoption(plane: &KubeAdmiralPlanner<'_>, object: &Object, cluster: &str) -> Result<(), String> {
    if plane.namespaces.goes_to_every_cluster(object) {
        return Ok(());
    }
    let [.., resolution] = CONFLICT_RESOLUTION;
    if CONFLICT_RESOLUTION.iter().find_map(|key| object.annotation(key)) != Some("adopt") {
        return Err(format!("its annotation `{resolution}` is not `adopt`"));
    }
    let [.., to_adopt] = CLUSTERS_TO_ADOPT;
    let text = CLUSTERS_TO_ADOPT.iter().find_map(|key| object.annotation(key));
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Err(format!(
            "it has `{resolution}: adopt`, but no annotation `{to_adopt}`, such as `{{\"clusters\":[\"{cluster}\"]}}`"
        ));
    };
    let unreadable = format!("its annotation `{to_adopt}` cannot be read");
    let named: ToAdopt = serde_json::from_str(text).map_err(|e| format!("{unreadable}: {e}"))?;
    if named.clusters.iter().any(|name| name == cluster) {
        return Ok(());
    }
    if !named.regexp.is_empty() {
        let regexp = Regex::new(&named.regexp)
            .map_err(|_| format!("{unreadable}: `regexp` is not a regular expression"))?;
        if regexp.is_match(cluster) {
            return Ok(());
        }
    }
    Err(format!("its annotation `{to_adopt}` does not name the cluster {cluster}"))
}

/// An object that is sent to a cluster.
struct Sending<'s> {
    config: &'s TypeConfig,
    object: &'s Object,
    replicas: Option<i64>,
    patches: &'s [overrides::Patch],
}

impl Sending<'_> {
    fn create_action(&self) -> ControlPlaneAction {
        match self.stamped_body(None) {
            Ok(body) => {
                ControlPlaneAction { op: SyncOp::Create(body), adopts: false, status: "OK", hint: None }
            }
            Err(_) => ControlPlaneAction::do_nothing("ApplyOverridesFailed"),
        }
    }

    fn update_action(&self, live: &Object, adopts: bool) -> ControlPlaneAction {
        let mut live = live.body.clone();
        if adopts {
            metadata_map(&mut live, "annotations").insert(ADOPTED_ANNOTATION.to_owned(), "true".into());
        }
        let Ok(mut body) = self.stamped_body(Some(&live)) else {
            return ControlPlaneAction::do_nothing("ApplyOverridesFailed");
        };
        match retention::retain_fields(self.object, self.config, &mut body, &live) {
            Ok(()) => ControlPlaneAction { op: SyncOp::Update(body), adopts, status: "OK", hint: None },
            Err(_) => ControlPlaneAction::do_nothing("FieldRetentionFailed"),
        }
    }

    /// The object as it is sent, before fields of the live one are retained.
    fn stamped_body(&self, live: Option<&Value>) -> Result<Value, String> {
        let mut body = source::sent_template(&self.object.body);
        source::drop_member_fields(&self.object.id, &mut body);
        let generation = self.object.value_at(&["metadata", "generation"]).and_then(Value::as_i64);
        if let Some(generation) = generation.filter(|g| *g != 0) {
            let stamp = generation.to_string().into();
            metadata_map(&mut body, "annotations").insert(keys::SOURCE_GENERATION.to_owned(), stamp);
        }
        let finalizers = live.and_then(|live| value_at(live, &["metadata", "finalizers"])).cloned();
        metadata_mut(&mut body).insert("finalizers".to_owned(), finalizers.unwrap_or(json!([])));
        manifest::apply_changes(self.config, self.replicas, self.patches, &mut body)?;
        metadata_map(&mut body, "labels").insert(keys::MANAGED.to_owned(), "true".into());
        if live.is_some() {
            remove_duplicates(&mut body["metadata"]["finalizers"]);
        }
        let labels = sorted_keys(metadata_map(&mut body, "labels"), &[]);
        let annotations =
            sorted_keys(metadata_map(&mut body, "annotations"), &[keys::SENT_LABELS, keys::SENT_ANNOTATIONS]);
        let stamps = metadata_map(&mut body, "annotations");
        stamps.insert(keys::SENT_LABELS.to_owned(), labels.into());
        stamps.insert(keys::SENT_ANNOTATIONS.to_owned(), annotations.into());
        Ok(body)
    }
}

/// The object's metadata. Creates it if it is missing.
fn metadata_mut(body: &mut Value) -> &mut Map<String, Value> {
    object_mut(&mut body["metadata"])
}

/// A map in the metadata. Creates it if it is missing.
fn metadata_map<'b>(body: &'b mut Value, field: &str) -> &'b mut Map<String, Value> {
    object_mut(metadata_mut(body).entry(field).or_insert(Value::Null))
}

/// A value as an object. Replaces any other value.
fn object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().unwrap_or_else(|| unreachable!("it was replaced by an object"))
}

fn remove_duplicates(list: &mut Value) {
    if let Value::Array(items) = list {
        let mut seen: Vec<Value> = Vec::new();
        items.retain(|item| {
            let first = !seen.contains(item);
            seen.push(item.clone());
            first
        });
    }
}

fn sorted_keys(map: &Map<String, Value>, without: &[&str]) -> String {
    let mut keys: Vec<&str> = map.keys().map(String::as_str).filter(|key| !without.contains(key)).collect();
    keys.sort_unstable();
    keys.join(",")
}
