//! The clusters of Argo CD: what its Secrets name, or the inventory in place of them, and the cluster in which it runs.
//!
//! Facts: a Secret with the label `argocd.argoproj.io/secret-type: cluster` in the namespace of the controllers is a cluster, with
//! `name`, `server` and `project` in its data. `in-cluster` and `https://kubernetes.default.svc` are always one. A destination has a
//! name or a server, and not both; of a server, a `/` at the end does not count.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use federate_kubernetes::object::{Labels, field_text, string_map};
use federate_kubernetes::{Cluster, ClusterName, Object};

use super::reader::ArgoSettings;

/// The address and the name of the cluster in which Argo CD runs.
pub(super) const LOCAL_SERVER: &str = "https://kubernetes.default.svc";
pub(super) const LOCAL_NAME: &str = "in-cluster";

/// The label of Secrets that are clusters, and its value.
pub(super) const SECRET_TYPE: (&str, &str) = ("argocd.argoproj.io/secret-type", "cluster");

/// The address that stands for a cluster of the inventory: the repo does not know the real one.
pub(super) fn server_of(cluster: &str) -> String {
    format!("https://{cluster}.cluster.invalid")
}

/// A cluster that Argo CD knows.
#[derive(Clone, Debug, Default)]
pub(super) struct ArgoCluster {
    pub(super) name: String,
    pub(super) server: String,
    pub(super) project: String,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    /// The namespace and the name of its Secret; the namespace is empty if it has none.
    secret: (String, String),
    /// The cluster of the inventory.
    member: Option<ClusterName>,
}

impl ArgoCluster {
    /// The cluster in which Argo CD runs, where no Secret names it.
    pub(super) fn local() -> Self {
        Self { name: LOCAL_NAME.to_owned(), server: LOCAL_SERVER.to_owned(), ..Self::default() }
    }
}

/// Why a destination is not a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DestinationError {
    pub(super) why: String,
    pub(super) help: Option<&'static str>,
    /// Whether it is the cluster in which Argo CD runs, and only the inventory does not say which one that is.
    pub(super) is_own_cluster: bool,
}

impl DestinationError {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), help: None, is_own_cluster: false }
    }
}

/// The cluster that a destination is for Argo CD.
#[derive(Clone, Copy, Debug)]
enum Destination<'c> {
    Local,
    Registered(&'c ArgoCluster),
}

/// The clusters of Argo CD.
#[derive(Debug)]
pub(super) struct ArgoClusters {
    /// By their Secrets.
    clusters: Vec<ArgoCluster>,
    /// The indices of those in a namespace with a name.
    by_name: BTreeMap<(String, String), Vec<usize>>,
    /// The indices of those in a namespace with an address.
    by_server: BTreeMap<(String, String), Vec<usize>>,
    /// The namespaces of the Secrets.
    namespaces: BTreeSet<String>,
    /// Whether the repo has Secrets of clusters.
    has_secrets: bool,
    /// The cluster in which Argo CD runs, if it is known.
    pub(super) local: Option<ClusterName>,
}

impl ArgoClusters {
    /// The clusters that Secrets among objects name. Where there are none, the inventory stands in for them.
    pub(super) fn from_objects<'o>(
        objects: impl IntoIterator<Item = &'o Object>,
        inventory: &[Cluster],
        settings: &ArgoSettings,
    ) -> Self {
        let members: BTreeSet<&ClusterName> = inventory.iter().map(|cluster| &cluster.name).collect();
        let by_server: BTreeMap<String, &ClusterName> =
            members.iter().map(|name| (server_of(name), *name)).collect();
        let find_member = |name: &str, server: &str| {
            let named = members.iter().find(|member| ****member == *name).copied();
            named.or_else(|| by_server.get(server).copied()).cloned()
        };
        let mut clusters: Vec<ArgoCluster> = objects
            .into_iter()
            .filter(|object| {
                object.id.kind == "Secret"
                    && object.id.api_version == "v1"
                    && object.label(SECRET_TYPE.0) == Some(SECRET_TYPE.1)
            })
            .map(|secret| {
                let mut cluster = read_secret(secret);
                cluster.member = find_member(&cluster.name, &cluster.server);
                cluster
            })
            .collect();
        clusters.sort_by(|a, b| a.secret.cmp(&b.secret));
        let has_secrets = !clusters.is_empty();
        if !has_secrets {
            clusters = inventory.iter().map(stand_in).collect();
            // One of this name stands in for the Secret of the cluster in which Argo CD runs.
            for local in clusters.iter_mut().filter(|cluster| cluster.name == LOCAL_NAME) {
                LOCAL_SERVER.clone_into(&mut local.server);
            }
        }
        let mut by_name: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        let mut by_server: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (index, cluster) in clusters.iter().enumerate() {
            let namespace = &cluster.secret.0;
            by_name.entry((namespace.clone(), cluster.name.clone())).or_default().push(index);
            let server = cluster.server.trim_end_matches('/').to_owned();
            by_server.entry((namespace.clone(), server)).or_default().push(index);
        }
        let namespaces = clusters.iter().map(|cluster| cluster.secret.0.clone());
        let namespaces = namespaces.filter(|name| !name.is_empty()).collect();
        Self { clusters, by_name, by_server, namespaces, has_secrets, local: settings.cluster.clone() }
    }

    /// The clusters for an object in a namespace, one of each name.
    pub(super) fn list_for(&self, namespace: &str) -> Vec<&ArgoCluster> {
        let mut named = BTreeMap::new();
        let visible = self.visible_namespaces(namespace);
        for cluster in self.clusters.iter().filter(|cluster| visible.contains(cluster.secret.0.as_str())) {
            named.entry(cluster.name.as_str()).or_insert(cluster);
        }
        // The cluster in which Argo CD runs is listed as that, unless it has a Secret.
        let is_local = |cluster: &&ArgoCluster| {
            let is_own = cluster.member.is_some() && cluster.member == self.local;
            !self.has_secrets && is_own && cluster.name != LOCAL_NAME
        };
        named.into_values().filter(|cluster| !is_local(cluster)).collect()
    }

    /// The namespaces of the Secrets that count for an object in a namespace: its own, as that of the controllers, or the only one that
    /// has such Secrets. What has no namespace counts always.
    fn visible_namespaces(&self, namespace: &str) -> BTreeSet<&str> {
        let own = self.namespaces.get(namespace).map(String::as_str);
        let mut visible: BTreeSet<&str> = own.into_iter().chain([""]).collect();
        if namespace.is_empty() || self.namespaces.len() == 1 {
            visible.extend(self.namespaces.iter().map(String::as_str));
        }
        visible
    }

    /// The clusters of an index with a name or address that count for an object in a namespace.
    fn find_visible<'c>(
        &'c self,
        index: &'c BTreeMap<(String, String), Vec<usize>>,
        key: &str,
        namespace: &str,
    ) -> impl Iterator<Item = &'c ArgoCluster> {
        let visible: Vec<&'c str> = self.visible_namespaces(namespace).into_iter().collect();
        let key = key.to_owned();
        let found = visible.into_iter().filter_map(move |own| index.get(&(own.to_owned(), key.clone())));
        found.flatten().filter_map(|index| self.clusters.get(*index))
    }

    /// How many clusters there are.
    pub(super) fn count(&self) -> usize {
        self.clusters.len()
    }

    /// Whether Argo CD has the cluster of a destination. The error says why not.
    pub(super) fn check_destination(
        &self,
        destination: &Value,
        namespace: &str,
    ) -> Result<(), DestinationError> {
        self.resolve(destination, namespace).map(drop)
    }

    /// The cluster of the inventory that a destination is.
    pub(super) fn find_destination(
        &self,
        destination: &Value,
        namespace: &str,
    ) -> Result<ClusterName, DestinationError> {
        match self.resolve(destination, namespace)? {
            Destination::Registered(ArgoCluster { member: Some(member), .. }) => Ok(member.clone()),
            Destination::Registered(cluster) if cluster.server.trim_end_matches('/') != LOCAL_SERVER => {
                Err(DestinationError {
                    why: format!("its destination `{}` is not a cluster of the inventory", cluster.name),
                    help: Some("give the Secret of Argo CD and the cluster of the inventory the same name"),
                    is_own_cluster: false,
                })
            }
            _ => self.local.clone().ok_or_else(|| DestinationError {
                why: "its destination is the cluster in which Argo CD runs, and federate does not know which one that is".to_owned(),
                help: Some("set argocd.cluster in federate.yaml to the cluster in which Argo CD runs"),
                is_own_cluster: true,
            }),
        }
    }

    fn resolve(&self, destination: &Value, namespace: &str) -> Result<Destination<'_>, DestinationError> {
        let (name, server) = (field_text(destination, "name"), field_text(destination, "server"));
        match (name, server) {
            ("", "") => Err(DestinationError::new("its destination has no `name` and no `server`")),
            ("", server) => {
                let server = server.trim_end_matches('/');
                match self.find_visible(&self.by_server, server, namespace).next() {
                    Some(cluster) => Ok(Destination::Registered(cluster)),
                    None if server == LOCAL_SERVER => Ok(Destination::Local),
                    None => Err(self.explain_unknown(server)),
                }
            }
            (name, "") => {
                let mut found = self.find_visible(&self.by_name, name, namespace);
                match (found.next(), found.next()) {
                    (Some(cluster), None) => Ok(Destination::Registered(cluster)),
                    (Some(_), Some(_)) => Err(DestinationError::new(format!(
                        "several clusters of Argo CD have the name `{name}`"
                    ))),
                    (None, _) if name == LOCAL_NAME => Ok(Destination::Local),
                    (None, _) => Err(self.explain_unknown(name)),
                }
            }
            _ => Err(DestinationError::new("its destination has both `name` and `server`")),
        }
    }

    fn explain_unknown(&self, destination: &str) -> DestinationError {
        if self.has_secrets {
            return DestinationError {
                why: format!("its destination `{destination}` is not a cluster of Argo CD"),
                help: Some("name a cluster that a Secret of Argo CD in the repo has"),
                is_own_cluster: false,
            };
        }
        DestinationError {
            why: format!("its destination `{destination}` is not a cluster of the inventory"),
            help: Some("name a cluster of the inventory in `destination.name`"),
            is_own_cluster: false,
        }
    }
}

/// What a Secret says about a cluster.
fn read_secret(secret: &Object) -> ArgoCluster {
    let read = |key: &str| {
        let plain = secret.body.pointer("/stringData").map(|data| field_text(data, key)).unwrap_or_default();
        if !plain.is_empty() {
            return plain.to_owned();
        }
        let encoded = secret.body.pointer("/data").map(|data| field_text(data, key)).unwrap_or_default();
        let bytes = BASE64.decode(encoded.trim()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    ArgoCluster {
        name: read("name"),
        server: read("server"),
        project: read("project"),
        labels: secret.labels(),
        annotations: string_map(secret.body.pointer("/metadata/annotations")),
        secret: (secret.id.namespace.clone().unwrap_or_default(), secret.id.name.clone()),
        member: None,
    }
}

/// What stands for a cluster of the inventory.
fn stand_in(cluster: &Cluster) -> ArgoCluster {
    let mut labels = cluster.labels.clone();
    labels.insert(SECRET_TYPE.0.to_owned(), SECRET_TYPE.1.to_owned());
    ArgoCluster {
        name: cluster.name.to_string(),
        server: server_of(&cluster.name),
        labels,
        member: Some(cluster.name.clone()),
        ..ArgoCluster::default()
    }
}
