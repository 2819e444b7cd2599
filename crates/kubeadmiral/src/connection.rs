//! How KubeAdmiral connects to a member cluster.
//!
//! Facts: `spec.secretRef` names a Secret in the system namespace. With `spec.useServiceAccount` it holds
//! `service-account-token-data`, else `client-certificate-data` and `client-key-data`. Unless `spec.insecure`
//! is set, it holds `certificate-authority-data`, too. Without a Secret the controllers use files of their own,
//! which federate cannot read.

use super::namespaces::SYSTEM_NAMESPACE;
use federate_kubernetes::Object;
use federate_kubernetes::connection::{Authority, Connection, CredentialKeys, SecretName};

/// Reads a `FederatedCluster`, or returns what is missing.
pub(super) fn read_connection(object: &Object) -> Result<Connection, String> {
    let text = |path: &[&str], field: &str| match object.text_at(path) {
        "" => Err(format!("its FederatedCluster has no {field}")),
        text => Ok(text.to_owned()),
    };
    let set = |field: &str| object.value_at(&["spec", field]).is_some_and(|value| value == true);
    let token = CredentialKeys::Token("service-account-token-data");
    let certificate =
        CredentialKeys::Certificate { certificate: "client-certificate-data", key: "client-key-data" };
    Ok(Connection {
        endpoint: text(&["spec", "apiEndpoint"], "spec.apiEndpoint")?,
        secret: SecretName {
            namespace: SYSTEM_NAMESPACE.to_owned(),
            name: text(&["spec", "secretRef", "name"], "spec.secretRef.name")?,
        },
        credentials: if set("useServiceAccount") { token } else { certificate },
        authority: if set("insecure") {
            Authority::Unverified
        } else {
            Authority::Secret("certificate-authority-data")
        },
        impersonator: None,
        proxy: None,
    })
}
