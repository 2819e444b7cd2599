//! The schemas in `schemas/` match the Rust types. `UPDATE_SCHEMAS=1 cargo test --test schemas` updates them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

use std::fs;
use std::path::Path;

use schemars::{JsonSchema, schema_for};

fn current<T: JsonSchema>(name: &str) {
    kept(&format!("schemas/{name}"), &(serde_json::to_string_pretty(&schema_for!(T)).unwrap() + "\n"));
}

/// Checks the content of a file, or updates it.
fn kept(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, text, "{name} is out of date: run UPDATE_SCHEMAS=1 cargo test --test schemas");
}

#[test]
fn plan() {
    current::<federate_dialect::Plan>("plan.schema.json");
}

#[test]
fn config() {
    current::<federate_repo::Config>("federate.schema.json");
}

#[test]
fn diff() {
    current::<federate_report::diff::Diff<'_>>("diff.schema.json");
}

#[test]
fn page() {
    current::<federate_report::page::PageDocument<'_>>("page.schema.json");
    current::<federate_report::page::DriftPage<'_>>("drift-page.schema.json");
    current::<federate_report::page::CheckPage<'_>>("check-page.schema.json");
    current::<federate_migrate::MigrationPage<'_>>("migration-page.schema.json");
}

#[test]
fn whatif() {
    current::<federate_report::whatif::WhatIf<'_>>("whatif.schema.json");
    current::<federate_report::whatif::WhatIfEach<'_>>("whatif-each.schema.json");
}

#[test]
fn migration() {
    current::<federate_migrate::MigrationReport>("migration.schema.json");
    current::<federate_migrate::WorldCheck>("migration-check.schema.json");
}

#[test]
fn vendor() {
    current::<federate_vendor::VendorResult>("vendor.schema.json");
    current::<federate_vendor::VendorLock>("vendor-lock.schema.json");
}

#[test]
fn clusters() {
    current::<federate_report::clusters::ClusterList>("clusters.schema.json");
}

#[test]
fn actions() {
    current::<federate_reconcile::Actions>("actions.schema.json");
}

#[test]
#[cfg(feature = "live")]
fn push() {
    current::<federate_session::artifacts::PushedArtifacts<'_>>("push.schema.json");
}

#[test]
#[cfg(feature = "live")]
fn sync() {
    current::<federate_sync_api::Sync>("sync.schema.json");
    current::<Vec<federate_sync_api::summary::SyncSummary>>("sync-get.schema.json");
    current::<federate_sync::inspection::SyncTree>("sync-tree.schema.json");
    current::<federate_sync::hub::SyncEventList>("sync-events.schema.json");
    current::<federate_sync::page::SyncPage>("sync-page.schema.json");
}

#[test]
#[cfg(feature = "live")]
fn sync_definition() {
    let mut text = String::new();
    for (number, definition) in federate_sync_api::build_crds().iter().enumerate() {
        text.push_str(if number == 0 { "" } else { "---\n" });
        federate_yaml::write_document(definition, &mut text);
    }
    kept("deploy/crds/syncs.federate.dev.yaml", &text);
}
