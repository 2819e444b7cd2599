//! The options for the programs that build kustomizations and charts, and the builder of all sessions.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;

use super::{print_notice, progress};
use federate_builder::{BuildCache, Confiner, DEFAULT_RUN_TIME, ProgramBuilder, ProgramPaths};
use federate_repo::build::Builder;

/// The environment variable that means `--require-confinement`.
const REQUIRE_VARIABLE: &str = "FEDERATE_REQUIRE_CONFINEMENT";

/// The arguments of all commands that build.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct BuildArgs {
    /// Refuse to build kustomizations and charts where the system does not confine the programs that build them
    ///
    /// Without this, such a system is named once. `federate doctor` shows what the system provides. The environment variable
    /// `FEDERATE_REQUIRE_CONFINEMENT=true` has the same meaning; the images, the chart and the Action set it.
    #[arg(long, global = true, hide_short_help = true, help_heading = "Global options")]
    require_confinement: bool,

    /// The most seconds that all builds of a run may take together [default: 600]
    ///
    /// What the cache contains takes no time. What was built before the limit is in the cache for the next run.
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        hide_short_help = true,
        help_heading = "Global options"
    )]
    build_time: Option<u64>,
}

/// The arguments of this process.
static CHOSEN: OnceLock<BuildArgs> = OnceLock::new();

impl BuildArgs {
    /// Makes these the arguments of all builds of this process.
    pub(super) fn choose(self) {
        // There is one command line.
        let _ = CHOSEN.set(self);
    }
}

/// Whether builds must be confined.
pub(super) fn requires_confinement() -> bool {
    let variable = std::env::var_os(REQUIRE_VARIABLE).unwrap_or_default();
    let is_off = ["", "0", "false", "no", "off"].iter().any(|word| variable.eq_ignore_ascii_case(word));
    !is_off || CHOSEN.get().is_some_and(|chosen| chosen.require_confinement)
}

/// Confines the programs that build and decrypt.
pub(super) fn confiner() -> Confiner {
    Confiner::from_current_executable(requires_confinement())
}

/// Says what does not confine programs: in the log, if there is one.
fn report_gap(gap: &str) {
    #[cfg(feature = "live")]
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{gap}");
        return;
    }
    print_notice(&format!("notice: {gap}\n"));
}

/// Builds kustomizations and charts with the programs of this machine. What one session has built, others take.
pub(super) fn shared_builder() -> Arc<dyn Builder> {
    static PROGRAMS: OnceLock<Arc<ProgramBuilder>> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| {
        let seconds = CHOSEN.get().and_then(|chosen| chosen.build_time);
        let builder =
            ProgramBuilder::new(ProgramPaths::from_environment(), BuildCache::from_environment(), confiner());
        let builder = builder.with_run_time(seconds.map_or(DEFAULT_RUN_TIME, Duration::from_secs));
        Arc::new(builder.with_notice(report_gap).with_progress(progress::count_builds))
    });
    programs.clone()
}
