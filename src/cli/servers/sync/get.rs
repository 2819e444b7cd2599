//! `federate sync get`: the Syncs, and how each is.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;

use super::table::{format_age, format_columns};
use super::target::{HubArgs, SyncTarget};
use super::to_command_error;
use crate::cli::settings::OutputFormat;
use crate::cli::{CommandError, Exit, print_text, print_value};
use federate_sync_api::NamespacedName;
use federate_sync_api::progress::short_revision;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::{SyncStatus, find_commit};
use federate_sync_api::summary::SyncSummary;

/// List Syncs: whether they are ready, with revision, clusters and drift
///
/// CLUSTERS counts those that are as rendered, of all. DRIFT counts the objects that differ and are left so. AGE is the time
/// since the Sync was created.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct GetCommand {
    /// Only this Sync
    name: Option<String>,

    #[command(flatten)]
    hub: HubArgs,

    /// The Syncs of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,

    #[command(flatten)]
    state: StateArgs,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,
}

const EXAMPLES: &str = "\
Examples:
  federate sync get -A --context hub
  federate sync get --state state -o json";

/// The state folder of Syncs in files.
#[derive(Debug, Args)]
pub(super) struct StateArgs {
    /// Read the state folder of Syncs in files, not an API server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["context", "kubeconfig"])]
    state: Option<PathBuf>,
}

/// The cells of a Sync in the table.
fn format_cells(row: &SyncSummary, now: Timestamp) -> [String; 8] {
    let clusters = row.clusters.map(|counts| {
        let all: usize = counts.total();
        format!("{}/{all}", counts.ready)
    });
    let state = if row.suspended { "Suspended" } else { &row.ready };
    let drift = row.drift.as_ref().map(|drift| drift.objects.to_string());
    let age = row.created.map(|created| format_age(now.duration_since(created).as_secs()));
    [
        row.namespace.clone(),
        row.name.clone(),
        state.to_owned(),
        row.revision.as_deref().map(shorten_revision).unwrap_or_default(),
        clusters.unwrap_or_default(),
        drift.unwrap_or_default(),
        age.unwrap_or_default(),
        row.message.clone(),
    ]
}

/// A revision with the first characters of its commit.
fn shorten_revision(revision: &str) -> String {
    let commit = find_commit(revision);
    revision.replace(commit, short_revision(commit))
}

impl GetCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let mut rows = match &self.state.state {
            Some(folder) => read_folder(folder)?
                .into_iter()
                .map(|record| SyncSummary::new(record.metadata.name, record.status, false, None))
                .collect(),
            None => self.read_objects()?,
        };
        if let Some(name) = &self.name {
            rows.retain(|row| row.name == *name);
            if rows.is_empty() {
                return Err(to_command_error(format!("there is no Sync {name}")));
            }
        }
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        if self.output != OutputFormat::Table {
            return print_value(&rows, self.output).map(|()| Exit::Clean);
        }
        let head = ["NAMESPACE", "NAME", "READY", "REVISION", "CLUSTERS", "DRIFT", "AGE", "STATUS"];
        let now = Timestamp::now();
        print_text(&format_columns(
            head,
            &rows.iter().map(|row| format_cells(row, now)).collect::<Vec<_>>(),
        ))?;
        Ok(Exit::Clean)
    }

    fn read_objects(&self) -> Result<Vec<SyncSummary>, CommandError> {
        let hub = self.hub.connect_hub()?;
        let namespace = (!self.all_namespaces).then(|| self.hub.find_namespace(&hub));
        let objects = hub.list_syncs(namespace.as_deref()).map_err(to_command_error)?;
        Ok(objects.iter().filter_map(SyncSummary::from_object).collect())
    }
}

/// The records in a state folder. What is not one is left out.
fn read_folder(folder: &Path) -> Result<Vec<SyncRecord>, CommandError> {
    let mut records = Vec::new();
    for namespace in list_subfolders(folder)? {
        for sync in list_subfolders(&namespace)? {
            let text = fs::read_to_string(sync.join("status.json"));
            records.extend(text.ok().and_then(|text| SyncRecord::parse(&text)));
        }
    }
    Ok(records)
}

/// The folders in a folder, sorted by path.
fn list_subfolders(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let entries =
        fs::read_dir(folder).map_err(|why| to_command_error(format!("{}: {why}", folder.display())))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}

/// The status of a Sync: of an object, or of one in a file.
pub(super) fn find_status(
    target: &SyncTarget,
    state: &StateArgs,
) -> Result<(NamespacedName, SyncStatus), CommandError> {
    if let Some(folder) = &state.state {
        let namespace = target.hub.namespace.as_deref().unwrap_or("default");
        let record = read_folder(folder)?.into_iter().find(|record| {
            record.metadata.name.name == target.name && record.metadata.name.namespace == namespace
        });
        let record = record
            .ok_or_else(|| to_command_error(format!("there is no status of {namespace}/{}", target.name)))?;
        return Ok((record.metadata.name, record.status));
    }
    let (hub, sync) = target.connect_hub()?;
    let status = hub.read_status(&sync).map_err(to_command_error)?;
    status
        .ok_or_else(|| to_command_error(format!("there is no Sync {}", sync.full_name())))
        .map(|status| (sync, status))
}
