//! Tests that HMAC matches RFC 4231, and that no value of a Secret remains.

use federate_kubernetes::hex::to_hex;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn digests_match_rfc_4231() {
    let cases: [(&[u8], &[u8], &str); 3] = [
        (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
    ];
    for (key, text, digest) in cases {
        assert_eq!(to_hex(&DigestKey::new(key).compute_hmac(text)), digest);
    }
}

fn hidden(mut value: Value) -> Value {
    hide_secret_values(&mut [&mut value], &DigestKey::new(b"key"));
    value
}

#[test]
fn values_are_replaced_and_names_stay() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "Opaque",
        "data": {"one": "czNjcjN0", "two": "czNjcjN0", "three": ""}, "stringData": {"n": 5}});
    let shown = hidden(secret.clone());
    assert_eq!(shown["type"], "Opaque");
    assert_ne!(shown["data"]["one"], shown["data"]["two"], "no digest says that a value is elsewhere, too");
    assert!(shown["stringData"]["n"].as_str().unwrap().starts_with("<secret "));
    let mut other = secret.clone();
    hide_secret_values(&mut [&mut other], &DigestKey::new(b"another key"));
    assert_ne!(shown["data"]["one"], other["data"]["one"]);
    assert_eq!(hidden(secret.clone()), shown);
    let renamed = |field: &str| {
        let mut other = secret.clone();
        other["metadata"][field] = json!("other");
        hidden(other)["data"]["one"].clone()
    };
    assert!(renamed("name") != shown["data"]["one"] && renamed("namespace") != shown["data"]["one"]);
}

#[test]
fn digests_are_compared_at_their_place() {
    let key = DigestKey::new(b"key");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "n"},
        "data": {"pin": "NDcxMQ=="}});
    let mut live = hidden(secret.clone());
    // Guesses of the value in other places of the repo tell nothing.
    let guesses = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "n"},
        "data": {"guess": "NDcxMQ=="}});
    assert_ne!(hidden(guesses)["data"]["guess"], live["data"]["pin"]);
    reveal_values(&mut live, &secret, &key);
    assert_eq!(live, secret);
    assert!(
        DigestKey::from_text(b"0123456789abcde").is_none()
            && DigestKey::from_text(b"0123456789abcdef").is_some()
    );
}

#[test]
fn references_to_secrets_stay_readable() {
    let external = json!({"kind": "ExternalSecret", "metadata": {"name": "a"},
        "spec": {"data": [{"secretKey": "k", "remoteRef": {"key": "path"}}]}});
    assert_eq!(hidden(external.clone()), external);
    let config = json!({"kind": "ConfigMap", "data": {"a": "readable", "b": "a kind Secret note"}});
    assert_eq!(hidden(config.clone()), config);
}

/// Returns objects that contain the value of a Secret in different ways.
fn objects_with(value: &str) -> Vec<Value> {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": value}});
    let mut copied = secret.clone();
    copied["metadata"]["annotations"] =
        json!({"note": format!("it is {value}."), LAST_APPLIED: secret.to_string()});
    vec![
        copied,
        json!({"kind": "Secret", "metadata": {"name": "a", "labels": {"l": value}}, "stringData": {"k": {"deep": [value]}}}),
        json!({"kind": "FederatedSecret", "spec": {"template": {"data": {"k": value}},
            "overrides": [{"clusterOverrides": [{"path": "/data/k", "value": value}]}]}}),
        json!({"kind": "FederatedObject", "spec": {"template": secret}}),
        json!({"kind": "SealedSecret", "spec": {"template": {"stringData": {"k": value}}}}),
        json!({"kind": "List", "items": [{"kind": "ConfigMap", "data": {"a": "b"}}, secret]}),
        json!({"kind": "ConfigMap", "data": {"secret.yaml": format!("kind: Secret\ndata:\n  k: {value}\n")}}),
        json!({"kind": "Deployment", "metadata": {"annotations": {LAST_APPLIED: secret.to_string()}}}),
    ]
}

proptest! {
    #[test]
    fn no_value_remains(value in "[G-Zg-z0-9+/=!@#|`<>\" ]{3,20}[G-Z]") {
        for object in objects_with(&value) {
            let text = hidden(object.clone()).to_string();
            let quoted = Value::from(value.clone()).to_string();
            let quoted = quoted.trim_matches('"');
            prop_assert!(!text.contains(quoted) || "<secret ".contains(&value), "{object} became {text}");
        }
    }
}
