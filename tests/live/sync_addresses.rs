//! Syncs that name servers on the machine of the loop.

use std::process::Command;

use serde_json::json;

use crate::git_http::Server;
use crate::sync_objects::{Hub, condition};

#[test]
fn a_sync_that_names_this_machine_is_refused_before_anything_is_sent() {
    let hub = Hub::simulated();
    let server = Server::start(&hub.sandbox.path(""));
    let port = server.address().rsplit_once(':').unwrap().1.to_owned();
    let urls = [
        server.address(),
        format!("http://localhost:{port}"),
        format!("https://127.0.0.1:{port}"),
        format!("https://LOCALHOST:{port}"),
        format!("https://x.localhost:{port}"),
        format!("https://[::1]:{port}"),
        format!("https://[::ffff:127.0.0.1]:{port}"),
        format!("https://127.1:{port}"),
        format!("https://0.0.0.0:{port}"),
        format!("ssh://git@127.0.0.1:{port}"),
    ];
    for (number, url) in urls.iter().enumerate() {
        let apply = json!({"prune": true, "applySet": format!("default/s{number}")});
        let source = json!({"url": format!("{url}/origin.git"), "ref": {"branch": "main"}});
        hub.create(&hub.sync(&format!("s{number}"), &json!({"source": source, "apply": apply})));
    }
    let ran = hub.sandbox.ran(&mut hub.strict_command("--once --state caches")).code(2);
    for (number, url) in urls.iter().enumerate() {
        let ready = condition(&hub.status(&format!("s{number}")), "Ready");
        assert_eq!(ready["reason"], "InvalidSpec", "{url}: {ready:#}");
        assert!(ready["message"].as_str().unwrap().starts_with("spec.source.url: "), "{ready:#}");
    }
    assert!(ran.out.contains("`localhost` leads to 127.0.0.1, which is a loopback address"), "{ran:#?}");
    assert!(ran.out.contains("--allow-local-addresses"), "{ran:#?}");
    assert_eq!(server.requests(), 0);
}

/// `git` resolves no name for which it is given an address.
#[test]
fn git_connects_where_its_setting_says() {
    let hub = Hub::simulated();
    let server = Server::start(&hub.sandbox.path(""));
    let port = server.address().rsplit_once(':').unwrap().1.to_owned();
    let mut git = Command::new("git");
    git.args(["-c", &format!("http.curloptResolve=git.example.com:{port}:127.0.0.1"), "ls-remote"]);
    git.arg(format!("http://git.example.com:{port}/origin.git")).env("no_proxy", "*");
    assert!(git.output().unwrap().status.success());
    assert!(server.requests() > 0);
}

/// What the network of the pods refuses, federate refuses as well, where no network does.
#[test]
fn the_policy_for_egress_and_the_loop_refuse_the_same() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/lockdown/egress.yaml");
    let policy = federate_yaml::read_stream(&std::fs::read(path).unwrap()).documents.remove(0).value;
    let blocks = policy["spec"]["egress"][1]["to"].as_array().unwrap();
    let refused: Vec<&str> = blocks
        .iter()
        .flat_map(|block| block["ipBlock"]["except"].as_array().unwrap())
        .map(|range| range.as_str().unwrap().split('/').next().unwrap())
        .collect();
    assert!(refused.len() > 5, "{refused:?}");
    for address in refused {
        let class = federate_http_client::classify_address(address.parse().unwrap());
        assert!(class.is_some(), "{address}");
    }
}
