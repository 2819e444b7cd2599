//! The hub: the objects of the repo by kind and by namespace, and the kinds that the hub serves.
//!
//! Facts: by default the control plane ignores clusters, pods, nodes, leases, metrics and events, and its own
//! objects except envelopes. Only envelopes among its own objects can be selected, and before main the
//! namespaced objects of update runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::envelope;
use crate::kinds;
use crate::version::KubeFleetBehaviour;
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::Repo;
use serde_json::Value;

use super::api::ResourceSelectorTerm;
use super::selected_object::SelectedObject;

/// The objects from which a placement selects.
#[derive(Debug)]
pub(crate) struct HubIndex<'a> {
    objects: Vec<SelectedObject<'a>>,
    /// By group and kind.
    by_kind: BTreeMap<&'a str, BTreeMap<&'a str, Vec<usize>>>,
    by_namespace: BTreeMap<&'a str, Vec<usize>>,
    by_name: HashMap<&'a str, Vec<usize>>,
    /// By the key and the value of each label.
    by_label: HashMap<(&'a str, &'a str), Vec<usize>>,
    /// Custom resources that the repo defines or uses.
    custom: BTreeMap<(&'a str, &'a str), Scope>,
    /// The groups of those kinds.
    groups: BTreeSet<&'a str>,
    /// The served versions of the kinds that the repo defines.
    versions: BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>,
    services: BTreeSet<(&'a str, &'a str)>,
    /// The rules of the release.
    pub(crate) behaviour: KubeFleetBehaviour,
}

/// A kind that the hub serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedKind {
    /// A known kind with its scope.
    Of(Scope),
    /// An unknown kind of a custom group that the repo uses.
    Unused,
}

impl<'a> HubIndex<'a> {
    /// Indexes a repo as a hub.
    pub(crate) fn new(repo: &'a Repo, behaviour: KubeFleetBehaviour) -> Self {
        let templates = repo.templates.iter().map(SelectedObject::Plain);
        let claimed = repo.claimed.iter().map(|claimed| &claimed.object);
        let own = claimed.filter_map(|object| match object.id.kind.as_str() {
            _ if envelope::is_envelope(&object.id) => Some(SelectedObject::Envelope(object)),
            kind if behaviour.update_runs_are_propagated && is_of_update_run(object.id.group(), kind) => {
                Some(SelectedObject::Own(object))
            }
            _ => None,
        });
        let objects: Vec<SelectedObject<'a>> = templates.chain(own).collect();
        let mut hub = Self {
            objects,
            by_kind: BTreeMap::new(),
            by_namespace: BTreeMap::new(),
            by_name: HashMap::new(),
            by_label: HashMap::new(),
            custom: BTreeMap::new(),
            groups: BTreeSet::new(),
            versions: BTreeMap::new(),
            services: BTreeSet::new(),
            behaviour,
        };
        for index in 0..hub.objects.len() {
            hub.index_object(index);
        }
        hub
    }

    fn index_object(&mut self, index: usize) {
        let Some(object) = self.objects.get(index).map(SelectedObject::object) else { return };
        let id = &object.id;
        let kind = (id.group(), id.kind.as_str());
        self.by_kind.entry(kind.0).or_default().entry(kind.1).or_default().push(index);
        self.by_name.entry(&id.name).or_default().push(index);
        let labels = object.value_at(&["metadata", "labels"]).and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            if let Some(value) = value.as_str() {
                self.by_label.entry((key, value)).or_default().push(index);
            }
        }
        if let Some(namespace) = &id.namespace {
            self.by_namespace.entry(namespace).or_default().push(index);
            if kind == ("", "Service") {
                self.services.insert((namespace, &id.name));
            }
        }
        if kinds::find_scope(kind.0, kind.1).is_none() {
            let used = if id.namespace.is_some() { Scope::Namespaced } else { Scope::Cluster };
            self.custom.entry(kind).or_insert(used);
            self.groups.insert(kind.0);
        }
        if kind == ("apiextensions.k8s.io", "CustomResourceDefinition") {
            self.index_definition(object);
        }
    }

    fn index_definition(&mut self, definition: &'a Object) {
        let group = definition.text_at(&["spec", "group"]);
        let scope = match definition.text_at(&["spec", "scope"]) {
            "Namespaced" => Scope::Namespaced,
            "Cluster" => Scope::Cluster,
            _ => return,
        };
        let kind = definition.text_at(&["spec", "names", "kind"]);
        self.custom.insert((group, kind), scope);
        let versions =
            definition.value_at(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
        let served = versions.filter(|version| version.get("served") != Some(&Value::Bool(false)));
        let names = served.filter_map(|version| version.get("name")?.as_str());
        self.versions.entry((group, kind)).or_default().extend(names);
        self.groups.insert(group);
    }

    /// The kind; `None` if the hub does not serve it.
    pub(super) fn find_kind(&self, group: &str, kind: &str) -> Option<ServedKind> {
        let known = kinds::find_scope(group, kind).or_else(|| self.custom.get(&(group, kind)).copied());
        known.map(ServedKind::Of).or_else(|| self.groups.contains(group).then_some(ServedKind::Unused))
    }

    /// Whether the API server serves a kind in a version. What is not known is served.
    pub(super) fn serves_version(&self, group: &str, kind: &str, version: &str) -> bool {
        if group == crate::api::PLACEMENT_GROUP && envelope::is_kind(kind) {
            return self.behaviour.serves_version(group, kind, version);
        }
        kinds::is_version_served(group, kind, version)
            .or_else(|| self.versions.get(&(group, kind)).map(|served| served.contains(version)))
            .unwrap_or(true)
    }

    pub(super) fn objects_of_kind(
        &self,
        group: &str,
        kind: &str,
    ) -> impl Iterator<Item = SelectedObject<'a>> {
        self.objects_at(self.by_kind.get(group).and_then(|kinds| kinds.get(kind)))
    }

    /// The objects of a kind among which are all that a selector by name or labels selects: those with the name, or with the
    /// rarest of the labels.
    pub(super) fn find_candidates(&self, selector: &ResourceSelectorTerm) -> Vec<SelectedObject<'a>> {
        let (group, kind) = (selector.group.as_str(), selector.kind.as_str());
        let labels = selector.label_selector.iter().flat_map(|labels| &labels.match_labels);
        let by_labels = labels.map(|(key, value)| self.by_label.get(&(key.as_str(), value.as_str())));
        let rarest = by_labels.min_by_key(|at| at.map_or(0, Vec::len));
        let at = match rarest {
            _ if !selector.name.is_empty() => self.by_name.get(selector.name.as_str()),
            Some(at) => at,
            None => return self.objects_of_kind(group, kind).collect(),
        };
        let is_of_kind = |one: &SelectedObject<'a>| {
            let id = &one.object().id;
            id.group() == group && id.kind == kind
        };
        self.objects_at(at).filter(is_of_kind).collect()
    }

    pub(super) fn objects_of_namespace(&self, namespace: &str) -> impl Iterator<Item = SelectedObject<'a>> {
        self.objects_at(self.by_namespace.get(namespace))
    }

    fn objects_at<'s>(&'s self, at: Option<&'s Vec<usize>>) -> impl Iterator<Item = SelectedObject<'a>> + 's {
        let at = at.map_or(&[] as &[usize], Vec::as_slice);
        at.iter().filter_map(|index| self.objects.get(*index).copied())
    }

    /// Whether there is a Service of the same namespace and name.
    pub(super) fn has_service(&self, id: &ObjectRef) -> bool {
        self.services.contains(&(id.namespace.as_deref().unwrap_or_default(), &id.name))
    }
}

/// Whether a kind is one of the namespaced kinds of update runs.
fn is_of_update_run(group: &str, kind: &str) -> bool {
    group == crate::api::PLACEMENT_GROUP
        && matches!(kind, "StagedUpdateRun" | "StagedUpdateStrategy" | "ApprovalRequest")
}

/// Whether the control plane does not see objects of a kind. It ignores a selector of such a kind.
pub(super) fn is_skipped(group: &str, kind: &str, behaviour: &KubeFleetBehaviour) -> bool {
    match group {
        _ if behaviour.update_runs_are_propagated && is_of_update_run(group, kind) => false,
        "" => matches!(kind, "Pod" | "Node"),
        "cluster.kubernetes-fleet.io" | "events.k8s.io" | "coordination.k8s.io" | "metrics.k8s.io" => true,
        envelope::GROUP => !envelope::is_kind(kind),
        "networking.fleet.azure.com" => {
            matches!(kind, "ServiceImport" | "TrafficManagerProfile" | "TrafficManagerBackend")
        }
        _ => false,
    }
}
