//! The metrics of `federate sync`: they are about the Syncs that are run, as they are.

use serde_json::json;

use crate::sync_objects::{Hub, Running, SYNCS, fetch, until};

/// The lines about the Sync `web`, but for those of counters and histograms.
fn gauges(hub: &Hub) -> Vec<String> {
    let text = fetch(hub, "metrics", "/metrics").unwrap_or_default();
    let is_gauge = |line: &&str| {
        line.contains("sync=\"shop/web\"") && !line.contains("_total{") && !line.contains("_duration_")
    };
    text.lines().filter(is_gauge).map(str::to_owned).collect()
}

fn has(hub: &Hub, line: &str) -> bool {
    gauges(hub).iter().any(|gauge| gauge.starts_with(line))
}

const READY: &str = "federate_sync_ready{sync=\"shop/web\"} 1";
const NOT_READY: &str = "federate_sync_ready{sync=\"shop/web\"} 0";

/// A Sync that is no longer run has no state: what an alert says of it would never end.
#[test]
fn metrics_are_about_syncs_that_are_run() {
    let hub = Hub::new();
    hub.create(&hub.sync("web", &json!({"interval": "1s"})));
    let running = Running::with(&hub, "--metrics-listen 127.0.0.1:0", "log");
    until("the Sync is ready", || has(&hub, READY));
    assert!(has(&hub, "federate_sync_clusters{sync=\"shop/web\",state=\"ready\"} 2"), "{:#?}", gauges(&hub));

    hub.patch("web", &json!({"spec": {"source": {"ref": {"branch": "a*b"}}}}));
    until("one that is invalid is not ready", || has(&hub, NOT_READY));
    until("nothing else is known of it", || gauges(&hub) == [NOT_READY]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(gauges(&hub), [NOT_READY], "also when the round is over that was under way");
    hub.patch("web", &json!({"spec": {"source": {"ref": {"branch": "main"}}}}));
    until("the Sync is ready again", || has(&hub, READY));

    hub.patch("web", &json!({"spec": {"suspend": true}}));
    until("one that is suspended has no state", || gauges(&hub).is_empty());
    hub.patch("web", &json!({"spec": {"suspend": false}}));
    until("the Sync is resumed", || has(&hub, READY));

    hub.sandbox.delete("hub", &format!("{SYNCS}/web"));
    until("one that is gone has no state", || gauges(&hub).is_empty());
    assert_eq!(running.end("-TERM"), Some(0));
}

#[test]
fn clusters_that_have_left_are_counted() {
    let hub = Hub::new();
    let apply = json!({"prune": true, "pruneLimit": 100});
    hub.create(&hub.sync("web", &json!({"interval": "1s", "apply": apply})));
    let running = Running::with(&hub, "--metrics-listen 127.0.0.1:0", "log");
    let line = |count: usize| format!("federate_sync_orphans{{sync=\"shop/web\",kind=\"cluster\"}} {count}");
    until("no cluster has left", || has(&hub, &line(0)));
    let clusters = hub.sandbox.read_file("clusters.yaml");
    let rest: Vec<&str> = clusters.split("---\n").filter(|text| !text.contains("name: m2")).collect();
    hub.sandbox.write("clusters.yaml", &rest.join("---\n"));
    hub.push("smaller");
    until("one has left", || has(&hub, &line(1)));
    assert_eq!(running.end("-TERM"), Some(0));
}
