//! `federate completions`

use clap::{Args, Command};
use clap_complete::Shell;

use super::{CommandError, Exit, print_unchanged};

/// Print a shell completion script
///
/// The script completes commands and options. To complete clusters, objects, codes and branches of the repo as well, let the
/// shell ask federate: `source <(COMPLETE=bash federate)`; zsh, fish, elvish and powershell work likewise.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CompletionsCommand {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  federate completions bash > federate.bash";

impl CompletionsCommand {
    pub(super) fn run(&self, command: &mut Command) -> Result<Exit, CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "federate", &mut script);
        print_unchanged(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Clean)
    }
}
