//! `federate.yaml`: the optional settings file at the repo's root.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use federate_kubernetes::pointer::escape;
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::{Finding, Severity};
use federate_yaml::Position;

use federate_file_tree::RepoFile;

mod effects;
mod sources;

pub use effects::{SettingEffect, find_setting_effect};
pub use sources::{
    CLUSTER_PLACEHOLDER, ClusterChoice, ClusterValues, Hooks, LoadRestrictor, NoKeys, PerCluster,
    SourceConfig, SourceKind, SourcePath, is_release_name,
};

/// The name of the file, at the repo's root.
pub const DEFAULT_FILE_NAME: &str = "federate.yaml";

/// The names that the file may have, by precedence in messages.
pub const FILE_NAMES: [&str; 3] = [DEFAULT_FILE_NAME, "federate.yml", ".federate.yaml"];

/// The settings of a repo. Every key is optional.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// `federate.dev/v1alpha1`; optional
    pub api_version: Option<ConfigApiVersion>,
    /// `Config`; optional
    pub kind: Option<ConfigKind>,
    /// The folders and files to read, as globs relative to the root (`apps`, `clusters/*/prod`). Everything
    /// by default.
    pub paths: Vec<String>,
    /// Files and folders not to read, as gitignore patterns.
    pub exclude: Vec<String>,
    /// The output folder, relative to the root. It is not read.
    pub output: Option<String>,
    /// Clusters without an inventory object, for repos that no control plane reads; what `ClusterProfile` objects of the
    /// same names lack; and where the clusters of other inventory objects are, if these do not say so.
    pub clusters: Vec<ConfiguredCluster>,
    /// Where the properties of `ClusterProfile` objects say that a cluster is.
    pub cluster_profiles: ClusterProfileConfig,
    /// What becomes of a template that no policy places: `warn` (the default), `error`, or `everywhere`, which places
    /// it in every cluster.
    pub unplaced: UnplacedTemplates,
    /// What becomes of `spec.replicas` in the manifests of workloads that an autoscaler of the repo scales: `keep` (the
    /// default), or `omit`, for tools that would reset the replicas in the clusters.
    pub autoscaled_replicas: AutoscaledReplicas,
    /// The version of Kubernetes (`1.31`) of clusters whose inventory does not name one. `federate check` reports
    /// fields and API versions that it does not serve.
    pub kubernetes_version: Option<String>,
    /// The `values` of `*.j2` templates.
    pub values: Map<String, Value>,
    /// Values for one cluster, by cluster name, merged over `values`. Maps are merged key by key; other
    /// values are replaced.
    pub cluster_values: BTreeMap<String, Map<String, Value>>,
    /// Settings for applying to member clusters.
    pub apply: ApplyConfig,
    /// Settings for drift.
    pub drift: DriftConfig,
    /// Settings of control planes that affect their decisions, by dialect: `version`, the release whose rules decide, and for
    /// Karmada `featureGates`, gates by name, and `unclaimed`: whether an object whose policy is gone is left where it is
    /// (`Keep`, as Karmada does, the default) or removed (`Remove`); for KubeFleet `enableWebhook: false` where the hub agent
    /// runs without its webhooks, so that only schemas refuse objects.
    pub dialects: BTreeMap<String, Map<String, Value>>,
    /// What kustomize and Helm build from files of the repo. Kustomizations that no other names are built without being
    /// listed here, charts are not.
    pub sources: Vec<SourceConfig>,
    /// The addresses by which objects of Flux and Argo CD name the git repository of this repo. By default, it is that of the
    /// objects that build the file in which they are written, or the only one that is named.
    pub repositories: Vec<String>,
    /// Settings of the Argo CD whose objects `sources` name.
    pub argocd: ArgoCdConfig,
    /// Settings of the Flux whose objects `sources` name.
    pub flux: FluxConfig,
    /// The kubeconfig context of each cluster whose context has a different name, by cluster name. It is used only if
    /// `--contexts-from-repo` allows it.
    pub contexts: BTreeMap<String, String>,
}

/// A cluster without an inventory object, which counts as joined, ready and serving every API; or what is added to the
/// inventory object of that name. Labels and taints are added to a `ClusterProfile` only: for a control plane, its own
/// object has them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfiguredCluster {
    /// The name, which policies and kubeconfig contexts use.
    pub name: String,
    /// The labels that policies select by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The cloud provider.
    #[serde(default)]
    pub provider: String,
    /// The region.
    #[serde(default)]
    pub region: String,
    /// The zones.
    #[serde(default)]
    pub zones: Vec<String>,
    /// The version of Kubernetes, such as `1.31`.
    #[serde(default)]
    pub kubernetes_version: Option<String>,
    /// The properties by name, which templates read as `cluster.properties`.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The taints, which policies tolerate or not.
    #[serde(default)]
    pub taints: Vec<ConfiguredTaint>,
}

/// The properties of `ClusterProfile` objects that say where a cluster is. Of several, the first that a profile has counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterProfileConfig {
    /// The properties with the cloud provider.
    pub provider: Vec<String>,
    /// The properties with the region.
    pub region: Vec<String>,
    /// The properties with the zone.
    pub zone: Vec<String>,
}

impl Default for ClusterProfileConfig {
    fn default() -> Self {
        let [platform, region] =
            ["platform", "region"].map(|claim| format!("{claim}.open-cluster-management.io"));
        Self {
            provider: vec![platform],
            region: vec![region, "topology.kubernetes.io/region".to_owned()],
            zone: vec!["topology.kubernetes.io/zone".to_owned()],
        }
    }
}

/// A taint of a configured cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfiguredTaint {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default)]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: TaintEffect,
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// Nothing new is scheduled.
    #[default]
    NoSchedule,
    /// Nothing new is scheduled if possible.
    PreferNoSchedule,
    /// Nothing is scheduled, and what runs is evicted.
    NoExecute,
}

/// What becomes of a template that no policy places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UnplacedTemplates {
    /// It is rendered for no cluster, with a warning.
    #[default]
    Warn,
    /// It is an error: nothing is written.
    Error,
    /// It goes to every cluster, for repos that no control plane reads. Templates that a policy selects are not
    /// affected.
    Everywhere,
}

/// What becomes of the replicas of workloads that an autoscaler scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AutoscaledReplicas {
    /// Manifests contain them.
    #[default]
    Keep,
    /// Manifests leave them out.
    Omit,
}

/// Settings of the Argo CD whose objects `sources` name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ArgoCdConfig {
    /// The cluster in which Argo CD runs, which its objects call `in-cluster` and `https://kubernetes.default.svc`.
    pub cluster: Option<String>,
    /// Whether the `files` of git generators are the globs that Argo CD reads with
    /// `applicationsetcontroller.enable.new.git.file.globbing`.
    pub new_git_file_globbing: bool,
}

/// Settings of the Flux whose objects `sources` name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FluxConfig {
    /// The version (`2.8`); the newest one by default. Before 2.9, a variable that has no value is empty, and hooks of charts
    /// are not sent to post-renderers; since then, the variable is an error, and hooks are sent.
    pub version: Option<FluxVersion>,
}

/// A version of Flux, of which the major and the minor one count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct FluxVersion {
    major: u32,
    minor: u32,
}

impl TryFrom<String> for FluxVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut parts = text.strip_prefix('v').unwrap_or(&text).split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err(format!("{text:?} is not a version of Flux, such as \"2.8\"")),
        }
    }
}

impl FluxConfig {
    /// Whether it is Flux 2.9 or newer, by default: a variable without a value is an error, and hooks go through post-renderers.
    pub fn is_at_least_2_9(&self) -> bool {
        self.version.is_none_or(|version| version >= FluxVersion { major: 2, minor: 9 })
    }
}

/// Settings for applying to member clusters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApplyConfig {
    /// Kinds whose pods restart when `spec.template` changes, as `Kind.group` (`Rollout.argoproj.io`), in
    /// addition to `Deployment`, `StatefulSet` and `DaemonSet`.
    pub rolling: Vec<String>,
    /// Whether `apply` leaves fields as they are that people have added by hand and that are not rendered, like
    /// `--no-take-over`. By default it removes them.
    pub no_take_over: bool,
    /// Whether `apply` sets the fields that rules of `drift.ignore` with `paths` or `managers` name. By default it leaves
    /// them as they are in objects that exist.
    pub reset_ignored: bool,
    /// When objects of kinds whose status does not follow the conventions of Kubernetes are healthy, for `--wait` and
    /// rollouts: at most 500 checks.
    pub health_checks: Vec<HealthCheck>,
}

/// When objects of a kind are healthy, as CEL expressions over their top-level fields, such as
/// `status.phase == 'Ready'`. `failed` is evaluated first, then `inProgress`, then `current`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthCheck {
    /// The API version, such as `db.example.com/v1`. The check is for all versions of the group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Is true if the object is healthy.
    pub current: String,
    /// Is true while the object changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<String>,
    /// Is true if the object will never become healthy, which ends the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Settings for drift.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DriftConfig {
    /// Differences that are not drift.
    pub ignore: Vec<DriftIgnoreRule>,
    /// The field managers of people's tools, with `*` for any ending. What they have changed in managed objects is drift,
    /// also where it is not rendered. By default: `kubectl*`, `oc`, `k9s`, and consoles such as `Mozilla`, `dashboard`,
    /// `headlamp`, `Lens` and `rancher`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<Vec<String>>,
}

/// A rule that excludes differences from drift. All its fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DriftIgnoreRule {
    /// Kinds, as `Kind` or `Kind.group`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Names, as `name` or `namespace/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Fields with everything below them, as paths in the notation of drift (`/spec/replicas`) or as JSON
    /// pointers into the live object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Managers that last wrote the field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managers: Vec<String>,
}

/// The API version of [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum ConfigApiVersion {
    /// The only version.
    #[serde(rename = "federate.dev/v1alpha1")]
    V1Alpha1,
}

/// The kind of [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum ConfigKind {
    /// The only kind.
    Config,
}

impl Config {
    /// Parses the file. An empty file is the default.
    pub fn parse(file: &RepoFile) -> Result<Self, Finding> {
        let bytes = &*file.bytes;
        let stream = federate_yaml::read_stream(bytes);
        if let Some(e) = stream.errors.first() {
            return Err(config_error(&file.path, Some(e.at), &e.message));
        }
        if let Some(warning) = stream.warnings.first() {
            return Err(config_error(&file.path, Some(warning.at), &warning.message));
        }
        match stream.documents.as_slice() {
            [] => Ok(Self::default()),
            [document] => Self::from_value(document.value.clone()).map_err(|(pointer, message)| {
                let at = federate_yaml::locate_value(bytes, document.index, &pointer);
                let at = at.or(Some(Position { line: document.line, column: 1 }));
                config_error(&file.path, at, &message).with_pointer(pointer)
            }),
            [_, second, ..] => {
                let at = Position { line: second.line, column: 1 };
                Err(config_error(&file.path, Some(at), "the file contains more than one document"))
            }
        }
    }

    fn from_value(value: Value) -> Result<Self, (String, String)> {
        from_value(value)
    }

    /// The values that templates use for a cluster.
    pub fn values_for(&self, cluster: &str) -> Map<String, Value> {
        let mut values = self.values.clone();
        if let Some(own) = self.cluster_values.get(cluster) {
            federate_gitops::merge_maps(&mut values, own);
        }
        values
    }
}

/// Deserializes a JSON value into a type that denies unknown keys; the error is a JSON pointer and a message.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, (String, String)> {
    if !value.is_object() {
        return Err((String::new(), "expected a mapping of keys to values".to_owned()));
    }
    serde_path_to_error::deserialize(value).map_err(|e| {
        let message = without_value(&e.inner().to_string());
        let mut pointer: String = e.path().iter().map(pointer_segment).collect();
        // An unknown key is reported for the mapping that contains it.
        let unknown = message.strip_prefix("unknown field `").and_then(|m| m.split_once('`'));
        if let Some((key, _)) = unknown.filter(|(key, _)| !pointer.ends_with(&format!("/{key}"))) {
            pointer = format!("{pointer}/{}", escape(key));
        }
        (pointer, message)
    })
}

fn config_error(file: &Arc<str>, at: Option<Position>, message: &str) -> Finding {
    Finding::in_file(Severity::Error, "invalid-config", file, at, format!("invalid configuration: {message}"))
        .with_help("docs/reference/federate-yaml.md lists the keys")
}

/// The message of serde without the value, which could be secret.
///
/// Its messages are `invalid type: string "…", expected …`, `invalid value: …`, `unknown variant `…`, …`.
fn without_value(message: &str) -> String {
    let Some((said, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    if let Some(found) = said.strip_prefix("invalid type: ") {
        let found = found.split([' ', ',']).next().unwrap_or_default();
        return format!("invalid type: {found}, expected {expected}");
    }
    if said.starts_with("invalid value: ") || said.starts_with("unknown variant `") {
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let given = message.split('`').nth(1).unwrap_or_default();
        let near =
            find_similar(given, &known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return format!("invalid value, expected {expected}{near}");
    }
    message.to_owned()
}

fn pointer_segment(segment: &serde_path_to_error::Segment) -> String {
    use serde_path_to_error::Segment::{Enum, Map, Seq, Unknown};
    match segment {
        Seq { index } => format!("/{index}"),
        Map { key } | Enum { variant: key } => format!("/{}", escape(key)),
        Unknown => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_and_wrong_keys_are_named_with_their_place() {
        for (value, pointer, part) in [
            (json!({"path": ["a"]}), "/path", "unknown field `path`, expected one of"),
            (json!({"paths": ["a", 1]}), "/paths/1", "expected a string"),
            (json!({"clusterValues": {"m/1": 3}}), "/clusterValues/m~11", "expected a map"),
            (json!({"apiVersion": "v2"}), "/apiVersion", "federate.dev/v1alpha1"),
            (json!([]), "", "expected a mapping"),
        ] {
            let (at, message) = Config::from_value(value).unwrap_err();
            assert_eq!(at, pointer);
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn cluster_values_merge_over_values() {
        let config = Config::from_value(json!({
            "apiVersion": "federate.dev/v1alpha1", "kind": "Config",
            "values": {"image": {"tag": "1", "repo": "r"}, "hosts": ["a", "b"]},
            "clusterValues": {"m1": {"image": {"tag": "2"}, "hosts": ["c"], "new": null}},
        }))
        .unwrap();
        let m1 = Value::Object(config.values_for("m1"));
        assert_eq!(m1, json!({"image": {"tag": "2", "repo": "r"}, "hosts": ["c"], "new": null}));
        assert_eq!(config.values_for("m2"), config.values);
    }
}
