//! The objects of a dialect that its control plane admits: an object with errors is refused.

use std::collections::BTreeSet;

use super::Dialect;
use federate_kubernetes::schema::check_metadata;
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_repo::{ClaimedObject, Repo, Role};

/// The objects of a dialect that are admitted.
pub struct AdmittedObjects<'a> {
    objects: Vec<&'a ClaimedObject>,
    refused: BTreeSet<&'a ObjectRef>,
}

impl<'a> AdmittedObjects<'a> {
    /// Validates everything that the dialect claims, and returns the findings with it. Errors of inventory objects
    /// are not among them: the engine reports those when it reads the inventory.
    pub fn from_repo(repo: &'a Repo, dialect: &dyn Dialect) -> (Self, Vec<Finding>) {
        let mut admitted = Self { objects: Vec::new(), refused: BTreeSet::new() };
        let mut findings = Vec::new();
        for claimed in repo.claimed.iter().filter(|claimed| claimed.dialect == dialect.name()) {
            let found = dialect.validate_object(claimed, &repo.config);
            if found.iter().any(Finding::is_error) {
                admitted.refused.insert(&claimed.object.id);
            } else {
                admitted.objects.push(claimed);
            }
            findings.extend(found.into_iter().filter(|f| claimed.role != Role::Inventory || !f.is_error()));
            findings.extend(check_metadata(&claimed.object));
        }
        (admitted, findings)
    }

    /// The admitted objects of a role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &'a Object> {
        self.objects.iter().filter(move |claimed| claimed.role == role).map(|claimed| &claimed.object)
    }

    /// Whether an object was refused.
    pub fn is_refused(&self, id: &ObjectRef) -> bool {
        self.refused.contains(id)
    }
}
