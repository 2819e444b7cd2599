//! `federate man`

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;

use super::{Exit, Fault, say};

/// Write the manual pages
///
/// Writes federate.1 and one page for each command, such as federate-plan.1.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Man {
    /// The folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  federate man --out man
  federate man --out ~/.local/share/man/man1";

impl Man {
    pub(super) fn run(&self, command: Command) -> Result<Exit, Fault> {
        fs::create_dir_all(&self.out).map_err(|e| failed(&self.out, &e))?;
        let mut command = command;
        command.build();
        write(&self.out, &command, "federate")?;
        for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
            write(&self.out, one, &format!("federate-{}", one.get_name()))?;
        }
        say(&format!("wrote the manual pages to {}\n", self.out.display()));
        Ok(Exit::Clean)
    }
}

fn write(folder: &Path, command: &Command, name: &str) -> Result<(), Fault> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    Page::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    fs::write(&path, page).map_err(|e| failed(&path, &e))
}

fn failed(path: &Path, error: &std::io::Error) -> Fault {
    Fault::Failed(format!("cannot write {}: {error}", path.display()))
}
