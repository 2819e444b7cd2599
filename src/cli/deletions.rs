//! The guard of deletions, for commands that replace earlier output.

use clap::Args;

use federate_engine::deletions::{ExcessiveDeletions, PruneLimit};

/// How much of earlier output may go.
#[derive(Debug, Args)]
pub(super) struct DeletionArgs {
    /// Delete at most this share of the earlier objects, in total and of each cluster; 100 confirms everything
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100), default_value = "30", overrides_with = "prune_limit")]
    prune_limit: u8,
}

impl DeletionArgs {
    /// The limit.
    pub(super) fn prune_limit(&self) -> PruneLimit {
        PruneLimit::new(self.prune_limit)
    }
}

/// The message of a command that deletes nothing, because it would delete too much from `output`. `unread` says
/// whether that is because files could not be read.
pub(super) fn format_refusal(excess: &ExcessiveDeletions, output: &str, unread: bool) -> String {
    let why = if unread { "the files that cannot be read may hold these objects, so " } else { "" };
    format!(
        "{output}: {excess}\n{}{why}nothing was changed; if this is meant, repeat the command with --prune-limit 100",
        excess.list_objects()
    )
}

/// The warning of a command that deletes this much from `output`.
pub(super) fn format_warning(excess: &ExcessiveDeletions, output: &str) -> String {
    format!("warning: {output}: {excess}\n{}", excess.list_objects())
}
