//! Taints and tolerations.
//!
//! Facts: a taint `PreferNoSelect` never matters, and `NoSelectIfNew` does not matter where the cluster was selected
//! before. A toleration with seconds counts until that time after the taint was added, whatever its effect; one that has
//! run out is passed over. Without a clock, none has run out.

use jiff::{SignedDuration, Timestamp};

use federate_kubernetes::work;

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
    tolerations: &[Toleration],
    was_selected: bool,
    now: Option<Timestamp>,
) -> Option<&'m MemberTaint> {
    member.taints.iter().find(|taint| {
        work::charge_items(tolerations.len());
        let matters = match taint.effect.as_str() {
            NO_SELECT => true,
            NO_SELECT_IF_NEW => !was_selected,
            _ => false,
        };
        matters && !tolerations.iter().any(|toleration| is_tolerated(taint, toleration, now))
    })
}

/// Whether all taints of a cluster are tolerated.
pub(super) fn tolerates(
    member: &Member<'_>,
    tolerations: &[Toleration],
    was_selected: bool,
    now: Option<Timestamp>,
) -> bool {
    find_untolerated(member, tolerations, was_selected, now).is_none()
}

fn is_tolerated(taint: &MemberTaint, toleration: &Toleration, now: Option<Timestamp>) -> bool {
    let is_in_time = |now: Timestamp| expiry(taint, toleration).is_none_or(|end| now < end);
    matches(taint, toleration) && now.is_none_or(is_in_time)
}

/// Whether a toleration is about a taint, whatever the time.
fn matches(taint: &MemberTaint, toleration: &Toleration) -> bool {
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
pub(super) fn expires_later(member: &Member<'_>, tolerations: &[Toleration], now: Option<Timestamp>) -> bool {
    let mut expires = false;
    for taint in member.taints.iter().filter(|taint| taint.effect == NO_SELECT) {
        work::charge_items(tolerations.len());
        match tolerations.iter().find(|toleration| is_tolerated(taint, toleration, now)) {
            Some(toleration) => expires |= toleration.seconds.is_some(),
            None => return false,
        }
    }
    expires
}
