//! Dry runs: no request of a dry run, or of a command that only reads, may change a cluster.

use serde_json::{Value, json};

use crate::adoption::by_kubectl;
use crate::sandbox::{Sandbox, config};
use federate_test_apiserver::ApiRequest;

/// Whether the API server takes a request for a dry run. It ignores the query of a deletion with a body, and
/// the body of everything else.
fn is_dry(request: &ApiRequest) -> bool {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let said = request.query_param("dryRun") == Some("All");
    said && (request.method != "DELETE" || body["dryRun"] == json!(["All"]))
}

/// A cluster in which each command has something to create, update, adopt, hand over and delete.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::anywhere(&["m1"]);
    by_kubectl(&sandbox, &json!({"old": "label"}));
    sandbox.remove("web.yaml");
    for name in ["a", "b"] {
        sandbox.write(&format!("{name}.yaml"), &config(name, "1"));
    }
    sandbox.apply("--adopt if-no-restart").code(0);
    sandbox.write("web.yaml", &crate::sandbox::deployment("nginx:1.27"));
    sandbox.remove("a.yaml");
    sandbox.write("b.yaml", &config("b", "2"));
    sandbox.write("c.yaml", &config("c", "1"));
    sandbox
}

#[test]
fn every_request_of_a_dry_run_is_one() {
    let sandbox = sandbox();
    let paths = ["configmaps/a", "configmaps/b", "deployments/web"];
    let stored = || {
        let group = |path: &str| if path.starts_with("deployments") { "/apis/apps/v1" } else { "/api/v1" };
        paths.map(|path| {
            let object = sandbox.get("m1", &format!("{}/namespaces/shop/{path}", group(path)));
            // Controllers write the status.
            (object["metadata"]["uid"].clone(), object["spec"].clone(), object["data"].clone())
        })
    };
    let before = stored();
    for (command, arguments, verbs) in [
        ("apply", "--dry-run=server --adopt if-no-restart --prune-limit 100", &["PATCH", "DELETE"][..]),
        ("apply", "--dry-run=client --adopt if-no-restart --prune-limit 100", &[]),
        ("drift", "", &["PATCH"]),
        ("drift", "--full", &["PATCH"]),
    ] {
        sandbox.forget("m1");
        sandbox.run(command, arguments);
        assert_eq!(stored(), before, "{command} {arguments}");
        if sandbox.is_real() {
            continue;
        }
        let mut sent = sandbox.fleet.lock_cluster("m1").answered().to_vec();
        sent.retain(|request| request.method != "GET");
        for request in &sent {
            assert!(is_dry(request), "{command} {arguments}: {request:?}");
        }
        for verb in ["PATCH", "POST", "PUT", "DELETE"] {
            let any = sent.iter().any(|request| request.method == verb);
            assert_eq!(any, verbs.contains(&verb), "{command} {arguments}: {verb}");
        }
    }
}
