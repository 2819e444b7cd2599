//! `federate completions`

use clap::{Args, Command};
use clap_complete::Shell;

use super::{Exit, Fault, print};

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  federate completions bash > federate.bash";

impl Completions {
    pub(super) fn run(&self, command: &mut Command) -> Result<Exit, Fault> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "federate", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Clean)
    }
}
