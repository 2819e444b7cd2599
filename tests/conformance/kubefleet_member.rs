//! `KubeFleet`'s cases of objects in a member: the waves in which they are applied, their health, and the apply
//! of one manifest: the decision, the differences, the writes, and the stored object.
//!
//! The recorded member is a server that tracks fields and writes objects in their own form. It fills in no
//! defaults, validates nothing and counts no generations.

use std::collections::BTreeMap;

use federate_apiserver_model::schema::Type;
use federate_apiserver_model::{ApiError, ResourceKind, complete_object};
use federate_dialect::{Dialect, HealthState, SyncOp};
use federate_engine::EngineSettings;
use federate_kubefleet::member::{
    ApplyStrategy, FIELD_MANAGER, ManifestApplier, ManifestOutcome, MemberApi, MemberServer, MemberWrite,
    PatchDetail,
};
use federate_kubernetes::LiveObjects;
use federate_repo::Config;
use serde_json::{Map, Value, json};

use crate::diff::{compare, normal};
use crate::run::{self, observed};

/// A server for objects of one kind, under a name for which there are no defaults.
struct Plain {
    kind: ResourceKind,
    name: String,
}

impl Plain {
    fn new(manifest: &Value) -> Self {
        let name = manifest["kind"].as_str().expect("a kind").to_owned();
        let mut kind = known(manifest).unwrap_or_else(|| {
            let like = ResourceKind::find_builtin("v1", "ConfigMap").expect("a kind");
            ResourceKind { schema: Type::Any, ..like.clone() }
        });
        "Plain".clone_into(&mut kind.kind);
        Self { kind, name }
    }

    fn write(&self, force: bool) -> federate_apiserver_model::WriteOptions<'_> {
        let now = "2026-01-01T00:00:00Z";
        federate_apiserver_model::WriteOptions {
            kind: &self.kind,
            manager: FIELD_MANAGER,
            subresource: None,
            force,
            now,
        }
    }

    fn named(&self, mut object: Value, like: &Value) -> Value {
        object["kind"] = json!(self.name);
        object["apiVersion"] = like["apiVersion"].clone();
        object
    }
}

impl MemberApi for Plain {
    fn compute_apply(&self, live: &Value, manifest: &Value, force: bool) -> Result<Value, ApiError> {
        Ok(self.named(
            federate_apiserver_model::merge_applied(Some(live), manifest, &self.write(force))?,
            manifest,
        ))
    }

    fn compute_write(&self, live: Option<&Value>, object: Value) -> Result<Value, ApiError> {
        let written = federate_apiserver_model::update_managers(
            live,
            &complete_object(&self.kind, object.clone()),
            &self.write(false),
        );
        Ok(self.named(written, &object))
    }
}

fn known(manifest: &Value) -> Option<ResourceKind> {
    ResourceKind::find_builtin(manifest["apiVersion"].as_str()?, manifest["kind"].as_str()?).cloned()
}

pub(crate) fn apply(case: &Value) -> Result<(), String> {
    let (manifest, _) = given(case);
    let text = |key: &str| manifest[key].as_str().expect("a text");
    compare(&case["expect"], &recorded(decided(case, &Plain::new(manifest))))?;
    acted(case, &recorded(decided(case, &MemberServer::new(text("apiVersion"), text("kind")))))
}

/// What the agent decides about the manifest of a case, in a member with this API server.
fn decided(case: &Value, member: &dyn MemberApi) -> ManifestOutcome {
    let (manifest, placement) = given(case);
    let mut works: Vec<String> = serde_json::from_value(case["works"].clone()).unwrap_or_default();
    works.push(case["owner"]["name"].as_str().expect("a name").to_owned());
    let (strategy, kind) = (ApplyStrategy::from_placement(&observed(placement)), known(manifest));
    let applying = ManifestApplier {
        strategy: &strategy,
        owner: Some(&case["owner"]),
        works: &works,
        kind: kind.as_ref(),
        member,
    };
    applying.decide_outcome(manifest, case.get("observed").filter(|live| !live.is_null()))
}

fn given(case: &Value) -> (&Value, &Value) {
    let [manifest, placement] = case["files"].as_array().expect("a list").as_slice() else {
        panic!("a manifest and a placement")
    };
    (manifest, placement)
}

/// Verifies the action of an apply, from a repo with the manifest, its placement and one cluster. The action is that of
/// an agent whose API server has defaults and validates, `served`. Where it is the recorded one as well, so is its
/// result.
fn acted(case: &Value, served: &Value) -> Result<(), String> {
    let (manifest, placement) = given(case);
    let mut placement = placement.clone();
    if manifest["metadata"].get("namespace").is_none() {
        let version = manifest["apiVersion"].as_str().expect("a version");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        placement["spec"]["resourceSelectors"] = json!([{"group": group, "version": version,
            "kind": manifest["kind"], "name": manifest["metadata"]["name"]}]);
    }
    let files = json!([manifest, placement,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": "m1"}}]);
    let found = case.get("observed").filter(|live| !live.is_null()).map(observed);
    let mut live = LiveObjects::default();
    live.insert("m1".into(), works(case).iter().map(observed).collect());
    let settings = EngineSettings { live, ..EngineSettings::default() };
    let clusters = run::clusters(&files, &settings);
    let about = observed(manifest).id;
    let (_, action) = run::run_with(&files, &settings, Config::default(), |engine, plan| {
        let row = plan.placements.iter().find(|row| row.object == about)?;
        engine.reconcile_object(row, clusters.first()?, found.as_ref())
    });
    let action = action.ok_or("nothing is done and nothing is said")?;
    let member = Plain::new(manifest);
    let want = step(served, &case["observed"]);
    let (got_write, got_result) = match action.op {
        SyncOp::Create(body) => ("create", body),
        SyncOp::Update(body) => ("update", body),
        SyncOp::Apply { manifest, force, .. } => {
            let live = &found.as_ref().expect("an object that is changed").body;
            let write = if force { "apply:force" } else { "apply" };
            (write, member.compute_apply(live, &manifest, true).expect("an apply without conflicts"))
        }
        SyncOp::Release(_) | SyncOp::Delete(_) => ("delete", Value::Null),
        SyncOp::Nothing => ("none", Value::Null),
    };
    compare(&want, &json!({"status": action.status, "write": got_write}))?;
    if got_write == "none" || want != step(&case["expect"], &case["observed"]) {
        return Ok(());
    }
    // An action is one write. The agent removes owners whose Work is gone with a write of its own before it applies;
    // otherwise the garbage collector removes them.
    let works: Vec<Value> = works(case).into_iter().map(|work| work["metadata"]["name"].clone()).collect();
    let mut got = defaulted(got_result);
    if let Some(owners) = got["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|owner| owner["kind"] != "AppliedWork" || works.contains(&owner["name"]));
    }
    compare(&defaulted(case["expect"]["result"].clone()), &got)
}

/// The status and the write of the action for an outcome.
fn step(outcome: &Value, observed: &Value) -> Value {
    let status = match &outcome["decision"] {
        decision if decision == "Applied" => json!("OK"),
        decision => outcome.get("error").unwrap_or(decision).clone(),
    };
    json!({"status": status, "write": last_write(outcome, observed)})
}

/// The `AppliedWork` objects of the member.
fn works(case: &Value) -> Vec<Value> {
    let owner = &case["owner"];
    let other = case["works"].as_array().into_iter().flatten();
    let work = |name: &Value, uid: Value| json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": {"name": name, "uid": uid}});
    let own = work(&owner["name"], owner["uid"].clone());
    other.map(|name| work(name, json!("another"))).chain([own]).collect()
}

/// The last write of an outcome, where it changes anything.
fn last_write(outcome: &Value, observed: &Value) -> &'static str {
    let last = outcome["writes"].as_array().and_then(|writes| writes.last()?.as_str());
    let unchanged = || defaulted(observed.clone()) == defaulted(outcome["result"].clone());
    match last {
        _ if outcome["decision"] == "ManifestApplyFailed" => "none",
        None => "none",
        Some("create") => "create",
        Some("apply") => "apply",
        Some("apply:force") => "apply:force",
        Some(_) if unchanged() => "none",
        Some(_) => "update",
    }
}

fn recorded(outcome: ManifestOutcome) -> Value {
    let mut got = Map::from_iter([("decision".to_owned(), json!(outcome.decision))]);
    if let Some(error) = outcome.error {
        got.insert("error".into(), json!(error));
    }
    for (key, list) in [("diffs", outcome.diffs), ("drifts", outcome.drifts)] {
        if !list.is_empty() {
            got.insert(key.into(), json!(sorted(list)));
        }
    }
    if !outcome.writes.is_empty() {
        got.insert("writes".into(), outcome.writes.iter().map(write).collect());
        got.insert("result".into(), stored(outcome.result.expect("what is written is there")));
    }
    got.into()
}

fn sorted(mut list: Vec<PatchDetail>) -> Vec<PatchDetail> {
    list.sort_by(|a, b| a.path.cmp(&b.path));
    list
}

fn write(write: &MemberWrite) -> String {
    match write {
        MemberWrite::Create(_) => "create".to_owned(),
        MemberWrite::Update(_) => "update".to_owned(),
        MemberWrite::Patch { media, .. } => format!("patch:{media}"),
        MemberWrite::Apply { force: true, .. } => "apply:force".to_owned(),
        MemberWrite::Apply { .. } => "apply".to_owned(),
    }
}

/// Removes fields that are not recorded.
fn stored(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("a map");
    metadata.shift_remove("managedFields");
    metadata.shift_remove("resourceVersion");
    object
}

/// An object with the defaults of its kind, and without fields that are not recorded.
fn defaulted(object: Value) -> Value {
    match known(&object) {
        _ if object.is_null() => object,
        Some(kind) => stored(complete_object(&kind, object)),
        None => stored(object),
    }
}

/// The dialect.
fn dialect() -> &'static dyn Dialect {
    federate_dialects::DIALECTS.get("kubefleet").expect("a dialect of this name")
}

/// Verifies the waves in which objects are applied.
pub(crate) fn waves(case: &Value) -> Result<(), String> {
    let repo = run::repo(case);
    let mut waves: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    for template in &repo.templates {
        let mut object = template.object.id.clone();
        if repo.assumed_namespaced.contains(&object) {
            // Objects in a member have the namespace that their kind asks for.
            object.namespace = None;
        }
        waves.entry(dialect().members().wave_of(&object)).or_default().push(json!(object));
    }
    let by_text = |objects: &mut Vec<Value>| objects.sort_by_key(|value| normal(value).to_string());
    let mut want = case["expect"].clone();
    for wave in want["waves"].as_array_mut().expect("a list") {
        by_text(wave["objects"].as_array_mut().expect("a list"));
    }
    waves.values_mut().for_each(by_text);
    let waves: Vec<Value> =
        waves.into_iter().map(|(wave, objects)| json!({"wave": wave, "objects": objects})).collect();
    compare(&want, &json!({"waves": waves}))
}

/// Verifies whether an object is available.
pub(crate) fn health(case: &Value) -> Result<(), String> {
    let [live] = case["files"].as_array().expect("a list").as_slice() else { panic!("one object") };
    let word = match dialect().members().assess_health(&observed(live), &Config::default()).state {
        HealthState::Healthy => "Available",
        HealthState::Unhealthy => "ManifestNotAvailableYet",
        HealthState::Unknown => "NotTrackable",
    };
    compare(&case["expect"], &json!({"health": word}))
}
