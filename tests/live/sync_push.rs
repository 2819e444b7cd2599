//! Syncs that push to a registry with the credentials of a Secret, beside clusters that they apply to.

use serde_json::json;

use crate::registry::Registry;
use crate::sandbox::WEB;
use crate::sync_objects::{Hub, Running, image, until};

const SECRETS: &str = "/api/v1/namespaces/shop/secrets";

#[test]
fn a_registry_is_reached_with_the_credentials_of_a_secret() {
    let (hub, registry) = (Hub::new(), Registry::start());
    registry.state().wants_password = true;
    let url = format!("oci://{}/acme/fleet", registry.host());
    let push = |more: serde_json::Value| {
        let mut push = json!({"url": url, "insecure": true});
        for (key, value) in more.as_object().unwrap() {
            push[key] = value.clone();
        }
        push
    };
    hub.create(&hub.sync("web", &json!({"push": push(json!({}))})));
    let ran = hub.once().code(2);
    assert!(
        ran.out.contains("AuthenticationFailed: ")
            && ran.out.contains("name a Secret of the type kubernetes.io/dockerconfigjson"),
        "{ran:#?}"
    );
    assert!(!hub.sandbox.has("m1", WEB), "clusters come after the registry");
    hub.patch("web", &json!({"spec": {"push": push(json!({"secretRef": {"name": "registry"}}))}}));
    let ran = hub.once().code(2);
    assert!(ran.out.contains("AuthenticationFailed: the Secret shop/registry does not exist"), "{ran:#?}");
    let secret = |host: &str, password: &str| {
        let login = json!({"username": "user", "password": password});
        let config = json!({"auths": {host: login}, "credsStore": "evil"}).to_string();
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"},
            "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": config}})
    };
    let mut said = String::new();
    for (host, password, why) in [
        ("other.example.com", "hunter2", "has no credentials for 127.0.0.1"),
        (registry.host().as_str(), "wr0ng", "check the Secret shop/registry"),
    ] {
        hub.sandbox.create("hub", SECRETS, "test", &secret(host, password));
        let ran = hub.once().code(2);
        assert!(ran.out.contains("AuthenticationFailed: ") && ran.out.contains(why), "{ran:#?}");
        said += &format!("{}{}", ran.out, ran.err);
        hub.sandbox.delete("hub", &format!("{SECRETS}/registry"));
    }
    hub.sandbox.create("hub", SECRETS, "test", &secret(&registry.host(), "hunter2"));
    let ran = hub.once().code(0);
    assert!(
        ran.out.contains("pushed main@sha1:") && ran.out.contains(", applied it to 2 clusters"),
        "{ran:#?}"
    );
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    said += &format!("{}{}{}", ran.out, ran.err, hub.status("web"));
    assert!(
        !said.contains("hunter2") && !said.contains("wr0ng") && !said.contains("dXNlcjpodW50ZXIy"),
        "{said}"
    );
    let digest = registry.state().tags[&("acme/fleet/plan".to_owned(), "latest".to_owned())].clone();
    assert_eq!(hub.status("web")["artifact"], json!({"url": format!("{url}/plan:latest"), "digest": digest}));
    registry.take_writes();
    hub.once().code(0);
    assert_eq!(registry.take_writes(), [""; 0]);
}

#[test]
fn the_loop_pushes_what_changes_and_puts_back_what_others_move() {
    let (hub, registry) = (Hub::new(), Registry::start());
    let push = json!({"url": format!("oci://{}/acme/fleet", registry.host()), "insecure": true});
    hub.create(&hub.sync("web", &json!({"push": push, "interval": "1s"})));
    let running = Running::start(&hub, "log");
    until("the Sync is ready", || hub.ready("web")["status"] == "True");
    let place = ("acme/fleet/plan".to_owned(), "latest".to_owned());
    let first = registry.state().tags[&place].clone();
    registry.state().tags.remove(&place);
    until("the tag is back", || registry.state().tags.get(&place) == Some(&first));
    // Another Sync of the same tags is not run.
    hub.create(&hub.sync("other", &json!({"push": push, "apply": {"applySet": "default/other"}})));
    until("the other one is refused", || hub.ready("other")["reason"] == "InvalidSpec");
    let message = hub.ready("other")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("the tag latest of oci://") && message.contains("shop/web"), "{message}");
    drop(running);
}

#[test]
fn clusters_do_not_wait_for_a_registry_that_cannot_be_asked() {
    let (hub, registry) = (Hub::new(), Registry::start());
    let push = json!({"url": format!("oci://{}/acme/fleet", registry.host()), "insecure": true});
    hub.create(&hub.sync("web", &json!({"push": push})));
    hub.lose_m1();
    hub.once().code(2);
    assert_eq!(image(&hub.sandbox, "m2"), "nginx:1.27");
    hub.restore_m1();
    registry.state().wants_password = true;
    let ran = hub.once().code(2);
    assert!(ran.out.contains("AuthenticationFailed: "), "{ran:#?}");
    assert_eq!(image(&hub.sandbox, "m1"), "nginx:1.27");
    registry.state().wants_password = false;
    hub.once().code(0);
}
