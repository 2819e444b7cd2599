//! Clusters that fail: each is tried again on its own, sooner at first and then less and less often, so that it delays no
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The clusters of a Sync that fail.
#[derive(Debug, Default)]
pub(crate) struct Backoffs {
    failing: BTreeMap<String, Failing>,
    /// When clusters were last compared with what is rendered.
    compared: Option<Instant>,
}

#[derive(Debug)]
struct Failing {
    failures: u32,
    due: Instant,
    cause: Cause,
}

/// What is wrong with a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Whether something failed; otherwise something was left as it is.
    pub(crate) failed: bool,
    /// What.
    pub(crate) message: String,
}

impl Backoffs {
    /// Whether a cluster may be tried now.
    pub(crate) fn is_due(&self, cluster: &str, now: Instant) -> bool {
        self.failing.get(cluster).is_none_or(|failing| failing.due <= now)
    }

    /// Notes how it went with a cluster. The first failure is tried again after `retry`, and each further one after twice
    /// as long, up to `most`.
    pub(crate) fn note(&mut self, cluster: &str, cause: Option<Cause>, (retry, most): (Duration, Duration)) {
        let Some(cause) = cause else { return drop(self.failing.remove(cluster)) };
        let failures = self.failing.get(cluster).map_or(0, |failing| failing.failures) + 1;
        let due = Instant::now() + wait(retry, most, failures);
        self.failing.insert(cluster.to_owned(), Failing { failures, due, cause });
    }

    /// Forgets clusters that are no longer in the inventory.
    pub(crate) fn keep(&mut self, known: &BTreeSet<&str>) {
        self.failing.retain(|cluster, _| known.contains(cluster.as_str()));
    }

    /// The clusters that fail, and why.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (&String, &Cause)> {
        self.failing.iter().map(|(cluster, failing)| (cluster, &failing.cause))
    }

    /// When the next cluster is due; `None` if none fails.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.failing.values().map(|failing| failing.due).min()
    }

    /// All are tried again at once: what is to be done with them is new.
    pub(crate) fn forget(&mut self) {
        self.failing.clear();
    }

    /// Whether clusters are to be compared again; if so, that counts as done.
    pub(crate) fn compares(&mut self, interval: Duration) -> bool {
        let due = self.compared.is_none_or(|compared| compared.elapsed() >= interval);
        if due {
            self.compared = Some(Instant::now());
        }
        due
    }
}

/// How long to wait after so many failures in a row.
pub(crate) fn wait(retry: Duration, most: Duration, failures: u32) -> Duration {
    retry.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(most.max(retry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_waits_on_its_own() {
        let mut backoffs = Backoffs::default();
        let now = Instant::now();
        let cause = || Some(Cause { failed: true, message: "no".to_owned() });
        let times = (Duration::from_secs(10), Duration::from_secs(60));
        backoffs.note("m1", cause(), times);
        assert!(!backoffs.is_due("m1", now) && backoffs.is_due("m2", now));
        assert!(backoffs.is_due("m1", now + Duration::from_secs(11)));
        backoffs.note("m1", cause(), times);
        assert!(!backoffs.is_due("m1", now + Duration::from_secs(19)));
        backoffs.note("m1", None, times);
        assert!(backoffs.is_due("m1", now) && backoffs.next_due().is_none());
    }

    #[test]
    fn waits_double_up_to_the_most() {
        let seconds = |failures| wait(Duration::from_secs(10), Duration::from_secs(60), failures).as_secs();
        assert_eq!([1, 2, 3, 4, 99].map(seconds), [10, 20, 40, 60, 60]);
    }
}
