//! Waiting until what was applied is healthy.

use serde_json::json;

use crate::sandbox::{Sandbox, WEB};
use federate_test_apiserver::Request;

#[test]
fn a_run_waits_until_all_is_well() {
    let sandbox = Sandbox::new(&["m1"]);
    let ran = sandbox.apply("--wait 1s").code(2);
    assert!(ran.err.contains("error: m1: Deployment shop/web: not healthy after 1 s: "), "{ran:#?}");
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
    }});
    let request = Request::new("PATCH", &format!("{WEB}/status"))
        .body("application/merge-patch+json", status.to_string());
    assert_eq!(sandbox.fleet.cluster("m1").handle(&request).status, 200);
    sandbox.apply("--wait 1m").code(0);
}
