//! Applications, and objects of Flux with `kubeConfig`, that appear, go, or are applied to other clusters.

use std::collections::BTreeMap;

use crate::table::format_count;
use federate_engine::change::{DestinationChange, ObjectChangeKind, RenderingChanges};
use federate_kubernetes::{ClusterName, ObjectRef};

/// Changes of one kind of objects that one `ApplicationSet` generates, or of one object.
pub(super) struct ChangedDestinations<'d> {
    pub(super) kind: ObjectChangeKind,
    /// The changes, sorted by object.
    pub(super) changes: Vec<&'d DestinationChange>,
}

/// The changes of destinations, those of one set and kind together.
pub(super) fn group_destinations(changes: &RenderingChanges) -> Vec<ChangedDestinations<'_>> {
    let mut places: BTreeMap<(&ObjectRef, ObjectChangeKind), usize> = BTreeMap::new();
    let mut groups: Vec<ChangedDestinations<'_>> = Vec::new();
    for change in &changes.destinations {
        let by = change.generated_by.as_ref().unwrap_or(&change.object);
        let at = *places.entry((by, change.kind)).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.changes.push(change),
            None => groups.push(ChangedDestinations { kind: change.kind, changes: vec![change] }),
        }
    }
    groups
}

impl ChangedDestinations<'_> {
    /// The objects with their clusters, in one line: `most` of several. `write` writes a name, `names` those of clusters.
    pub(super) fn describe(
        &self,
        most: usize,
        write: impl Fn(&str) -> String,
        names: impl Fn(&[&ClusterName]) -> String,
    ) -> String {
        let Some(first) = self.changes.first() else { return String::new() };
        let set = first.generated_by.as_ref().map(|set| write(&set.to_string()));
        if let [change] = self.changes.as_slice() {
            let by = set.map(|set| format!(" ({set})")).unwrap_or_default();
            let (name, clusters) = (write(&change.object.to_string()), describe_clusters(change, names));
            return format!("{name}{clusters}{by}");
        }
        let lines: Vec<String> = self
            .changes
            .iter()
            .map(|change| format!("{}{}", write(&change.object.name), describe_clusters(change, &names)))
            .collect();
        // One name is as short as the number that would stand for it.
        let shown = if lines.len() <= most.saturating_add(1) { lines.len() } else { most };
        let more = lines.len() - shown;
        let more = if more > 0 { format!(" … (+{more})") } else { String::new() };
        let shown = lines.get(..shown).unwrap_or_default().join(", ");
        let number = format_count(lines.len(), "Application");
        format!("{number} of {}: {shown}{more}", set.unwrap_or_default())
    }
}

/// The clusters of an object, as the end of a phrase about it; empty if they are not known.
fn describe_clusters(change: &DestinationChange, names: impl Fn(&[&ClusterName]) -> String) -> String {
    let write = |clusters: &[ClusterName]| match clusters {
        [] if change.object.kind == "Application" => "the cluster in which Argo CD runs".to_owned(),
        [] => "the cluster in which Flux runs".to_owned(),
        clusters => names(&clusters.iter().collect::<Vec<_>>()),
    };
    match change.kind {
        ObjectChangeKind::Added => format!(" to {}", write(&change.to)),
        ObjectChangeKind::Removed => format!(" from {}", write(&change.from)),
        ObjectChangeKind::Changed => format!(": {} → {}", write(&change.from), write(&change.to)),
    }
}

/// How many Applications, and objects of Flux, appear, go, and are applied to other clusters; `None` if there are none.
pub(super) fn count_destinations(changes: &RenderingChanges) -> Option<String> {
    let is_application = |change: &DestinationChange| change.object.kind == "Application";
    let are_applications = changes.destinations.iter().all(is_application);
    let noun = if are_applications { "Application" } else { "Flux or Argo CD object" };
    let mut parts: Vec<String> = Vec::new();
    for (kind, verbs) in [
        (ObjectChangeKind::Added, ["appears", "appear"]),
        (ObjectChangeKind::Removed, ["goes", "go"]),
        (ObjectChangeKind::Changed, ["changes its destination", "change their destination"]),
    ] {
        let number = changes.destinations.iter().filter(|change| change.kind == kind).count();
        let verb = if number == 1 { verbs[0] } else { verbs[1] };
        match number {
            0 => {}
            number if parts.is_empty() => parts.push(format!("{} {verb}", format_count(number, noun))),
            number => parts.push(format!("{number} {verb}")),
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
