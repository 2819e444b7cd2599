//! The kinds that a server knows: their names, scopes and subresources.
//!
//! Facts: the API discovery of Kubernetes 1.36 for the stable groups that workloads use.

use std::sync::LazyLock;

use super::custom::CustomResource;
use super::fields::FieldSet;
use super::schema::{Type, find_builtin};
use federate_kubernetes::kinds::{Scope, find_scope};

/// A kind of object in one version.
#[derive(Clone, Debug)]
pub struct ResourceKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name in URLs.
    pub plural: String,
    /// The singular name, as users write it.
    pub singular: String,
    /// Short names.
    pub short: Vec<String>,
    /// The categories that it belongs to.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether `metadata.generation` counts changes.
    pub generation: bool,
    /// Whether there is a subresource `status`.
    pub status: bool,
    /// Whether there is a subresource `scale`.
    pub scale: bool,
    /// The schema of its objects.
    pub schema: Type,
    /// The CRD of a custom resource.
    pub custom: Option<CustomResource>,
}

/// The built-in kinds, in the order of `KINDS`.
static BUILTINS: LazyLock<Vec<ResourceKind>> =
    LazyLock::new(|| KINDS.iter().map(ResourceKind::from_row).collect());

impl ResourceKind {
    /// A built-in kind.
    ///
    /// ```
    /// use federate_apiserver_model::ResourceKind;
    /// let kind = ResourceKind::find_builtin("apps/v1", "Deployment");
    /// assert!(kind.is_some_and(|kind| kind.plural == "deployments"));
    /// assert!(ResourceKind::find_builtin("apps/v1beta1", "Deployment").is_none());
    /// ```
    pub fn find_builtin(api_version: &str, kind: &str) -> Option<&'static Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let row = KINDS.iter().position(|row| (row.0, row.1, row.2) == (group, version, kind))?;
        BUILTINS.get(row)
    }

    /// All built-in kinds.
    pub fn all_builtins() -> impl Iterator<Item = &'static Self> {
        BUILTINS.iter()
    }

    /// A kind without a schema: its lists are atomic, and it has no defaults.
    pub fn without_schema(api_version: &str, kind: &str, namespaced: bool) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let plural = format!("{}s", kind.to_lowercase());
        let mut unknown = Self::from_row(&(KINDS[0].0, KINDS[0].1, KINDS[0].2, KINDS[0].3, "", ""));
        (unknown.group, unknown.version) = (group.to_owned(), version.to_owned());
        (unknown.kind, unknown.plural, unknown.singular) = (kind.to_owned(), plural, kind.to_lowercase());
        (unknown.namespaced, unknown.schema) = (namespaced, Type::Any);
        unknown
    }

    /// Whether its defaults are known, besides its schema.
    pub fn is_known(&self) -> bool {
        self.custom.is_some() || matches!(self.schema, Type::Named(_))
    }

    fn from_row(row: &Row) -> Self {
        let &(group, version, kind, plural, short, traits) = row;
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short: short.split_whitespace().map(str::to_owned).collect(),
            categories: [('a', "all"), ('x', "api-extensions")]
                .iter()
                .filter(|(letter, _)| traits.contains(*letter))
                .map(|(_, category)| (*category).to_owned())
                .collect(),
            namespaced: find_scope(group, kind) == Some(Scope::Namespaced),
            generation: traits.contains('g'),
            status: traits.contains('s'),
            scale: traits.contains('r'),
            schema: find_builtin(kind).map_or(Type::Any, |_| Type::Named(kind)),
            custom: None,
        }
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `plural.group`, or the plural alone in the core group.
    pub fn resource_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether it is the built-in kind of this name.
    pub fn is_builtin(&self, kind: &str) -> bool {
        self.kind == kind
            && self.custom.is_none()
            && KINDS.iter().any(|row| (row.0, row.2) == (self.group.as_str(), kind))
    }

    /// The fields that a request to the object (`None`) or to one of its subresources resets, so that its manager
    /// does not own them.
    pub(super) fn reset_fields(&self, subresource: Option<&str>) -> FieldSet {
        let mut set = FieldSet::default();
        match subresource {
            None if self.status => set.insert_path(&["status"]),
            Some("status") => {
                set.insert_path(&["spec"]);
                if self.custom.is_some() {
                    set.insert_path(&["metadata"]);
                } else if self.generation && self.group == "apps" {
                    set.insert_path(&["metadata", "labels"]);
                }
            }
            _ => {}
        }
        set
    }
}

/// Group, version, kind, plural, short names, traits: g counts generations, s has a status, r has a scale,
/// a is in the category `all`, x in `api-extensions`.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

const KINDS: [Row; 41] = [
    ("", "v1", "ConfigMap", "configmaps", "cm", ""),
    ("", "v1", "Endpoints", "endpoints", "ep", ""),
    ("", "v1", "Event", "events", "ev", ""),
    ("", "v1", "LimitRange", "limitranges", "limits", ""),
    ("", "v1", "Namespace", "namespaces", "ns", "s"),
    ("", "v1", "Node", "nodes", "no", "s"),
    ("", "v1", "PersistentVolume", "persistentvolumes", "pv", "s"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "s"),
    ("", "v1", "Pod", "pods", "po", "gsa"),
    ("", "v1", "PodTemplate", "podtemplates", "", "g"),
    ("", "v1", "ReplicationController", "replicationcontrollers", "rc", "gsra"),
    ("", "v1", "ResourceQuota", "resourcequotas", "quota", "s"),
    ("", "v1", "Secret", "secrets", "", ""),
    ("", "v1", "Service", "services", "svc", "sa"),
    ("", "v1", "ServiceAccount", "serviceaccounts", "sa", ""),
    (ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "", "gx"),
    (ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "", "gsx"),
    (ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "", "gx"),
    (ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "", "gx"),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd crds",
        "gsx",
    ),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", "", ""),
    ("apps", "v1", "DaemonSet", "daemonsets", "ds", "gsa"),
    ("apps", "v1", "Deployment", "deployments", "deploy", "gsra"),
    ("apps", "v1", "ReplicaSet", "replicasets", "rs", "gsra"),
    ("apps", "v1", "StatefulSet", "statefulsets", "sts", "gsra"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "sa"),
    ("batch", "v1", "CronJob", "cronjobs", "cj", "gsa"),
    ("batch", "v1", "Job", "jobs", "", "gsa"),
    ("coordination.k8s.io", "v1", "Lease", "leases", "", ""),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "", "g"),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", "ing", "gs"),
    ("networking.k8s.io", "v1", "IngressClass", "ingressclasses", "", "g"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "netpol", "g"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", "gs"),
    (RBAC, "v1", "ClusterRole", "clusterroles", "", ""),
    (RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", "", ""),
    (RBAC, "v1", "Role", "roles", "", ""),
    (RBAC, "v1", "RoleBinding", "rolebindings", "", ""),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "pc", "g"),
    ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", "", "g"),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", "sc", ""),
];
