//! The `Sync` object of `federate.dev/v1alpha1`: what is watched, and what is kept at what it renders.
//!
//! Field names are those of Flux's `GitRepository` and `Kustomization` wherever both say the same, so that nobody
//! has to learn new ones.

use std::time::Duration;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::status::Status;

/// The version of [`Sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ApiVersion {
    /// The only one so far.
    #[serde(rename = "federate.dev/v1alpha1")]
    V1Alpha1,
}

/// The kind of [`Sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Kind {
    /// The only one.
    Sync,
}

/// Keeps branches and clusters at what a source renders.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sync {
    /// `federate.dev/v1alpha1`
    pub api_version: ApiVersion,
    /// `Sync`
    pub kind: Kind,
    /// Name and namespace.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: Spec,
    /// What is; it is not read.
    #[serde(default, skip_serializing)]
    #[schemars(with = "Option<Status>")]
    pub status: Option<Value>,
    /// What an API server says about the object; `None` of a Sync in a file.
    #[serde(skip)]
    pub meta: Option<Meta>,
}

/// What an API server says about a Sync object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Its uid.
    pub uid: String,
    /// The number of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: String,
    /// The value of the annotation `federate.dev/requestedAt`: another one begins a round.
    pub requested_at: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The part of an object's metadata that counts here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The name.
    pub name: String,
    /// The namespace; `default` without one.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// What is wanted of a [`Sync`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// What is watched.
    pub source: Source,
    /// How often the source is polled, and clusters are compared with it.
    pub interval: Interval,
    /// How soon a round that failed is tried again; `interval` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Interval>,
    /// How long a git operation may take, and how long objects may take to become healthy; 60s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Interval>,
    /// Whether nothing is done until this is false again.
    #[serde(default)]
    pub suspend: bool,
    /// The Syncs that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// The ServiceAccount, of the Sync's namespace, that federate acts as in member clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// The kubeconfig whose contexts lead to the member clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfig>,
    /// Reach member clusters as their control plane does: by its own inventory and Secrets on this API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubInventory>,
    /// What becomes of the objects in member clusters when the Sync is deleted; they stay by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Commit what is rendered to a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Apply what is rendered to the member clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<Apply>,
    /// What is done where clusters differ from what is rendered, and nothing else has changed.
    #[serde(default)]
    pub drift: Drift,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// The address of a git repository (https, ssh or a path), or a local folder: a path without `ref` is read
    /// as it stands. Paths start at the file of the Sync.
    pub url: String,
    /// What of a git repository is read; what its HEAD names by default.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// The folder of the repository that is read; its root by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Which signatures are asked for before anything is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// The Secret with the credentials: `username` and `password`, `bearerToken`, or `identity`, `known_hosts` and
    /// `password`; `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// The Secret with the proxy: `address`, `username`, `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<SecretRef>,
}

/// A Secret in the namespace of the Sync.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
}

/// A kubeconfig in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeConfig {
    /// The Secret.
    pub secret_ref: SecretKeyRef,
}

/// A key of a Secret in the namespace of the Sync.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyRef {
    /// The Secret's name.
    pub name: String,
    /// The key; `value` or `value.yaml` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The control plane's own inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HubInventory {}

/// What becomes of the objects in member clusters when a Sync is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They stay.
    Orphan,
    /// They are deleted.
    Delete,
    /// They are deleted if `apply.prune` is set.
    MirrorPrune,
}

/// What of a git repository is read: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    /// A branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Any reference by its full name, such as `refs/pull/420/head`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A commit by its full hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// Which signatures are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verify {
    /// What must be signed.
    pub mode: VerifyMode,
    /// The Secret with the public keys that may sign: each of its keys holds lines of OpenSSH's allowed signers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// What must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum VerifyMode {
    /// The commit.
    #[serde(rename = "HEAD")]
    Head,
    /// The tag that `ref.tag` names.
    Tag,
    /// Both.
    #[serde(rename = "TagAndHEAD")]
    TagAndHead,
}

/// A Sync that must be ready first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Its namespace; that of the Sync itself by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Commit what is rendered to a branch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Commit {
    /// The branch; with `{cluster}` in it, each cluster has a branch of its own.
    pub branch: String,
    /// The folder of the branch that is written; its root by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Whether the branch is pushed: by default it is to the repository that `source.url` names, and is not where
    /// the source is a folder, in whose own repository the branch then is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<bool>,
    /// The message in place of the one that says what was rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The most of what a cluster had that a round may take away, in percent; 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub prune_limit: Option<u8>,
}

/// Apply what is rendered to the member clusters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Apply {
    /// When objects that are there already are taken over; what their policies say by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<Adopt>,
    /// Whether objects are taken from other tools, too.
    #[serde(default)]
    pub force: bool,
    /// Whether objects that are no longer rendered are deleted.
    #[serde(default = "yes")]
    pub prune: bool,
    /// The most of a cluster's objects that a round may delete, in percent; 30 by default. A round that would
    /// delete more changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub prune_limit: Option<u8>,
    /// Whether a round waits, up to `timeout`, until everything is healthy.
    #[serde(default)]
    pub wait: bool,
    /// The `ConfigMap` that keeps what this Sync manages in each cluster, as NAMESPACE/NAME;
    /// `default/federate.<namespace>.<name>` by default. `federate apply` uses `default/federate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_set: Option<String>,
}

fn yes() -> bool {
    true
}

/// When objects that are there already are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Adopt {
    /// They are left.
    Never,
    /// Where nothing changes.
    IfNoDiff,
    /// Where no pod is replaced.
    IfNoRestart,
    /// Whatever changes.
    Always,
}

/// What is done where clusters differ from what is rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Drift {
    /// What is done about it.
    #[serde(default)]
    pub mode: DriftMode,
}

/// What is done about drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// It is reported.
    #[default]
    Report,
    /// It is put back.
    Correct,
    /// Nobody looks.
    Ignore,
}

/// A length of time, as Go writes it: `30s`, `10m`, `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong =
            || de::Error::custom(format!("`{text}` is not a length of time: write 30s, 10m or 1h30m"));
        let length: SignedDuration = text.parse().map_err(|_| wrong())?;
        Duration::try_from(length).ok().filter(|length| !length.is_zero()).map(Self).ok_or_else(wrong)
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}ms", self.0.as_millis()))
    }
}

impl JsonSchema for Interval {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Interval".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"})
    }
}

impl Metadata {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Sync {
    /// Whether objects in member clusters are deleted with the Sync.
    pub fn deletes(&self) -> bool {
        let prunes = self.spec.apply.as_ref().is_some_and(|apply| apply.prune);
        match self.spec.deletion_policy {
            None | Some(DeletionPolicy::Orphan) => false,
            Some(DeletionPolicy::Delete) => self.spec.apply.is_some(),
            Some(DeletionPolicy::MirrorPrune) => prunes,
        }
    }

    /// The full names of the Syncs that must be ready first.
    pub fn dependencies(&self) -> impl Iterator<Item = String> {
        self.spec
            .depends_on
            .iter()
            .map(|on| format!("{}/{}", on.namespace.as_ref().unwrap_or(&self.metadata.namespace), on.name))
    }
}

impl Spec {
    /// How soon a round that failed is tried again.
    pub fn retry_interval(&self) -> Duration {
        self.retry_interval.unwrap_or(self.interval).0
    }

    /// How long a git operation may take.
    pub fn timeout(&self) -> Duration {
        self.timeout.map_or(Duration::from_mins(1), |timeout| timeout.0)
    }
}
