//! The decision about one federated object: whether a controller acts on it, which clusters its own placement,
//! its namespace's and the scheduler select, and the replicas.

use std::collections::BTreeMap;

use super::config::ControlPlaneConfig;
use super::division::DivisionTrace;
use super::federated_object::FederatedObject;
use super::overrides;
use super::preference::{self, Schedule, SchedulingPreference};
use super::state::KubeFedState;
use super::{KubeFedPlanner, NAME, manifest, placement};
use federate_dialect::{
    DialectDecisions, Placed, PlacedClusters, Placement, PreviousPlan, Unschedulable, VerdictCause,
};
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{ClusterName, Finding, ObjectRef, Origin, finding};

/// The reason for an invalid selector. The control plane then does nothing.
pub(super) const NO_PLACEMENT: &str = "ComputePlacementFailed";

/// The reason for a type that is not propagated.
pub(super) const PROPAGATION_DISABLED: &str = "PropagationDisabled";

/// Namespaces that are never federated. The control plane's own namespace is another.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "default"];

/// Why a federated object is placed nowhere.
#[derive(Clone, Debug)]
pub(super) struct PlacementRefusal {
    /// The short reason.
    pub reason: &'static str,
    pub message: String,
    /// What has to go for it to be placed.
    pub cause: Box<VerdictCause>,
    /// The invalid federated object and the place in it, if there is one.
    invalid: Option<(ObjectRef, Origin, String)>,
    help: &'static str,
}

impl PlacementRefusal {
    fn new(
        reason: &'static str,
        message: impl Into<String>,
        help: &'static str,
        cause: VerdictCause,
    ) -> Self {
        Self { reason, message: message.into(), cause: Box::new(cause), invalid: None, help }
    }
}

/// The replicas that run in the clusters of a row.
fn running_replicas(row: &Placement) -> BTreeMap<ClusterName, i64> {
    let mut running = KubeFedState::from_row(row).running;
    let sent = row.clusters.iter().filter_map(|placed| Some((placed.name.clone(), placed.replicas?)));
    running.extend(sent);
    running
}

/// A decision with what explains it.
pub(super) struct FederatedDecision<'d, 'a> {
    pub federated: &'d FederatedObject<'a>,
    /// The preference of the same name, if there is one, and its result.
    pub preference: Option<(&'d SchedulingPreference<'a>, Result<Schedule, String>)>,
    /// For each cluster, whether the object's own placement or the scheduler selects it.
    pub own: Vec<bool>,
    /// For each cluster, whether the namespace's placement selects it; `None` where the namespace sets no
    /// limit.
    pub namespace: Option<Vec<bool>>,
    pub refusal: Option<PlacementRefusal>,
    /// What a preference has written, if none decides now: it stays until something else is written.
    written: Option<Schedule>,
    /// The replicas that run in clusters by the previous plan.
    running: BTreeMap<ClusterName, i64>,
    /// The clusters of an object whose type is not propagated: it stays there as it is.
    frozen: PlacedClusters,
}

impl<'d, 'a> FederatedDecision<'d, 'a> {
    /// Decides.
    pub(super) fn new(
        plane: &'d KubeFedPlanner<'a>,
        federated: &'d FederatedObject<'a>,
        previous: &PreviousPlan,
        trace: &mut DivisionTrace,
    ) -> Self {
        let before = previous.find_row(&federated.target).filter(|row| row.dialect == NAME);
        let mut decision = Self {
            federated,
            preference: None,
            own: vec![false; plane.clusters.len()],
            namespace: None,
            refusal: inactive_refusal(plane, federated),
            written: None,
            running: before.map(running_replicas).unwrap_or_default(),
            frozen: PlacedClusters::default(),
        };
        if decision.is_disabled() {
            decision.frozen = before.map(|row| row.clusters.clone()).unwrap_or_default();
        }
        decision.written = before.and_then(|row| KubeFedState::from_row(row).written);
        if decision.refusal.is_none() {
            decision.preference = plane.preference_of(federated).map(|preference| {
                (preference, preference::compute_schedule(plane, preference, federated, previous, trace))
            });
            decision.refusal = decision.select_clusters(plane).err().or_else(|| deletion_refusal(federated));
        }
        decision
    }

    /// The scheduler's decision, if it decides.
    pub(super) fn effective_schedule(&self) -> Option<(&'d SchedulingPreference<'a>, &Schedule)> {
        let (preference, outcome) = self.preference.as_ref()?;
        Some((preference, outcome.as_ref().ok()?))
    }

    /// Whether its clusters are those that an earlier preference has written into the placement.
    pub(super) fn follows_written(&self) -> bool {
        let placement = &self.federated.spec.placement;
        self.effective_schedule().is_none() && self.written.is_some() && placement.clusters.is_none()
    }

    /// Whether objects of the type are not propagated, and stay as they are.
    fn is_disabled(&self) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.reason == PROPAGATION_DISABLED)
    }

    /// The schedule that a preference has written and nothing else has replaced. If the object lists clusters, only
    /// those are kept.
    fn kept_schedule(&self) -> Option<Schedule> {
        let mut written = self.written.clone().filter(|_| self.effective_schedule().is_none())?;
        if let Some(own) = &self.federated.spec.placement.clusters {
            written.retain(|name, _| own.iter().any(|cluster| cluster.name == name.as_ref()));
        }
        Some(written)
    }

    fn select_clusters(&mut self, plane: &KubeFedPlanner<'a>) -> Result<(), PlacementRefusal> {
        self.own = match self.effective_schedule() {
            Some((_, schedule)) => plane.clusters.iter().map(|c| schedule.contains_key(&c.name)).collect(),
            None => {
                match self.written.as_ref().filter(|_| self.federated.spec.placement.clusters.is_none()) {
                    Some(written) => plane.clusters.iter().map(|c| written.contains_key(&c.name)).collect(),
                    None => selected_clusters(plane, self.federated)?,
                }
            }
        };
        if self.federated.kind.scope == Scope::Cluster {
            return Ok(());
        }
        match plane.namespace_of(self.federated) {
            Some(namespace) => self.namespace = Some(selected_clusters(plane, namespace)?),
            None if plane.config.namespaced => {}
            None => {
                let namespace = self.federated.namespace();
                let message = format!(
                    "namespace `{namespace}` is not federated: there is no FederatedNamespace {namespace}/{namespace}"
                );
                let help = "add a FederatedNamespace with the namespace's own name, inside that namespace";
                let object = ObjectRef {
                    api_version: "types.kubefed.io/v1beta1".to_owned(),
                    kind: "FederatedNamespace".to_owned(),
                    namespace: Some(namespace.to_owned()),
                    name: namespace.to_owned(),
                };
                let cause = VerdictCause::Missing { object };
                return Err(PlacementRefusal::new("NamespaceNotFederated", message, help, cause));
            }
        }
        Ok(())
    }

    /// Whether the object goes to the cluster at `index`.
    pub(super) fn is_chosen(&self, index: usize) -> bool {
        self.refusal.is_none() && self.is_selected(index)
    }

    /// Whether its own placement and its namespace's select the cluster at `index`.
    pub(super) fn is_selected(&self, index: usize) -> bool {
        let selections = [Some(&self.own), self.namespace.as_ref()];
        selections.into_iter().flatten().all(|selected| selected.get(index) == Some(&true))
    }

    /// The row of the plan.
    pub(super) fn to_row(&self, plane: &KubeFedPlanner<'a>) -> Placement {
        let policy = match self.effective_schedule() {
            Some((preference, _)) => &preference.object.id,
            None => &self.federated.object.id,
        };
        let mut row = Placement::new(NAME, self.federated.target.clone(), Some(policy.clone()));
        let replicas = self.sent_replicas();
        let chosen = plane.clusters.iter().enumerate().filter(|(index, _)| self.is_chosen(*index));
        row.clusters = chosen
            .map(|(_, c)| Placed { name: c.name.clone(), replicas: replicas.get(&c.name).copied() })
            .collect();
        if self.is_disabled() {
            row.clusters = self.frozen.clone();
        }
        let schedule = self.effective_schedule().map(|(_, schedule)| schedule.clone());
        // A preference that has no effect now has still decided these.
        let own_overrides =
            self.federated.object.value_at(&["spec", "overrides"]).is_some_and(|own| !own.is_null());
        if let Some(kept) = self.kept_schedule().filter(|_| self.preference.is_some() && !own_overrides) {
            let placed = row.clusters.iter().map(|placed| Placed {
                replicas: placed.replicas.or_else(|| kept.get(&placed.name).copied()),
                name: placed.name.clone(),
            });
            row.clusters = placed.collect();
        }
        let written =
            if self.is_disabled() { self.written.clone() } else { schedule.or_else(|| self.kept_schedule()) };
        if written.is_some() {
            let unsent = row
                .clusters
                .iter()
                .filter(|placed| self.effective_schedule().is_some() && placed.replicas.is_none());
            let running = unsent.filter_map(|placed| {
                let replicas = self.running.get(&placed.name)?;
                Some((placed.name.clone(), *replicas))
            });
            KubeFedState { written, running: running.collect(), ..KubeFedState::default() }
                .write_to(&mut row);
        }
        row.unschedulable = self
            .refusal
            .as_ref()
            .map(|r| Unschedulable { reason: r.reason.to_owned(), message: r.message.clone() });
        row
    }

    /// The scheduled replicas, without the clusters whose overrides fail, to which nothing is sent.
    fn sent_replicas(&self) -> Schedule {
        let Some((_, schedule)) = self.effective_schedule() else { return Schedule::default() };
        let Ok(own) = &self.federated.overrides else { return Schedule::default() };
        let base = manifest::base_manifest(self.federated);
        let renders_without_own =
            overrides::apply_all(&overrides::with_replicas(&[], 0), &mut base.clone()).is_ok();
        let mut sent = schedule.clone();
        sent.retain(|cluster, replicas| match own.get(cluster.as_ref()) {
            Some(steps) => {
                overrides::apply_all(&overrides::with_replicas(steps, *replicas), &mut base.clone()).is_ok()
            }
            None => renders_without_own,
        });
        sent
    }

    /// The findings about the decision.
    fn collect_findings(&self, plane: &KubeFedPlanner<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.lost_replicas_finding(plane));
        if let Some((preference, Err(why))) = &self.preference {
            let message =
                format!("{} has no effect on {}: {why}", preference.object.id, self.federated.object.id);
            let help = "until this is fixed, the federated object's own placement and replicas apply";
            findings.push(Finding::warning("no-effect", preference.object, message).with_help(help));
        }
        if let Some(refusal) = self.refusal.as_ref().filter(|_| !self.only_limits(plane)) {
            findings.push(self.refusal_finding(plane, refusal));
        }
        findings
    }

    /// Whether it belongs to a system namespace, and only limits the objects in that namespace.
    fn only_limits(&self, plane: &KubeFedPlanner<'_>) -> bool {
        let mut others = plane.federated.iter().filter(|other| !other.kind.is_namespace());
        self.refusal.as_ref().is_some_and(|r| r.reason == "SystemNamespace")
            && others.any(|other| other.namespace() == self.federated.namespace())
    }

    /// An invalid selector is an error of its object. The control plane would leave everything as it is, which
    /// a rendering cannot express, so nothing is rendered.
    fn refusal_finding(&self, plane: &KubeFedPlanner<'_>, refusal: &PlacementRefusal) -> Finding {
        let object = self.federated.object;
        let message = format!("{} is placed nowhere: {}: {}", object.id, refusal.reason, refusal.message);
        let namespace = plane.namespace_of(self.federated);
        let reports_namespace = namespace.is_some_and(|n| inactive_refusal(plane, n).is_none());
        let mut finding = match &refusal.invalid {
            Some((invalid, ..)) if *invalid == object.id || !reports_namespace => {
                Finding::error("invalid-policy", object, message)
            }
            _ => Finding::warning("unschedulable", object, message),
        };
        if let Some((_, origin, pointer)) = &refusal.invalid {
            finding.origin = Some(origin.clone());
            finding.pointer.clone_from(pointer);
        }
        finding.object = Some(self.federated.target.clone());
        finding.with_help(refusal.help)
    }

    /// Replicas that are scheduled to clusters which the namespace excludes.
    fn lost_replicas_finding(&self, plane: &KubeFedPlanner<'_>) -> Option<Finding> {
        let (preference, schedule) = self.effective_schedule()?;
        let left_out = plane.clusters.iter().enumerate().filter(|(index, _)| !self.is_chosen(*index));
        let (mut lost, mut names) = (0_i64, Vec::new());
        for (_, cluster) in left_out {
            let replicas = schedule.get(&cluster.name).copied().unwrap_or(0);
            if replicas != 0 {
                lost = lost.saturating_add(replicas);
                names.push(cluster.name.as_ref());
            }
        }
        let message = format!(
            "{} of {} {} scheduled into {}, where namespace `{}` is not federated",
            finding::count_replicas(lost),
            self.federated.target,
            if lost == 1 { "is lost: it is" } else { "are lost: they are" },
            finding::join_names(&names, 5),
            self.federated.namespace()
        );
        let mut finding = Finding::warning("lost-replicas", preference.object, message).with_help(
            "name only clusters of the FederatedNamespace in `spec.clusters`, or select clusters by label in \
             both placements and set `intersectWithClusterSelector`",
        );
        finding.object = Some(self.federated.target.clone());
        (self.refusal.is_none() && !names.is_empty()).then_some(finding)
    }
}

/// Decides about one federated object.
pub(super) fn decide_federated(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
    previous: &PreviousPlan,
) -> DialectDecisions {
    let decision = FederatedDecision::new(plane, federated, previous, &mut DivisionTrace::default());
    DialectDecisions {
        placements: vec![decision.to_row(plane)],
        findings: decision.collect_findings(plane),
        ..DialectDecisions::default()
    }
}

fn selected_clusters(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
) -> Result<Vec<bool>, PlacementRefusal> {
    placement::selected_clusters(&federated.spec.placement, &plane.clusters).map_err(|invalid| {
        PlacementRefusal {
            invalid: Some((federated.object.id.clone(), federated.object.origin.clone(), invalid.pointer)),
            ..PlacementRefusal::new(
                NO_PLACEMENT,
                format!("the `clusterSelector` of {} is invalid: {}", federated.object.id, invalid.why),
                "write it as Kubernetes defines label selectors",
                VerdictCause::field(&federated.object.id, "/spec/placement/clusterSelector"),
            )
        }
    })
}

/// Whether the object is being deleted, so that it goes to no cluster.
fn deletion_refusal(federated: &FederatedObject<'_>) -> Option<PlacementRefusal> {
    federated.object.is_deleting().then(|| {
        let message = "it is being deleted: `metadata.deletionTimestamp` is set";
        let help = "delete it from the repo to remove its target";
        let cause = VerdictCause::field(&federated.object.id, "/metadata/deletionTimestamp");
        PlacementRefusal::new("Deleting", message, help, cause)
    })
}

/// The cause that is a field of an object that configures the control plane.
fn config_cause(kind: &str, config: &ControlPlaneConfig, name: &str, path: &str) -> VerdictCause {
    let object = ObjectRef {
        api_version: "core.kubefed.io/v1beta1".to_owned(),
        kind: kind.to_owned(),
        namespace: Some(config.namespace.clone()),
        name: name.to_owned(),
    };
    VerdictCause::Field { object, path: path.to_owned() }
}

/// Why no controller acts on the object.
pub(super) fn inactive_refusal(
    plane: &KubeFedPlanner<'_>,
    federated: &FederatedObject<'_>,
) -> Option<PlacementRefusal> {
    let (config, kind, id) = (&plane.config, &federated.kind, &federated.object.id);
    if !config.pushes {
        let message = "the feature `PushReconciler` is disabled";
        let help = "enable it in the KubeFedConfig";
        let cause = config_cause("KubeFedConfig", config, "kubefed", "/spec/featureGates");
        return Some(PlacementRefusal::new(PROPAGATION_DISABLED, message, help, cause));
    }
    if !kind.enabled {
        let message = format!("the FederatedTypeConfig `{}` says `propagation: Disabled`", kind.name);
        let help = "enable it there to propagate this type";
        let cause = config_cause("FederatedTypeConfig", config, &kind.name, "/spec/propagation");
        return Some(PlacementRefusal::new(PROPAGATION_DISABLED, message, help, cause));
    }
    if config.namespaced && (kind.scope == Scope::Cluster || federated.namespace() != config.namespace) {
        let message = format!(
            "this control plane has the scope `Namespaced`: it federates objects of namespace `{}` only",
            config.namespace
        );
        let help = "move it there, or give the control plane the scope `Cluster`";
        let cause = config_cause("KubeFedConfig", config, "kubefed", "/spec/scope");
        return Some(PlacementRefusal::new("OutOfScope", message, help, cause));
    }
    if !kind.is_namespace() {
        return None;
    }
    if SYSTEM_NAMESPACES.contains(&id.name.as_str()) || id.name == config.namespace {
        let message = format!("`{}` is a system namespace, which is never propagated", id.name);
        let help = "it only limits the clusters of federated objects in that namespace";
        let cause = VerdictCause::field(id, "/metadata/name");
        return Some(PlacementRefusal::new("SystemNamespace", message, help, cause));
    }
    if !federated.federates_namespace() {
        let message = format!("it is in namespace `{}`, and must have the same name", federated.namespace());
        let (help, cause) = ("use the name of its namespace", VerdictCause::field(id, "/metadata/name"));
        return Some(PlacementRefusal::new("InvalidName", message, help, cause));
    }
    None
}
