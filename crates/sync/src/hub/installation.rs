//! Applies the manifests of an installation to the API server.
//!
//! Facts: server-side apply of the Kubernetes API.

use federate_kubernetes::object::field_text;
use federate_live::path::ApiPath;
use http::Method;
use serde_json::Value;

use super::{Error, HubClient};

const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// Kinds of an installation with their resources. A resource is in a namespace if its object has one.
const RESOURCES: [(&str, &str); 10] = [
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("CustomResourceDefinition", "customresourcedefinitions"),
    ("Deployment", "deployments"),
    ("Namespace", "namespaces"),
    ("NetworkPolicy", "networkpolicies"),
    ("PodDisruptionBudget", "poddisruptionbudgets"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
    ("ServiceAccount", "serviceaccounts"),
];

impl HubClient {
    /// Applies an object of an installation. Returns its kind and name.
    pub fn install_object(&self, object: &Value) -> Result<String, Error> {
        let (kind, name) = (field_text(object, "kind"), field_text(&object["metadata"], "name"));
        let resource = RESOURCES.iter().find(|(known, _)| *known == kind);
        let (_, resource) =
            resource.ok_or_else(|| Error::Access(format!("the kind {kind} is not installed")))?;
        let version = field_text(object, "apiVersion");
        let group = ApiPath::from_version(version);
        let place = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => group.in_namespace(namespace),
            None => group,
        };
        let path = place.join(resource).join(name);
        let path = path.with_query("fieldManager", "federate-install").with_query("force", "true");
        self.send_request(&Method::PATCH, &path, APPLY_PATCH, Some(object))?;
        Ok(format!("{kind} {name}"))
    }
}
