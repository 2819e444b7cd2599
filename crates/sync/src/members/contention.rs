//! Fights: an object that is put back, and that another client changes again and again. Putting it back is then
//! tried less and less often, and the other client is named.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use federate_engine::actions::{Action, ActionKind, Outcome};
use federate_kubernetes::finding::list;
use federate_kubernetes::{ClusterName, ObjectRef};

/// An object that was put back this often, and has changed again each time, is fought about.
const FIGHT: u32 = 3;
/// What holds for this long is no longer fought about.
const PEACE: Duration = Duration::from_mins(10);
/// How long the first fight is left alone; it doubles.
const FIRST_HOLD: Duration = Duration::from_secs(30);

/// An object in a cluster.
type Key = (ClusterName, ObjectRef);

/// The objects of a Sync that were put back.
#[derive(Debug, Default)]
pub(crate) struct Fights {
    objects: BTreeMap<Key, Corrected>,
    reports: Vec<Fight>,
}

/// An object that was put back.
#[derive(Debug)]
struct Corrected {
    fields: BTreeSet<String>,
    managers: BTreeSet<String>,
    times: u32,
    last: Instant,
    hold: Option<(Instant, String)>,
}

/// A fight that is left alone from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fight {
    /// The cluster.
    pub(crate) cluster: ClusterName,
    /// When the object may be put back again.
    pub(crate) until: Instant,
    /// What happens, with the object and the other client.
    pub(crate) message: String,
}

impl Fights {
    /// Notes what a comparison has put back. `most` is the longest time that an object is left alone.
    pub(crate) fn note(&mut self, actions: &[Action], most: Duration, now: Instant) {
        self.objects.retain(|_, object| {
            let end = object.hold.as_ref().map_or(object.last, |(until, _)| *until);
            now.saturating_duration_since(end) < PEACE
        });
        let done =
            |action: &&Action| action.outcome == Outcome::Done && action.action != ActionKind::Unchanged;
        for action in actions.iter().filter(done) {
            self.corrected(action, most, now);
        }
    }

    fn corrected(&mut self, action: &Action, most: Duration, now: Instant) {
        let fields: BTreeSet<String> = action.diffs.iter().map(|diff| diff.path.clone()).collect();
        let managers = action.diffs.iter().filter_map(|diff| diff.manager.clone()).collect();
        let key = (action.cluster.clone(), action.object.clone());
        let object = self.objects.entry(key).or_insert_with(|| Corrected {
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
        if object.times < FIGHT {
            return;
        }
        let hold = FIRST_HOLD.saturating_mul(1 << (object.times - FIGHT).min(16)).min(most.max(FIRST_HOLD));
        let message = object.message(action, hold);
        object.hold = Some((now + hold, message.clone()));
        self.reports.push(Fight { cluster: action.cluster.clone(), until: now + hold, message });
    }

    /// The objects that are left alone now, and why.
    pub(crate) fn held(&self, now: Instant) -> BTreeMap<Key, String> {
        let held = self.objects.iter().filter_map(|(key, object)| {
            let (until, message) = object.hold.as_ref()?;
            (*until > now).then(|| (key.clone(), message.clone()))
        });
        held.collect()
    }

    /// The fights that have been noticed since the last call.
    pub(crate) fn reports(&mut self) -> Vec<Fight> {
        std::mem::take(&mut self.reports)
    }
}

impl Corrected {
    fn message(&self, action: &Action, hold: Duration) -> String {
        let fields: Vec<&str> = self.fields.iter().map(String::as_str).collect();
        let what = if fields.is_empty() { "it".to_owned() } else { list(&fields, 3) };
        let managers: Vec<&str> = self.managers.iter().map(String::as_str).collect();
        let who = if managers.is_empty() { "another client".to_owned() } else { list(&managers, 3) };
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
    use federate_engine::actions::FieldDiff;

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
            outcome: Outcome::Done,
            error: None,
            unhealthy: false,
            result: None,
        }
    }

    #[test]
    fn the_third_time_is_a_fight_that_is_left_alone_for_longer_and_longer() {
        let (mut fights, start) = (Fights::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let most = Duration::from_mins(5);
        for second in 0..2 {
            fights.note(&[put_back("/spec/replicas")], most, at(second));
            assert!(fights.held(at(second)).is_empty() && fights.reports().is_empty());
        }
        fights.note(&[put_back("/spec/replicas")], most, at(2));
        let reports = fights.reports();
        assert!(reports[0].message.contains("autoscaler changes /spec/replicas"), "{reports:?}");
        assert_eq!((fights.held(at(31)).len(), fights.held(at(33)).len()), (1, 0));
        fights.note(&[put_back("/spec/replicas")], most, at(40));
        assert_eq!((fights.held(at(99)).len(), fights.held(at(101)).len()), (1, 0));
    }

    #[test]
    fn other_fields_and_long_peace_are_no_fight() {
        let (mut fights, start) = (Fights::default(), Instant::now());
        for (minute, path) in [(0, "/a"), (1, "/a"), (2, "/b"), (3, "/b"), (14, "/b"), (15, "/b")] {
            fights.note(&[put_back(path)], PEACE, start + Duration::from_mins(minute));
            fights.note(&[], PEACE, start + Duration::from_mins(minute) + Duration::from_secs(1));
        }
        assert!(fights.reports().is_empty());
        fights.note(&[], PEACE, start + Duration::from_hours(1));
        assert!(fights.objects.is_empty(), "memory is bounded by what was put back lately");
    }
}
