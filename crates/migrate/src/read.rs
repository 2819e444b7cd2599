//! Reads policies of control planes as intents.

use std::collections::BTreeSet;

use federate_session::Session;

use crate::Target;
use crate::error::UnknownDirection;
use crate::intent::RepoIntent;

mod claimed;
mod karmada;
mod kubeadmiral;
pub(crate) mod kubefed;
mod kubefleet;
mod overriders;

/// The directions in which rules are written as rules.
const IDIOMATIC: [(&str, Target); 5] = [
    ("kubefed", Target::Karmada),
    ("kubeadmiral", Target::Karmada),
    ("kubefleet", Target::Karmada),
    ("karmada", Target::KubeFleet),
    ("karmada", Target::KubeAdmiral),
];

/// Whether the rules of these control planes are written as rules of another one.
pub(crate) fn has_rules(sources: &BTreeSet<&'static str>, target: Target) -> bool {
    target == Target::Plain || sources.iter().all(|source| IDIOMATIC.contains(&(*source, target)))
}

/// Reads the policies of a repo.
pub(crate) fn read_intent(
    session: &Session,
    sources: &BTreeSet<&'static str>,
    target: Target,
) -> Result<RepoIntent, UnknownDirection> {
    if !has_rules(sources, target) {
        return Err(unknown_direction(sources, target));
    }
    let mut intent = RepoIntent::default();
    if sources.contains("kubefed") {
        kubefed::read_intent(session, &mut intent);
    }
    if sources.contains("karmada") {
        karmada::read_intent(session, &mut intent);
    }
    if sources.contains("kubefleet") {
        kubefleet::read_intent(session, &mut intent);
    }
    if sources.contains("kubeadmiral") {
        kubeadmiral::read_intent(session, &mut intent);
    }
    Ok(intent)
}

/// The error about a direction for which there is no migration.
fn unknown_direction(sources: &BTreeSet<&'static str>, target: Target) -> UnknownDirection {
    let known = IDIOMATIC.iter().map(|(from, to)| format!("{from} → {}", to.name()));
    let known = known.chain(["any → plain".to_owned()]).collect();
    UnknownDirection {
        from: sources.iter().copied().collect::<Vec<_>>().join(" and "),
        to: target.name(),
        known,
    }
}
