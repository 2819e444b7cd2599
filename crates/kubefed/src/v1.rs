//! Federation v1: ordinary objects with everything in annotations.
//!
//! Facts: only ready clusters take part, and namespaces limit nothing. Every selected cluster gets a workload,
//! even with 0 replicas; a Job goes only to clusters with parallelism. The autoscaler's list of clusters
//! overrides preferences.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::division::{DivisionInput, DivisionParticipant, DivisionTrace, divide_by_weight};
use super::observation::{ObservedReplicas, Observer};
use super::state::{JobShare, KubeFedState};
use super::{KubeFedPlanner, NAME};
use federate_dialect::{DialectDecisions, Placed, Placement, PreviousPlan, Unschedulable};
use federate_kubernetes::pointer::escape;
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef};
use federate_repo::{Repo, Template};

pub(super) mod explanation;
mod json;
pub(super) mod manifest;
pub(super) mod member;
mod preferences;
mod selector;

use preferences::V1Preferences;
use selector::V1Requirement;

pub(super) const SELECTOR_ANNOTATION: &str = "federation.alpha.kubernetes.io/cluster-selector";
const AUTOSCALER_ANNOTATION: &str = "federation.kubernetes.io/hpa-target-cluster-list";

/// Whether Federation v1 handles a template: it has annotations, or the repo is kept for Federation v1.
pub(super) fn handles_template(template: &Template, implicit: bool) -> bool {
    has_controller(&template.object.id) && (implicit || is_annotated(&template.object))
}

/// Whether a repo has something of Federation v1: a cluster of its own kind, or annotations that it reads.
pub(super) fn is_used(repo: &Repo) -> bool {
    repo.claimed.iter().any(|claimed| claimed.dialect == NAME && claimed.object.id.group() == "federation")
        || repo
            .templates
            .iter()
            .any(|template| has_controller(&template.object.id) && is_annotated(&template.object))
}

/// Whether there is a controller for the kind.
fn has_controller(id: &ObjectRef) -> bool {
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
    let annotations = object.value_at(&["metadata", "annotations"]).and_then(Value::as_object);
    let domains = annotations.into_iter().flat_map(Map::keys).filter_map(|key| key.split_once('/'));
    domains
        .into_iter()
        .any(|(domain, _)| matches!(domain, "federation.alpha.kubernetes.io" | "federation.kubernetes.io"))
}

/// The finding about annotations on a kind without a controller.
pub(super) fn ignored_annotations(template: &Template) -> Option<Finding> {
    let object = &template.object;
    if has_controller(&object.id) || !is_annotated(object) {
        return None;
    }
    let message = format!("{} has annotations of Federation v1, which does not handle its kind", object.id);
    Some(Finding::warning("no-effect", object, message).with_help("remove the annotations"))
}

/// The number that is divided over the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Divided {
    Nothing,
    Replicas(&'static str),
    Parallelism,
}

impl Divided {
    fn for_kind(id: &ObjectRef) -> Self {
        match id.kind.as_str() {
            "Deployment" => Self::Replicas("federation.kubernetes.io/deployment-preferences"),
            "ReplicaSet" => Self::Replicas("federation.kubernetes.io/replica-set-preferences"),
            "Job" => Self::Parallelism,
            _ => Self::Nothing,
        }
    }

    fn preferences_annotation(self) -> &'static str {
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
    /// Whether the preferences give the cluster no weight and no minimum, or a maximum of 0.
    unweighted: bool,
}

/// Whether decisions about a template look at what runs of it in the clusters.
pub(super) fn observes_clusters(template: &Template) -> bool {
    matches!(Divided::for_kind(&template.object.id), Divided::Replicas(_))
}

/// A decision with everything that explains it.
pub(super) struct V1Decision<'d> {
    object: &'d Object,
    requirements: Result<Vec<V1Requirement>, (&'static str, String)>,
    /// The ready clusters with their shares.
    parts: Vec<(&'d Cluster, Part)>,
    /// Why the preferences do not count, if they do not.
    preferences: Option<String>,
    /// Whether the autoscaler's list decides.
    autoscaled: bool,
    implicit: bool,
}

impl<'d> V1Decision<'d> {
    /// Decides.
    pub(super) fn new(
        plane: &'d KubeFedPlanner<'_>,
        template: &'d Template,
        previous: &PreviousPlan,
        trace: &mut DivisionTrace,
    ) -> Self {
        let object = &template.object;
        let mut decision = Self {
            object,
            requirements: read_requirements(object),
            parts: Vec::new(),
            preferences: None,
            autoscaled: false,
            implicit: !is_annotated(object),
        };
        let Ok(requirements) = &decision.requirements else { return decision };
        for cluster in plane.clusters.iter().filter(|c| c.ready) {
            let chosen = requirements.iter().all(|r| r.matches_labels(&cluster.labels));
            decision.parts.push((cluster, Part { chosen, ..Part::default() }));
        }
        let observer = Observer {
            live: plane.input.live,
            previous: previous.find_row(&object.id),
            now: plane.now,
            target: &object.id,
            managed_only: false,
        };
        match Divided::for_kind(&object.id) {
            Divided::Nothing => {}
            Divided::Parallelism => decision.divide_job(trace),
            Divided::Replicas(_) => match read_autoscaler_list(object) {
                Ok(None) => decision.divide_replicas(&observer, trace),
                Ok(Some(names)) => decision.follow_autoscaler(&names, &observer),
                Err(why) => decision.requirements = Err(("InvalidTargetClusterList", why)),
            },
        }
        decision
    }

    fn read_preferences(&mut self) -> V1Preferences {
        let (preferences, why) = V1Preferences::from_object(
            self.object,
            Divided::for_kind(&self.object.id).preferences_annotation(),
        );
        self.preferences = why;
        preferences
    }

    /// Divides a number over the chosen clusters.
    fn divide_number(
        &self,
        total: i64,
        preferences: &V1Preferences,
        observe: impl Fn(&str) -> ObservedReplicas,
        trace: &mut DivisionTrace,
    ) -> Vec<Option<i64>> {
        let chosen = self.parts.iter().filter(|(_, part)| part.chosen);
        let parties: Vec<DivisionParticipant<'_>> = chosen
            .map(|(cluster, _)| {
                let observed = observe(&cluster.name);
                DivisionParticipant {
                    cluster: &cluster.name,
                    preference: preferences.for_cluster(&cluster.name),
                    current: observed.current,
                    capacity: observed.capacity,
                }
            })
            .collect();
        let key = self.object.id.namespaced_name();
        let division = DivisionInput { total, rebalance: preferences.rebalance, key: &key };
        let result = divide_by_weight(&division, &parties, trace);
        self.parts.iter().map(|(cluster, _)| result.get(cluster.name.as_ref()).copied()).collect()
    }

    fn spec_number(&self, field: &str) -> Option<i64> {
        self.object.value_at(&["spec", field]).and_then(Value::as_i64)
    }

    fn divide_replicas(&mut self, observer: &Observer<'_>, trace: &mut DivisionTrace) {
        let preferences = self.read_preferences();
        let total = self.spec_number("replicas").unwrap_or(1);
        let replicas = self.divide_number(total, &preferences, |name| observer.observe_cluster(name), trace);
        for ((_, part), replicas) in self.parts.iter_mut().zip(replicas) {
            part.replicas = replicas;
        }
    }

    /// A Job has no cluster selector: all ready clusters take part.
    fn divide_job(&mut self, trace: &mut DivisionTrace) {
        let preferences = self.read_preferences();
        trace.record_step(|| "parallelism:".to_owned());
        let total = self.spec_number("parallelism").unwrap_or(1);
        let parallelism = self.divide_number(total, &preferences, |_| ObservedReplicas::default(), trace);
        let completions = self.spec_number("completions").map(|total| {
            trace.record_step(|| "completions:".to_owned());
            self.divide_number(total, &preferences, |_| ObservedReplicas::default(), trace)
        });
        for (index, (_, part)) in self.parts.iter_mut().enumerate() {
            part.replicas = parallelism.get(index).copied().flatten();
            part.completions = completions.as_ref().and_then(|all| all.get(index).copied().flatten());
            part.chosen = part.replicas.is_some_and(|replicas| replicas != 0);
        }
        for (cluster, part) in &mut self.parts {
            let preference = preferences.for_cluster(&cluster.name).unwrap_or_default();
            let is_limited = preference.max_replicas.is_some_and(|max| max <= 0);
            part.unweighted = is_limited || preference.weight <= 0 && preference.min_replicas <= 0;
        }
    }

    fn follow_autoscaler(&mut self, names: &[String], observer: &Observer<'_>) {
        self.autoscaled = true;
        for (cluster, part) in &mut self.parts {
            let observed = observer.observe_cluster(&cluster.name);
            let named = names.iter().any(|name| name == cluster.name.as_ref());
            part.withdrawn = part.chosen && !named && observed.exists;
            part.chosen &= named;
            part.replicas = part.chosen.then_some(observed.wanted);
        }
    }

    /// The row of the plan.
    pub(super) fn to_row(&self) -> Placement {
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
        if Divided::for_kind(id) == Divided::Parallelism {
            KubeFedState { job: Some(self.job_shares()), ..KubeFedState::default() }.write_to(&mut row);
        }
        row
    }

    /// The share of each ready cluster in a Job.
    fn job_shares(&self) -> BTreeMap<ClusterName, JobShare> {
        let shares = self.parts.iter().map(|(cluster, part)| {
            let share = JobShare { parallelism: part.replicas, completions: part.completions };
            (cluster.name.clone(), share)
        });
        shares.collect()
    }

    fn collect_findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Err((reason, message)) = &self.requirements {
            let annotation =
                if *reason == "InvalidClusterSelector" { SELECTOR_ANNOTATION } else { AUTOSCALER_ANNOTATION };
            let message = format!("{} is placed nowhere: {reason}: {message}", self.object.id);
            // The control plane would leave everything as it is, which a rendering cannot express.
            findings.push(
                Finding::error("invalid-policy", self.object, message)
                    .with_pointer(annotation_pointer(annotation))
                    .with_help("fix the annotation"),
            );
        }
        if let Some(why) = &self.preferences {
            let message = format!(
                "the preferences of {} do not count: {why}; every cluster has weight 1",
                self.object.id
            );
            let annotation = Divided::for_kind(&self.object.id).preferences_annotation();
            findings.push(
                Finding::warning("no-effect", self.object, message)
                    .with_pointer(annotation_pointer(annotation))
                    .with_help("write JSON such as {\"clusters\": {\"*\": {\"weight\": 1}}}"),
            );
        }
        findings
    }
}

fn annotation_pointer(annotation: &str) -> String {
    format!("/metadata/annotations/{}", escape(annotation))
}

/// The findings about keys of a template's preferences that Federation v1 ignores.
pub(super) fn unknown_keys(template: &Template) -> Vec<Finding> {
    let object = &template.object;
    let key = Divided::for_kind(&object.id).preferences_annotation();
    let unknown = object.annotation(key).map(V1Preferences::unknown_keys).unwrap_or_default();
    let findings = unknown.into_iter().map(|(name, known)| {
        let message = format!("Federation v1 ignores `{name}` in the preferences of {}", object.id);
        let help = match find_similar(&name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        let pointer = annotation_pointer(key);
        Finding::warning("unknown-field", object, message).with_pointer(pointer).with_help(help)
    });
    findings.collect()
}

/// The requirements on clusters, or the reason why they cannot be read. Jobs have none.
fn read_requirements(object: &Object) -> Result<Vec<V1Requirement>, (&'static str, String)> {
    match object
        .annotation(SELECTOR_ANNOTATION)
        .filter(|_| Divided::for_kind(&object.id) != Divided::Parallelism)
    {
        Some(annotation) => {
            selector::parse_annotation(annotation).map_err(|why| ("InvalidClusterSelector", why))
        }
        None => Ok(Vec::new()),
    }
}

/// The clusters that the autoscaler chose, if it did.
fn read_autoscaler_list(object: &Object) -> Result<Option<Vec<String>>, String> {
    let Some(annotation) = object.annotation(AUTOSCALER_ANNOTATION) else { return Ok(None) };
    let document = json::parse(annotation)?;
    json::read_string_list(json::read_structure(&document)?, "names").map(Some)
}

/// Decides about one template.
pub(super) fn decide_template(
    plane: &KubeFedPlanner<'_>,
    template: &Template,
    previous: &PreviousPlan,
) -> DialectDecisions {
    let decision = V1Decision::new(plane, template, previous, &mut DivisionTrace::default());
    DialectDecisions {
        placements: vec![decision.to_row()],
        findings: decision.collect_findings(),
        ..DialectDecisions::default()
    }
}

/// A cluster with its replicas, or with a Job's parallelism and completions.
struct Share {
    cluster: ClusterName,
    replicas: Option<i64>,
    completions: Option<i64>,
}

/// The numbers for each cluster of a row, and for those where the object stays with 0 replicas.
fn cluster_shares(row: &Placement) -> Vec<Share> {
    let job = KubeFedState::from_row(row).job.unwrap_or_default();
    let placed = row.clusters.iter().map(|placed| Share {
        cluster: placed.name.clone(),
        replicas: placed.replicas,
        completions: job.get(&placed.name).and_then(|share| share.completions),
    });
    let withdrawn = row.withdrawn.iter().map(|cluster| Share {
        cluster: cluster.clone(),
        replicas: Some(0),
        completions: None,
    });
    placed.chain(withdrawn).collect()
}
