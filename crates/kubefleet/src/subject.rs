//! A placement with what it selects, which one decision is about.
//!
//! Facts: if anything is wrong with the policy, the selection or an envelope, nothing new is sent, and what was sent
//! before stays.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use super::api::PlacementPolicy;
use super::failure::SchedulingError;
use super::manifest::{self, EnvelopeFailure, PlacementManifests, SentObject, SentObjects};
use super::overrides::work::{WorkInputs, WorkSources};
use super::selection::{self, FailedSelector, HubIndex};
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef};

/// What a placement selects. Placements with equal selectors share it.
pub(super) struct PlacementSelection<'a> {
    /// The objects that it selects, in the order of its list, and those in the selected envelopes; or why the
    /// selection fails.
    selected: Result<Vec<ObjectRef>, SchedulingError>,
    /// The selector that fails.
    failed_selector: Option<FailedSelector>,
    /// Why an envelope cannot be opened, if there is such a one, so that nothing is sent: the code of the reason.
    invalid_envelope: Option<&'static str>,
    /// The objects that are sent to its clusters.
    items: Arc<[SentObject<'a>]>,
    /// The indexes of the items.
    indexes: HashMap<ObjectRef, usize>,
}

/// A placement that is scheduled.
pub(super) struct PlacementSubject<'a> {
    /// The placement as the API server has it: where that refuses an update, the one before.
    pub(super) object: Cow<'a, Object>,
    pub(super) policy: PlacementPolicy,
    /// Whether admission accepts it.
    pub(super) admitted: bool,
    /// Whether it is a former placement, because the API server refuses that of the repo.
    pub(super) is_former: bool,
    selection: Arc<PlacementSelection<'a>>,
    /// What the works of clusters were written with, before.
    pub(super) works: BTreeMap<ClusterName, WorkInputs>,
    /// The resources and overrides, if some of the overrides read the labels of clusters.
    pub(super) work_sources: OnceLock<Option<WorkSources>>,
    /// The objects with their overrides, and the clusters for which they were computed.
    pub(super) manifests: OnceLock<(Vec<ClusterName>, PlacementManifests<'a>)>,
}

/// The selections of placements, by their namespace and their selectors.
#[derive(Default)]
pub(super) struct Selections<'a>(HashMap<(Option<String>, String), Arc<PlacementSelection<'a>>>);

impl<'a> Selections<'a> {
    /// What a placement selects. Findings that do not depend on the placement go to `findings` once.
    fn select(
        &mut self,
        hub: &HubIndex<'a>,
        placement: &Object,
        findings: &mut Vec<Finding>,
    ) -> Arc<PlacementSelection<'a>> {
        let selectors = placement.value_at(&["spec", "resourceSelectors"]);
        let key = (placement.id.namespace.clone(), selectors.map(ToString::to_string).unwrap_or_default());
        let selection = self.0.entry(key);
        Arc::clone(selection.or_insert_with(|| Arc::new(PlacementSelection::new(hub, placement, findings))))
    }
}

impl<'a> PlacementSelection<'a> {
    fn new(hub: &HubIndex<'a>, placement: &Object, findings: &mut Vec<Finding>) -> Self {
        let (selected, failed_selector) = match selection::select_objects(hub, placement) {
            Ok(selected) => (Ok(selected), None),
            Err(failed) => {
                let (reason, message) = (failed.reason.name(), failed.reason.to_string());
                (Err(SchedulingError { reason, message }), Some(failed))
            }
        };
        let mut invalid_envelope = None;
        let items = match manifest::collect_objects(selected.as_deref().unwrap_or_default(), &hub.behaviour) {
            Ok(SentObjects { items, refused }) => {
                findings.extend(refused.iter().map(|one| one.failure.to_finding(one.envelope)));
                items
            }
            Err(EnvelopeFailure { envelope, failure }) => {
                findings.push(failure.to_finding(envelope));
                invalid_envelope = Some(failure.reason);
                Vec::new()
            }
        };
        let selected = selected.map(|all| {
            let mut ids: Vec<ObjectRef> = all.iter().map(|one| one.object().id.clone()).collect();
            let mut known: HashSet<ObjectRef> = ids.iter().cloned().collect();
            ids.extend(items.iter().filter(|item| known.insert(item.id.clone())).map(|item| item.id.clone()));
            ids
        });
        let mut indexes = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            indexes.entry(item.id.clone()).or_insert(index);
        }
        Self { selected, failed_selector, invalid_envelope, items: items.into(), indexes }
    }

    /// The selection of a placement that cannot be read.
    fn failed(why: SchedulingError) -> Self {
        Self {
            selected: Err(why),
            failed_selector: None,
            invalid_envelope: None,
            items: Arc::default(),
            indexes: HashMap::new(),
        }
    }
}

impl<'a> PlacementSubject<'a> {
    /// Reads what a placement selects. Errors also go to `findings`.
    pub(super) fn new(
        hub: &HubIndex<'a>,
        selections: &mut Selections<'a>,
        object: Cow<'a, Object>,
        policy: PlacementPolicy,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let selection = selections.select(hub, &object, findings);
        findings.extend(selection.failed_selector.as_ref().map(|failed| failed.to_finding(&object)));
        if selection.selected.as_ref().is_ok_and(Vec::is_empty) {
            let message = format!("{} selects no object of the repo", object.id);
            findings.push(
                Finding::warning("unused-policy", &object, message)
                    .with_pointer("/spec/resourceSelectors")
                    .with_help("a Namespace can only be selected if it is an object in the repo"),
            );
        }
        Self::with_selection(object, policy, true, selection)
    }

    fn with_selection(
        object: Cow<'a, Object>,
        policy: PlacementPolicy,
        admitted: bool,
        selection: Arc<PlacementSelection<'a>>,
    ) -> Self {
        Self {
            object,
            policy,
            admitted,
            is_former: false,
            selection,
            works: BTreeMap::new(),
            work_sources: OnceLock::new(),
            manifests: OnceLock::new(),
        }
    }

    /// A placement whose policy cannot be read: what it asks for is not known, so everything stays.
    pub(super) fn with_unreadable_policy(object: Cow<'a, Object>) -> Self {
        let message = "the policy cannot be read".to_owned();
        let unread = PlacementSelection::failed(SchedulingError { reason: "InvalidPolicy", message });
        Self::with_selection(object, PlacementPolicy::default(), false, Arc::new(unread))
    }

    /// The index of an item that it sends.
    pub(super) fn find_index(&self, object: &ObjectRef) -> Option<usize> {
        self.selection.indexes.get(object).copied()
    }

    /// The objects that are sent to its clusters.
    pub(super) fn items(&self) -> &Arc<[SentObject<'a>]> {
        &self.selection.items
    }

    /// Whether another placement has the same selectors.
    pub(super) fn shares_selection(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.selection, &other.selection)
    }

    /// Why the selection fails.
    pub(super) fn selection_error(&self) -> Option<&SchedulingError> {
        self.selection.selected.as_ref().err()
    }

    /// Why nothing of it is sent, if something is wrong with it: what was sent before stays.
    pub(super) fn withheld_reason(&self) -> Option<&'static str> {
        if !self.admitted {
            return Some("NotAdmitted");
        }
        let failed = self.selection_error().map(|_| "SelectionFailed");
        failed.or(self.selection.invalid_envelope)
    }

    pub(super) fn selected_objects(&self) -> &[ObjectRef] {
        self.selection.selected.as_deref().unwrap_or_default()
    }
}
