//! What is a control plane's own in a repo: its kinds, their scopes, its domains and keys.

use federate_kubernetes::kinds::{GroupKinds, Scope};
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::{DeclaredKind, ImpliedScope};

use crate::release::ReleaseCatalog;

/// An API group that a control plane no longer serves.
#[derive(Clone, Copy, Debug)]
pub struct RenamedGroup {
    /// Its name.
    pub group: &'static str,
    /// The group that took its place.
    pub now: &'static str,
}

/// Where one of a control plane's own objects holds the replicas of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedReplicas {
    /// The workload.
    pub workload: ObjectRef,
    /// The JSON pointer to the replicas in the object.
    pub pointer: &'static str,
}

/// What is a control plane's own in a repo: kinds besides those that [`Dialect::role_of_kind`](crate::Dialect::role_of_kind)
/// knows, domains and keys. By default, nothing is.
pub trait KindCatalog {
    /// The kind that an object declares: some control planes claim kinds by configuration.
    /// [`role_of_kind`](crate::Dialect::role_of_kind) need not know such a kind.
    fn declared_kind(&self, object: &Object) -> Option<DeclaredKind> {
        let _ = object;
        None
    }

    /// The scopes of kinds that one of its own objects takes for granted.
    fn implied_scopes(&self, object: &Object) -> Vec<ImpliedScope> {
        let _ = object;
        Vec::new()
    }

    /// Its own kinds, by API group. Those without a role stay on the control plane.
    fn own_kinds(&self) -> &'static [GroupKinds] {
        &[]
    }

    /// The scope of one of its own kinds; `None` for other kinds.
    fn scope_of_kind(&self, group: &str, kind: &str) -> Option<Scope> {
        self.own_kinds().iter().find(|known| known.group == group)?.find_scope(kind)
    }

    /// The domains, subdomains included, of its API groups, labels and annotations.
    fn own_domains(&self) -> &'static [&'static str] {
        &[]
    }

    /// Where one of its own objects holds the replicas of a workload, if it does.
    fn find_carried_replicas(&self, object: &Object) -> Option<CarriedReplicas> {
        let _ = object;
        None
    }

    /// The keys that it understands below `dialects.<name>` in `federate.yaml`.
    fn setting_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// The keys of labels and annotations of templates that it reads, if it can list them.
    fn metadata_keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// The API groups of earlier releases, each with the group that took its place.
    fn renamed_groups(&self) -> &'static [RenamedGroup] {
        &[]
    }

    /// Its releases, where their rules differ.
    fn releases(&self) -> Option<&'static ReleaseCatalog> {
        None
    }
}
