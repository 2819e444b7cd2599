//! `federate man`

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;

use super::{CommandError, Exit, print_notice};

/// Write the manual pages
///
/// Writes federate.1 and one page for each command, such as federate-plan.1.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ManCommand {
    /// The folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  federate man --out man
  federate man --out ~/.local/share/man/man1";

impl ManCommand {
    pub(super) fn run(&self, command: Command) -> Result<Exit, CommandError> {
        fs::create_dir_all(&self.out).map_err(|e| write_error(&self.out, &e))?;
        let mut command = command;
        command.build();
        write_page(&self.out, &command, "federate")?;
        for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
            write_page(&self.out, one, &format!("federate-{}", one.get_name()))?;
        }
        print_notice(&format!("wrote the manual pages to {}\n", self.out.display()));
        Ok(Exit::Clean)
    }
}

fn write_page(folder: &Path, command: &Command, name: &str) -> Result<(), CommandError> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    Page::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    fs::write(&path, page).map_err(|e| write_error(&path, &e))
}

fn write_error(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Failed(format!("cannot write {}: {error}", path.display()))
}
