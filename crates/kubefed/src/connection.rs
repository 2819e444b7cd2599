//! How KubeFed reaches a member cluster.
//!
//! Facts: `spec.secretRef` names a Secret beside the `KubeFedCluster`, which holds a `token`. Without
//! `spec.caBundle` whoever the system trusts vouches for the server. `spec.disabledTLSValidations` is `*`, or
//! leaves out the name or the dates only. Federation v1 kept a whole kubeconfig in its Secret.

use serde_json::Value;

use federate_kubernetes::Object;
use federate_kubernetes::connection::{Authority, Connection, Credentials, SecretName};

/// Reads a `KubeFedCluster`, or says what it lacks.
pub(super) fn read(object: &Object) -> Result<Connection, String> {
    if object.id.kind != "KubeFedCluster" {
        return Err("Federation v1's Cluster says nothing that could be used here".to_owned());
    }
    let text = |path: &[&str]| Some(object.text(path).to_owned()).filter(|text| !text.is_empty());
    let lacks = |field: &str| format!("its KubeFedCluster has no {field}");
    let disabled = object.at(&["spec", "disabledTLSValidations"]).and_then(Value::as_array);
    let mut disabled = disabled.into_iter().flatten().filter_map(Value::as_str).peekable();
    let authority = if disabled.peek().is_none() {
        text(&["spec", "caBundle"]).map_or(Authority::System, Authority::Bundle)
    } else if disabled.any(|validation| validation == "*") {
        Authority::Nobody
    } else {
        let why = "its KubeFedCluster leaves out a part of the verification (spec.disabledTLSValidations), \
                   and here certificates are verified as a whole, or with `*` not at all";
        return Err(why.to_owned());
    };
    Ok(Connection {
        endpoint: text(&["spec", "apiEndpoint"]).ok_or_else(|| lacks("spec.apiEndpoint"))?,
        secret: SecretName {
            namespace: object.id.namespace.clone().ok_or_else(|| lacks("metadata.namespace"))?,
            name: text(&["spec", "secretRef", "name"]).ok_or_else(|| lacks("spec.secretRef.name"))?,
        },
        credentials: Credentials::Token("token"),
        authority,
        impersonator: None,
        proxy: text(&["spec", "proxyURL"]),
    })
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
            read(&Object::named("core.kubefed.io/v1beta1", "KubeFedCluster", path, json!({"spec": spec})))
        };
        assert_eq!(of(json!([])).unwrap().authority, Authority::Bundle("Zm9v".to_owned()));
        assert_eq!(of(json!(["SubjectName", "*"])).unwrap().authority, Authority::Nobody);
        assert!(of(json!(["ValidityPeriod"])).is_err());
    }
}
