//! A placement with what it selects, which one decision is about.
//!
//! Facts: if anything is wrong with the policy, the selection or an envelope, nothing new is sent, and what was sent
//! before stays.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::api::PlacementPolicy;
use super::failure::SchedulingError;
use super::manifest::{self, EnvelopeFailure, PlacementManifests, SentObject, SentObjects};
use super::overrides::work::{WorkInputs, WorkSources};
use super::selection::{self, HubIndex};
use federate_kubernetes::{ClusterName, Finding, Object, ObjectRef};

/// A placement that is scheduled.
pub(super) struct PlacementSubject<'a> {
    /// The placement as the API server has it: where that refuses an update, the one before.
    pub(super) object: Cow<'a, Object>,
    pub(super) policy: PlacementPolicy,
    /// Whether admission accepts it.
    pub(super) admitted: bool,
    /// The objects that it selects, in the order of its list, and those in the selected envelopes; or why the
    /// selection fails.
    pub(super) selected: Result<Vec<ObjectRef>, SchedulingError>,
    /// Why an envelope cannot be opened, if there is such a one, so that nothing is sent: the code of the reason.
    pub(super) invalid_envelope: Option<&'static str>,
    /// The objects that are sent to its clusters.
    pub(super) items: Vec<SentObject<'a>>,
    /// What the works of clusters were written with, before.
    pub(super) works: BTreeMap<ClusterName, WorkInputs>,
    /// The resources and overrides, if some of the overrides read the labels of clusters.
    pub(super) work_sources: OnceLock<Option<WorkSources>>,
    /// The objects with their overrides, and the clusters for which they were computed.
    pub(super) manifests: OnceLock<(Vec<ClusterName>, PlacementManifests<'a>)>,
}

impl<'a> PlacementSubject<'a> {
    /// Reads what a placement selects. Errors also go to `findings`.
    pub(super) fn new(
        hub: &HubIndex<'a>,
        object: Cow<'a, Object>,
        policy: PlacementPolicy,
        findings: &mut Vec<Finding>,
    ) -> Self {
        let selected = selection::select_objects(hub, &object).map_err(|failure| {
            findings.push(failure.to_finding(&object));
            SchedulingError { reason: failure.reason.name(), message: failure.reason.to_string() }
        });
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
        if selected.as_ref().is_ok_and(Vec::is_empty) {
            let message = format!("{} selects no object of the repo", object.id);
            findings.push(
                Finding::warning("unused-policy", &object, message)
                    .with_pointer("/spec/resourceSelectors")
                    .with_help("a Namespace can only be selected if it is an object in the repo"),
            );
        }
        let selected = selected.map(|all| {
            let mut ids: Vec<ObjectRef> = all.iter().map(|one| one.object().id.clone()).collect();
            for item in &items {
                if !ids.contains(&item.id) {
                    ids.push(item.id.clone());
                }
            }
            ids
        });
        Self {
            object,
            policy,
            admitted: true,
            selected,
            invalid_envelope,
            items,
            works: BTreeMap::new(),
            work_sources: OnceLock::new(),
            manifests: OnceLock::new(),
        }
    }

    /// A placement whose policy cannot be read: what it asks for is not known, so everything stays.
    pub(super) fn with_unreadable_policy(object: Cow<'a, Object>) -> Self {
        let message = "the policy cannot be read".to_owned();
        Self {
            object,
            policy: PlacementPolicy::default(),
            admitted: false,
            selected: Err(SchedulingError { reason: "InvalidPolicy", message }),
            invalid_envelope: None,
            items: Vec::new(),
            works: BTreeMap::new(),
            work_sources: OnceLock::new(),
            manifests: OnceLock::new(),
        }
    }

    /// The index of an item that it sends.
    pub(super) fn find_index(&self, object: &ObjectRef) -> Option<usize> {
        self.items.iter().position(|item| item.id == *object)
    }

    /// Why nothing of it is sent, if something is wrong with it: what was sent before stays.
    pub(super) fn withheld_reason(&self) -> Option<&'static str> {
        if !self.admitted {
            return Some("NotAdmitted");
        }
        let failed = self.selected.as_ref().err().map(|_| "SelectionFailed");
        failed.or(self.invalid_envelope)
    }

    pub(super) fn selected_objects(&self) -> &[ObjectRef] {
        self.selected.as_deref().unwrap_or_default()
    }
}
