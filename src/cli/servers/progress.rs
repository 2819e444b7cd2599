//! Progress per cluster: one line each on a terminal, redrawn in place and removed at the end.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use federate_kubernetes::ClusterName;
use federate_kubernetes::display_text::escape_line;
use federate_live::{ClusterProgress, ProgressReporter};

/// The largest number of lines. Lines of finished clusters make room for others; more fit than clusters are
/// processed at a time.
const MAX_LINES: usize = 20;

/// The progress lines; hidden with `--quiet` and if standard error is not a terminal.
pub(super) struct ProgressLines {
    all: MultiProgress,
    bars: Mutex<BTreeMap<ClusterName, ProgressBar>>,
    shown: bool,
}

impl ProgressLines {
    pub(super) fn new(quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { all: MultiProgress::with_draw_target(target), bars: Mutex::default(), shown }
    }

    /// Removes the lines, so that later output takes their place.
    pub(super) fn clear_lines(&self) {
        // A closed terminal is not an error here.
        let _ = self.all.clear();
    }

    fn bar_for(&self, cluster: &ClusterName) -> ProgressBar {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bars.get(cluster) {
            return bar.clone();
        }
        let done = bars.iter().find(|(_, bar)| bar.is_finished()).map(|(name, _)| name.clone());
        if let Some(bar) = done.filter(|_| bars.len() >= MAX_LINES).and_then(|name| bars.remove(&name)) {
            self.all.remove(&bar);
        }
        let bar = self.all.add(ProgressBar::new_spinner().with_prefix(escape_line(cluster)));
        let style = ProgressStyle::with_template("{prefix}  {msg}").unwrap_or_else(|_| plain_style());
        bars.entry(cluster.clone()).or_insert(bar.with_style(style)).clone()
    }
}

fn plain_style() -> ProgressStyle {
    ProgressStyle::default_spinner()
}

impl ProgressReporter for ProgressLines {
    fn report_progress(&self, cluster: &ClusterName, step: ClusterProgress) {
        if !self.shown {
            return;
        }
        let bar = self.bar_for(cluster);
        match step {
            ClusterProgress::Done | ClusterProgress::Failed => bar.finish_with_message(describe_step(step)),
            step => bar.set_message(describe_step(step)),
        }
    }
}

fn describe_step(step: ClusterProgress) -> String {
    match step {
        ClusterProgress::Reading => "reading".to_owned(),
        ClusterProgress::Applying { done, of } => format!("applying {done}/{of}"),
        ClusterProgress::Waiting { open } => format!("waiting for {open} to be healthy"),
        ClusterProgress::Done => "done".to_owned(),
        ClusterProgress::Failed => "failed".to_owned(),
    }
}
