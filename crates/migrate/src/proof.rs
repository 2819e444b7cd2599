//! The proof of a migration: what each cluster receives by the old and by the new control plane, object by object.
//!
//! A difference counts as explained only by the object's own unequal rules, and only if such a rule can lead to it. A
//! difference that none of them explains is a fault of the migration.
//!
//! Manifests are compared once per pair of distinct ones, without replicas, which are compared on their own, and without
//! labels and annotations in the domains of control planes, which only these read. Values of Secrets are replaced by
//! keyed digests before they are shown.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::Dialects;
use federate_engine::change::{DigestKey, PathChange};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_session::Session;

mod causes;
mod comparison;
mod content;
mod pairs;
mod proving;

pub(crate) use comparison::compare_objects;
pub(crate) use content::RenderedObject;
pub(crate) use pairs::{ObjectPair, ObjectPairs};
pub use proving::prove_migration;

use crate::{DifferenceKind, Migration, Reason, UnequalRule};

/// The two sides of a proof.
#[derive(Clone, Copy)]
pub struct ProofSides<'s> {
    /// The repo for the old control plane.
    pub old: &'s Session,
    /// The repo for the new one.
    pub new: &'s Session,
    /// What the second was made by.
    pub migration: &'s Migration,
    /// The key of the digests that replace the values of Secrets.
    pub key: &'s DigestKey,
}

/// What is proved about each object.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// The objects, sorted by their old name.
    pub objects: Vec<ObjectProof>,
}

/// What is proved about an object.
#[derive(Clone, Debug)]
pub struct ObjectProof {
    /// The object by the old control plane, or by the new one if only that places it.
    pub object: ObjectRef,
    /// The object by the new control plane, if it has another name there.
    pub renamed: Option<ObjectRef>,
    /// The outcome.
    pub verdict: Verdict,
    /// The rules about it that the new control plane does not have.
    pub rules: Vec<UnequalRule>,
    /// What differs.
    pub differences: Vec<ObjectDifference>,
}

impl ObjectProof {
    /// The reason that counts as why the object differs: the first one of its first difference.
    pub fn decisive_reason(&self) -> Option<Reason> {
        self.differences.first()?.reasons.first().copied()
    }
}

/// The outcome of a comparison. The last of several is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is placed by equal rules.
    Equal,
    /// Every cluster receives the same now, but by another rule.
    EqualNow,
    /// It differs, and a rule without an equal explains it.
    Different,
    /// It differs, and nothing explains it.
    Unexplained,
}

impl Verdict {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::EqualNow => "equal-now",
            Self::Different => "different",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A difference between what clusters receive of an object.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDifference {
    /// What differs.
    pub kind: DifferenceKind,
    /// The clusters, sorted by name.
    #[schemars(with = "Vec<String>")]
    pub clusters: Vec<ClusterName>,
    /// The difference in words.
    pub detail: String,
    /// The fields of the manifest that differ, without replicas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<PathChange>,
    /// What explains it: the reason without which nothing differs, else those that could not be ruled out; empty if nothing does.
    pub reasons: Vec<Reason>,
    /// By how many replicas a cluster differs at most.
    #[serde(skip)]
    pub(crate) largest_shift: u64,
    /// Whether a cluster has the object without replicas on one side.
    #[serde(skip)]
    pub(crate) has_empty_share: bool,
}

/// The state in which sides are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedState {
    /// That in which the migration was written.
    Current,
    /// Another one.
    Changed,
}

impl ObjectDifference {
    /// Adds the reasons among the unequal rules of the object that explain it.
    pub(crate) fn explain(&mut self, rules: &[UnequalRule], state: ComparedState) {
        let reasons: BTreeSet<Reason> = rules.iter().map(|rule| rule.reason).collect();
        self.reasons = reasons.into_iter().filter(|reason| self.is_explained_by(*reason, state)).collect();
    }

    fn is_explained_by(&self, reason: Reason, state: ComparedState) -> bool {
        let applies = match state {
            ComparedState::Current => reason.explains_now(self.kind),
            ComparedState::Changed => reason.explains(self.kind),
        };
        applies && (reason != Reason::Rounding || self.largest_shift <= 1)
    }

    /// Whether the same differs, whatever the reason.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && (&self.clusters, &self.detail, &self.fields) == (&other.clusters, &other.detail, &other.fields)
    }
}

impl Proof {
    /// The worst verdict.
    pub fn worst_verdict(&self) -> Verdict {
        self.objects.iter().map(|object| object.verdict).max().unwrap_or(Verdict::Equal)
    }
}

/// What two sides are compared with.
#[derive(Clone, Copy)]
pub(crate) struct ComparisonRules<'k> {
    pub(crate) dialects: Dialects,
    pub(crate) key: &'k DigestKey,
}

impl<'s> ProofSides<'s> {
    pub(crate) fn rules(&self) -> ComparisonRules<'s> {
        ComparisonRules { dialects: self.old.dialects(), key: self.key }
    }
}
