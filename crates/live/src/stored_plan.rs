//! The plan of an apply with `--remember`, as clusters store it.

use federate_kubernetes::hex::to_hex;
use sha2::{Digest, Sha256};

/// A plan that clusters store for the next apply, of which it becomes the previous plan (`federate_dialect::PreviousPlan`) if it is
/// the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPlan {
    /// How often the plan has changed; the highest number is that of the newest plan.
    pub generation: u64,
    /// The plan, as a document.
    pub text: Vec<u8>,
}

impl StoredPlan {
    /// The newest of several plans. Two that were written at the same time have the same generation; the order of their
    /// digests decides between them, so that everyone decides alike.
    pub fn find_newest(plans: impl Iterator<Item = Self>) -> Option<Self> {
        plans.max_by_key(|plan| (plan.generation, compute_digest(&plan.text)))
    }

    /// The plan that takes the place of this one: the same where its text is the same.
    #[must_use]
    pub fn followed_by(newest: Option<&Self>, text: Vec<u8>) -> Self {
        match newest {
            Some(newest) if newest.text == text => newest.clone(),
            newest => Self { generation: newest.map_or(0, |newest| newest.generation) + 1, text },
        }
    }
}

pub(super) fn compute_digest(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}
