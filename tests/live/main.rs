//! `federate apply` and `federate drift` against API servers over HTTPS on loopback: their requests, the resulting
//! objects, and how they handle faults of servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]
#![cfg(feature = "live")]

#[allow(dead_code, reason = "shared with the tests of the command line")]
#[path = "../cli/chart_server.rs"]
mod chart_server;
#[allow(dead_code, reason = "shared with the tests of the command line")]
#[path = "../cli/git_http.rs"]
mod git_http;
#[path = "../cli/gnupg.rs"]
#[allow(dead_code, reason = "shared with the tests of the command line")]
mod gnupg;
mod ran;
mod real;
#[path = "../cli/registry.rs"]
#[allow(dead_code, reason = "shared with the tests of the command line")]
mod registry;
mod sandbox;
mod sandbox_sync;

mod adoption;
mod apply;
mod drift;
mod dry_run;
mod fights;
mod hooks;
mod hostile_members;
mod hub;
mod import;
mod journeys;
mod kills;
mod lost_parent;
mod memory;
mod migrate;
mod migrate_seeds;
mod order;
mod outcomes;
mod pods;
mod proxy;
mod reach;
mod replace;
mod rights;
mod server_decides;
mod sets;
mod snapshot;
mod snapshot_hubs;
mod snapshot_recorded;
mod sops;
mod sync;
mod sync_addresses;
mod sync_app;
mod sync_commands;
mod sync_deletion;
mod sync_divided;
mod sync_failover;
mod sync_guard;
mod sync_hanging;
mod sync_health;
mod sync_inventory;
mod sync_kills;
mod sync_lost;
mod sync_metrics;
mod sync_narrow;
mod sync_notify;
mod sync_objects;
mod sync_outage;
mod sync_page;
mod sync_push;
mod sync_rollout;
mod sync_runs;
mod sync_signatures;
mod sync_sources;
mod sync_specs;
mod sync_survives;
mod sync_tenants;
mod sync_trouble;
mod sync_update_runs;
mod sync_watch;
mod sync_windows;
mod sync_works;
mod trouble;
mod versions;
mod waiting;
mod walkthrough;
mod writes;
