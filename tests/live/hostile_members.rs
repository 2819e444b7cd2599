//! Member clusters whose API servers send what does not end: each is an error of that cluster within the default time
//! limit, and delays no other.

use std::time::{Duration, Instant};

use federate_test_apiserver::{FaultKind, InjectedFault};

use crate::ran::Ran;
use crate::sandbox::{Sandbox, WEB};

/// The most that a cluster may take which never ends: a fraction of the time limit of a cluster, ten minutes.
const ENOUGH: Duration = Duration::from_secs(100);

/// Applies to two clusters, of which `m1` answers every list with this text.
fn apply_to_hostile(answer: String) -> Ran {
    let sandbox = Sandbox::simulated(&["m1", "m2"]);
    let endless = InjectedFault::new("list", FaultKind::Answer(answer)).with_times(1_000_000);
    sandbox.fleet.lock_cluster("m1").add_fault(endless);
    let start = Instant::now();
    let ran = sandbox.apply("").code(2);
    assert!(start.elapsed() < ENOUGH, "{:?}", start.elapsed());
    assert!(sandbox.has("m2", WEB), "{ran:#?}");
    assert_eq!(ran.err.lines().filter(|line| line.starts_with("error: m1: ")).count(), 1, "{ran:#?}");
    assert!(!ran.err.contains("error: m2: "), "{ran:#?}");
    ran
}

/// A page of a list with these items, which names `next` as the next one.
fn page(next: &str, items: &str) -> String {
    format!(r#"{{"kind": "List", "metadata": {{"continue": "{next}"}}, "items": [{items}]}}"#)
}

/// An object with so many bytes in the fields that managers own.
fn owned(bytes: usize) -> String {
    let fields = "f".repeat(bytes);
    format!(
        r#"{{"metadata": {{"name": "aNUMBER", "namespace": "shop", "managedFields": [{{"manager": "{fields}"}}]}}}}"#
    )
}

#[test]
fn lists_that_repeat_their_pages_end() {
    let ran = apply_to_hostile(page("again", &owned(1)));
    assert!(ran.err.contains("a list does not end: a page names itself"), "{ran:#?}");
}

#[test]
fn lists_of_empty_pages_end() {
    let ran = apply_to_hostile(page("NUMBER", ""));
    assert!(ran.err.contains("a list does not end: more than 10 pages in a row are empty"), "{ran:#?}");
}

#[test]
fn answers_of_any_size_end() {
    let ran = apply_to_hostile(page("", &owned(140 << 20)));
    assert!(ran.err.contains("an answer has more than 32 MiB, the limit"), "{ran:#?}");
}

#[test]
fn lists_of_any_size_end() {
    let ran = apply_to_hostile(page("NUMBER", &owned(20 << 20)));
    assert!(ran.err.contains("the objects that it lists have more than 128 MiB, the limit"), "{ran:#?}");
}

#[test]
fn any_number_of_groups_is_refused() {
    let sandbox = Sandbox::simulated(&["m1"]);
    let group = |number: usize| {
        let version = format!("g{number}.example.com/v1");
        format!(r#"{{"name": "g{number}.example.com", "preferredVersion": {{"groupVersion": "{version}"}}}}"#)
    };
    let groups: Vec<String> = (0..20_000).map(group).collect();
    let answer = format!(r#"{{"kind": "APIGroupList", "groups": [{}]}}"#, groups.join(","));
    let many = InjectedFault::new("*", FaultKind::Answer(answer)).with_times(1_000).on_path("/apis");
    sandbox.fleet.lock_cluster("m1").add_fault(many);
    let start = Instant::now();
    let ran = sandbox.import("gadget/a").code(2);
    assert!(start.elapsed() < ENOUGH, "{:?}", start.elapsed());
    assert!(ran.err.contains("it serves more than 2000 versions of API groups, the limit"), "{ran:#?}");
    assert!(
        sandbox.fleet.lock_cluster("m1").counts().values().sum::<usize>() < 10,
        "no group is asked about"
    );
}

/// What the groups say of themselves is bounded, too.
#[test]
fn answers_about_groups_have_a_limit_together() {
    let sandbox = Sandbox::simulated(&["m1"]);
    let version = |number: usize| format!(r#"{{"groupVersion": "g.example.com/v{number}"}}"#);
    let versions: Vec<String> = (1..20).map(version).collect();
    let groups = format!(
        r#"{{"groups": [{{"name": "g.example.com", "preferredVersion": {}, "versions": [{}]}}]}}"#,
        version(1),
        versions.join(",")
    );
    let kinds = format!(r#"{{"resources": [], "more": "{}"}}"#, "m".repeat(20 << 20));
    let faults = [
        InjectedFault::new("*", FaultKind::Answer(kinds)).with_times(1_000).on_path("/apis/g.example.com"),
        InjectedFault::new("*", FaultKind::Answer(groups)).on_path("/apis"),
    ];
    for fault in faults {
        sandbox.fleet.lock_cluster("m1").add_fault(fault);
    }
    let start = Instant::now();
    let ran = sandbox.import("gadget/a").code(2);
    assert!(start.elapsed() < ENOUGH, "{:?}", start.elapsed());
    assert!(ran.err.contains("have more than 128 MiB, the limit"), "{ran:#?}");
}
