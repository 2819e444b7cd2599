//! Finds out why nothing moves in a scenario: the control planes decide the same scenario under other conditions, and the
//! fewest conditions under which something moves are the reasons.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Baseline, ClusterMatcher, Scenario, ScenarioEvent, Timeline, TimelineOptions};
use federate_dialect::{Plan, PreviousPlan};
use federate_engine::{Engine, EngineSettings};
use federate_kubernetes::{Cluster, ClusterName, Taint};
use federate_repo::{Repo, Role};

/// Why nothing moves in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnmovedScenario {
    /// The kind of the reason; of several, the first.
    pub reason: UnmovedReason,
    /// The kinds of the other reasons: nothing moves while any of them holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<UnmovedReason>,
    /// The number of objects that move under the other conditions.
    pub moved: usize,
    /// All reasons in a few words.
    pub summary: String,
    /// What changes it.
    pub help: String,
}

/// The kinds of reasons why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum UnmovedReason {
    /// The control planes place nothing on the clusters.
    NothingPlaced,
    /// The clusters were not ready before.
    NotReadyBefore,
    /// The feature gate of the failover is off.
    GateOff,
    /// No taint evicts from the lost clusters.
    NotTainted,
    /// The policies tolerate the taints.
    Tolerated,
    /// The schedulers keep what they have placed.
    Kept,
    /// The control planes would decide the same without a memory.
    NoOtherDecision,
}

/// What keeps objects on clusters that are lost or tainted. Several may hold at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// Nothing is evicted while the feature gate is off.
    Gate,
    /// No taint evicts from the lost clusters.
    NoTaint,
    /// The policies tolerate the taints.
    Tolerations,
}

/// The obstacles that may hold together, the fewest first.
const OBSTACLES: [&[Obstacle]; 7] = [
    &[Obstacle::Gate],
    &[Obstacle::NoTaint],
    &[Obstacle::Tolerations],
    &[Obstacle::Gate, Obstacle::NoTaint],
    &[Obstacle::Gate, Obstacle::Tolerations],
    &[Obstacle::NoTaint, Obstacle::Tolerations],
    &[Obstacle::Gate, Obstacle::NoTaint, Obstacle::Tolerations],
];

impl Obstacle {
    fn reason(self) -> UnmovedReason {
        match self {
            Self::Gate => UnmovedReason::GateOff,
            Self::NoTaint => UnmovedReason::NotTainted,
            Self::Tolerations => UnmovedReason::Tolerated,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Gate => "the feature gate Failover is off",
            Self::NoTaint => "no taint evicts from the lost clusters",
            Self::Tolerations => "the policies tolerate the taints",
        }
    }
}

impl Timeline<'_> {
    /// The number of objects whose clusters or replicas change.
    fn count_moved(&self) -> usize {
        self.compute_changes().placements.iter().filter(|row| row.is_move()).count()
    }
}

impl Scenario {
    /// Why nothing moves in this scenario; `None` if something does.
    ///
    /// # Errors
    ///
    /// If an event refers to something that does not exist.
    pub fn explain_unmoved(
        &self,
        baseline: &Baseline<'_>,
        options: TimelineOptions,
        timeline: &Timeline<'_>,
    ) -> Result<Option<UnmovedScenario>, String> {
        if timeline.count_moved() > 0 {
            return Ok(None);
        }
        let reason = |reason, moved, summary: &str, help: String| {
            Ok(Some(UnmovedScenario { reason, also: Vec::new(), moved, summary: summary.to_owned(), help }))
        };
        let hit: Vec<&Cluster> =
            baseline.clusters.iter().filter(|cluster| self.strikes_cluster(cluster)).collect();
        let strikes_any = self.events.iter().any(|event| struck_by(event).is_some());
        if strikes_any && baseline.rows_on(hit.iter().map(|cluster| cluster.name.as_ref())).next().is_none() {
            let help = "`federate plan` shows what is placed where".to_owned();
            return reason(UnmovedReason::NothingPlaced, 0, "nothing is placed there", help);
        }
        let removal = self.as_removal();
        if let Some(removal) =
            removal.as_ref().filter(|_| hit.iter().all(|cluster| cluster.not_ready(baseline.now()).is_some()))
        {
            let moved = removal.run_timeline(baseline, options)?.count_moved();
            let help = format!("with `--remove` in place of `--lose`, {}", objects_move(moved));
            let summary = "the clusters were not ready before, so nothing there counts as running";
            return reason(UnmovedReason::NotReadyBefore, moved, summary, help);
        }
        if let Some(found) = self.find_obstacles(baseline, options, strikes_any)? {
            return Ok(Some(found));
        }
        if let Some(removal) = removal {
            let moved = removal.run_timeline(baseline, options)?.count_moved();
            if moved > 0 {
                let help = format!("with `--remove` in place of `--lose`, {}", objects_move(moved));
                return reason(UnmovedReason::Kept, moved, "the schedulers keep what they have placed", help);
            }
        }
        let moved = moved_from_scratch(baseline, timeline);
        if moved > 0 {
            let help =
                format!("decided from scratch, {} (`--fresh` when it is rendered)", objects_move(moved));
            return reason(UnmovedReason::Kept, moved, "the schedulers keep what they have placed", help);
        }
        let help = "`federate explain KIND/NAME` shows which clusters a policy can choose".to_owned();
        reason(UnmovedReason::NoOtherDecision, 0, "no policy decides otherwise", help)
    }

    /// The fewest obstacles without which something moves; `None` if nothing moves without all of them either.
    fn find_obstacles(
        &self,
        baseline: &Baseline<'_>,
        options: TimelineOptions,
        strikes_any: bool,
    ) -> Result<Option<UnmovedScenario>, String> {
        let tainted = match self.with_taint() {
            // Where a taint moves objects without failover, it is not what they wait for.
            Some((tainted, option)) => {
                let unevicted = TimelineOptions { failover: false, ..options };
                (tainted.run_timeline(baseline, unevicted)?.count_moved() == 0).then_some((tainted, option))
            }
            None => None,
        };
        let intolerant = self.may_be_tolerated().then(|| without_tolerations(baseline.repo)).flatten();
        // Scheduler states keep the tolerations that they have applied, so these policies decide first.
        let intolerant = intolerant.map(|repo| {
            let Baseline { dialects, clusters, .. } = *baseline;
            let plan = Engine::new(dialects, &repo, clusters, baseline.settings()).compute_plan().plan;
            (repo, plan)
        });
        for removed in OBSTACLES {
            let failover = options.failover || removed.contains(&Obstacle::Gate);
            let may_hold = removed.iter().all(|obstacle| match obstacle {
                Obstacle::Gate => strikes_any && !options.failover,
                Obstacle::NoTaint => failover && tainted.is_some(),
                Obstacle::Tolerations => intolerant.is_some(),
            });
            if !may_hold {
                continue;
            }
            let options = TimelineOptions { failover, ..options };
            let scenario = match &tainted {
                Some((tainted, _)) if removed.contains(&Obstacle::NoTaint) => tainted,
                _ => self,
            };
            let moved = match &intolerant {
                Some((repo, plan)) if removed.contains(&Obstacle::Tolerations) => {
                    let Baseline { dialects, clusters, .. } = *baseline;
                    let intolerant = Baseline::new(dialects, repo, clusters, plan, baseline.settings());
                    scenario.run_timeline(&intolerant, options)?.count_moved()
                }
                _ => scenario.run_timeline(baseline, options)?.count_moved(),
            };
            if moved > 0 {
                let option = tainted.as_ref().map(|(_, option)| option.as_str());
                return Ok(self.describe_obstacles(removed, moved, option.unwrap_or_default()));
            }
        }
        Ok(None)
    }

    /// Says what keeps objects where they are, and how many move without it. `taint` is the option for a taint.
    fn describe_obstacles(&self, removed: &[Obstacle], moved: usize, taint: &str) -> Option<UnmovedScenario> {
        let (first, others) = removed.split_first()?;
        let words: Vec<&str> = removed.iter().map(|obstacle| obstacle.describe()).collect();
        let mut options = Vec::new();
        if removed.contains(&Obstacle::Gate) {
            options.push("--gates Failover=true");
        }
        if removed.contains(&Obstacle::NoTaint) {
            options.push(taint);
        }
        let mut conditions = Vec::new();
        if removed.contains(&Obstacle::Tolerations) {
            conditions.push("without the tolerations of the policies".to_owned());
        }
        if !options.is_empty() {
            conditions.push(format!("with `{}`", options.join(" ")));
        }
        let advice = if removed == [Obstacle::Gate] { "" } else { self.removal_advice() };
        Some(UnmovedScenario {
            reason: first.reason(),
            also: others.iter().map(|obstacle| obstacle.reason()).collect(),
            moved,
            summary: words.join(" and "),
            help: format!("{}, {}{advice}", conditions.join(" and "), objects_move(moved)),
        })
    }

    /// Whether an event can make a cluster lose what it runs.
    fn strikes_cluster(&self, cluster: &Cluster) -> bool {
        self.events.iter().filter_map(struck_by).any(|selection| selection.matches_cluster(cluster))
    }

    /// Whether tolerations can decide.
    fn may_be_tolerated(&self) -> bool {
        self.events.iter().any(|event| matches!(event, ScenarioEvent::Lose(_) | ScenarioEvent::Taint(..)))
    }

    /// The scenario with removed clusters in place of lost ones; `None` if it has none.
    fn as_removal(&self) -> Option<Self> {
        let has_lost = self.events.iter().any(|event| matches!(event, ScenarioEvent::Lose(_)));
        has_lost.then(|| Self {
            events: self
                .events
                .iter()
                .map(|event| match event {
                    ScenarioEvent::Lose(selection) => ScenarioEvent::Remove(selection.clone()),
                    other => other.clone(),
                })
                .collect(),
        })
    }

    /// The scenario in which the lost clusters also get a taint that evicts, with the option for it; `None` if it loses
    /// none.
    fn with_taint(&self) -> Option<(Self, String)> {
        let taint = Taint { key: "outage".to_owned(), value: String::new(), effect: "NoExecute".to_owned() };
        let lost: Vec<&ClusterMatcher> = self
            .events
            .iter()
            .filter_map(|event| match event {
                ScenarioEvent::Lose(selection) => Some(selection),
                _ => None,
            })
            .collect();
        let example = match lost.first()? {
            ClusterMatcher::Named(name) => format!("--taint {name}=outage:NoExecute"),
            selection @ ClusterMatcher::Matching(..) => format!("--taint '({selection})=outage:NoExecute'"),
        };
        let taints = lost.into_iter().map(|selection| ScenarioEvent::Taint(selection.clone(), taint.clone()));
        Some((Self { events: taints.chain(self.events.iter().cloned()).collect() }, example))
    }

    /// What else can be tried.
    fn removal_advice(&self) -> &'static str {
        if self.as_removal().is_some() { "; `--remove` shows what moves when the cluster leaves" } else { "" }
    }
}

/// The clusters of an event after which they may run less.
fn struck_by(event: &ScenarioEvent) -> Option<&ClusterMatcher> {
    match event {
        ScenarioEvent::Lose(selection)
        | ScenarioEvent::Remove(selection)
        | ScenarioEvent::Taint(selection, _) => Some(selection),
        _ => None,
    }
}

fn objects_move(moved: usize) -> String {
    if moved == 1 { "1 object moves".to_owned() } else { format!("{moved} objects move") }
}

/// The repo with policies that tolerate nothing; `None` if they do not tolerate anything now.
fn without_tolerations(repo: &Repo) -> Option<Repo> {
    let decides = |role: Role| matches!(role, Role::Placement | Role::Bundle);
    if !repo
        .claimed
        .iter()
        .any(|claimed| decides(claimed.role) && claimed.object.body.get("spec").is_some_and(has_tolerations))
    {
        return None;
    }
    let mut repo = repo.clone();
    for claimed in repo.claimed.iter_mut().filter(|claimed| decides(claimed.role)) {
        if let Some(spec) = claimed.object.body.get_mut("spec") {
            remove_tolerations(spec);
        }
    }
    Some(repo)
}

/// The fields with tolerations of clusters: Karmada's in `placement`, those of others in `spec` or `policy`.
const TOLERATIONS: [&str; 2] = ["clusterTolerations", "tolerations"];

/// The fields that contain them.
const WITH_TOLERATIONS: [&str; 2] = ["placement", "policy"];

fn has_tolerations(spec: &Value) -> bool {
    let own = TOLERATIONS.iter().any(|field| spec[*field].as_array().is_some_and(|list| !list.is_empty()));
    own || WITH_TOLERATIONS.iter().any(|field| spec.get(*field).is_some_and(has_tolerations))
}

fn remove_tolerations(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    fields.retain(|field, _| !TOLERATIONS.contains(&field.as_str()));
    for field in WITH_TOLERATIONS {
        fields.get_mut(field).into_iter().for_each(remove_tolerations);
    }
}

/// How many objects schedulers without a previous plan place on other clusters after the scenario than before.
fn moved_from_scratch(baseline: &Baseline<'_>, timeline: &Timeline<'_>) -> usize {
    let settings = EngineSettings { previous: PreviousPlan::default(), ..baseline.settings().clone() };
    let plan = |repo: &Repo, clusters: &[Cluster]| -> Plan {
        Engine::new(baseline.dialects, repo, clusters, &settings).compute_plan().plan
    };
    let before = plan(baseline.repo, baseline.clusters);
    let after = plan(&timeline.world.repo, &timeline.world.clusters);
    let names = |plan: &Plan| -> BTreeSet<(federate_kubernetes::ObjectRef, Vec<ClusterName>)> {
        let rows = plan.placements.iter();
        rows.map(|row| (row.object.clone(), row.clusters.iter().map(|placed| placed.name.clone()).collect()))
            .collect()
    };
    names(&after).difference(&names(&before)).count()
}
