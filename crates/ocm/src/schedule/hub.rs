//! What a hub knows when it schedules.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::add_on_scores::AddOnScores;
use crate::fleet::Fleet;
use crate::sets::ClusterSets;

/// The clusters, sets, bindings and scores of a hub.
#[derive(Debug)]
pub(crate) struct Hub<'a> {
    pub fleet: Fleet<'a>,
    pub sets: ClusterSets<'a>,
    /// The sets that are bound, by namespace.
    pub bindings: BTreeMap<&'a str, BTreeSet<&'a str>>,
    pub scores: AddOnScores<'a>,
    pub now: Option<Timestamp>,
}
