//! `examples/rendered` is the result of rendering the examples. `UPDATE_EXAMPLES=1 cargo test --test cli
//! examples` updates it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::Sandbox;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn federate(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_federate"))
        .args(arguments)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

#[track_caller]
fn current(name: &str) {
    let (clean, text) = federate(&["check", &examples().join(name).to_string_lossy()]);
    assert!(clean, "{text}");
    renders_to_what_is_kept(name, &[]);
}

#[track_caller]
fn renders_to_what_is_kept(name: &str, arguments: &[&str]) {
    let (repo, kept) = (examples().join(name), examples().join("rendered").join(name));
    let sandbox = Sandbox::new();
    let fresh =
        if std::env::var_os("UPDATE_EXAMPLES").is_some() { kept.clone() } else { sandbox.path("out") };
    let paths = [repo.to_string_lossy(), fresh.to_string_lossy()];
    let (rendered, text) =
        federate(&[&["render", &paths[0], "--out", &paths[1], "--fresh"], arguments].concat());
    assert!(rendered, "{text}");
    let diff = Command::new("diff").arg("-ru").arg(&kept).arg(&fresh).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

#[test]
fn the_platform_teams_repo() {
    current("repo");
}

#[test]
fn the_lost_region_is_that_of_the_dump() {
    let example = examples().join("lost-region");
    let sandbox = Sandbox::new();
    let (dump, fresh) = (example.join("hub.yaml"), sandbox.path("snapshot"));
    let paths = [dump.to_string_lossy(), fresh.to_string_lossy()];
    let (taken, text) = federate(&["snapshot", "-f", &paths[0], "--out", &paths[1]]);
    assert!(taken, "{text}");
    for part in ["clusters", "placements.yaml"] {
        let kept = example.join("snapshot").join(part);
        let diff = Command::new("diff").arg("-ru").arg(kept).arg(fresh.join(part)).output().unwrap();
        assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    }
    let snapshot = example.join("snapshot");
    let (clean, text) =
        federate(&["check", &example.to_string_lossy(), "--snapshot", &snapshot.to_string_lossy()]);
    assert!(clean, "{text}");
}

#[test]
fn karmadas_nginx() {
    current("karmada-nginx");
}

#[test]
#[cfg(feature = "lua")]
fn a_kind_with_scripts() {
    current("interpreter");
}

#[test]
fn kubeadmirals_nginx() {
    // The guide's policy has two fields that API servers do not know.
    let (_, text) = federate(&["check", &examples().join("kubeadmiral").to_string_lossy()]);
    assert!(text.contains("2 warnings in "), "{text}");
    renders_to_what_is_kept("kubeadmiral", &[]);
}

#[test]
fn kubefeds_deployment_service_route_and_dns() {
    let live = examples().join("kubefed/live");
    let live = ["--observed", &live.to_string_lossy()];
    let repo = examples().join("kubefed");
    let (clean, text) = federate(&[&["check", &repo.to_string_lossy()], &live[..]].concat());
    assert!(clean, "{text}");
    renders_to_what_is_kept("kubefed", &live);
}

#[test]
fn fleets_placements_of_namespaces() {
    current("kubefleet");
}

#[test]
fn placements_of_open_cluster_management() {
    current("ocm");
}
