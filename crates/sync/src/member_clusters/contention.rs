//! Contentions: an object that is put back, and that another client changes again and again. Putting it back is then
//! tried less and less often, and the other client is named.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_kubernetes::finding::join_names;
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_reconcile::{Action, ActionKind, ActionOutcome};

/// An object that was put back this often, and has changed again each time, is contended.
const CONTENTION_THRESHOLD: u32 = 3;
/// An object that stays as it was put back for this long is no longer contended.
const CONTENTION_EXPIRY: Duration = Duration::from_mins(10);
/// How long a contended object is left alone for the first time; it doubles.
const FIRST_HOLD: Duration = Duration::from_secs(30);

/// An object in a cluster.
type ClusterObject = (ClusterName, ObjectRef);

/// The objects of a Sync that were put back.
#[derive(Debug, Default)]
pub(crate) struct ContentionTracker {
    objects: BTreeMap<ClusterObject, CorrectedObject>,
    reports: Vec<Contention>,
}

/// An object that was put back.
#[derive(Debug)]
struct CorrectedObject {
    fields: BTreeSet<String>,
    managers: BTreeSet<String>,
    times: u32,
    last: Instant,
    hold: Option<(Instant, String)>,
}

/// An object that is contended, and left alone from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contention {
    /// The cluster.
    pub(crate) cluster: ClusterName,
    /// When the object may be put back again.
    pub(crate) until: Instant,
    /// What happens, with the object and the other client.
    pub(crate) message: String,
}

impl ContentionTracker {
    /// Notes what a comparison has put back. `most` is the longest time that an object is left alone.
    pub(crate) fn note_corrections(&mut self, actions: &[Action], max_hold: Duration, now: Instant) {
        self.objects.retain(|_, object| {
            let end = object.hold.as_ref().map_or(object.last, |(until, _)| *until);
            now.saturating_duration_since(end) < CONTENTION_EXPIRY
        });
        for action in actions
            .iter()
            .filter(|action| action.outcome == ActionOutcome::Done && action.action != ActionKind::Unchanged)
        {
            self.note_correction(action, max_hold, now);
        }
    }

    fn note_correction(&mut self, action: &Action, max_hold: Duration, now: Instant) {
        let fields: BTreeSet<String> = action.diffs.iter().map(|diff| diff.path.clone()).collect();
        let managers = action.diffs.iter().filter_map(|diff| diff.manager.clone()).collect();
        let key = (action.cluster.clone(), action.object.clone());
        let object = self.objects.entry(key).or_insert_with(|| CorrectedObject {
            fields: fields.clone(),
            managers: BTreeSet::new(),
            times: 0,
            last: now,
            hold: None,
        });
        // Other fields are another matter; a whole object that is missing has none.
        if !fields.is_empty() && object.fields.is_disjoint(&fields) {
            (object.times, object.hold) = (0, None);
        }
        (object.fields, object.managers) = (fields, managers);
        object.times += 1;
        object.last = now;
        if object.times < CONTENTION_THRESHOLD {
            return;
        }
        let hold = FIRST_HOLD
            .saturating_mul(1 << (object.times - CONTENTION_THRESHOLD).min(16))
            .min(max_hold.max(FIRST_HOLD));
        let message = object.describe_contention(action, hold);
        object.hold = Some((now + hold, message.clone()));
        self.reports.push(Contention { cluster: action.cluster.clone(), until: now + hold, message });
    }

    /// The objects that are left alone now, and why.
    pub(crate) fn frozen_objects(&self, now: Instant) -> BTreeMap<ClusterObject, String> {
        let held = self.objects.iter().filter_map(|(key, object)| {
            let (until, message) = object.hold.as_ref()?;
            (*until > now).then(|| (key.clone(), message.clone()))
        });
        held.collect()
    }

    /// The contentions that have been noticed since the last call.
    pub(crate) fn take_reports(&mut self) -> Vec<Contention> {
        std::mem::take(&mut self.reports)
    }
}

impl CorrectedObject {
    fn describe_contention(&self, action: &Action, hold: Duration) -> String {
        let fields: Vec<&str> = self.fields.iter().map(String::as_str).collect();
        let what = if fields.is_empty() { "it".to_owned() } else { join_names(&fields, 3) };
        let managers: Vec<&str> = self.managers.iter().map(String::as_str).collect();
        let who = if managers.is_empty() { "another client".to_owned() } else { join_names(&managers, 3) };
        let Action { cluster, object, .. } = action;
        let (times, seconds) = (self.times, hold.as_secs());
        format!(
            "{object} in {cluster}: {who} changes {what} again each time that federate puts it back ({times} times); \
             federate leaves it alone for {seconds} s. Stop the other client, or name the field in `drift.ignore` of \
             the Sync or of federate.yaml"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use federate_reconcile::FieldDiff;

    fn put_back(path: &str) -> Action {
        let diff = FieldDiff {
            path: path.to_owned(),
            desired: None,
            live: None,
            manager: Some("autoscaler".to_owned()),
            time: None,
            writer: None,
        };
        Action {
            cluster: "m1".into(),
            object: ObjectRef {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: Some("shop".to_owned()),
                name: "web".to_owned(),
            },
            action: ActionKind::Update,
            restarts_pods: false,
            diffs: vec![diff],
            reason: None,
            outcome: ActionOutcome::Done,
            error: None,
            unhealthy: None,
            is_terminating: false,
            other_apply_set: None,
            result: None,
        }
    }

    #[test]
    fn the_third_time_is_a_contention_that_is_left_alone_for_longer_and_longer() {
        let (mut contentions, start) = (ContentionTracker::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let most = Duration::from_mins(5);
        for second in 0..2 {
            contentions.note_corrections(&[put_back("/spec/replicas")], most, at(second));
            assert!(
                contentions.frozen_objects(at(second)).is_empty() && contentions.take_reports().is_empty()
            );
        }
        contentions.note_corrections(&[put_back("/spec/replicas")], most, at(2));
        let reports = contentions.take_reports();
        assert!(reports[0].message.contains("autoscaler changes /spec/replicas"), "{reports:?}");
        assert_eq!(
            (contentions.frozen_objects(at(31)).len(), contentions.frozen_objects(at(33)).len()),
            (1, 0)
        );
        contentions.note_corrections(&[put_back("/spec/replicas")], most, at(40));
        assert_eq!(
            (contentions.frozen_objects(at(99)).len(), contentions.frozen_objects(at(101)).len()),
            (1, 0)
        );
    }

    #[test]
    fn other_fields_and_long_peace_are_no_contention() {
        let (mut contentions, start) = (ContentionTracker::default(), Instant::now());
        for (minute, path) in [(0, "/a"), (1, "/a"), (2, "/b"), (3, "/b"), (14, "/b"), (15, "/b")] {
            contentions.note_corrections(
                &[put_back(path)],
                CONTENTION_EXPIRY,
                start + Duration::from_mins(minute),
            );
            contentions.note_corrections(
                &[],
                CONTENTION_EXPIRY,
                start + Duration::from_mins(minute) + Duration::from_secs(1),
            );
        }
        assert!(contentions.take_reports().is_empty());
        contentions.note_corrections(&[], CONTENTION_EXPIRY, start + Duration::from_hours(1));
        assert!(contentions.objects.is_empty(), "memory is bounded by what was put back lately");
    }
}
