//! Selectors of objects that `KubeFleet` can keep.
//!
//! Facts: a placement of a namespace selects by kind, and by name or labels, what is in it; a cluster-wide one what has no
//! namespace. An object can be selected by several placements, where in Karmada one policy claims it.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::import::{ImportEdit, apply_edits};
use federate_kubernetes::object::string_map;
use federate_kubernetes::{Labels, ObjectRef, Origin};
use serde_json::json;

use super::MAX_PLACEMENT_ITEMS;
use crate::intent::{KindSelector, RepoIntent, labels_to_json};
use crate::present::PresentState;
use crate::{Reason, UnequalRule};

/// The most comparisons of an object with a selector.
const MAX_COMPARISONS: usize = 1_000_000;

/// Keeps the selectors of policies that select objects of their placement and no others. Of a kind in a namespace, one selector at
/// most is kept, and only if nothing else places objects of it: an object that matches two later would not be placed, or twice.
pub(in super::super) fn keep_selectors(intent: &mut RepoIntent, present: &PresentState<'_>) {
    let mut placed: BTreeMap<Origin, usize> = BTreeMap::new();
    for origin in intent.placements.iter().flat_map(|placement| placement.selectors.keys()) {
        *placed.entry(origin.clone()).or_default() += 1;
    }
    if placed.is_empty() {
        return;
    }
    let mut objects = SelectableObjects::new(intent, present);
    let places = count_places(intent);
    for placement in intent.placements.iter_mut().filter(|placement| !placement.clusters.is_nowhere()) {
        let namespace = placement.objects.first().and_then(|object| object.namespace.clone());
        for (origin, selectors) in &placement.selectors {
            let is_whole = placed.get(origin) == Some(&1)
                && selectors.iter().all(|selector| selector.namespace == namespace);
            let selected = selectors.iter().filter(|_| is_whole).map(|one| objects.find_selected(one));
            let selected = selected.collect::<Option<Vec<_>>>().unwrap_or_default();
            // Of a kind without objects, it is not known whether it belongs in a namespace.
            let selects_all = !selected.is_empty() && selected.iter().all(|one| !one.is_empty());
            let is_clear = selectors.iter().zip(&selected).all(|(selector, selected)| {
                let counted = places.get(&ObjectKey::from_selector(selector));
                counted.is_some_and(|counted| counted.selectors == 1 && counted.objects == selected.len())
            });
            let selected: BTreeSet<ObjectRef> = selected.into_iter().flatten().collect();
            let written = placement.kept.selectors.len() + selectors.len();
            if !selects_all
                || !is_clear
                || !selected.is_subset(&placement.objects)
                || written > MAX_PLACEMENT_ITEMS
            {
                continue;
            }
            for object in &selected {
                let Some(rules) = intent.unequal.get_mut(present.old_name(object)) else { continue };
                let is_of_policy = |rule: &&mut UnequalRule| {
                    rule.reason == Reason::NewObjects && rule.origin.as_ref() == Some(origin)
                };
                for rule in rules.iter_mut().filter(is_of_policy) {
                    SELECTED_LATER.clone_into(&mut rule.detail);
                }
            }
            placement.kept.selectors.extend(selectors.iter().cloned());
            placement.kept.objects.extend(selected);
        }
    }
}

/// What is unequal where a selector is kept.
const SELECTED_LATER: &str = "objects that match later are selected, whichever policy claims them, and those that no longer match are removed";

/// An API version, a kind and a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectKey([String; 3]);

impl ObjectKey {
    fn from_object(id: &ObjectRef) -> Self {
        Self([id.api_version.clone(), id.kind.clone(), id.namespace.clone().unwrap_or_default()])
    }

    fn from_selector(selector: &KindSelector) -> Self {
        let namespace = selector.namespace.clone().unwrap_or_default();
        Self([selector.api_version.clone(), selector.kind.clone(), namespace])
    }
}

/// What places objects of a kind in a namespace.
#[derive(Default)]
struct PlaceCount {
    selectors: usize,
    objects: usize,
}

/// How many selectors of policies, and how many objects of placements, there are for each kind in a namespace.
fn count_places(intent: &RepoIntent) -> BTreeMap<ObjectKey, PlaceCount> {
    let mut places: BTreeMap<ObjectKey, PlaceCount> = BTreeMap::new();
    let policies: BTreeMap<&Origin, _> =
        intent.placements.iter().flat_map(|placement| &placement.selectors).collect();
    for selector in policies.into_values().flat_map(|selectors| selectors.iter()) {
        places.entry(ObjectKey::from_selector(selector)).or_default().selectors += 1;
    }
    for object in intent.placements.iter().flat_map(|placement| &placement.objects) {
        places.entry(ObjectKey::from_object(object)).or_default().objects += 1;
    }
    places
}

/// An object as selectors see it.
struct SelectableObject {
    id: ObjectRef,
    labels: Labels,
}

/// The objects of a repo, by API version, kind and namespace.
struct SelectableObjects {
    by_kind: BTreeMap<ObjectKey, Vec<SelectableObject>>,
    /// How many more objects may be compared with a selector.
    comparisons: usize,
}

impl SelectableObjects {
    /// The objects of the new side.
    fn new(intent: &RepoIntent, present: &PresentState<'_>) -> Self {
        let edits: BTreeMap<&ObjectRef, &[ImportEdit]> =
            intent.templates.iter().map(|template| (&template.old, template.edits.as_slice())).collect();
        let mut by_kind: BTreeMap<ObjectKey, Vec<SelectableObject>> = BTreeMap::new();
        for object in present.objects() {
            let id = object.id.clone();
            let mut labelled = json!({"metadata": {"labels": labels_to_json(&object.labels())}});
            let edits = edits.get(&id).copied().unwrap_or_default().iter();
            let edits: Vec<ImportEdit> =
                edits.filter(|edit| edit.pointer.starts_with("/metadata/labels")).cloned().collect();
            apply_edits(&edits, &mut labelled);
            let labels = string_map(labelled.pointer("/metadata/labels"));
            by_kind.entry(ObjectKey::from_object(&id)).or_default().push(SelectableObject { id, labels });
        }
        Self { by_kind, comparisons: MAX_COMPARISONS }
    }

    /// The objects that a selector selects; `None` if that takes too long to find out.
    fn find_selected(&mut self, selector: &KindSelector) -> Option<Vec<ObjectRef>> {
        let candidates =
            self.by_kind.get(&ObjectKey::from_selector(selector)).map(Vec::as_slice).unwrap_or_default();
        self.comparisons = self.comparisons.checked_sub(candidates.len())?;
        let selected = candidates.iter().filter(|one| selector.labels.matches(&one.labels));
        Some(selected.map(|one| one.id.clone()).collect())
    }
}
