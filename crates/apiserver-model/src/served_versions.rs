//! The versions of built-in kinds that releases of Kubernetes serve.
//!
//! Facts: the API reference of Kubernetes 1.36, and the deprecation guide for what was removed.

/// Kinds of one version of a group: group, version, kinds, the release that added it (0: before 1.16), the release
/// that removed it (0: none).
type Row = (&'static str, &'static str, &'static str, u32, u32);

const ADMISSION: &str = "admissionregistration.k8s.io";
const WEBHOOKS: &str = "MutatingWebhookConfiguration ValidatingWebhookConfiguration";
const RBAC: &str = "rbac.authorization.k8s.io";
const RULES: &str = "ClusterRole ClusterRoleBinding Role RoleBinding";

/// The preferred version of a kind comes first.
const ROWS: [Row; 57] = [
    (
        "",
        "v1",
        "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate \
         ReplicationController ResourceQuota Secret Service ServiceAccount",
        0,
        0,
    ),
    (ADMISSION, "v1", WEBHOOKS, 16, 0),
    (ADMISSION, "v1", "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding", 30, 0),
    (ADMISSION, "v1", "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding", 36, 0),
    (ADMISSION, "v1beta1", WEBHOOKS, 0, 22),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", 16, 0),
    ("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition", 0, 22),
    ("apiregistration.k8s.io", "v1", "APIService", 0, 0),
    ("apiregistration.k8s.io", "v1beta1", "APIService", 0, 22),
    ("apps", "v1", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet", 0, 0),
    ("apps", "v1beta2", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet", 0, 16),
    ("apps", "v1beta1", "ControllerRevision Deployment StatefulSet", 0, 16),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", 23, 0),
    ("autoscaling", "v1", "HorizontalPodAutoscaler", 0, 0),
    ("autoscaling", "v2beta2", "HorizontalPodAutoscaler", 0, 26),
    ("autoscaling", "v2beta1", "HorizontalPodAutoscaler", 0, 25),
    ("batch", "v1", "Job", 0, 0),
    ("batch", "v1", "CronJob", 21, 0),
    ("batch", "v1beta1", "CronJob", 0, 25),
    ("batch", "v2alpha1", "CronJob", 0, 21),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest", 19, 0),
    ("certificates.k8s.io", "v1beta1", "CertificateSigningRequest", 0, 22),
    ("coordination.k8s.io", "v1", "Lease", 0, 0),
    ("coordination.k8s.io", "v1beta1", "Lease", 0, 22),
    ("discovery.k8s.io", "v1", "EndpointSlice", 21, 0),
    ("discovery.k8s.io", "v1beta1", "EndpointSlice", 0, 25),
    ("events.k8s.io", "v1", "Event", 19, 0),
    ("events.k8s.io", "v1beta1", "Event", 0, 25),
    ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema PriorityLevelConfiguration", 29, 0),
    ("flowcontrol.apiserver.k8s.io", "v1beta3", "FlowSchema PriorityLevelConfiguration", 26, 32),
    ("flowcontrol.apiserver.k8s.io", "v1beta2", "FlowSchema PriorityLevelConfiguration", 23, 29),
    ("flowcontrol.apiserver.k8s.io", "v1beta1", "FlowSchema PriorityLevelConfiguration", 20, 26),
    ("networking.k8s.io", "v1", "NetworkPolicy", 0, 0),
    ("networking.k8s.io", "v1", "Ingress IngressClass", 19, 0),
    ("networking.k8s.io", "v1beta1", "Ingress IngressClass", 0, 22),
    ("extensions", "v1beta1", "DaemonSet Deployment NetworkPolicy PodSecurityPolicy ReplicaSet", 0, 16),
    ("extensions", "v1beta1", "Ingress", 0, 22),
    ("networking.k8s.io", "v1", "IPAddress ServiceCIDR", 33, 0),
    ("networking.k8s.io", "v1beta1", "IPAddress ServiceCIDR", 31, 0),
    ("node.k8s.io", "v1", "RuntimeClass", 20, 0),
    ("node.k8s.io", "v1beta1", "RuntimeClass", 0, 25),
    ("policy", "v1", "PodDisruptionBudget", 21, 0),
    ("policy", "v1beta1", "PodDisruptionBudget PodSecurityPolicy", 0, 25),
    (RBAC, "v1", RULES, 0, 0),
    (RBAC, "v1beta1", RULES, 0, 22),
    (RBAC, "v1alpha1", RULES, 0, 22),
    ("resource.k8s.io", "v1", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice", 34, 0),
    ("scheduling.k8s.io", "v1", "PriorityClass", 0, 0),
    ("scheduling.k8s.io", "v1beta1", "PriorityClass", 0, 22),
    ("scheduling.k8s.io", "v1alpha1", "PriorityClass", 0, 22),
    ("storage.k8s.io", "v1", "StorageClass VolumeAttachment", 0, 0),
    ("storage.k8s.io", "v1", "CSIDriver CSINode", 18, 0),
    ("storage.k8s.io", "v1", "CSIStorageCapacity", 24, 0),
    ("storage.k8s.io", "v1beta1", "CSIDriver CSINode StorageClass VolumeAttachment", 0, 22),
    ("storage.k8s.io", "v1beta1", "CSIStorageCapacity", 21, 27),
    ("storage.k8s.io", "v1", "VolumeAttributesClass", 34, 0),
    ("storage.k8s.io", "v1beta1", "VolumeAttributesClass", 31, 0),
];

/// A release of Kubernetes: the number after `1.`.
pub type Minor = u32;

/// The newest release in the table.
pub const NEWEST: Minor = 36;

/// The oldest release that the table covers.
pub const OLDEST: Minor = 16;

/// The release in a version such as `1.31`, `v1.31.4` or `v1.31.4-gke.100`; `None` if it is not one of Kubernetes 1.
///
/// ```
/// use federate_apiserver_model::served_versions::parse_release;
/// assert_eq!(parse_release("v1.31.4+k3s1"), Some(31));
/// assert_eq!(parse_release("1.31"), Some(31));
/// assert_eq!(parse_release("31"), None);
/// ```
pub fn parse_release(version: &str) -> Option<Minor> {
    let minor = version.trim().trim_start_matches('v').strip_prefix("1.")?;
    let end = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    minor.get(..end)?.parse().ok()
}

/// Whether a release serves a version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSupport {
    /// It serves this version.
    Yes,
    /// This release removed the version.
    Removed(Minor),
    /// This later release added the version.
    Added(Minor),
    /// No release has the version.
    Never,
    /// The table does not contain the kind, or an alpha version of it.
    Unknown,
}

/// Whether a release serves a kind in an API version.
///
/// ```
/// use federate_apiserver_model::served_versions::{NEWEST, VersionSupport, check_version};
/// assert_eq!(check_version("batch/v1beta1", "CronJob", NEWEST), VersionSupport::Removed(25));
/// assert_eq!(check_version("batch/v1beta1", "CronJob", 24), VersionSupport::Yes);
/// assert_eq!(check_version("apps/v2", "Deployment", NEWEST), VersionSupport::Never);
/// ```
pub fn check_version(api_version: &str, kind: &str, release: Minor) -> VersionSupport {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut rows = ROWS.iter().filter(|row| row.0 == group && has_kind(row, kind)).peekable();
    let has_versions = rows.peek().is_some();
    match rows.find(|row| row.1 == version) {
        Some(&(.., added, _)) if added > release => VersionSupport::Added(added),
        Some(&(.., removed)) if removed != 0 && removed <= release => VersionSupport::Removed(removed),
        Some(_) => VersionSupport::Yes,
        // Alpha and beta versions come and go.
        None if version.contains("alpha") || version.contains("beta") => VersionSupport::Unknown,
        None if has_versions => VersionSupport::Never,
        None => VersionSupport::Unknown,
    }
}

/// The API version in which a release serves a kind, in any group.
pub fn preferred_version(kind: &str, release: Minor) -> Option<String> {
    let row =
        ROWS.iter().find(|row| has_kind(row, kind) && row.3 <= release && (row.4 == 0 || row.4 > release))?;
    Some(if row.0.is_empty() { row.1.to_owned() } else { format!("{}/{}", row.0, row.1) })
}

fn has_kind(row: &Row, kind: &str) -> bool {
    row.2.split_whitespace().any(|known| known == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_later_versions_are_known() {
        for (api_version, kind, release, want) in [
            ("extensions/v1beta1", "Ingress", NEWEST, VersionSupport::Removed(22)),
            ("extensions/v1beta1", "Deployment", NEWEST, VersionSupport::Removed(16)),
            ("policy/v1", "PodDisruptionBudget", 20, VersionSupport::Added(21)),
            ("v1", "ConfigMap", NEWEST, VersionSupport::Yes),
            ("v2", "ConfigMap", NEWEST, VersionSupport::Never),
            ("apps/v1alpha1", "Deployment", NEWEST, VersionSupport::Unknown),
            ("resource.k8s.io/v1beta2", "ResourceClaim", NEWEST, VersionSupport::Unknown),
            ("resource.k8s.io/v1", "ResourceClaim", 33, VersionSupport::Added(34)),
        ] {
            assert_eq!(check_version(api_version, kind, release), want, "{api_version} {kind} {release}");
        }
    }

    #[test]
    fn a_kind_has_one_preferred_version() {
        assert_eq!(preferred_version("Ingress", NEWEST).as_deref(), Some("networking.k8s.io/v1"));
        assert_eq!(preferred_version("CronJob", 20).as_deref(), Some("batch/v1beta1"));
        assert_eq!(preferred_version("PodSecurityPolicy", NEWEST), None);
    }
}
