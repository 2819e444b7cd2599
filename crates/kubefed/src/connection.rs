//! How KubeFed connects to a member cluster.
//!
//! Facts: `spec.secretRef` names a Secret in the namespace of the `KubeFedCluster`, which holds a `token`.
//! Without `spec.caBundle` the system's certificate authorities verify the server.
//! `spec.disabledTLSValidations` is `*`, or disables only the check of the name or of the dates. The Secret of
//! Federation v1 holds a whole kubeconfig.

use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::connection::{Authority, Connection, ConnectionError, CredentialKeys, SecretName};

/// The kind of inventory objects.
const KIND: &str = "KubeFedCluster";

/// Reads a `KubeFedCluster`, or returns what is missing.
pub(super) fn read_connection(object: &Object) -> Result<Connection, ConnectionError> {
    if object.id.kind != KIND {
        let why = "Federation v1's Cluster contains no connection details that federate can use";
        return Err(ConnectionError::NoDetails(why));
    }
    let disabled = object.value_at(&["spec", "disabledTLSValidations"]).and_then(Value::as_array);
    let mut disabled = disabled.into_iter().flatten().filter_map(Value::as_str).peekable();
    let authority = if disabled.peek().is_none() {
        read_text(object, &["spec", "caBundle"]).map_or(Authority::System, Authority::Bundle)
    } else if disabled.any(|validation| validation == "*") {
        Authority::Unverified
    } else {
        let why = "leaves out a part of the verification (spec.disabledTLSValidations), \
                   and here certificates are verified as a whole, or with `*` not at all";
        return Err(ConnectionError::Unsupported { kind: KIND, why });
    };
    Ok(Connection {
        endpoint: read_text(object, &["spec", "apiEndpoint"])
            .ok_or(ConnectionError::MissingField { kind: KIND, field: "spec.apiEndpoint" })?,
        secret: SecretName {
            namespace: object
                .id
                .namespace
                .clone()
                .ok_or(ConnectionError::MissingField { kind: KIND, field: "metadata.namespace" })?,
            name: read_text(object, &["spec", "secretRef", "name"])
                .ok_or(ConnectionError::MissingField { kind: KIND, field: "spec.secretRef.name" })?,
        },
        credentials: CredentialKeys::Token("token"),
        authority,
        impersonator: None,
        proxy: read_text(object, &["spec", "proxyURL"]),
    })
}

fn read_text(object: &Object, path: &[&str]) -> Option<String> {
    Some(object.text_at(path).to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn validations_are_left_out_as_a_whole_or_not_at_all() {
        let of = |disabled: Value| {
            let spec = json!({
                "apiEndpoint": "https://a", "caBundle": "Zm9v", "secretRef": {"name": "s"},
                "disabledTLSValidations": disabled,
            });
            let path = "kube-federation-system/a";
            read_connection(&Object::from_path(
                "core.kubefed.io/v1beta1",
                "KubeFedCluster",
                path,
                json!({"spec": spec}),
            ))
        };
        assert_eq!(of(json!([])).unwrap().authority, Authority::Bundle("Zm9v".to_owned()));
        assert_eq!(of(json!(["SubjectName", "*"])).unwrap().authority, Authority::Unverified);
        assert!(of(json!(["ValidityPeriod"])).is_err());
    }
}
