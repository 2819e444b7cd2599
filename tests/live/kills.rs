//! `federate apply`, killed at any moment: the next run completes what was begun.

use std::process::Stdio;
use std::time::Duration;

use crate::sandbox::{Sandbox, config, deployment};

/// One state of the repo after another: objects change, come and go.
fn change(sandbox: &Sandbox, at: u32) {
    sandbox.write("web.yaml", &deployment(&format!("nginx:1.{at}")));
    let present = (0..20).filter(|name| !(name + at).is_multiple_of(4));
    let configs: Vec<String> =
        present.map(|name| config(&format!("c{name}"), &(at + name).to_string())).collect();
    sandbox.write("many.yaml", &configs.join("---\n"));
}

#[test]
fn runs_that_are_killed_leave_what_undisturbed_runs_leave() {
    // Five kills for each change; `FEDERATE_TEST_KILLS` asks for more.
    let kills =
        std::env::var("FEDERATE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(20_u32);
    let changes = kills.div_ceil(5);
    let undisturbed = Sandbox::simulated(&["m1", "m2"]);
    change(&undisturbed, changes - 1);
    undisturbed.apply("").code(0);

    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    let mut killed = 0;
    for at in 0..changes {
        change(&sandbox, at);
        for pause in [10, 40, 80, 130, 200] {
            let mut command = sandbox.command("--prune-limit 100");
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(pause));
            killed += u32::from(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    assert!(killed > 0, "no run was killed");
    sandbox.apply("--prune-limit 100").code(0);
    for cluster in ["m1", "m2"] {
        assert_eq!(sandbox.held(cluster), undisturbed.held(cluster));
        sandbox.forget(cluster);
    }
    sandbox.apply("").code(0);
    assert_eq!((sandbox.writes("m1"), sandbox.writes("m2")), (0, 0), "there is nothing left to do");
}
