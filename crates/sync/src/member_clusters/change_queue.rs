//! The clusters in which the watch has seen changes, and when each of them is compared: at once, and less often where
//! comparisons keep finding nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_kubernetes::ObjectRef;

/// The pause between two comparisons of a cluster, at least.
const MIN_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(15);
/// So many comparisons in a row may find nothing until pauses grow.
const FRUITLESS_LIMIT: u32 = 5;
/// If more objects have changed, all are compared.
const MAX_OBJECTS: usize = 10_000;
/// A cluster in which nothing has changed for this long is compared at once again.
const QUIET_PERIOD: Duration = Duration::from_secs(30);

/// The clusters of a Sync that are to be compared, and those that were.
#[derive(Debug, Default)]
pub(crate) struct ChangedClusters {
    waiting: BTreeMap<String, WaitingCluster>,
    compared: BTreeMap<String, LastComparison>,
}

/// The objects that are to be compared in each of some clusters; `None` for all.
pub(crate) type DueComparisons = BTreeMap<String, Option<BTreeSet<ObjectRef>>>;

#[derive(Debug)]
struct WaitingCluster {
    due: Instant,
    /// The objects that have changed; `None` if that is not known.
    objects: Option<BTreeSet<ObjectRef>>,
}

#[derive(Debug)]
struct LastComparison {
    at: Instant,
    /// How many comparisons in a row have found nothing.
    fruitless: u32,
}

impl ChangedClusters {
    /// An object has changed in a cluster; `None` if it is not known which.
    pub(crate) fn note_change(&mut self, cluster: &str, object: Option<ObjectRef>, now: Instant) {
        let due = match self.compared.get(cluster) {
            Some(last) if now.saturating_duration_since(last.at) < QUIET_PERIOD => {
                now.max(last.at + last.compute_pause())
            }
            _ => now,
        };
        let fresh = WaitingCluster { due, objects: Some(BTreeSet::new()) };
        let waiting = self.waiting.entry(cluster.to_owned()).or_insert(fresh);
        match (&mut waiting.objects, object) {
            (Some(objects), Some(object)) if objects.len() < MAX_OBJECTS => drop(objects.insert(object)),
            (all, _) => *all = None,
        }
    }

    /// A cluster is to be compared at a time.
    pub(crate) fn schedule_at(&mut self, cluster: &str, due: Instant) {
        let fresh = WaitingCluster { due, objects: None };
        self.waiting.entry(cluster.to_owned()).or_insert(fresh).objects = None;
    }

    /// Forgets which clusters are to be compared.
    pub(crate) fn clear_waiting(&mut self) {
        self.waiting.clear();
    }

    /// When the next cluster is to be compared.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.due).min()
    }

    /// Takes the clusters that are to be compared now.
    pub(crate) fn take_due(&mut self, now: Instant) -> DueComparisons {
        let due = self.waiting.extract_if(.., |_, waiting| waiting.due <= now);
        due.map(|(cluster, waiting)| (cluster, waiting.objects)).collect()
    }

    /// Notes that a cluster was compared, and whether anything was found.
    pub(crate) fn note_comparison(&mut self, cluster: &str, found: bool, now: Instant) {
        let before =
            self.compared.get(cluster).filter(|last| now.saturating_duration_since(last.at) < QUIET_PERIOD);
        let fruitless = if found { 0 } else { before.map_or(0, |last| last.fruitless) + 1 };
        self.compared.insert(cluster.to_owned(), LastComparison { at: now, fruitless });
    }
}

impl LastComparison {
    fn compute_pause(&self) -> Duration {
        let doublings = self.fruitless.saturating_sub(FRUITLESS_LIMIT).min(8);
        MIN_PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_compared_at_once_and_busy_clusters_less_often() {
        let (mut changed, start) = (ChangedClusters::default(), Instant::now());
        changed.note_change("m1", None, start);
        assert_eq!(changed.take_due(start), DueComparisons::from([("m1".to_owned(), None)]));
        let mut now = start;
        for _ in 0..20 {
            changed.note_comparison("m1", false, now);
            changed.note_change("m1", None, now);
            assert!(changed.take_due(now).is_empty());
            now = changed.next_due().unwrap();
            assert_eq!(changed.take_due(now).len(), 1);
        }
        changed.note_comparison("m1", false, now);
        changed.note_change("m1", None, now);
        assert_eq!(changed.next_due(), Some(now + MAX_PAUSE));
        changed.take_due(now + MAX_PAUSE);
        changed.note_comparison("m1", true, now + MAX_PAUSE);
        changed.note_change("m1", None, now + MAX_PAUSE);
        assert_eq!(changed.next_due(), Some(now + MAX_PAUSE + MIN_PAUSE), "drift was found");
    }

    #[test]
    fn a_cluster_that_was_quiet_is_compared_at_once() {
        let (mut changed, start) = (ChangedClusters::default(), Instant::now());
        for _ in 0..20 {
            changed.note_comparison("m1", false, start);
        }
        changed.note_change("m1", None, start + QUIET_PERIOD);
        assert_eq!(changed.next_due(), Some(start + QUIET_PERIOD));
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
        changed.note_change("m1", Some(object("a")), start);
        changed.note_change("m1", Some(object("b")), start);
        changed.note_change("m2", Some(object("a")), start);
        changed.note_change("m2", None, start);
        changed.note_change("m2", Some(object("b")), start);
        let both = BTreeSet::from([object("a"), object("b")]);
        assert_eq!(
            changed.take_due(start),
            DueComparisons::from([("m1".to_owned(), Some(both)), ("m2".to_owned(), None)])
        );
    }
}
