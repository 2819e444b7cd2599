//! Status conditions: `metav1.Condition`, and how to set one.
//!
//! Facts: the transition time of a condition changes only with its status, not with its reason or message.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A status condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, in one word.
    #[serde(default)]
    pub reason: String,
    /// The message, in a sentence.
    #[serde(default)]
    pub message: String,
    /// When the status last changed.
    #[serde(default)]
    pub last_transition_time: Option<Timestamp>,
    /// The observed generation of the object; 0 if it is not set.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Condition {
    /// Returns a condition without times.
    pub fn new(kind: &str, status: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            last_transition_time: None,
            observed_generation: 0,
        }
    }

    /// Sets the observed generation.
    #[must_use]
    pub fn at_generation(self, observed_generation: i64) -> Self {
        Self { observed_generation, ..self }
    }

    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether the status is `False`.
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }
}

/// The condition of this type.
pub fn find_condition<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// The condition of this type for this generation.
pub fn find_current_condition<'c>(
    conditions: &'c [Condition],
    kind: &str,
    generation: i64,
) -> Option<&'c Condition> {
    find_condition(conditions, kind).filter(|condition| condition.observed_generation == generation)
}

/// Sets a condition: replaces the one of its type, or appends it. The transition time becomes `now` only if
/// the status changes.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) {
    let Some(old) = conditions.iter_mut().find(|old| old.kind == new.kind) else {
        new.last_transition_time.get_or_insert(now);
        conditions.push(new);
        return;
    };
    new.last_transition_time = if old.status == new.status {
        old.last_transition_time
    } else {
        new.last_transition_time.or(Some(now))
    };
    *old = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let ready = |status: &str, reason: &str| Condition::new("Ready", status, reason, "");
        let mut conditions = Vec::new();
        set_condition(&mut conditions, ready("True", "Started"), at(1));
        set_condition(&mut conditions, ready("True", "Running"), at(2));
        let times = |c: &[Condition]| c.first().and_then(|c| c.last_transition_time);
        assert_eq!((conditions.len(), times(&conditions)), (1, Some(at(1))));
        assert_eq!(find_condition(&conditions, "Ready").map(|c| c.reason.as_str()), Some("Running"));
        set_condition(&mut conditions, ready("False", "Crashed").at_generation(2), at(3));
        assert_eq!(times(&conditions), Some(at(3)));
        assert!(
            find_current_condition(&conditions, "Ready", 2).is_some()
                && find_current_condition(&conditions, "Ready", 1).is_none()
        );
    }
}
