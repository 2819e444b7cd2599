//! What the old control plane has placed, by object.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{HUB, Placement};
use federate_kubernetes::{ClusterName, ObjectRef};
use federate_session::Session;

/// The clusters of an object, over all rows of a plan about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlacedObject<'s> {
    /// The rows.
    pub rows: Vec<&'s Placement>,
    /// The member clusters.
    pub clusters: BTreeSet<ClusterName>,
    /// Those to which nothing new is sent.
    pub unsent: BTreeSet<ClusterName>,
}

impl PlacedObject<'_> {
    /// Whether a rule that needs no policy places it.
    pub(crate) fn is_implicit(&self) -> bool {
        self.rows.iter().all(|row| row.implicit && row.policy.is_none())
    }
}

/// The objects that these dialects place or refuse, without objects of their own.
pub(crate) fn find_placed<'s>(
    session: &'s Session,
    sources: &BTreeSet<&'static str>,
) -> BTreeMap<&'s ObjectRef, PlacedObject<'s>> {
    let mut placed: BTreeMap<&ObjectRef, PlacedObject<'_>> = BTreeMap::new();
    for row in &session.render().plan.placements {
        let is_own = session.dialects().is_of_control_plane(row.object.group());
        let is_on_hub = row.clusters.contains_cluster(HUB);
        if !sources.contains(row.dialect.as_str()) || is_own || is_on_hub {
            continue;
        }
        let object = placed.entry(&row.object).or_default();
        object.clusters.extend(row.clusters.iter().map(|placed| placed.name.clone()));
        object.unsent.extend(row.suspended.iter().cloned());
        object.rows.push(row);
    }
    for held in &session.render().not_sent {
        let Some(object) = placed.get_mut(&held.object) else { continue };
        match held.status {
            "ClusterNotReady" => {}
            // An override deletes it there.
            "Deleted" => object.clusters.retain(|name| !held.clusters.contains(name)),
            _ => object.unsent.extend(held.clusters.iter().cloned()),
        }
    }
    placed
}
