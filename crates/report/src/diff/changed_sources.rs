//! The sources that differ, each with its edits and the objects that change because of them.

use std::collections::{BTreeMap, BTreeSet};

use super::edits::EditGroups;
use federate_engine::change::{CauseRole, RenderingChanges};
use federate_kubernetes::ObjectRef;

/// Sources that the same files differ for.
pub(super) struct ChangedSource<'d> {
    /// Their folders or packaged charts.
    pub(super) paths: &'d [String],
    /// The numbers of their groups of edits, from 0.
    pub(super) groups: Vec<usize>,
    /// The objects that change because of them, sorted.
    pub(super) objects: Vec<&'d ObjectRef>,
}

/// The sources that differ, those with the most effects first.
pub(super) fn list_sources<'d>(
    changes: &'d RenderingChanges,
    edits: &EditGroups<'d>,
) -> Vec<ChangedSource<'d>> {
    let mut objects: BTreeMap<&[String], BTreeSet<&ObjectRef>> = BTreeMap::new();
    let moved = changes.placements.iter().map(|change| (&change.object, &change.caused_by));
    let changed = changes.objects.iter().map(|change| (&change.object, &change.caused_by));
    for (object, caused_by) in moved.chain(changed) {
        for cause in caused_by.iter().filter_map(|at| changes.causes.get(*at)) {
            if cause.role == CauseRole::Source {
                objects.entry(&cause.sources).or_default().insert(object);
            }
        }
    }
    let mut sources: Vec<ChangedSource<'_>> = Vec::new();
    let mut known: BTreeMap<&[String], usize> = BTreeMap::new();
    for (at, group) in edits.groups.iter().enumerate() {
        let Some(cause) = group.first_cause().filter(|cause| cause.role == CauseRole::Source) else {
            continue;
        };
        let paths = cause.sources.as_slice();
        let next = sources.len();
        if let Some(source) = sources.get_mut(*known.entry(paths).or_insert(next)) {
            source.groups.push(at);
        } else {
            let objects = objects.remove(paths).unwrap_or_default().into_iter().collect();
            sources.push(ChangedSource { paths, groups: vec![at], objects });
        }
    }
    sources
}
