//! Reads policies of control planes as intents.

use std::collections::BTreeSet;

use federate_session::Session;

use crate::error::UnknownDirection;
use crate::intent::RepoIntent;
use crate::{Mode, Target};

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

/// Reads the policies of a repo.
pub(crate) fn read_intent(
    session: &Session,
    sources: &BTreeSet<&'static str>,
    target: Target,
) -> Result<RepoIntent, UnknownDirection> {
    if !sources.iter().all(|source| IDIOMATIC.contains(&(*source, target))) {
        return Err(unknown_direction(sources, target, Mode::Idiomatic));
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

/// Whether what is placed now can be written for a control plane.
pub(crate) fn can_freeze(sources: &BTreeSet<&'static str>, target: Target) -> bool {
    target == Target::Karmada || sources.iter().all(|source| IDIOMATIC.contains(&(*source, target)))
}

/// The error about a direction for which there is no migration.
pub(crate) fn unknown_direction(
    sources: &BTreeSet<&'static str>,
    target: Target,
    mode: Mode,
) -> UnknownDirection {
    let known = IDIOMATIC.iter().map(|(from, to)| format!("{from} → {}", to.name()));
    let known = known.chain(["any → plain".to_owned()]).collect();
    UnknownDirection {
        from: sources.iter().copied().collect::<Vec<_>>().join(" and "),
        to: target.name(),
        mode: mode.name(),
        known,
        freezes: mode == Mode::Idiomatic && target == Target::Karmada,
    }
}
