//! Sets of clusters, and their bindings to namespaces.
//!
//! Facts: the sets `default` and `global` always exist, and the hub rolls their selectors back unless an annotation says
//! otherwise. A binding binds the set of its own name. The type `LabelSelector` without a selector selects nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::Object;

use crate::api::ClusterSetSpec;
use crate::cluster::DEFAULT_SET;
use crate::fleet::{Fleet, Member};
use crate::selector::CompiledSelector;

/// The set of all clusters.
pub(crate) const GLOBAL_SET: &str = "global";

/// The annotation without whose value `false` the hub rolls the selectors of its own sets back.
const AUTO_UPDATE: &str = "cluster.open-cluster-management.io/autoupdate";

/// How the members of a set are found.
#[derive(Debug)]
enum Membership {
    /// By the label that names the set.
    Label,
    /// By a selector; without one there are none. `Err` has the mistake of the selector.
    Selector(Result<Option<CompiledSelector>, String>),
}

/// The sets of a hub, by name.
#[derive(Debug)]
pub(crate) struct ClusterSets<'a> {
    sets: BTreeMap<&'a str, (Option<&'a Object>, Membership)>,
}

impl<'a> ClusterSets<'a> {
    /// Reads the sets among objects, and adds those that the hub creates.
    pub(crate) fn read(objects: impl Iterator<Item = &'a Object>) -> Self {
        let mut sets = BTreeMap::new();
        for object in objects {
            sets.insert(object.id.name.as_str(), (Some(object), read_membership(object)));
        }
        let everything = Membership::Selector(Ok(Some(CompiledSelector::default())));
        for (name, membership) in [(DEFAULT_SET, Membership::Label), (GLOBAL_SET, everything)] {
            let set = sets.entry(name).or_insert((None, Membership::Label));
            let is_own = set.0.is_some_and(|object| object.annotation(AUTO_UPDATE) == Some("false"));
            if !is_own {
                set.1 = membership;
            }
        }
        Self { sets }
    }

    /// The names of all sets.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.sets.keys().copied()
    }

    /// Whether there is a set of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.sets.contains_key(name)
    }

    /// Whether a cluster is in a set. `Err` has the mistake of its selector.
    pub(crate) fn has_member(&self, name: &str, member: &Member<'_>) -> Result<bool, &str> {
        match self.sets.get(name) {
            None => Ok(false),
            Some((_, Membership::Label)) => Ok(member.set() == name),
            Some((_, Membership::Selector(Ok(selector)))) => {
                Ok(selector.as_ref().is_some_and(|selector| selector.matches(&member.labels)))
            }
            Some((_, Membership::Selector(Err(mistake)))) => Err(mistake),
        }
    }

    /// The mistake in the selector of a set.
    pub(crate) fn mistake(&self, name: &str) -> Option<&str> {
        match self.sets.get(name) {
            Some((_, Membership::Selector(Err(mistake)))) => Some(mistake),
            _ => None,
        }
    }

    /// The names of the members of a set, those that are being deleted included.
    pub(crate) fn members<'f>(&self, name: &str, fleet: &'f Fleet<'_>) -> Result<Vec<&'f str>, &str> {
        let mut members = Vec::new();
        for member in &fleet.members {
            if self.has_member(name, member)? {
                members.push(&*member.cluster.name);
            }
        }
        Ok(members)
    }
}

fn read_membership(object: &Object) -> Membership {
    let spec = object.value_at(&["spec"]).unwrap_or(&Value::Null);
    let spec = Option::<ClusterSetSpec>::deserialize(spec).ok().flatten().unwrap_or_default();
    match spec.selector.kind.as_str() {
        "LabelSelector" => {
            let selector = spec.selector.labels.as_ref().map(CompiledSelector::compile);
            Membership::Selector(selector.transpose())
        }
        _ => Membership::Label,
    }
}

/// The names of bound sets by namespace. Bindings of sets that do not exist are among them.
pub(crate) fn read_bindings<'a>(
    objects: impl Iterator<Item = &'a Object>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut bindings: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for object in objects {
        let namespace = object.id.namespace.as_deref().unwrap_or_default();
        bindings.entry(namespace).or_default().insert(object.id.name.as_str());
    }
    bindings
}
