//! Runs the program over a case: its files as a repo, its state as settings.

use std::collections::BTreeMap;

use federate_dialect::Plan;
use federate_engine::{Engine, EngineSettings};
use federate_kubernetes::{Cluster, Finding, LiveObjects, Object, ObjectRef};
use federate_repo::{Config, Repo, RepoFile};
use serde_json::{Map, Value, json};

/// What came of a case.
pub(crate) struct Ran {
    pub(crate) plan: Plan,
    /// What each cluster receives, as read back from the text that would be written.
    pub(crate) manifests: BTreeMap<String, Vec<Value>>,
    /// The same one by one: object, cluster, manifest.
    pub(crate) sent: Vec<(ObjectRef, String, Value)>,
    /// What is not sent: object, cluster, status.
    pub(crate) not_sent: Vec<(ObjectRef, String, &'static str)>,
    pub(crate) findings: Vec<Finding>,
}

/// Plans and renders a list of objects, in both directions: the order of files never matters. `look`
/// may ask the engine for more.
pub(crate) fn run_with<T>(
    objects: &Value,
    settings: &EngineSettings,
    config: Config,
    look: impl FnOnce(&Engine<'_>, &Plan) -> T,
) -> (Ran, T) {
    let mut reversed = objects.clone();
    reversed.as_array_mut().expect("a list").reverse();
    let other = plan_of(&reversed, settings, config.clone());
    let loaded = federate_repo::load_bytes(files(objects), config, &federate_dialects::DIALECTS);
    let (clusters, mut findings) =
        federate_engine::read_inventory(federate_dialects::DIALECTS, &loaded.repo, settings);
    let repo = loaded.into_repo(&clusters);
    findings.extend(repo.findings.iter().cloned());
    let engine = Engine::new(federate_dialects::DIALECTS, &repo, &clusters, settings);
    let rendered = engine.render_repo();
    assert_eq!(rendered.plan, other, "the order of files matters");
    let written = federate_engine::previous::serialize_plan(&rendered.plan);
    let read = federate_engine::previous::read_own(written.as_bytes()).expect("a plan that was just written");
    assert_eq!(
        written,
        federate_engine::previous::serialize_plan(&read),
        "a plan does not survive being written"
    );
    let mut manifests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut sent = Vec::new();
    for manifest in &rendered.manifests {
        let body = federate_yaml::read_stream(manifest.text.as_bytes()).documents.remove(0).value;
        for cluster in manifest.clusters.iter() {
            manifests.entry(cluster.to_string()).or_default().push(body.clone());
            sent.push((manifest.object.clone(), cluster.to_string(), body.clone()));
        }
    }
    let held = rendered.not_sent.iter().flat_map(|held| {
        held.clusters.iter().map(|cluster| (held.object.clone(), cluster.to_string(), held.status))
    });
    let not_sent = held.collect();
    findings.extend(rendered.findings);
    let seen = look(&engine, &rendered.plan);
    (Ran { plan: rendered.plan, manifests, sent, not_sent, findings }, seen)
}

fn plan_of(objects: &Value, settings: &EngineSettings, config: Config) -> Plan {
    let loaded = federate_repo::load_bytes(files(objects), config, &federate_dialects::DIALECTS);
    let (clusters, _) = federate_engine::read_inventory(federate_dialects::DIALECTS, &loaded.repo, settings);
    let repo = loaded.into_repo(&clusters);
    Engine::new(federate_dialects::DIALECTS, &repo, &clusters, settings).compute_plan().plan
}

/// Plans a list of objects.
pub(crate) fn compute_plan(objects: &Value, settings: &EngineSettings) -> Plan {
    plan_of(objects, settings, Config::default())
}

/// Plans and renders a list of objects.
pub(crate) fn run(objects: &Value, settings: &EngineSettings) -> Ran {
    run_with(objects, settings, Config::default(), |_, _| ()).0
}

/// The inventory of a list of objects.
pub(crate) fn clusters(objects: &Value, settings: &EngineSettings) -> Vec<Cluster> {
    let loaded = federate_repo::load_bytes(files(objects), Config::default(), &federate_dialects::DIALECTS);
    federate_engine::read_inventory(federate_dialects::DIALECTS, &loaded.repo, settings).0
}

/// A case's files as a repo, of which the control plane `KubeFleet` claims its own.
pub(crate) fn repo(case: &Value) -> Repo {
    federate_repo::load_bytes(files(&case["files"]), Config::default(), &federate_dialects::DIALECTS).repo
}

/// The clusters of such a repo.
pub(crate) fn members(repo: &Repo) -> Vec<Cluster> {
    federate_engine::read_inventory(federate_dialects::DIALECTS, repo, &EngineSettings::default()).0
}

/// The clusters of such a repo, each as its control plane takes it to be.
pub(crate) fn strict_members(repo: &Repo) -> Vec<Cluster> {
    let settings = EngineSettings { strict_inventory: true, ..EngineSettings::default() };
    federate_engine::read_inventory(federate_dialects::DIALECTS, repo, &settings).0
}

/// Each object as a file of its own.
fn files(objects: &Value) -> Vec<RepoFile> {
    let objects = objects.as_array().expect("a list").iter().enumerate();
    objects
        .map(|(index, object)| RepoFile {
            path: format!("{index:03}.json").into(),
            bytes: object.to_string().into_bytes().into(),
        })
        .collect()
}

/// The case's `previous` as a plan: what is neither object nor clusters is memory.
pub(crate) fn previous(case: &Value) -> Plan {
    let rows = case["previous"].as_array().cloned().unwrap_or_default();
    let placements = rows.iter().map(|row| {
        let clusters = row["clusters"].as_object().expect("a map");
        let clusters: Vec<Value> =
            clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        let memory: Map<String, Value> = row
            .as_object()
            .expect("a map")
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "object" | "clusters"))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        json!({"object": row["object"], "clusters": clusters, "memory": memory})
    });
    serde_json::from_value(json!({"placements": placements.collect::<Vec<_>>()})).expect("a plan")
}

/// The case's `observed` objects.
pub(crate) fn live(case: &Value) -> LiveObjects {
    let mut live = LiveObjects::default();
    for (cluster, objects) in case["observed"].as_object().into_iter().flatten() {
        let objects = objects.as_array().expect("a list").iter().map(observed).collect();
        live.insert(cluster.as_str().into(), objects);
    }
    live
}

pub(crate) fn observed(body: &Value) -> Object {
    Object::from_manifest(body.clone(), "observed")
}
