//! Further objects of control planes in a snapshot: what they measure, and what describes sets of clusters.
//!
//! What a control plane measures is as current as a status, so that it takes the place of what a repo has. The others are
//! kept in a repo, and a repo that keeps objects of a kind has all of them: then those of the snapshot do not count.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::{Dialects, RecordSource, RecordedKind};
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::{ClaimedObject, Repo, Role};

use super::{RECORDED_FOLDER, without_server_fields, write_yaml};

/// The dialect that records objects of this kind.
fn find_recorded(dialects: Dialects, id: &ObjectRef) -> Option<(&'static str, RecordedKind)> {
    dialects.iter().find_map(|dialect| {
        let kinds = dialect.hub().recorded_kinds().iter();
        let mut known = kinds.filter(|known| known.group == id.group() && known.kind == id.kind);
        Some((dialect.name(), *known.next()?))
    })
}

/// The files with recorded objects, by path.
pub(super) fn recorded_files(dialects: Dialects, objects: &[Object]) -> BTreeMap<String, String> {
    let mut sorted: BTreeMap<&ObjectRef, &Object> = BTreeMap::new();
    for object in objects {
        sorted.entry(&object.id).or_insert(object);
    }
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for object in sorted.into_values() {
        let Some((dialect, known)) = find_recorded(dialects, &object.id) else { continue };
        let file = files.entry(format!("{RECORDED_FOLDER}{dialect}/{}.yaml", known.kind)).or_default();
        if !file.is_empty() {
            file.push_str("---\n");
        }
        file.push_str(&write_yaml(&without_server_fields(object)));
    }
    files
}

/// The recorded ones among objects of a snapshot.
pub(super) fn claim_recorded(
    dialects: Dialects,
    objects: impl Iterator<Item = Object>,
) -> impl Iterator<Item = ClaimedObject> {
    objects.filter_map(move |object| {
        let (dialect, _) = find_recorded(dialects, &object.id)?;
        Some(ClaimedObject { dialect, role: Role::Other, object })
    })
}

/// Adds the recorded objects of a snapshot to a repo, or puts them in the place of those of the repo. Returns whether there are
/// any.
pub(super) fn add_recorded(dialects: Dialects, repo: &mut Repo, recorded: &[ClaimedObject]) -> bool {
    let kind_of = |id: &ObjectRef| (id.group().to_owned(), id.kind.clone());
    let kept: BTreeSet<(String, String)> =
        repo.claimed.iter().map(|claimed| kind_of(&claimed.object.id)).collect();
    let is_measured = |id: &ObjectRef| {
        find_recorded(dialects, id).is_some_and(|(_, known)| known.source == RecordSource::ControlPlane)
    };
    let counts = |claimed: &&ClaimedObject| {
        is_measured(&claimed.object.id) || !kept.contains(&kind_of(&claimed.object.id))
    };
    let added: Vec<ClaimedObject> = recorded.iter().filter(counts).cloned().collect();
    if added.is_empty() {
        return false;
    }
    let replaced: BTreeSet<&ObjectRef> = added.iter().map(|claimed| &claimed.object.id).collect();
    repo.claimed.retain(|claimed| !replaced.contains(&claimed.object.id));
    repo.claimed.extend(added.iter().cloned());
    repo.claimed.sort_by(|a, b| a.object.id.cmp(&b.object.id));
    true
}
