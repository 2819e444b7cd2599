//! Federation v1: ordinary objects with everything in annotations.
//!
//! Facts: only ready clusters take part, and namespaces limit nothing. Every selected cluster gets a workload,
//! even with 0 replicas; a Job goes only to clusters with parallelism. The autoscaler's list of clusters
//! overrides preferences.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::division::{Division, Party, Trace, divide};
use super::memory::{JobShare, Memory};
use super::observe::{Observed, Observer};
use super::{KubeFedPlane, NAME};
use federate_dialect::{Decided, Placed, Placement, Previous, Unschedulable};
use federate_kubernetes::pointer::escape;
use federate_kubernetes::schema::similar;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef};
use federate_repo::{Claimed, Repo, Template};

pub(super) mod explain;
mod json;
pub(super) mod manifest;
pub(super) mod member;
mod preferences;
mod selector;

use preferences::Preferences;
use selector::Requirement;

pub(super) const SELECTOR: &str = "federation.alpha.kubernetes.io/cluster-selector";
const AUTOSCALED: &str = "federation.kubernetes.io/hpa-target-cluster-list";

/// Whether Federation v1 handles a template: it has annotations, or the repo is kept for Federation v1.
pub(super) fn handles_template(template: &Template, implicit: bool) -> bool {
    handles(&template.object.id) && (implicit || is_annotated(&template.object))
}

/// Whether a repo has something of Federation v1: a cluster of its own kind, or annotations that it reads.
pub(super) fn is_used(repo: &Repo) -> bool {
    let is_cluster = |claimed: &Claimed| claimed.dialect == NAME && claimed.object.id.group() == "federation";
    repo.claimed.iter().any(is_cluster)
        || repo
            .templates
            .iter()
            .any(|template| handles(&template.object.id) && is_annotated(&template.object))
}

/// Whether there is a controller for the kind.
fn handles(id: &ObjectRef) -> bool {
    matches!(
        (id.group(), id.kind.as_str()),
        ("", "ConfigMap" | "Secret" | "Namespace" | "Service")
            | ("apps" | "extensions", "Deployment" | "ReplicaSet" | "DaemonSet")
            | ("batch", "Job")
            | ("autoscaling", "HorizontalPodAutoscaler")
            | ("networking.k8s.io" | "extensions", "Ingress")
    )
}

fn is_annotated(object: &Object) -> bool {
    let annotations = object.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let domain = |key: &String| {
        matches!(
            key.split_once('/'),
            Some(("federation.alpha.kubernetes.io" | "federation.kubernetes.io", _))
        )
    };
    annotations.into_iter().flat_map(Map::keys).any(domain)
}

/// The finding about annotations on a kind without a controller.
pub(super) fn ignored_annotations(template: &Template) -> Option<Finding> {
    let object = &template.object;
    if handles(&object.id) || !is_annotated(object) {
        return None;
    }
    let message = format!("{} has annotations of Federation v1, which does not handle its kind", object.id);
    Some(Finding::warning("no-effect", object, message).help("remove the annotations"))
}

/// The number that is divided over the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Divided {
    Nothing,
    Replicas(&'static str),
    Parallelism,
}

impl Divided {
    fn of(id: &ObjectRef) -> Self {
        match id.kind.as_str() {
            "Deployment" => Self::Replicas("federation.kubernetes.io/deployment-preferences"),
            "ReplicaSet" => Self::Replicas("federation.kubernetes.io/replica-set-preferences"),
            "Job" => Self::Parallelism,
            _ => Self::Nothing,
        }
    }

    fn annotation(self) -> &'static str {
        match self {
            Self::Replicas(annotation) => annotation,
            _ => "federation.kubernetes.io/job-preferences",
        }
    }
}

/// The share of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    /// Whether the object goes there.
    chosen: bool,
    replicas: Option<i64>,
    completions: Option<i64>,
    /// Whether the object stays there with 0 replicas.
    withdrawn: bool,
}

/// Whether decisions about a template look at what runs of it in the clusters.
pub(super) fn observes(template: &Template) -> bool {
    matches!(Divided::of(&template.object.id), Divided::Replicas(_))
}

/// A decision with everything that explains it.
pub(super) struct Decision<'d> {
    object: &'d Object,
    requirements: Result<Vec<Requirement>, (&'static str, String)>,
    /// The ready clusters with their shares.
    parts: Vec<(&'d Cluster, Part)>,
    /// Why the preferences do not count, if they do not.
    preferences: Option<String>,
    /// Whether the autoscaler's list decides.
    autoscaled: bool,
    implicit: bool,
}

impl<'d> Decision<'d> {
    /// Decides.
    pub(super) fn new(
        plane: &'d KubeFedPlane<'_>,
        template: &'d Template,
        previous: &Previous,
        trace: &mut Trace,
    ) -> Self {
        let object = &template.object;
        let mut decision = Self {
            object,
            requirements: requirements(object),
            parts: Vec::new(),
            preferences: None,
            autoscaled: false,
            implicit: !is_annotated(object),
        };
        let Ok(requirements) = &decision.requirements else { return decision };
        let selects = |c: &Cluster| requirements.iter().all(|r| r.matches(&c.labels));
        let ready = plane.clusters.iter().filter(|c| c.ready);
        decision.parts = ready.map(|c| (*c, Part { chosen: selects(c), ..Part::default() })).collect();
        let observer = Observer {
            live: plane.input.live,
            previous: previous.of(&object.id),
            now: plane.now,
            target: &object.id,
            managed_only: false,
        };
        match Divided::of(&object.id) {
            Divided::Nothing => {}
            Divided::Parallelism => decision.divide_job(trace),
            Divided::Replicas(_) => match autoscaled(object) {
                Ok(None) => decision.divide_replicas(&observer, trace),
                Ok(Some(names)) => decision.follow_autoscaler(&names, &observer),
                Err(why) => decision.requirements = Err(("InvalidTargetClusterList", why)),
            },
        }
        decision
    }

    fn read_preferences(&mut self) -> Preferences {
        let (preferences, why) = Preferences::of(self.object, Divided::of(&self.object.id).annotation());
        self.preferences = why;
        preferences
    }

    /// Divides a number over the chosen clusters.
    fn divide(
        &self,
        total: i64,
        preferences: &Preferences,
        observe: impl Fn(&str) -> Observed,
        trace: &mut Trace,
    ) -> Vec<Option<i64>> {
        let chosen = self.parts.iter().filter(|(_, part)| part.chosen);
        let parties: Vec<Party<'_>> = chosen
            .map(|(cluster, _)| {
                let observed = observe(&cluster.name);
                Party {
                    cluster: &cluster.name,
                    preference: preferences.cluster(&cluster.name),
                    current: observed.current,
                    capacity: observed.capacity,
                }
            })
            .collect();
        let key = self.object.id.path();
        let division = Division { total, rebalance: preferences.rebalance, key: &key };
        let result = divide(&division, &parties, trace);
        self.parts.iter().map(|(cluster, _)| result.get(cluster.name.as_ref()).copied()).collect()
    }

    fn number(&self, field: &str) -> Option<i64> {
        self.object.at(&["spec", field]).and_then(Value::as_i64)
    }

    fn divide_replicas(&mut self, observer: &Observer<'_>, trace: &mut Trace) {
        let preferences = self.read_preferences();
        let total = self.number("replicas").unwrap_or(1);
        let replicas = self.divide(total, &preferences, |name| observer.observe(name), trace);
        for ((_, part), replicas) in self.parts.iter_mut().zip(replicas) {
            part.replicas = replicas;
        }
    }

    /// A Job has no cluster selector: all ready clusters take part.
    fn divide_job(&mut self, trace: &mut Trace) {
        let preferences = self.read_preferences();
        let unobserved = |_: &str| Observed::default();
        trace.step(|| "parallelism:".to_owned());
        let parallelism =
            self.divide(self.number("parallelism").unwrap_or(1), &preferences, unobserved, trace);
        let completions = self.number("completions").map(|total| {
            trace.step(|| "completions:".to_owned());
            self.divide(total, &preferences, unobserved, trace)
        });
        for (index, (_, part)) in self.parts.iter_mut().enumerate() {
            part.replicas = parallelism.get(index).copied().flatten();
            part.completions = completions.as_ref().and_then(|all| all.get(index).copied().flatten());
            part.chosen = part.replicas.is_some_and(|replicas| replicas != 0);
        }
    }

    fn follow_autoscaler(&mut self, names: &[String], observer: &Observer<'_>) {
        self.autoscaled = true;
        for (cluster, part) in &mut self.parts {
            let observed = observer.observe(&cluster.name);
            let named = names.iter().any(|name| name == cluster.name.as_ref());
            part.withdrawn = part.chosen && !named && observed.exists;
            part.chosen &= named;
            part.replicas = part.chosen.then_some(observed.wanted);
        }
    }

    /// The row of the plan.
    pub(super) fn row(&self) -> Placement {
        let id = &self.object.id;
        let mut row = Placement::new(NAME, id.clone(), Some(id.clone()));
        row.implicit = self.implicit;
        if let Err((reason, message)) = &self.requirements {
            row.unschedulable =
                Some(Unschedulable { reason: (*reason).to_owned(), message: message.clone() });
            return row;
        }
        let chosen = self.parts.iter().filter(|(_, part)| part.chosen);
        row.clusters =
            chosen.map(|(c, part)| Placed { name: c.name.clone(), replicas: part.replicas }).collect();
        let withdrawn = self.parts.iter().filter(|(_, part)| part.withdrawn);
        row.withdrawn = withdrawn.map(|(c, _)| c.name.clone()).collect();
        if Divided::of(id) == Divided::Parallelism {
            Memory { job: Some(self.job()), ..Memory::default() }.write(&mut row);
        }
        row
    }

    /// The share of each ready cluster in a Job.
    fn job(&self) -> BTreeMap<ClusterName, JobShare> {
        let share = |part: &Part| JobShare { parallelism: part.replicas, completions: part.completions };
        self.parts.iter().map(|(cluster, part)| (cluster.name.clone(), share(part))).collect()
    }

    fn findings(&self) -> Vec<Finding> {
        let at = |annotation: &str| format!("/metadata/annotations/{}", escape(annotation));
        let mut findings = Vec::new();
        if let Err((reason, message)) = &self.requirements {
            let annotation = if *reason == "InvalidClusterSelector" { SELECTOR } else { AUTOSCALED };
            let message = format!("{} goes nowhere: {reason}: {message}", self.object.id);
            // The control plane would leave everything as it is, which a rendering cannot express.
            findings.push(
                Finding::error("invalid-policy", self.object, message)
                    .at(at(annotation))
                    .help("fix the annotation"),
            );
        }
        if let Some(why) = &self.preferences {
            let message = format!(
                "the preferences of {} do not count: {why}; every cluster has weight 1",
                self.object.id
            );
            let annotation = Divided::of(&self.object.id).annotation();
            findings.push(
                Finding::warning("no-effect", self.object, message)
                    .at(at(annotation))
                    .help("write JSON such as {\"clusters\": {\"*\": {\"weight\": 1}}}"),
            );
        }
        findings
    }
}

/// The findings about keys of a template's preferences that Federation v1 ignores.
pub(super) fn unknown_keys(template: &Template) -> Vec<Finding> {
    let object = &template.object;
    let key = Divided::of(&object.id).annotation();
    let unknown = object.annotation(key).map(Preferences::unknown_keys).unwrap_or_default();
    let finding = |(name, known): (String, &[&str])| {
        let message = format!("Federation v1 ignores `{name}` in the preferences of {}", object.id);
        let help = match similar(&name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        let at = format!("/metadata/annotations/{}", escape(key));
        Finding::warning("unknown-field", object, message).at(at).help(help)
    };
    unknown.into_iter().map(finding).collect()
}

/// The requirements on clusters, or the reason why they cannot be read. Jobs have none.
fn requirements(object: &Object) -> Result<Vec<Requirement>, (&'static str, String)> {
    match object.annotation(SELECTOR).filter(|_| Divided::of(&object.id) != Divided::Parallelism) {
        Some(annotation) => selector::read(annotation).map_err(|why| ("InvalidClusterSelector", why)),
        None => Ok(Vec::new()),
    }
}

/// The clusters that the autoscaler chose, if it did.
fn autoscaled(object: &Object) -> Result<Option<Vec<String>>, String> {
    let Some(annotation) = object.annotation(AUTOSCALED) else { return Ok(None) };
    let document = json::parse(annotation)?;
    json::texts(json::structure(&document)?, "names").map(Some)
}

/// Decides about one template.
pub(super) fn decide(plane: &KubeFedPlane<'_>, template: &Template, previous: &Previous) -> Decided {
    let decision = Decision::new(plane, template, previous, &mut Trace::default());
    Decided { placements: vec![decision.row()], findings: decision.findings(), ..Decided::default() }
}

/// A cluster with its replicas, or with a Job's parallelism and completions.
struct Share {
    cluster: ClusterName,
    replicas: Option<i64>,
    completions: Option<i64>,
}

/// The numbers for each cluster of a row, and for those where the object stays with 0 replicas.
fn shares(row: &Placement) -> Vec<Share> {
    let job = Memory::of(row).job.unwrap_or_default();
    let completions = |cluster: &str| job.get(cluster)?.completions;
    let placed = row.clusters.iter().map(|placed| Share {
        cluster: placed.name.clone(),
        replicas: placed.replicas,
        completions: completions(&placed.name),
    });
    let withdrawn = row.withdrawn.iter().map(|cluster| Share {
        cluster: cluster.clone(),
        replicas: Some(0),
        completions: None,
    });
    placed.chain(withdrawn).collect()
}
