//! Taints and tolerations.
//!
//! Facts: a taint `PreferNoSelect` never matters, and `NoSelectIfNew` does not matter where the cluster was selected
//! before. A toleration with seconds counts until that time after the taint was added, whatever its effect; one that has
//! run out is passed over. Without a clock, none has run out.

use federate_kubernetes::work;
use jiff::{SignedDuration, Timestamp};

/// The time for tolerations that end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TolerationClock {
    /// None has ended.
    Unknown,
    /// The time is known.
    At(Timestamp),
    /// All have ended.
    Over,
}

impl TolerationClock {
    /// The clock of a run, for a cluster on which tolerations that end have ended or not.
    pub(crate) fn new(now: Option<Timestamp>, is_over: bool) -> Self {
        match now {
            _ if is_over => Self::Over,
            Some(now) => Self::At(now),
            None => Self::Unknown,
        }
    }
}

use crate::api::Toleration;
use crate::fleet::{Member, MemberTaint, NO_SELECT, NO_SELECT_IF_NEW};

/// The hub's words for a toleration that it does not accept.
pub(super) fn find_mistake(toleration: &Toleration) -> Option<&'static str> {
    if toleration.key.is_empty() && toleration.operator != "Exists" {
        return Some("If the key is empty, operator must be Exists.");
    }
    let has_value = toleration.operator == "Exists" && !toleration.value.is_empty();
    has_value.then_some("If the operator is Exists, the value should be empty.")
}

/// The first taint of a cluster that is not tolerated.
pub(crate) fn find_untolerated<'m>(
    member: &'m Member<'_>,
    tolerations: &'m [Toleration],
    was_selected: bool,
    clock: TolerationClock,
) -> Option<&'m MemberTaint> {
    untolerated(member, tolerations, was_selected, clock).next()
}

/// The taints of a cluster that are not tolerated.
pub(crate) fn untolerated<'m>(
    member: &'m Member<'_>,
    tolerations: &'m [Toleration],
    was_selected: bool,
    clock: TolerationClock,
) -> impl Iterator<Item = &'m MemberTaint> {
    member.taints.iter().filter(move |taint| {
        work::charge_items(tolerations.len());
        let matters = match taint.effect.as_str() {
            NO_SELECT => true,
            NO_SELECT_IF_NEW => !was_selected,
            _ => false,
        };
        matters && !tolerations.iter().any(|toleration| is_tolerated(taint, toleration, clock))
    })
}

/// Whether all taints of a cluster are tolerated.
pub(super) fn tolerates(
    member: &Member<'_>,
    tolerations: &[Toleration],
    was_selected: bool,
    clock: TolerationClock,
) -> bool {
    find_untolerated(member, tolerations, was_selected, clock).is_none()
}

fn is_tolerated(taint: &MemberTaint, toleration: &Toleration, clock: TolerationClock) -> bool {
    let is_in_time = || match clock {
        TolerationClock::Unknown => true,
        TolerationClock::At(now) => expiry(taint, toleration).is_none_or(|end| now < end),
        TolerationClock::Over => toleration.seconds.is_none(),
    };
    matches(taint, toleration) && is_in_time()
}

/// Whether a toleration is about a taint, whatever the time.
pub(crate) fn matches(taint: &MemberTaint, toleration: &Toleration) -> bool {
    let is_any = |wanted: &str, stated: &str| wanted.is_empty() || wanted == stated;
    is_any(&toleration.effect, &taint.effect)
        && is_any(&toleration.key, &taint.key)
        && match toleration.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => toleration.value == taint.value,
            _ => false,
        }
}

/// When a toleration of a taint runs out.
fn expiry(taint: &MemberTaint, toleration: &Toleration) -> Option<Timestamp> {
    let limit = SignedDuration::from_secs(toleration.seconds?);
    let added = taint.added?;
    let end = added.checked_add(limit);
    Some(end.unwrap_or(if limit.is_negative() { Timestamp::MIN } else { Timestamp::MAX }))
}

/// Whether a selected cluster is tolerated, but not for ever. For each taint, the first toleration that is in force counts.
pub(super) fn expires_later(member: &Member<'_>, tolerations: &[Toleration], clock: TolerationClock) -> bool {
    let mut expires = false;
    for taint in member.taints.iter().filter(|taint| taint.effect == NO_SELECT) {
        work::charge_items(tolerations.len());
        match tolerations.iter().find(|toleration| is_tolerated(taint, toleration, clock)) {
            Some(toleration) => expires |= toleration.seconds.is_some(),
            None => return false,
        }
    }
    expires
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(added: Option<&str>) -> MemberTaint {
        let added = added.map(|time| time.parse().unwrap());
        let (key, value, effect) = ("a".to_owned(), "1".to_owned(), NO_SELECT.to_owned());
        let stated =
            federate_kubernetes::Taint { key: key.clone(), value: value.clone(), effect: effect.clone() };
        MemberTaint { key, value, effect, added, stated }
    }

    fn toleration(operator: &str, value: &str, seconds: Option<i64>) -> Toleration {
        let (operator, value) = (operator.to_owned(), value.to_owned());
        Toleration { key: "a".to_owned(), operator, value, seconds, ..Toleration::default() }
    }

    #[test]
    fn a_toleration_matches_by_its_operator() {
        let matches = |operator, value| matches(&taint(None), &toleration(operator, value, None));
        assert!(matches("Exists", "") && matches("", "1") && matches("Equal", "1"));
        assert!(!matches("", "2") && !matches("In", "1"));
    }

    #[test]
    fn a_toleration_ends_after_its_seconds() {
        let clock = |time: &str| TolerationClock::new(Some(time.parse().unwrap()), false);
        let added = taint(Some("2026-11-26T00:00:00Z"));
        let holds = |seconds, clock| is_tolerated(&added, &toleration("Exists", "", Some(seconds)), clock);
        assert!(holds(60, clock("2026-11-26T00:00:59Z")) && !holds(60, clock("2026-11-26T00:01:00Z")));
        assert!(!holds(-60, clock("2026-11-26T00:00:00Z")) && holds(0, clock("2026-11-25T23:59:59Z")));
        assert!(
            holds(i64::MAX, clock("9000-01-01T00:00:00Z")) && !holds(i64::MIN, clock("0001-01-01T00:00:00Z"))
        );
        assert!(holds(-60, TolerationClock::new(None, false)), "without a clock, none has ended");
        assert!(!holds(60, TolerationClock::new(None, true)) && !holds(60, TolerationClock::Over));
        let endless = toleration("Exists", "", None);
        assert!(is_tolerated(&added, &endless, TolerationClock::Over));
        let unknown = taint(None);
        let limited = toleration("Exists", "", Some(60));
        assert!(
            is_tolerated(&unknown, &limited, clock("2026-11-26T00:00:00Z")),
            "it was added at no known time"
        );
    }
}
