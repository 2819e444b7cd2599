//! `federate doctor`

use clap::Args;
use serde::Serialize;

use super::builds::{self, confiner};
use super::settings::OutputFormat;
use super::{CommandError, Exit, print_text, print_value};
use federate_builder::{Confinement, ProgramPaths, Tool};

/// Show what this machine provides: the programs that build, and what confines them
///
/// The programs that build kustomizations and charts run on files that strangers may have written. Linux confines them with
/// namespaces and Landlock, where the kernel has them and the container allows them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct DoctorCommand {
    /// The output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: OutputFormat,
}

const EXAMPLES: &str = "\
Examples:
  federate doctor
  federate doctor --require-confinement                   # fails where builds would be refused
  federate doctor -o json";

/// What the machine provides.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineReport {
    confinement: ConfinementReport,
    programs: Vec<ProgramReport>,
}

/// What confines the programs that build.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfinementReport {
    /// Namespaces of users, processes and the network.
    namespaces: bool,
    /// The version of Landlock's interface; 0 without it.
    landlock: u32,
    /// Whether a filter of system calls applies to federate.
    seccomp: bool,
    /// Whether the programs reach no server.
    closes_network: bool,
    /// Whether the programs read no file but their own and those of the system.
    closes_files: bool,
    /// Whether builds are refused without both.
    required: bool,
}

/// A program that builds or decrypts.
#[derive(Debug, Serialize)]
struct ProgramReport {
    name: &'static str,
    /// Its path; `None` if there is none.
    path: Option<String>,
}

impl DoctorCommand {
    pub(super) fn run(&self) -> Result<Exit, CommandError> {
        let confinement = confiner().probe();
        let required = builds::requires_confinement();
        let report = MachineReport {
            confinement: ConfinementReport {
                namespaces: confinement.has_namespaces,
                landlock: confinement.landlock,
                seccomp: confinement.has_seccomp,
                closes_network: confinement.closes_network(),
                closes_files: confinement.closes_files(),
                required,
            },
            programs: find_programs(),
        };
        match self.output {
            OutputFormat::Table => print_text(&format_report(confinement, &report))?,
            format => print_value(&report, format)?,
        }
        Ok(if required && !confinement.is_complete() { Exit::Error } else { Exit::Clean })
    }
}

fn find_programs() -> Vec<ProgramReport> {
    let paths = ProgramPaths::from_environment();
    [("kustomize", Tool::Kustomize), ("helm", Tool::Helm), ("sops", Tool::Sops)]
        .map(|(name, tool)| {
            let path = paths.find_path(tool).map(|path| path.to_string_lossy().into_owned());
            ProgramReport { name, path }
        })
        .into()
}

fn format_report(confinement: Confinement, report: &MachineReport) -> String {
    let landlock = match confinement.landlock {
        0 => "no".to_owned(),
        version => format!("version {version}"),
    };
    let files = if confinement.closes_files() {
        "programs read their own files and those of the system (/usr, /lib, /bin) only"
    } else {
        "programs can read every file that this user can read"
    };
    let network = if confinement.has_namespaces {
        "programs have no network, and end with the build"
    } else if confinement.closes_network() {
        "programs have no TCP (Landlock); UDP is open"
    } else {
        "programs can reach the network: only a proxy that is closed is set"
    };
    let builds = match (confinement.describe_gap(), report.confinement.required) {
        (None, _) => "confined".to_owned(),
        (Some(gap), true) => format!("refused, because programs are not confined: {gap}"),
        (Some(gap), false) => format!("not confined: {gap}; `--require-confinement` refuses them"),
    };
    let namespaces = if confinement.has_namespaces { "yes" } else { "no" };
    let seccomp = if confinement.has_seccomp { "a filter applies to federate" } else { "no filter" };
    let mut lines = vec![
        ("namespaces", namespaces.to_owned()),
        ("Landlock", landlock),
        ("seccomp", seccomp.to_owned()),
        ("network", network.to_owned()),
        ("files", files.to_owned()),
        ("builds", builds),
    ];
    for program in &report.programs {
        lines.push((program.name, program.path.clone().unwrap_or_else(|| "not found".to_owned())));
    }
    let mut text = String::new();
    for (name, what) in lines {
        text.push_str(&format!("{name:<12}{what}\n"));
    }
    text
}
