//! The objects of a control plane in a repo: its clusters and its policies.

use std::collections::BTreeMap;

use federate_kubernetes::{Object, ObjectRef};
use federate_repo::Role;
use federate_session::Session;

use crate::Reason;
use crate::intent::{RepoIntent, unequal_rule};

/// Notes that the clusters of a dialect are registered by hand.
pub(super) fn add_joins(session: &Session, dialect: &str, intent: &mut RepoIntent) {
    let claimed = session.repo().claimed.iter().filter(|claimed| claimed.dialect == dialect);
    for cluster in claimed.filter(|claimed| claimed.role == Role::Inventory).map(|claimed| &claimed.object) {
        let detail = format!("cluster {}", cluster.id.name);
        intent.unequal_of_repo.push(unequal_rule(Reason::Join, detail, Some(&cluster.origin), ""));
    }
}

/// The placement policies of a dialect.
pub(super) fn find_policies<'s>(session: &'s Session, dialect: &str) -> BTreeMap<&'s ObjectRef, &'s Object> {
    let claimed = session.repo().claimed.iter();
    let policies = claimed.filter(|claimed| claimed.dialect == dialect && claimed.role == Role::Placement);
    policies.map(|claimed| (&claimed.object.id, &claimed.object)).collect()
}
