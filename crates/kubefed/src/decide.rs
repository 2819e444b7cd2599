//! One federated object's decision: whether any controller acts on it, which clusters its placement,
//! its namespace's and the scheduler leave, and with how many replicas.

use super::division::Trace;
use super::federated::Federated;
use super::overrides::{self, Step};
use super::preference::{self, Preference, Schedule};
use super::{KubeFeds, NAME, manifest, placement};
use federate_dialect::{Decided, Placed, Placement, Previous, Unschedulable};
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::{Cluster, Finding, ObjectRef, Origin, finding};

/// The reason where a selector is invalid: then nothing is done at all.
pub(super) const NO_PLACEMENT: &str = "ComputePlacementFailed";

/// Namespaces that are never federated; so is the control plane's own.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "default"];

/// Why a federated object goes nowhere.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// The short reason.
    pub reason: &'static str,
    pub message: String,
    /// The federated object that is invalid, and where, if one is.
    invalid: Option<(ObjectRef, Origin, String)>,
    help: &'static str,
}

impl Refusal {
    fn new(reason: &'static str, message: impl Into<String>, help: &'static str) -> Self {
        Self { reason, message: message.into(), invalid: None, help }
    }
}

/// A decision with everything that explains it.
pub(super) struct Decision<'d, 'a> {
    pub federated: &'d Federated<'a>,
    /// The preference of its name, if there is one, and what comes of it.
    pub preference: Option<(&'d Preference<'a>, Result<Schedule, String>)>,
    /// For each cluster whether the object's own placement (or the scheduler) selects it.
    pub own: Vec<bool>,
    /// For each cluster whether its namespace's does; `None` where there is no such limit.
    pub namespace: Option<Vec<bool>>,
    pub refusal: Option<Refusal>,
}

impl<'d, 'a> Decision<'d, 'a> {
    /// Decides.
    pub(super) fn new(
        plane: &'d KubeFeds<'a>,
        federated: &'d Federated<'a>,
        previous: &Previous,
        trace: &mut Trace,
    ) -> Self {
        let mut decision = Self {
            federated,
            preference: None,
            own: vec![false; plane.clusters.len()],
            namespace: None,
            refusal: inactive(plane, federated),
        };
        if decision.refusal.is_none() {
            decision.preference = plane.preference_of(federated).map(|preference| {
                (preference, preference::schedule(plane, preference, federated, previous, trace))
            });
            decision.refusal = decision.select(plane).err().or_else(|| leaving(federated));
        }
        decision
    }

    /// What the scheduler decided, if it has a say.
    pub(super) fn schedule(&self) -> Option<(&'d Preference<'a>, &Schedule)> {
        let (preference, outcome) = self.preference.as_ref()?;
        Some((preference, outcome.as_ref().ok()?))
    }

    fn select(&mut self, plane: &KubeFeds<'a>) -> Result<(), Refusal> {
        self.own = match self.schedule() {
            Some((_, schedule)) => plane.clusters.iter().map(|c| schedule.contains_key(&c.name)).collect(),
            None => selected(plane, self.federated)?,
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

    /// Whether the object goes to cluster number `index`.
    pub(super) fn chosen(&self, index: usize) -> bool {
        self.refusal.is_none() && self.selects(index)
    }

    /// Whether its own placement and its namespace's select cluster number `index`.
    pub(super) fn selects(&self, index: usize) -> bool {
        let says = |selected: &Vec<bool>| selected.get(index).copied().unwrap_or_default();
        says(&self.own) && self.namespace.as_ref().is_none_or(says)
    }

    /// The row of the plan.
    pub(super) fn row(&self, plane: &KubeFeds<'a>) -> Placement {
        let policy = match self.schedule() {
            Some((preference, _)) => &preference.object.id,
            None => &self.federated.object.id,
        };
        let mut row = Placement::new(NAME, self.federated.target.clone(), Some(policy.clone()));
        let replicas = self.replicas();
        let chosen = plane.clusters.iter().enumerate().filter(|(index, _)| self.chosen(*index));
        let placed = |c: &Cluster| Placed { name: c.name.clone(), replicas: replicas(c) };
        row.clusters = chosen.map(|(_, c)| placed(c)).collect();
        row.unschedulable = self
            .refusal
            .as_ref()
            .map(|r| Unschedulable { reason: r.reason.to_owned(), message: r.message.clone() });
        row
    }

    /// The replicas that each cluster is sent: none where overrides that fail keep it from being sent
    /// any.
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

    /// What is to be told of the decision.
    fn findings(&self, plane: &KubeFeds<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.lost(plane));
        if let Some((preference, Err(why))) = &self.preference {
            let message =
                format!("{} has no effect on {}: {why}", preference.object.id, self.federated.object.id);
            let help = "as long as that is so, the federated object's own placement and replicas stand";
            findings.push(Finding::warning("no-effect", preference.object, message).help(help));
        }
        if let Some(refusal) = self.refusal.as_ref().filter(|_| !self.only_limits(plane)) {
            findings.push(self.refused(plane, refusal));
        }
        findings
    }

    /// Whether it is a system namespace's, which is there to say where what is inside may go.
    fn only_limits(&self, plane: &KubeFeds<'_>) -> bool {
        let inside =
            |f: &Federated<'_>| !f.kind.is_namespace() && f.namespace() == self.federated.namespace();
        self.refusal.as_ref().is_some_and(|r| r.reason == "SystemNamespace")
            && plane.federated.iter().any(inside)
    }

    /// An invalid selector is an error of its own object: the control plane would leave everything as
    /// it is, which no rendering can say, so nothing is to be rendered.
    fn refused(&self, plane: &KubeFeds<'_>, refusal: &Refusal) -> Finding {
        let object = self.federated.object;
        let message = format!("{} goes nowhere: {}: {}", object.id, refusal.reason, refusal.message);
        let namespace = plane.namespace_of(self.federated);
        let told = |invalid: &ObjectRef| {
            *invalid != object.id && namespace.is_some_and(|n| inactive(plane, n).is_none())
        };
        let mut finding = match &refusal.invalid {
            Some((invalid, ..)) if !told(invalid) => Finding::error("invalid-policy", object, message),
            _ => Finding::warning("unschedulable", object, message),
        };
        if let Some((_, origin, pointer)) = &refusal.invalid {
            finding.origin = Some(origin.clone());
            finding.pointer.clone_from(pointer);
        }
        finding.object = Some(self.federated.target.clone());
        finding.help(refusal.help)
    }

    /// Replicas scheduled into clusters that the namespace leaves out.
    fn lost(&self, plane: &KubeFeds<'_>) -> Option<Finding> {
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
pub(super) fn decide(plane: &KubeFeds<'_>, federated: &Federated<'_>, previous: &Previous) -> Decided {
    let decision = Decision::new(plane, federated, previous, &mut Trace::default());
    Decided {
        placements: vec![decision.row(plane)],
        findings: decision.findings(plane),
        ..Decided::default()
    }
}

fn selected(plane: &KubeFeds<'_>, federated: &Federated<'_>) -> Result<Vec<bool>, Refusal> {
    placement::selected(&federated.spec.placement, &plane.clusters).map_err(|invalid| Refusal {
        invalid: Some((federated.object.id.clone(), federated.object.origin.clone(), invalid.pointer)),
        ..Refusal::new(
            NO_PLACEMENT,
            format!("the `clusterSelector` of {} is invalid: {}", federated.object.id, invalid.why),
            "write it as Kubernetes defines label selectors",
        )
    })
}

/// Whether the object is being deleted: then it goes nowhere any more.
fn leaving(federated: &Federated<'_>) -> Option<Refusal> {
    let help = "delete it from the repo to be rid of what it stands for";
    let refusal =
        || Refusal::new("Deleting", "it is being deleted: `metadata.deletionTimestamp` is set", help);
    federated.object.deleting().then(refusal)
}

/// Why no controller acts on the object.
pub(super) fn inactive(plane: &KubeFeds<'_>, federated: &Federated<'_>) -> Option<Refusal> {
    let (config, kind, id) = (&plane.config, &federated.kind, &federated.object.id);
    if !config.pushes {
        let help = "enable it in the KubeFedConfig";
        return Some(Refusal::new("PropagationDisabled", "the feature `PushReconciler` is disabled", help));
    }
    if !kind.enabled {
        let message = format!("the FederatedTypeConfig `{}` says `propagation: Disabled`", kind.name);
        return Some(Refusal::new("PropagationDisabled", message, "enable it there to propagate this type"));
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
        let help = "it is of use only to limit where federated objects of that namespace may go";
        return Some(Refusal::new("SystemNamespace", message, help));
    }
    if !federated.federates_namespace() {
        let message = format!("it is in namespace `{}`, and must have the same name", federated.namespace());
        return Some(Refusal::new("InvalidName", message, "give it the name of the namespace it is in"));
    }
    None
}
