//! What is done about an object in one member cluster: created, updated, adopted, deleted or left.
//!
//! Facts: an object in a member counts as existing only with the label `kubeadmiral.io/managed: "true"`.
//! Any other of that name is in the way, unless the template says that it may be taken over there.

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::overrides;
use super::types::TypeConfig;
use super::{KubeAdmirals, keys, manifest, source};
use federate_dialect::{Action, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::object::at;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Cluster, Object};

mod retain;

/// On an object that was taken over.
const ADOPTED: &str = "kubeadmiral.io/adopted";

/// Whether, and where, objects that are in the way are taken over; the internal ones go first.
const CONFLICT_RESOLUTION: [&str; 2] =
    ["internal.kubeadmiral.io/conflict-resolution", "kubeadmiral.io/conflict-resolution"];
const CLUSTERS_TO_ADOPT: [&str; 2] =
    ["internal.kubeadmiral.io/clusters-to-adopt", "kubeadmiral.io/clusters-to-adopt"];

/// What is done in a cluster; `None` where the control plane does not even look.
pub(super) fn reconcile(
    plane: &KubeAdmirals<'_>,
    placement: &Placement,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<Action> {
    let template = plane.template(&placement.object)?;
    let object = template.for_cluster(&cluster.name);
    let config = plane.types.get(&object.id.api_version, &object.id.kind)?;
    if !cluster.joined || manifest::held_back(object, placement).is_some() {
        return None;
    }
    let managed = live.filter(|o| o.label(keys::MANAGED) == Some("true"));
    let placed = placement.clusters.named(&cluster.name);
    let Some(placed) = placed.filter(|_| !cluster.deleting) else {
        managed?;
        let removable = cluster.ready && propagated(placement, &cluster.name);
        return removable.then_some(Action {
            op: SyncOp::Delete(background()),
            adopts: false,
            status: "WaitingForRemoval",
            hint: None,
        });
    };
    let policies = overrides::named(plane, object).ok()?;
    let classes = overrides::evaluate(plane, object, &policies, &placement.clusters).ok()?;
    if !cluster.ready {
        return Some(Action::nothing("ClusterNotReady"));
    }
    let class = classes.iter().find(|class| class.clusters.iter().any(|p| p.name == cluster.name))?;
    let sending = Sending { config, object, replicas: placed.replicas, patches: &class.patches };
    Some(match (managed, live) {
        (Some(live), _) => sending.update(live, false),
        (None, None) => sending.create(),
        (None, Some(live)) => match adopts(plane, object, &cluster.name) {
            Err(missing) => Action::nothing("AlreadyExists").unless(missing),
            Ok(()) if live.label(keys::MANAGED) == Some("false") => {
                let forbidden = format!(
                    "the label `{}: \"false\"` of the object that is there forbids it",
                    keys::MANAGED
                );
                Action::nothing("ManagedLabelFalse").unless(forbidden)
            }
            Ok(()) => sending.update(live, true),
        },
    })
}

/// Deletions go on in the background.
fn background() -> DeleteOptions {
    DeleteOptions::from_iter([("propagationPolicy".to_owned(), "Background".into())])
}

/// Whether the object had been sent to the cluster.
fn propagated(placement: &Placement, cluster: &str) -> bool {
    let sent = placement.memory.get("propagated").and_then(Value::as_array);
    sent.is_some_and(|sent| sent.iter().any(|name| name.as_str() == Some(cluster)))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ToAdopt {
    #[serde(deserialize_with = "null_default")]
    clusters: Vec<String>,
    #[serde(deserialize_with = "null_default")]
    regexp: String,
}

/// Whether an object that is in the way is taken over in that cluster; if not, what is missing.
fn adopts(plane: &KubeAdmirals<'_>, object: &Object, cluster: &str) -> Result<(), String> {
    if plane.namespaces.everywhere(object) {
        return Ok(());
    }
    let annotation = |keys: [&str; 2]| keys.into_iter().find_map(|key| object.annotation(key));
    let [.., resolution] = CONFLICT_RESOLUTION;
    if annotation(CONFLICT_RESOLUTION) != Some("adopt") {
        return Err(format!("its annotation `{resolution}` is not `adopt`"));
    }
    let [.., to_adopt] = CLUSTERS_TO_ADOPT;
    let Some(text) = annotation(CLUSTERS_TO_ADOPT).filter(|text| !text.is_empty()) else {
        return Err(format!(
            "it has `{resolution}: adopt`, but no annotation `{to_adopt}`, such as `{{\"clusters\":[\"{cluster}\"]}}`"
        ));
    };
    let wrong = |why: &dyn std::fmt::Display| format!("its annotation `{to_adopt}` cannot be read: {why}");
    let named: ToAdopt = serde_json::from_str(text).map_err(|e| wrong(&e))?;
    if named.clusters.iter().any(|name| name == cluster) {
        return Ok(());
    }
    let other = || format!("its annotation `{to_adopt}` does not name the cluster {cluster}");
    if named.regexp.is_empty() {
        return Err(other());
    }
    let regexp = Regex::new(&named.regexp).map_err(|_| wrong(&"`regexp` is no regular expression"))?;
    if regexp.is_match(cluster) { Ok(()) } else { Err(other()) }
}

/// An object on its way to a cluster.
struct Sending<'s> {
    config: &'s TypeConfig,
    object: &'s Object,
    replicas: Option<i64>,
    patches: &'s [overrides::Patch],
}

impl Sending<'_> {
    fn create(&self) -> Action {
        match self.stamped(None) {
            Ok(body) => Action { op: SyncOp::Create(body), adopts: false, status: "OK", hint: None },
            Err(_) => Action::nothing("ApplyOverridesFailed"),
        }
    }

    fn update(&self, live: &Object, adopts: bool) -> Action {
        let mut live = live.body.clone();
        if adopts {
            map(&mut live, "annotations").insert(ADOPTED.to_owned(), "true".into());
        }
        let Ok(mut body) = self.stamped(Some(&live)) else {
            return Action::nothing("ApplyOverridesFailed");
        };
        match retain::retain(self.object, self.config, &mut body, &live) {
            Ok(()) => Action { op: SyncOp::Update(body), adopts, status: "OK", hint: None },
            Err(_) => Action::nothing("FieldRetentionFailed"),
        }
    }

    /// The object as it is sent, but for what the member's keeps; with all that is stamped on it.
    fn stamped(&self, live: Option<&Value>) -> Result<Value, String> {
        let mut body = source::template(&self.object.body);
        source::drop_member_fields(&self.object.id, &mut body);
        let generation = self.object.at(&["metadata", "generation"]).and_then(Value::as_i64);
        if let Some(generation) = generation.filter(|g| *g != 0) {
            let stamp = generation.to_string().into();
            map(&mut body, "annotations").insert(keys::SOURCE_GENERATION.to_owned(), stamp);
        }
        let finalizers = live.and_then(|live| at(live, &["metadata", "finalizers"])).cloned();
        metadata(&mut body).insert("finalizers".to_owned(), finalizers.unwrap_or(json!([])));
        manifest::apply(self.config, self.replicas, self.patches, &mut body)?;
        map(&mut body, "labels").insert(keys::MANAGED.to_owned(), "true".into());
        if live.is_some() {
            unique(&mut body["metadata"]["finalizers"]);
        }
        let labels = sorted_keys(map(&mut body, "labels"), &[]);
        let annotations =
            sorted_keys(map(&mut body, "annotations"), &[keys::SENT_LABELS, keys::SENT_ANNOTATIONS]);
        let stamps = map(&mut body, "annotations");
        stamps.insert(keys::SENT_LABELS.to_owned(), labels.into());
        stamps.insert(keys::SENT_ANNOTATIONS.to_owned(), annotations.into());
        Ok(body)
    }
}

/// The object's metadata, made one if need be.
fn metadata(body: &mut Value) -> &mut Map<String, Value> {
    object(&mut body["metadata"])
}

/// A map in the metadata, made one if need be.
fn map<'b>(body: &'b mut Value, field: &str) -> &'b mut Map<String, Value> {
    object(metadata(body).entry(field).or_insert(Value::Null))
}

/// A value as an object, made one if need be.
fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().unwrap_or_else(|| unreachable!("it was made an object"))
}

fn unique(list: &mut Value) {
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
