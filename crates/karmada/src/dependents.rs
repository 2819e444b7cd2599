//! `propagateDeps`: what a placed object refers to goes to the clusters it is on.
//!
//! Facts: only references that exist in the referrer's namespace count; an object needed by several
//! goes to the union of their clusters, after those its own policy chose; no replicas are decided. Where
//! a `*.j2` template refers to other objects for other clusters, each goes where it is referred to.

use std::collections::{BTreeMap, BTreeSet};

use super::dependencies::{self, Dependency, Target};
use super::{Karmadas, NAME};
use federate_dialect::{Decided, Placed, Placement};
use federate_kubernetes::{ClusterName, Object, ObjectRef};

/// What an object receives from its referrers.
#[derive(Default)]
struct Needed {
    by: BTreeSet<ObjectRef>,
    on: BTreeSet<ClusterName>,
}

/// Joins all decisions and adds the dependencies.
pub(super) fn complete(plane: &Karmadas<'_>, decided: Vec<Decided>) -> Decided {
    let mut all = Decided::default();
    for one in decided {
        all.placements.extend(one.placements);
        all.findings.extend(one.findings);
    }
    let mut needed = needed(plane, &all.placements);
    for placement in &mut all.placements {
        if let Some(needed) = needed.remove(&placement.object) {
            join(placement, needed);
        }
    }
    for (object, needed) in needed {
        let mut placement = Placement::new(NAME, object, None);
        join(&mut placement, needed);
        all.placements.push(placement);
    }
    all
}

fn needed(plane: &Karmadas<'_>, placements: &[Placement]) -> BTreeMap<ObjectRef, Needed> {
    let mut needed: BTreeMap<ObjectRef, Needed> = BTreeMap::new();
    for placement in placements.iter().filter(|p| !p.clusters.is_empty()) {
        if !plane.policy(placement).is_some_and(|p| p.spec.propagate_deps) {
            continue;
        }
        let Some(referrer) = plane.template(&placement.object) else { continue };
        for (body, clusters) in referrer.bodies(placement.clusters.iter().map(|p| &p.name)) {
            for dependency in dependencies::dependencies(body) {
                for object in existing(plane, &dependency) {
                    let entry = needed.entry(object.id.clone()).or_default();
                    entry.by.insert(placement.object.clone());
                    entry.on.extend(clusters.iter().copied().cloned());
                }
            }
        }
    }
    needed
}

/// The templates that a reference means.
fn existing<'p>(plane: &'p Karmadas<'_>, dependency: &Dependency) -> Vec<&'p Object> {
    let id = |name: &str| ObjectRef {
        api_version: dependency.api_version.to_string(),
        kind: dependency.kind.to_string(),
        namespace: dependency.namespace.clone(),
        name: name.to_owned(),
    };
    match &dependency.target {
        Target::Name(name) => plane.template(&id(name)).map(|t| &t.object).into_iter().collect(),
        Target::Labels(selector) => {
            let kind = id("");
            let from = plane.templates.partition_point(|t| t.object.id < kind);
            plane.templates[from..]
                .iter()
                .map(|t| &t.object)
                .take_while(|o| {
                    let same = |a: &ObjectRef, b: &ObjectRef| {
                        (&a.api_version, &a.kind, &a.namespace) == (&b.api_version, &b.kind, &b.namespace)
                    };
                    same(&o.id, &kind)
                })
                .filter(|o| selector.matches(&o.labels()))
                .collect()
        }
    }
}

fn join(placement: &mut Placement, needed: Needed) {
    let own = placement.clusters.clone();
    let added = needed.on.into_iter().filter(|name| !own.has(name));
    placement.clusters.extend(added.map(|name| Placed { name, replicas: None }));
    placement.required_by = needed.by.into_iter().collect();
}
