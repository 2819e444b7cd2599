//! How KubeAdmiral connects to a member cluster.
//!
//! Facts: `spec.secretRef` names a Secret in the system namespace. With `spec.useServiceAccount` it holds
//! `service-account-token-data`, else `client-certificate-data` and `client-key-data`. Unless `spec.insecure`
//! is set, it holds `certificate-authority-data`, too. Without a Secret the controllers use files of their own,
//! which federate cannot read.

use super::namespaces::SYSTEM_NAMESPACE;
use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::connection::{Authority, Connection, ConnectionError, CredentialKeys, SecretName};

/// Reads a `FederatedCluster`, or returns what is missing.
pub(super) fn read_connection(object: &Object) -> Result<Connection, ConnectionError> {
    let uses_token = object.value_at(&["spec", "useServiceAccount"]) == Some(&Value::Bool(true));
    let is_insecure = object.value_at(&["spec", "insecure"]) == Some(&Value::Bool(true));
    let token = CredentialKeys::Token("service-account-token-data");
    let certificate =
        CredentialKeys::Certificate { certificate: "client-certificate-data", key: "client-key-data" };
    Ok(Connection {
        endpoint: read_text(object, "spec.apiEndpoint")?,
        secret: SecretName {
            namespace: SYSTEM_NAMESPACE.to_owned(),
            name: read_text(object, "spec.secretRef.name")?,
        },
        credentials: if uses_token { token } else { certificate },
        authority: if is_insecure {
            Authority::Unverified
        } else {
            Authority::Secret("certificate-authority-data")
        },
        impersonator: None,
        proxy: None,
    })
}

fn read_text(object: &Object, field: &'static str) -> Result<String, ConnectionError> {
    match object.text_at(&field.split('.').collect::<Vec<_>>()) {
        "" => Err(ConnectionError::MissingField { kind: "FederatedCluster", field }),
        text => Ok(text.to_owned()),
    }
}
