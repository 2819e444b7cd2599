//! `federate sync events`

use clap::Args;

use super::table::format_columns;
use super::target::SyncTarget;
use super::to_command_error;
use crate::cli::settings::OutputFormat;
use crate::cli::{CommandError, Exit, print_text, print_value};
use federate_sync::hub::{SyncEvent, SyncEventList};

/// Show the Events of a Sync
///
/// How rounds ended, drift, other clients that keep changing objects, and clusters that left. API servers keep Events for an hour by default; `federate sync
/// history` shows the last rounds from the status.
#[derive(Debug, Args)]
pub(super) struct EventsCommand {
    #[command(flatten)]
    target: SyncTarget,

    /// Wait for further Events, and show them
    #[arg(long, short)]
    follow: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table", conflicts_with = "follow")]
    output: OutputFormat,
}

impl EventsCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let (hub, sync) = self.target.connect_hub()?;
        let (events, version) = hub.list_events(&sync).map_err(to_command_error)?;
        if self.output != OutputFormat::Table {
            let list = SyncEventList { name: sync.full_name(), events };
            return print_value(&list, self.output).map(|()| Exit::Clean);
        }
        let rows: Vec<[String; 4]> =
            events.into_iter().map(|event| [event.time, event.r#type, event.reason, event.message]).collect();
        print_text(&format_columns(["TIME", "TYPE", "REASON", "MESSAGE"], &rows))?;
        if !self.follow {
            return Ok(Exit::Clean);
        }
        let mut printed = Ok(());
        let followed = hub.follow_events(&sync, version, |event| {
            let SyncEvent { time, r#type, reason, message, .. } = event;
            printed = print_text(&format!("{time}  {type}  {reason}  {message}\n"));
            printed.is_ok()
        });
        printed?;
        followed.map_err(to_command_error)?;
        Ok(Exit::Clean)
    }
}
