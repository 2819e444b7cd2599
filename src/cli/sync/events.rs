//! `federate sync events`

use clap::Args;

use super::failed;
use super::table::format_columns;
use super::target::Target;
use crate::cli::settings::Format;
use crate::cli::{Exit, Fault, print, print_value};
use federate_sync::hub::{SyncEvent, SyncEventList};

/// Show the Events of a Sync
///
/// How rounds ended, drift, fights, and clusters that left. API servers keep Events for an hour by default; `federate sync
/// history` shows the last rounds from the status.
#[derive(Debug, Args)]
pub(super) struct Events {
    #[command(flatten)]
    target: Target,

    /// Wait for further Events, and show them
    #[arg(long, short)]
    follow: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table", conflicts_with = "follow")]
    output: Format,
}

impl Events {
    pub(super) fn run(&self) -> Result<Exit, Fault> {
        let (hub, sync) = self.target.connect()?;
        let (events, version) = hub.list_events(&sync).map_err(failed)?;
        if self.output != Format::Table {
            let list = SyncEventList { name: sync.full_name(), events };
            return print_value(&list, self.output).map(|()| Exit::Clean);
        }
        let cells = |event: SyncEvent| [event.time, event.r#type, event.reason, event.message];
        let rows: Vec<[String; 4]> = events.into_iter().map(cells).collect();
        print(&format_columns(["TIME", "TYPE", "REASON", "MESSAGE"], &rows))?;
        if !self.follow {
            return Ok(Exit::Clean);
        }
        let mut printed = Ok(());
        let followed = hub.follow_events(&sync, version, |event| {
            let SyncEvent { time, r#type, reason, message, .. } = event;
            printed = print(&format!("{time}  {type}  {reason}  {message}\n"));
            printed.is_ok()
        });
        printed?;
        followed.map_err(failed)?;
        Ok(Exit::Clean)
    }
}
