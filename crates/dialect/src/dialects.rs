//! The set of dialects of a run, and the kinds and domains that they know together.

use federate_kubernetes::Object;
use federate_kubernetes::kinds::{self, Scope};
use federate_repo::{Claims, DeclaredKind, ImpliedScope, Role};

use crate::{Dialect, cluster_profiles};

/// The dialects of a run. Where several have a row for one object, the rows are in this order.
#[derive(Clone, Copy, Default)]
pub struct Dialects(&'static [&'static dyn Dialect]);

impl Dialects {
    /// Returns a set of dialects in this order. Their names must differ.
    pub const fn new(dialects: &'static [&'static dyn Dialect]) -> Self {
        Self(dialects)
    }

    /// Returns all dialects.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn Dialect> {
        self.0.iter().copied()
    }

    /// Returns the dialect of that name.
    pub fn get(self, name: &str) -> Option<&'static dyn Dialect> {
        self.iter().find(|dialect| dialect.name() == name)
    }

    /// Where objects of a control plane's own kind live.
    pub fn find_scope(self, group: &str, kind: &str) -> Option<Scope> {
        if cluster_profiles::is_cluster_profile(group, kind) {
            return Some(Scope::Namespaced);
        }
        self.iter().find_map(|dialect| dialect.kinds().scope_of_kind(group, kind))
    }

    /// Whether Kubernetes or a dialect has a kind of that name, in any API group.
    pub fn is_known(self, kind: &str) -> bool {
        kinds::is_known(kind)
            || kind == cluster_profiles::KIND
            || self
                .iter()
                .flat_map(|dialect| dialect.kinds().own_kinds())
                .any(|group| group.find_scope(kind).is_some())
    }

    /// Whether `domain` (an API group, or the part of a label or annotation key before `/`) belongs to a
    /// control plane, or to federate itself.
    pub fn is_own_domain(self, domain: &str) -> bool {
        self.is_of_control_plane(domain) || is_within(domain, "federate.dev")
    }

    /// Whether `domain` belongs to a control plane.
    pub fn is_of_control_plane(self, domain: &str) -> bool {
        self.iter().flat_map(|dialect| dialect.kinds().own_domains()).any(|own| is_within(domain, own))
    }

    /// The effects of taints on clusters, each once.
    pub fn taint_effects(self) -> Vec<&'static str> {
        let mut effects = Vec::new();
        for effect in self.iter().flat_map(|dialect| dialect.outages().taint_effects()) {
            if !effects.contains(effect) {
                effects.push(*effect);
            }
        }
        effects
    }

    /// Their names.
    pub fn names(self) -> Vec<&'static str> {
        self.iter().map(Dialect::name).collect()
    }
}

/// Whether a domain is `own` or below it.
fn is_within(domain: &str, own: &str) -> bool {
    domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl std::fmt::Debug for Dialects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Claims for Dialects {
    fn role_of_kind(&self, api_version: &str, kind: &str) -> Option<(&'static str, Role)> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if cluster_profiles::is_cluster_profile(group, kind) {
            return Some((cluster_profiles::NAME, Role::Inventory));
        }
        self.iter().find_map(|d| Some((d.name(), d.role_of_kind(api_version, kind)?)))
    }

    fn scope_of_kind(&self, group: &str, kind: &str) -> Option<Scope> {
        Self::find_scope(*self, group, kind)
    }

    fn control_plane(&self, group: &str) -> Option<&'static str> {
        let mut dialects = self.iter();
        dialects.find(|d| d.kinds().own_kinds().iter().any(|known| known.group == group)).map(Dialect::name)
    }

    fn implied_scopes(&self, object: &Object) -> Vec<ImpliedScope> {
        self.iter().flat_map(|dialect| dialect.kinds().implied_scopes(object)).collect()
    }

    fn owns_domain(&self, domain: &str) -> bool {
        Self::is_own_domain(*self, domain)
    }

    fn declared_kind(&self, object: &Object) -> Option<(&'static str, DeclaredKind)> {
        self.iter().find_map(|d| Some((d.name(), d.kinds().declared_kind(object)?)))
    }
}
