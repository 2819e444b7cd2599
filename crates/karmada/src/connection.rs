//! How Karmada reaches a member cluster.
//!
//! Facts: the Secret that `spec.secretRef` names has a `token` and, unless
//! `spec.insecureSkipTLSVerification` is set, must have a `caBundle`. Impersonation uses
//! the `token` of `spec.impersonatorSecretRef`. Clusters in `Pull` mode register without a Secret, as a rule.

use federate_kubernetes::Object;
use federate_kubernetes::connection::{Authority, Connection, ConnectionError, CredentialKeys, SecretName};

/// The kind of inventory objects.
const KIND: &str = "Cluster";

/// Reads the connection of a `Cluster`, or says what is missing.
pub(super) fn read_connection(object: &Object) -> Result<Connection, ConnectionError> {
    let endpoint = object.text_at(&["spec", "apiEndpoint"]);
    if endpoint.is_empty() {
        return Err(ConnectionError::MissingField { kind: KIND, field: "spec.apiEndpoint" });
    }
    let Some(secret) = read_secret_name(object, "secretRef") else {
        return Err(match object.text_at(&["spec", "syncMode"]) {
            "Pull" => ConnectionError::PullMode { kind: KIND },
            _ => ConnectionError::MissingField { kind: KIND, field: "spec.secretRef" },
        });
    };
    let headers = object.value_at(&["spec", "proxyHeader"]).and_then(serde_json::Value::as_object);
    if headers.is_some_and(|headers| !headers.is_empty()) {
        let why = "has a spec.proxyHeader, and proxies cannot be sent headers";
        return Err(ConnectionError::Unsupported { kind: KIND, why });
    }
    let unverified = object.value_at(&["spec", "insecureSkipTLSVerification"]).is_some_and(|v| v == true);
    Ok(Connection {
        endpoint: endpoint.to_owned(),
        secret,
        credentials: CredentialKeys::Token("token"),
        authority: if unverified { Authority::Unverified } else { Authority::Secret("caBundle") },
        impersonator: self::read_secret_name(object, "impersonatorSecretRef"),
        proxy: Some(object.text_at(&["spec", "proxyURL"]).to_owned()).filter(|url| !url.is_empty()),
    })
}

fn read_secret_name(object: &Object, field: &str) -> Option<SecretName> {
    let namespace = object.text_at(&["spec", field, "namespace"]).to_owned();
    let name = object.text_at(&["spec", field, "name"]).to_owned();
    (!namespace.is_empty() && !name.is_empty()).then_some(SecretName { namespace, name })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(spec: &Value) -> Object {
        Object::from_path("cluster.karmada.io/v1alpha1", "Cluster", "a", json!({"spec": spec}))
    }

    #[test]
    fn verified_unless_it_says_otherwise() {
        let of = |more: Value| {
            let mut spec = json!({
                "apiEndpoint": "https://10.0.0.1:6443",
                "secretRef": {"namespace": "karmada-cluster", "name": "a"},
            });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read_connection(&cluster(&spec))
        };
        assert_eq!(of(json!({})).unwrap().authority, Authority::Secret("caBundle"));
        assert_eq!(
            of(json!({"insecureSkipTLSVerification": true})).unwrap().authority,
            Authority::Unverified
        );
        assert!(of(json!({"proxyHeader": {"a": "b"}})).unwrap_err().to_string().contains("proxyHeader"));
        assert_eq!(of(json!({"proxyURL": "http://p"})).unwrap().proxy.as_deref(), Some("http://p"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let why = |spec: Value| read_connection(&cluster(&spec)).unwrap_err().to_string();
        assert!(why(json!({})).contains("apiEndpoint"));
        assert!(why(json!({"apiEndpoint": "a", "syncMode": "Pull"})).contains("its agent pulls"));
        assert!(!why(json!({"apiEndpoint": "a", "secretRef": {"name": "s"}})).contains("agent"));
    }
}
