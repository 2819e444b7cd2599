//! The decision about one federated object: whether a controller acts on it, which clusters its own placement,
//! its namespace's and the scheduler select, and the replicas.

use std::collections::BTreeMap;

use super::division::Trace;
use super::federated::Federated;
use super::memory::Memory;
use super::overrides::{self, Step};
use super::preference::{self, Preference, Schedule};
use super::{KubeFedPlane, NAME, manifest, placement};
use federate_dialect::{Decided, Placed, PlacedClusters, Placement, Previous, Unschedulable};
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Cluster, ClusterName, Finding, ObjectRef, Origin, finding};

/// The reason for an invalid selector. The control plane then does nothing.
pub(super) const NO_PLACEMENT: &str = "ComputePlacementFailed";

/// The reason for a type that is not propagated.
pub(super) const DISABLED: &str = "PropagationDisabled";

/// Namespaces that are never federated. The control plane's own namespace is another.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "default"];

/// Why a federated object goes nowhere.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// The short reason.
    pub reason: &'static str,
    pub message: String,
    /// The invalid federated object and the place in it, if there is one.
    invalid: Option<(ObjectRef, Origin, String)>,
    help: &'static str,
}

impl Refusal {
    fn new(reason: &'static str, message: impl Into<String>, help: &'static str) -> Self {
        Self { reason, message: message.into(), invalid: None, help }
    }
}

/// The replicas that run in the clusters of a row.
fn running_replicas(row: &Placement) -> BTreeMap<ClusterName, i64> {
    let mut running = Memory::of(row).running;
    let sent = row.clusters.iter().filter_map(|placed| Some((placed.name.clone(), placed.replicas?)));
    running.extend(sent);
    running
}

/// A decision with what explains it.
pub(super) struct Decision<'d, 'a> {
    pub federated: &'d Federated<'a>,
    /// The preference of the same name, if there is one, and its result.
    pub preference: Option<(&'d Preference<'a>, Result<Schedule, String>)>,
    /// For each cluster, whether the object's own placement or the scheduler selects it.
    pub own: Vec<bool>,
    /// For each cluster, whether the namespace's placement selects it; `None` where the namespace sets no
    /// limit.
    pub namespace: Option<Vec<bool>>,
    pub refusal: Option<Refusal>,
    /// What a preference has written, if none decides now: it stays until something else is written.
    written: Option<Schedule>,
    /// The replicas that run in clusters by the previous plan.
    running: BTreeMap<ClusterName, i64>,
    /// The clusters of an object whose type is not propagated: it stays there as it is.
    frozen: PlacedClusters,
}

impl<'d, 'a> Decision<'d, 'a> {
    /// Decides.
    pub(super) fn new(
        plane: &'d KubeFedPlane<'a>,
        federated: &'d Federated<'a>,
        previous: &Previous,
        trace: &mut Trace,
    ) -> Self {
        let before = previous.of(&federated.target).filter(|row| row.dialect == NAME);
        let mut decision = Self {
            federated,
            preference: None,
            own: vec![false; plane.clusters.len()],
            namespace: None,
            refusal: inactive(plane, federated),
            written: None,
            running: before.map(running_replicas).unwrap_or_default(),
            frozen: PlacedClusters::default(),
        };
        if decision.is_disabled() {
            decision.frozen = before.map(|row| row.clusters.clone()).unwrap_or_default();
        }
        decision.written = before.and_then(|row| Memory::of(row).written);
        if decision.refusal.is_none() {
            decision.preference = plane.preference_of(federated).map(|preference| {
                (preference, preference::schedule(plane, preference, federated, previous, trace))
            });
            decision.refusal = decision.select(plane).err().or_else(|| leaving(federated));
        }
        decision
    }

    /// The scheduler's decision, if it decides.
    pub(super) fn schedule(&self) -> Option<(&'d Preference<'a>, &Schedule)> {
        let (preference, outcome) = self.preference.as_ref()?;
        Some((preference, outcome.as_ref().ok()?))
    }

    /// Whether objects of the type are not propagated, and stay as they are.
    fn is_disabled(&self) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.reason == DISABLED)
    }

    /// What a preference has written and nothing else has replaced. `clusters` and `overrides` that git has are git's.
    fn kept(&self) -> Option<Schedule> {
        let mut written = self.written.clone().filter(|_| self.schedule().is_none())?;
        if let Some(own) = &self.federated.spec.placement.clusters {
            written.retain(|name, _| own.iter().any(|cluster| cluster.name == name.as_ref()));
        }
        Some(written)
    }

    fn select(&mut self, plane: &KubeFedPlane<'a>) -> Result<(), Refusal> {
        self.own = match self.schedule() {
            Some((_, schedule)) => plane.clusters.iter().map(|c| schedule.contains_key(&c.name)).collect(),
            None => {
                match self.written.as_ref().filter(|_| self.federated.spec.placement.clusters.is_none()) {
                    Some(written) => plane.clusters.iter().map(|c| written.contains_key(&c.name)).collect(),
                    None => selected(plane, self.federated)?,
                }
            }
        };
        if self.federated.kind.scope == Scope::Cluster {
            return Ok(());
        }
        match plane.namespace_of(self.federated) {
            Some(namespace) => self.namespace = Some(selected(plane, namespace)?),
            None if plane.config.namespaced => {}
            None => {
                let namespace = self.federated.namespace();
                let message = format!(
                    "namespace `{namespace}` is not federated: there is no FederatedNamespace {namespace}/{namespace}"
                );
                let help = "add a FederatedNamespace with the namespace's own name, inside that namespace";
                return Err(Refusal::new("NamespaceNotFederated", message, help));
            }
        }
        Ok(())
    }

    /// Whether the object goes to the cluster at `index`.
    pub(super) fn chosen(&self, index: usize) -> bool {
        self.refusal.is_none() && self.selects(index)
    }

    /// Whether its own placement and its namespace's select the cluster at `index`.
    pub(super) fn selects(&self, index: usize) -> bool {
        let says = |selected: &Vec<bool>| selected.get(index).copied().unwrap_or_default();
        says(&self.own) && self.namespace.as_ref().is_none_or(says)
    }

    /// The row of the plan.
    pub(super) fn row(&self, plane: &KubeFedPlane<'a>) -> Placement {
        let policy = match self.schedule() {
            Some((preference, _)) => &preference.object.id,
            None => &self.federated.object.id,
        };
        let mut row = Placement::new(NAME, self.federated.target.clone(), Some(policy.clone()));
        let replicas = self.replicas();
        let chosen = plane.clusters.iter().enumerate().filter(|(index, _)| self.chosen(*index));
        let placed = |c: &Cluster| Placed { name: c.name.clone(), replicas: replicas(c) };
        row.clusters = chosen.map(|(_, c)| placed(c)).collect();
        if self.is_disabled() {
            row.clusters = self.frozen.clone();
        }
        let schedule = self.schedule().map(|(_, schedule)| schedule.clone());
        // A preference that has no effect now has still decided these.
        let own_overrides =
            self.federated.object.at(&["spec", "overrides"]).is_some_and(|own| !own.is_null());
        if let Some(kept) = self.kept().filter(|_| self.preference.is_some() && !own_overrides) {
            let numbered = |placed: &Placed| Placed {
                replicas: placed.replicas.or_else(|| kept.get(&placed.name).copied()),
                name: placed.name.clone(),
            };
            row.clusters = row.clusters.iter().map(numbered).collect();
        }
        let written =
            if self.is_disabled() { self.written.clone() } else { schedule.or_else(|| self.kept()) };
        if written.is_some() {
            let unsent =
                row.clusters.iter().filter(|placed| self.schedule().is_some() && placed.replicas.is_none());
            let running = unsent.filter_map(|placed| {
                let replicas = self.running.get(&placed.name)?;
                Some((placed.name.clone(), *replicas))
            });
            Memory { written, running: running.collect(), ..Memory::default() }.write(&mut row);
        }
        row.unschedulable = self
            .refusal
            .as_ref()
            .map(|r| Unschedulable { reason: r.reason.to_owned(), message: r.message.clone() });
        row
    }

    /// The replicas that are sent to each cluster; `None` where overrides fail, so that nothing is sent.
    fn replicas(&self) -> impl Fn(&Cluster) -> Option<i64> {
        let schedule = self.schedule().map(|(_, schedule)| schedule);
        let own = self.federated.overrides.as_ref().ok();
        let base = schedule.map(|_| manifest::base(self.federated)).unwrap_or_default();
        let renders = move |steps: &[Step], replicas: i64| {
            overrides::apply_all(&overrides::with_replicas(steps, replicas), &mut base.clone()).is_ok()
        };
        let without_own = schedule.is_some() && renders(&[], 0);
        move |cluster| {
            let replicas = *schedule?.get(&cluster.name)?;
            let sent = match own?.get(cluster.name.as_ref()) {
                Some(steps) => renders(steps, replicas),
                None => without_own,
            };
            sent.then_some(replicas)
        }
    }

    /// The findings about the decision.
    fn findings(&self, plane: &KubeFedPlane<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.lost(plane));
        if let Some((preference, Err(why))) = &self.preference {
            let message =
                format!("{} has no effect on {}: {why}", preference.object.id, self.federated.object.id);
            let help = "until this is fixed, the federated object's own placement and replicas apply";
            findings.push(Finding::warning("no-effect", preference.object, message).help(help));
        }
        if let Some(refusal) = self.refusal.as_ref().filter(|_| !self.only_limits(plane)) {
            findings.push(self.refused(plane, refusal));
        }
        findings
    }

    /// Whether it belongs to a system namespace, and only limits the objects in that namespace.
    fn only_limits(&self, plane: &KubeFedPlane<'_>) -> bool {
        let inside =
            |f: &Federated<'_>| !f.kind.is_namespace() && f.namespace() == self.federated.namespace();
        self.refusal.as_ref().is_some_and(|r| r.reason == "SystemNamespace")
            && plane.federated.iter().any(inside)
    }

    /// An invalid selector is an error of its object. The control plane would leave everything as it is, which
    /// a rendering cannot express, so nothing is rendered.
    fn refused(&self, plane: &KubeFedPlane<'_>, refusal: &Refusal) -> Finding {
        let object = self.federated.object;
        let message = format!("{} goes nowhere: {}: {}", object.id, refusal.reason, refusal.message);
        let namespace = plane.namespace_of(self.federated);
        let reported = |invalid: &ObjectRef| {
            *invalid != object.id && namespace.is_some_and(|n| inactive(plane, n).is_none())
        };
        let mut finding = match &refusal.invalid {
            Some((invalid, ..)) if !reported(invalid) => Finding::error("invalid-policy", object, message),
            _ => Finding::warning("unschedulable", object, message),
        };
        if let Some((_, origin, pointer)) = &refusal.invalid {
            finding.origin = Some(origin.clone());
            finding.pointer.clone_from(pointer);
        }
        finding.object = Some(self.federated.target.clone());
        finding.help(refusal.help)
    }

    /// Replicas that are scheduled to clusters which the namespace excludes.
    fn lost(&self, plane: &KubeFedPlane<'_>) -> Option<Finding> {
        let (preference, schedule) = self.schedule()?;
        let left_out = plane.clusters.iter().enumerate().filter(|(index, _)| !self.chosen(*index));
        let (mut lost, mut names) = (0_i64, Vec::new());
        for (_, cluster) in left_out {
            let replicas = schedule.get(&cluster.name).copied().unwrap_or(0);
            if replicas != 0 {
                lost = lost.saturating_add(replicas);
                names.push(cluster.name.as_ref());
            }
        }
        let message = format!(
            "{lost} replicas of {} are lost: they are scheduled into {}, where namespace `{}` is not federated",
            self.federated.target,
            finding::list(&names, 5),
            self.federated.namespace()
        );
        let mut finding = Finding::warning("lost-replicas", preference.object, message).help(
            "name only clusters of the FederatedNamespace in `spec.clusters`, or select clusters by label in \
             both placements and set `intersectWithClusterSelector`",
        );
        finding.object = Some(self.federated.target.clone());
        (self.refusal.is_none() && !names.is_empty()).then_some(finding)
    }
}

/// Decides about one federated object.
pub(super) fn decide(plane: &KubeFedPlane<'_>, federated: &Federated<'_>, previous: &Previous) -> Decided {
    let decision = Decision::new(plane, federated, previous, &mut Trace::default());
    Decided {
        placements: vec![decision.row(plane)],
        findings: decision.findings(plane),
        ..Decided::default()
    }
}

fn selected(plane: &KubeFedPlane<'_>, federated: &Federated<'_>) -> Result<Vec<bool>, Refusal> {
    placement::selected(&federated.spec.placement, &plane.clusters).map_err(|invalid| Refusal {
        invalid: Some((federated.object.id.clone(), federated.object.origin.clone(), invalid.pointer)),
        ..Refusal::new(
            NO_PLACEMENT,
            format!("the `clusterSelector` of {} is invalid: {}", federated.object.id, invalid.why),
            "write it as Kubernetes defines label selectors",
        )
    })
}

/// Whether the object is being deleted, so that it goes to no cluster.
fn leaving(federated: &Federated<'_>) -> Option<Refusal> {
    let help = "delete it from the repo to remove its target";
    let refusal =
        || Refusal::new("Deleting", "it is being deleted: `metadata.deletionTimestamp` is set", help);
    federated.object.deleting().then(refusal)
}

/// Why no controller acts on the object.
pub(super) fn inactive(plane: &KubeFedPlane<'_>, federated: &Federated<'_>) -> Option<Refusal> {
    let (config, kind, id) = (&plane.config, &federated.kind, &federated.object.id);
    if !config.pushes {
        let help = "enable it in the KubeFedConfig";
        return Some(Refusal::new(DISABLED, "the feature `PushReconciler` is disabled", help));
    }
    if !kind.enabled {
        let message = format!("the FederatedTypeConfig `{}` says `propagation: Disabled`", kind.name);
        return Some(Refusal::new(DISABLED, message, "enable it there to propagate this type"));
    }
    if config.namespaced && (kind.scope == Scope::Cluster || federated.namespace() != config.namespace) {
        let message = format!(
            "this control plane has the scope `Namespaced`: it federates objects of namespace `{}` only",
            config.namespace
        );
        return Some(Refusal::new(
            "OutOfScope",
            message,
            "move it there, or give the control plane the scope `Cluster`",
        ));
    }
    if !kind.is_namespace() {
        return None;
    }
    if SYSTEM_NAMESPACES.contains(&id.name.as_str()) || id.name == config.namespace {
        let message = format!("`{}` is a system namespace, which is never propagated", id.name);
        let help = "it only limits the clusters of federated objects in that namespace";
        return Some(Refusal::new("SystemNamespace", message, help));
    }
    if !federated.federates_namespace() {
        let message = format!("it is in namespace `{}`, and must have the same name", federated.namespace());
        return Some(Refusal::new("InvalidName", message, "use the name of its namespace"));
    }
    None
}
