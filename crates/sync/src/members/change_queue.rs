//! The clusters in which the watch has seen changes, and when each of them is compared: at once, and less often where
//! comparisons keep finding nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_kubernetes::ObjectRef;

/// The pause between two comparisons of a cluster, at least.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// So many comparisons in a row may find nothing until pauses grow.
const PATIENCE: u32 = 5;
/// A cluster in which nothing has changed for this long is compared at once again.
const QUIET: Duration = Duration::from_secs(30);

/// The clusters of a Sync that are to be compared, and those that were.
#[derive(Debug, Default)]
pub(crate) struct ChangedClusters {
    waiting: BTreeMap<String, Waiting>,
    compared: BTreeMap<String, Compared>,
}

/// The objects that are to be compared in each of some clusters; `None` for all.
pub(crate) type DueComparisons = BTreeMap<String, Option<BTreeSet<ObjectRef>>>;

#[derive(Debug)]
struct Waiting {
    due: Instant,
    /// The objects that have changed; `None` if that is not known.
    objects: Option<BTreeSet<ObjectRef>>,
}

#[derive(Debug)]
struct Compared {
    at: Instant,
    /// How many comparisons in a row have found nothing.
    fruitless: u32,
}

impl ChangedClusters {
    /// An object has changed in a cluster; `None` if it is not known which.
    pub(crate) fn note(&mut self, cluster: &str, object: Option<ObjectRef>, now: Instant) {
        let due = match self.compared.get(cluster) {
            Some(last) if now.saturating_duration_since(last.at) < QUIET => now.max(last.at + last.pause()),
            _ => now,
        };
        let fresh = Waiting { due, objects: Some(BTreeSet::new()) };
        let waiting = self.waiting.entry(cluster.to_owned()).or_insert(fresh);
        match (&mut waiting.objects, object) {
            (Some(objects), Some(object)) => drop(objects.insert(object)),
            (all, _) => *all = None,
        }
    }

    /// A cluster is to be compared at a time.
    pub(crate) fn at(&mut self, cluster: &str, due: Instant) {
        let fresh = Waiting { due, objects: None };
        self.waiting.entry(cluster.to_owned()).or_insert(fresh).objects = None;
    }

    /// Forgets which clusters are to be compared.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// When the next cluster is to be compared.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.due).min()
    }

    /// Takes the clusters that are to be compared now.
    pub(crate) fn take(&mut self, now: Instant) -> DueComparisons {
        let due = self.waiting.extract_if(.., |_, waiting| waiting.due <= now);
        due.map(|(cluster, waiting)| (cluster, waiting.objects)).collect()
    }

    /// Notes that a cluster was compared, and whether anything was found.
    pub(crate) fn compared(&mut self, cluster: &str, found: bool, now: Instant) {
        let before = self.compared.get(cluster).filter(|last| now.saturating_duration_since(last.at) < QUIET);
        let fruitless = if found { 0 } else { before.map_or(0, |last| last.fruitless) + 1 };
        self.compared.insert(cluster.to_owned(), Compared { at: now, fruitless });
    }
}

impl Compared {
    fn pause(&self) -> Duration {
        let doublings = self.fruitless.saturating_sub(PATIENCE).min(8);
        PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_compared_at_once_and_busy_clusters_less_often() {
        let (mut changed, start) = (ChangedClusters::default(), Instant::now());
        changed.note("m1", None, start);
        assert_eq!(changed.take(start), DueComparisons::from([("m1".to_owned(), None)]));
        let mut now = start;
        for _ in 0..20 {
            changed.compared("m1", false, now);
            changed.note("m1", None, now);
            assert!(changed.take(now).is_empty());
            now = changed.next().unwrap();
            assert_eq!(changed.take(now).len(), 1);
        }
        changed.compared("m1", false, now);
        changed.note("m1", None, now);
        assert_eq!(changed.next(), Some(now + LONGEST_PAUSE));
        changed.take(now + LONGEST_PAUSE);
        changed.compared("m1", true, now + LONGEST_PAUSE);
        changed.note("m1", None, now + LONGEST_PAUSE);
        assert_eq!(changed.next(), Some(now + LONGEST_PAUSE + PAUSE), "drift was found");
    }

    #[test]
    fn a_cluster_that_was_quiet_is_compared_at_once() {
        let (mut changed, start) = (ChangedClusters::default(), Instant::now());
        for _ in 0..20 {
            changed.compared("m1", false, start);
        }
        changed.note("m1", None, start + QUIET);
        assert_eq!(changed.next(), Some(start + QUIET));
    }

    #[test]
    fn objects_are_gathered_until_one_is_unknown() {
        let object = |name: &str| ObjectRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: None,
            name: name.to_owned(),
        };
        let (mut changed, start) = (ChangedClusters::default(), Instant::now());
        changed.note("m1", Some(object("a")), start);
        changed.note("m1", Some(object("b")), start);
        changed.note("m2", Some(object("a")), start);
        changed.note("m2", None, start);
        changed.note("m2", Some(object("b")), start);
        let both = BTreeSet::from([object("a"), object("b")]);
        assert_eq!(
            changed.take(start),
            DueComparisons::from([("m1".to_owned(), Some(both)), ("m2".to_owned(), None)])
        );
    }
}
