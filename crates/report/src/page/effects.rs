//! What follows from each edit: the objects that it affects, by what happens to them, the worst first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::document::{PageDocument, PageObject, PagePlaced};
use super::frame::{escape_html, format_object_link};
use crate::diff::VerdictFlag;
use crate::diff::edits::EditGroups;
use crate::table::format_count;
use federate_engine::change::ObjectChangeKind;

/// How many objects are named for each thing that happens to them.
const MAX_NAMED: usize = 3;

/// How many clusters are named where one object gains or loses replicas.
const MAX_SHIFTS: usize = 4;

/// What happens to an object, and whether it goes on in another cluster.
type ObjectEffect = (VerdictFlag, bool);

/// What follows from the edits of one group.
#[derive(Default)]
pub(super) struct EditEffects<'p, 'a> {
    objects: BTreeMap<ObjectEffect, Vec<&'p PageObject<'a>>>,
}

impl<'p, 'a> EditEffects<'p, 'a> {
    /// Collects what follows from each group of edits, in the order of the groups.
    pub(super) fn collect(document: &'p PageDocument<'a>, edits: &EditGroups<'_>) -> Vec<Self> {
        let mut effects: Vec<Self> = edits.groups.iter().map(|_| Self::default()).collect();
        for object in &document.objects {
            let mut flags: BTreeMap<usize, BTreeSet<VerdictFlag>> = BTreeMap::new();
            for (flag, causes) in list_causes(document, object) {
                for group in causes.iter().filter_map(|at| edits.find_group(*at)) {
                    flags.entry(group).or_default().insert(flag);
                }
            }
            let goes_on = object.after.is_some_and(|at| !list_clusters(document, Some(at)).is_empty());
            for (group, flags) in flags {
                let Some(effects) = effects.get_mut(group) else { continue };
                for flag in flags.iter().copied().filter(|flag| !is_implied(*flag, &flags)) {
                    effects.objects.entry((flag, goes_on)).or_default().push(object);
                }
            }
        }
        effects
    }

    /// The order in which a reader wants to see the edits: the worst first, then what affects most objects.
    pub(super) fn compute_rank(&self) -> impl Ord + use<> {
        let number: usize = self.objects.values().map(Vec::len).sum();
        let worst = self.objects.keys().next().copied();
        (worst.is_none(), worst, std::cmp::Reverse(number))
    }

    /// The objects that are shown here with what must be decided about them.
    pub(super) fn unplaced_objects(&self) -> impl Iterator<Item = &'p PageObject<'a>> {
        let flagged = self.objects.iter().filter(|((flag, _), _)| *flag <= VerdictFlag::DoesNotFit);
        flagged.flat_map(|(_, objects)| objects.iter().copied())
    }

    /// Writes one line per thing that happens. `reason` says why an object has no place, as HTML.
    pub(super) fn write_lines(
        &self,
        out: &mut String,
        document: &PageDocument<'_>,
        reason: impl Fn(&PageObject<'_>) -> String,
    ) {
        for ((flag, goes_on), objects) in &self.objects {
            let terms = flag.terms();
            let (name, sign) = (terms.name, terms.sign);
            let words = if objects.len() == 1 { terms.words[0] } else { terms.words[1] };
            let _ = write!(out, "<p><span class=\"tag {name}\">{sign} {words}</span> ");
            let links: Vec<String> =
                objects.iter().take(MAX_NAMED).map(|object| format_object_link(object.object)).collect();
            out.push_str(&links.join(", "));
            if objects.len() > MAX_NAMED {
                let more = format_count(objects.len() - MAX_NAMED, "more object");
                let _ = write!(
                    out,
                    " and <button type=\"button\" class=\"link\" data-flags=\"{name}\">{more}</button>"
                );
            }
            if *flag == VerdictFlag::Deleted {
                out.push_str(if *goes_on { ", goes on in other clusters" } else { ", for good" });
            }
            if *flag <= VerdictFlag::DoesNotFit {
                let mut reasons = objects.iter().map(|object| reason(object));
                let first = reasons.next().unwrap_or_default();
                if reasons.all(|other| other == first) {
                    out.push_str(&first);
                }
            } else if let ([object], true) = (objects.as_slice(), *flag != VerdictFlag::Deleted) {
                out.push_str(&format_shifts(document, object));
            }
            out.push_str("</p>\n");
        }
    }
}

/// What happens to an object, with the edits that cause it, by their numbers.
fn list_causes<'p>(
    document: &'p PageDocument<'_>,
    object: &'p PageObject<'_>,
) -> Vec<(VerdictFlag, &'p [usize])> {
    let of_manifests = |flag| {
        object.changes.iter().filter_map(|at| document.changes.get(*at)).filter(move |change| match flag {
            VerdictFlag::Deleted => change.kind == ObjectChangeKind::Removed,
            VerdictFlag::Restarts => change.restarts_pods,
            _ => change.kind != ObjectChangeKind::Removed,
        })
    };
    let mut causes = Vec::new();
    for flag in object.flags.iter().copied() {
        match flag {
            VerdictFlag::Deleted | VerdictFlag::Restarts | VerdictFlag::Fields => {
                causes.extend(of_manifests(flag).map(|change| (flag, change.caused_by.as_slice())));
            }
            _ if object.caused_by.is_empty() => {
                let all = object.changes.iter().filter_map(|at| document.changes.get(*at));
                causes.extend(all.map(|change| (flag, change.caused_by.as_slice())));
            }
            _ => causes.push((flag, object.caused_by.as_slice())),
        }
    }
    causes
}

/// Whether something happens to an object only because of what is worse.
fn is_implied(flag: VerdictFlag, flags: &BTreeSet<VerdictFlag>) -> bool {
    match flag {
        VerdictFlag::Deleted => {
            let causes = [VerdictFlag::RunsNowhere, VerdictFlag::LosesPolicy, VerdictFlag::Moves];
            causes.iter().any(|cause| flags.contains(cause))
        }
        VerdictFlag::Fields => flags.len() > 1,
        _ => false,
    }
}

fn list_clusters<'p>(document: &'p PageDocument<'_>, list: Option<usize>) -> &'p [PagePlaced] {
    list.and_then(|at| document.cluster_lists.get(at)).map_or(&[], Vec::as_slice)
}

/// `: eu-1 10 → 17, eu-2 8 → 0`: where an object gains and loses replicas; empty if it does not.
fn format_shifts(document: &PageDocument<'_>, object: &PageObject<'_>) -> String {
    let mut shifts: BTreeMap<usize, [i64; 2]> = BTreeMap::new();
    for (side, list) in [object.before, object.after].into_iter().enumerate() {
        for PagePlaced(cluster, replicas) in list_clusters(document, list) {
            shifts.entry(*cluster).or_default()[side] = replicas.unwrap_or(0);
        }
    }
    let mut shifts = shifts.into_iter().filter(|(_, [from, to])| from != to);
    let shown: Vec<String> = shifts
        .by_ref()
        .take(MAX_SHIFTS)
        .filter_map(|(cluster, [from, to])| {
            let name = escape_html(&document.clusters.get(cluster)?.row.name);
            Some(format!("{name} {from} → {to}"))
        })
        .collect();
    match (shown.is_empty(), shifts.count()) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", shown.join(", ")),
        (false, more) => format!(": {} and {}", shown.join(", "), format_count(more, "more cluster")),
    }
}
