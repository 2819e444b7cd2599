//! Progress per cluster: one line each on a terminal, redrawn in place and removed at the end.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use federate_kubernetes::ClusterName;
use federate_live::{Progress, Step};

/// The largest number of lines. Lines of finished clusters make room for others; more fit than clusters are
/// processed at a time.
const MOST: usize = 20;

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
    pub(super) fn clear(&self) {
        // A closed terminal is not an error here.
        let _ = self.all.clear();
    }

    fn bar(&self, cluster: &ClusterName) -> ProgressBar {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = bars.get(cluster) {
            return bar.clone();
        }
        let done = bars.iter().find(|(_, bar)| bar.is_finished()).map(|(name, _)| name.clone());
        if let Some(bar) = done.filter(|_| bars.len() >= MOST).and_then(|name| bars.remove(&name)) {
            self.all.remove(&bar);
        }
        let bar = self.all.add(ProgressBar::new_spinner().with_prefix(visible(cluster)));
        let style = ProgressStyle::with_template("{prefix}  {msg}").unwrap_or_else(|_| plain());
        bars.entry(cluster.clone()).or_insert(bar.with_style(style)).clone()
    }
}

fn plain() -> ProgressStyle {
    ProgressStyle::default_spinner()
}

fn visible(cluster: &str) -> String {
    cluster.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl Progress for ProgressLines {
    fn at(&self, cluster: &ClusterName, step: Step) {
        if !self.shown {
            return;
        }
        let bar = self.bar(cluster);
        match step {
            Step::Done | Step::Failed => bar.finish_with_message(words(step)),
            step => bar.set_message(words(step)),
        }
    }
}

fn words(step: Step) -> String {
    match step {
        Step::Reading => "reading".to_owned(),
        Step::Applying { done, of } => format!("applying {done}/{of}"),
        Step::Waiting { open } => format!("waiting for {open} to be healthy"),
        Step::Done => "done".to_owned(),
        Step::Failed => "failed".to_owned(),
    }
}
