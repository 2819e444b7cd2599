//! The `Sync` object of `federate.dev/v1alpha1`: what is watched, and what is kept at what it renders.
//!
//! Field names are those of Flux's `GitRepository` and `Kustomization` where the meaning is the same.

use std::collections::BTreeSet;
use std::time::Duration;

use federate_kubernetes::Cluster;
use federate_kubernetes::object::field_text;
use federate_repo::config::{self, DriftIgnoreRule};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::push::PushSpec;
use crate::rollout::{ClusterLabelSelector, RolloutSpec};
use crate::source::{DNS_SUBDOMAIN_PATTERN, SecretRef};
use crate::status::SyncStatus;
use crate::{Interval, MaintenanceWindow, SyncSource};

/// Namespace and name of an object.
const APPLY_SET_PATTERN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The version of [`Sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum SyncApiVersion {
    /// The only version.
    #[serde(rename = "federate.dev/v1alpha1")]
    V1Alpha1,
}

/// The kind of [`Sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum SyncKind {
    /// The only kind.
    Sync,
}

/// Keeps branches, registries and clusters at what a source renders.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sync {
    /// `federate.dev/v1alpha1`
    pub api_version: SyncApiVersion,
    /// `Sync`
    pub kind: SyncKind,
    /// Name and namespace.
    pub metadata: NamespacedName,
    /// The specification.
    pub spec: SyncSpec,
    /// The status; it is not read.
    #[serde(default, skip_serializing)]
    #[schemars(with = "Option<SyncStatus>")]
    pub status: Option<Value>,
    /// Metadata besides name and namespace.
    #[serde(skip)]
    pub server_metadata: SyncMetadata,
}

/// The metadata of a Sync besides name and namespace. A Sync in a file has only annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncMetadata {
    /// Its uid.
    pub uid: String,
    /// The number of its spec.
    pub generation: i64,
    /// When it was created.
    pub created: String,
    /// The value of the annotation `federate.dev/requestedAt`: a new value begins a reconciliation.
    pub requested_at: Option<String>,
    /// The values of the annotation `federate.dev/approve`: the tasks of a rollout that are approved.
    pub approve: BTreeSet<String>,
    /// The value of the annotation `federate.dev/abort`: the revision whose rollout is aborted.
    pub abort: Option<String>,
    /// The values of the annotation `federate.dev/forget`: clusters that have left, whose objects are given up.
    pub forget: BTreeSet<String>,
    /// The value of the annotation `federate.dev/ignoreWindows`: the revision that does not wait for a window.
    pub ignore_windows: Option<String>,
    /// The value of the annotation `federate.dev/rollback`: the commit that is carried out while the Sync is suspended.
    pub rollback: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Name and namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedName {
    /// The name.
    pub name: String,
    /// The namespace; `default` without one.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

/// The longest `timeout`: a remote that answers slowly takes the time of a worker.
const MAX_TIMEOUT: Duration = Duration::from_hours(1);

fn read_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Interval>, D::Error> {
    let timeout = Option::<Interval>::deserialize(deserializer)?;
    if timeout.is_some_and(|timeout| timeout.0 > MAX_TIMEOUT) {
        return Err(serde::de::Error::custom("`timeout` may be 1h at most"));
    }
    Ok(timeout)
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// The specification of a [`Sync`].
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncSpec {
    /// What is watched.
    pub source: SyncSource,
    /// How often the source is polled, and clusters are compared with it.
    pub interval: Interval,
    /// How soon a round that failed is tried again; `interval` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_interval: Option<Interval>,
    /// How long a git operation may take, and how long objects may take to become healthy: 1h at most, 60s by default. A
    /// cluster in which more than that and ten minutes pass is given up.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_timeout")]
    pub timeout: Option<Interval>,
    /// Whether rounds are suspended.
    #[serde(default)]
    pub suspend: bool,
    /// The Syncs that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<SyncDependency>,
    /// The `ServiceAccount`, of the Sync's namespace, that federate acts as in member clusters and towards `hub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DNS_SUBDOMAIN_PATTERN), length(max = 253))]
    pub service_account_name: Option<String>,
    /// Whether federate acts as itself where the Sync names no `ServiceAccount`: with its own credentials, or the control
    /// plane's. The operator must trust the namespace (`--trusted-namespaces`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_impersonation: bool,
    /// The kubeconfig whose contexts lead to the member clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KubeConfig>,
    /// Reach member clusters as their control plane does: by its own inventory and Secrets on this API server, which are
    /// read as `serviceAccountName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubInventory>,
    /// Where the status of the clusters comes from by which workloads are placed.
    #[serde(default, skip_serializing_if = "InventorySource::is_repo")]
    pub inventory: InventorySource,
    /// Whether a member that stays unreachable is treated as its control plane treats a lost cluster with failover on:
    /// its conditions and taints change after their delays, and workloads are evicted from it. It needs
    /// `inventory: members`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failover: bool,
    /// Whether the objects in member clusters are deleted with the Sync; they stay by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// The clusters of the inventory that are applied to and compared; all by default. Workloads are placed by the whole
    /// inventory anyway, so that Syncs with different clusters of one repo agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterSelection>,
    /// Commit what is rendered to a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitSpec>,
    /// Push what is rendered to a registry, as artifacts that Flux and Argo CD read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<PushSpec>,
    /// Apply what is rendered to the member clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<ApplySpec>,
    /// Update the clusters in stages; all at once by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutSpec>,
    /// When revisions are carried out and drift is put back; at any time by default. Outside of these windows, clusters are
    /// only compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MaintenanceWindow>,
    /// What is done about clusters that differ from what is rendered.
    #[serde(default)]
    pub drift: DriftSpec,
    /// The receivers of notifications about the outcomes of rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
}

/// Where outcomes are sent. Fields and types are those of Flux's `Provider`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notification {
    /// The type of the service.
    pub r#type: NotificationType,
    /// The address: of a webhook, or of a repository for commit statuses. The key `address` of the Secret by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The Secret with the `token`, and with the `address` if it is confidential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// The type of a service that takes outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationType {
    /// A webhook that takes JSON.
    Generic,
    /// The same, signed with the token (`X-Signature`).
    GenericHmac,
    /// An incoming webhook of Slack.
    Slack,
    /// Statuses of commits in a repository of GitHub.
    Github,
    /// Statuses of commits in a project of GitLab.
    Gitlab,
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
    #[schemars(regex(pattern = DNS_SUBDOMAIN_PATTERN), length(max = 253))]
    pub name: String,
    /// The key; `value` or `value.yaml` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[-._a-zA-Z0-9]+$"), length(max = 253))]
    pub key: Option<String>,
}

/// The control plane's own inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HubInventory {}

/// Where the status of clusters comes from: readiness, taints, versions, and free resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InventorySource {
    /// The inventory objects in the repo.
    #[default]
    Repo,
    /// The member clusters: federate computes the status as their control plane does. A cluster that cannot be reached
    /// keeps the last status.
    Members,
    /// The inventory objects on the control plane's API server, which `hub` names.
    Hub,
}

/// Whether the objects in member clusters are deleted with a Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They stay.
    Orphan,
    /// They are deleted.
    Delete,
    /// They are deleted if `apply.prune` is set.
    MirrorPrune,
}

/// A Sync that must be ready first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncDependency {
    /// Its name.
    #[schemars(regex(pattern = DNS_SUBDOMAIN_PATTERN), length(max = 253))]
    pub name: String,
    /// Its namespace; that of the Sync itself by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DNS_SUBDOMAIN_PATTERN), length(max = 253))]
    pub namespace: Option<String>,
}

/// Clusters of the inventory: those that are named, and those that the selector selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSelection {
    /// The names of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The labels that clusters have in the inventory. An empty selector selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<ClusterLabelSelector>,
}

/// Commit what is rendered to a branch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitSpec {
    /// The branch; with `{cluster}` in it, each cluster has a branch of its own.
    pub branch: String,
    /// The folder of the branch that is written; its root by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The files that are written: `plain` (a file per object) by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<CommitLayout>,
    /// Whether the branch is pushed. By default it is pushed to the repository that `source.url` names. If the source
    /// is a folder, the branch stays in the repository of the folder by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<bool>,
    /// The commit message; by default one that says what was rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The most of a cluster's objects that a round may delete, in percent; 30 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub prune_limit: Option<u8>,
}

/// How the objects of a cluster are distributed over the files of a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommitLayout {
    /// A file per object.
    #[default]
    Plain,
    /// The files of Argo CD's source hydrator: a `manifest.yaml` per cluster, metadata about the commit that is rendered, and a
    /// note about it.
    Hydrator,
}

/// Apply what is rendered to the member clusters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplySpec {
    /// When existing objects are adopted; their policies decide by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<AdoptionRule>,
    /// Whether objects of other tools are adopted, too.
    #[serde(default)]
    pub force: bool,
    /// Whether objects that are no longer rendered are deleted.
    #[serde(default = "default_true")]
    pub prune: bool,
    /// The most of a cluster's objects that a round may delete, in percent; 30 by default. A round that would
    /// delete more changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub prune_limit: Option<u8>,
    /// Whether the Sync's objects are deleted in clusters that leave the inventory, or `clusters`. They stay by default, and
    /// `status.orphans` names the clusters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prune_clusters: bool,
    /// Whether a round waits, up to `timeout`, until everything is healthy.
    #[serde(default)]
    pub wait: bool,
    /// The `ConfigMap` that keeps what this Sync manages in each cluster, as NAMESPACE/NAME;
    /// `default/federate.<namespace>.<name>` by default. `federate apply` uses `default/federate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = APPLY_SET_PATTERN), length(max = 507))]
    pub apply_set: Option<String>,
}

fn default_true() -> bool {
    true
}

/// When existing objects are adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AdoptionRule {
    /// Not at all.
    Never,
    /// If nothing changes.
    IfNoDiff,
    /// If no pod is replaced.
    IfNoRestart,
    /// Always.
    Always,
}

/// What is done about clusters that differ from what is rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DriftSpec {
    /// What is done.
    #[serde(default)]
    pub mode: DriftMode,
    /// Differences that are not drift, besides those that `drift.ignore` in federate.yaml names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<DriftIgnoreRule>,
}

/// What is done about drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// Report it.
    #[default]
    Report,
    /// Put it back.
    Correct,
    /// Do not compare.
    Ignore,
}

impl ClusterSelection {
    /// Whether a cluster is selected.
    pub fn selects_cluster(&self, cluster: &Cluster) -> bool {
        let by_labels = self.label_selector.as_ref().is_some_and(|selector| {
            let selector = selector.to_label_selector();
            selector.find_mistake().is_none() && selector.matches(&cluster.labels)
        });
        by_labels || self.names.iter().any(|name| **name == *cluster.name)
    }

    /// What is wrong with it, whatever the clusters are.
    pub fn validate(&self) -> Result<(), String> {
        match &self.label_selector {
            None if self.names.is_empty() => Err("name clusters, or select them by labels".to_owned()),
            Some(selector) => selector.to_label_selector().find_mistake().map_or(Ok(()), |(_, why)| Err(why)),
            None => Ok(()),
        }
    }
}

impl SyncMetadata {
    /// Reads the metadata of an object.
    pub fn from_value(metadata: &Value) -> Self {
        let annotations = &metadata["annotations"];
        Self {
            uid: field_text(metadata, "uid").to_owned(),
            generation: metadata["generation"].as_i64().unwrap_or(1),
            created: field_text(metadata, "creationTimestamp").to_owned(),
            requested_at: own_annotation(annotations, "requestedAt"),
            approve: own_annotation_words(annotations, "approve"),
            forget: own_annotation_words(annotations, "forget"),
            ignore_windows: own_annotation(annotations, "ignoreWindows"),
            rollback: own_annotation(annotations, "rollback"),
            abort: own_annotation(annotations, "abort"),
            deleting: metadata["deletionTimestamp"].is_string(),
        }
    }
}

/// An annotation of federate's own domain.
fn own_annotation(annotations: &Value, name: &str) -> Option<String> {
    annotations[format!("federate.dev/{name}")].as_str().map(str::to_owned)
}

/// The words of an annotation of federate's own domain.
fn own_annotation_words(annotations: &Value, name: &str) -> BTreeSet<String> {
    let text = own_annotation(annotations, name).unwrap_or_default();
    text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl NamespacedName {
    /// Reads the `metadata` of an object; `None` without a name.
    pub fn from_value(metadata: &Value) -> Option<Self> {
        Self::deserialize(metadata).ok()
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Sync {
    /// Reads an object, whose `metadata` also becomes [`server_metadata`](Self::server_metadata). An error has the pointer of the field.
    pub fn parse(object: Value) -> Result<Self, (String, String)> {
        let server_metadata = SyncMetadata::from_value(&object["metadata"]);
        let sync: Self = config::from_value(object)?;
        Ok(Self { server_metadata, ..sync })
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        self.metadata.full_name()
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.server_metadata.deleting
    }

    /// Whether objects in member clusters are deleted with the Sync.
    pub fn deletes_objects(&self) -> bool {
        let prunes = self.spec.apply.as_ref().is_some_and(|apply| apply.prune);
        match self.spec.deletion_policy {
            None | Some(DeletionPolicy::Orphan) => false,
            Some(DeletionPolicy::Delete) => self.spec.apply.is_some(),
            Some(DeletionPolicy::MirrorPrune) => prunes,
        }
    }

    /// Namespace and name of the object that keeps what this Sync manages in a cluster.
    pub fn apply_set(&self) -> (String, String) {
        let named = self.spec.apply.as_ref().and_then(|ApplySpec { apply_set, .. }| apply_set.as_deref());
        if let Some((namespace, name)) = named.and_then(|set| set.split_once('/')) {
            return (namespace.to_owned(), name.to_owned());
        }
        let name = format!("federate.{}.{}", self.metadata.namespace, self.metadata.name);
        ("default".to_owned(), name)
    }

    /// The names of objects in it, with their pointers. They become parts of the paths of requests.
    pub fn object_names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let SyncSpec { source, depends_on, service_account_name, kube_config, push, notifications, .. } =
            &self.spec;
        let registry = push.as_ref().and_then(|push| push.secret_ref.as_ref());
        let signers = source.verify.as_ref().and_then(|verify| verify.secret_ref.as_ref());
        let kube_config = kube_config.as_ref().map(|kube_config| kube_config.secret_ref.name.as_str());
        let single = [
            ("/metadata/name", Some(self.metadata.name.as_str())),
            ("/metadata/namespace", Some(self.metadata.namespace.as_str())),
            ("/spec/source/secretRef/name", secret_name(source.secret_ref.as_ref())),
            ("/spec/source/proxySecretRef/name", secret_name(source.proxy_secret_ref.as_ref())),
            ("/spec/source/verify/secretRef/name", secret_name(signers)),
            ("/spec/push/secretRef/name", secret_name(registry)),
            ("/spec/serviceAccountName", service_account_name.as_deref()),
            ("/spec/kubeConfig/secretRef/name", kube_config),
        ];
        let single = single.into_iter().filter_map(|(pointer, name)| Some((pointer, name?)));
        let dependencies = depends_on.iter().flat_map(|on| [Some(on.name.as_str()), on.namespace.as_deref()]);
        let dependencies = dependencies.flatten().map(|name| ("/spec/dependsOn", name));
        let notified = notifications.iter().filter_map(|one| secret_name(one.secret_ref.as_ref()));
        single.chain(dependencies).chain(notified.map(|name| ("/spec/notifications", name)))
    }

    /// The Syncs that must be ready first.
    pub fn dependency_names(&self) -> impl Iterator<Item = NamespacedName> {
        self.spec.depends_on.iter().map(|on| NamespacedName {
            name: on.name.clone(),
            namespace: on.namespace.as_ref().unwrap_or(&self.metadata.namespace).clone(),
        })
    }

    /// The full names of the Syncs that must be ready first.
    pub fn dependency_full_names(&self) -> impl Iterator<Item = String> {
        self.dependency_names().map(|on| on.full_name())
    }
}

fn secret_name(secret: Option<&SecretRef>) -> Option<&str> {
    secret.map(|secret| secret.name.as_str())
}

impl SyncSpec {
    /// How soon a reconciliation that failed is tried again.
    pub fn retry_interval(&self) -> Duration {
        self.retry_interval.unwrap_or(self.interval).0
    }

    /// How long a reconciliation waits until everything that it applied is healthy; `None` if it does not.
    pub fn health_timeout(&self, apply: &ApplySpec) -> Option<Duration> {
        apply.wait.then(|| self.timeout())
    }

    /// Whether clusters are compared with what is rendered.
    pub fn looks_for_drift(&self) -> bool {
        let has_output = self.commit.is_some() || self.push.is_some();
        self.drift.mode != DriftMode::Ignore && (self.apply.is_some() || !has_output)
    }

    /// How long a git operation may take.
    pub fn timeout(&self) -> Duration {
        self.timeout.map_or(Duration::from_mins(1), |timeout| timeout.0)
    }
}

impl InventorySource {
    /// Whether the repo says everything about the clusters.
    pub fn is_repo(&self) -> bool {
        *self == Self::Repo
    }
}
