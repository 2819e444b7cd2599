//! The effect of a scenario: the control planes decide with the session's plan as the previous plan.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use federate_dialect::{Plan, PreviousPlan};
use federate_engine::capacity::{self, PlannedUsage};
use federate_engine::change::RenderingChanges;
use federate_engine::{EngineSettings, WorkLimit, map_charged};
use federate_kubernetes::{Cluster, ClusterName, ObjectRef, work};
use federate_repo::{Config, RepoFile};
use federate_whatif::{
    Baseline, ClusterMatcher, FailureDomain, FreeResource, ReplicaLoss, Scenario, ScenarioEvent,
    ScenarioFile, Timeline, TimelineOptions, TimelineStage, UnmovedScenario,
};

use crate::Session;

/// Scenarios over a session.
pub struct ScenarioRunner<'s> {
    session: &'s Session,
    options: TimelineOptions,
    /// What all scenarios share; made when the first one is carried out.
    baseline: OnceLock<Baseline<'s>>,
}

/// The effect of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioOutcome {
    /// What happens when.
    pub stages: Vec<TimelineStage>,
    /// The clusters that run nothing at the end.
    pub lost: BTreeSet<ClusterName>,
    /// The changed placements. Manifests are not compared.
    pub changes: RenderingChanges,
    /// The replicas that are lost and regained.
    pub losses: Vec<ReplicaLoss>,
    /// The tightest resource of each cluster at the end.
    pub tightest: Vec<FreeResource>,
    /// Why nothing moves, if nothing does and the reason was asked for.
    pub unmoved: Option<UnmovedScenario>,
}

impl ScenarioOutcome {
    fn from_timeline(timeline: Timeline<'_>) -> Self {
        let (changes, losses, tightest) =
            (timeline.compute_changes(), timeline.compute_losses(), timeline.tightest_resources());
        let lost = timeline.lost_clusters().clone();
        Self { changes, losses, tightest, lost, stages: timeline.stages, unmoved: None }
    }

    /// Whether the scenario changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.losses.is_empty()
    }

    /// The number of objects whose clusters or replicas change.
    pub fn count_moved(&self) -> usize {
        self.changes.placements.iter().filter(|row| row.is_move()).count()
    }

    /// Objects that become unschedulable.
    pub fn newly_unschedulable(&self) -> Vec<&ObjectRef> {
        let rows = self.changes.placements.iter();
        let new = rows.filter(|row| row.unschedulable.from.is_none() && row.unschedulable.to.is_some());
        new.map(|row| &row.object).collect()
    }

    /// How bad it is: by objects that run nowhere, then by missing replicas, then by lost replicas.
    fn compute_weight(&self) -> (usize, i64, i64) {
        let nowhere = self.losses.iter().filter(|loss| loss.nowhere).count();
        let missing: i64 = self.losses.iter().map(ReplicaLoss::missing_replicas).sum();
        (nowhere, missing, self.losses.iter().map(|loss| loss.lost).sum::<i64>())
    }
}

/// The effect of losing one unit, or two.
#[derive(Clone, Debug)]
pub struct UnitOutcome {
    /// The unit's name.
    pub name: String,
    /// Its clusters.
    pub clusters: BTreeSet<ClusterName>,
    /// The effect of losing them.
    pub outcome: ScenarioOutcome,
}

impl Session {
    /// What a plan of this repo, with the replicas of its manifests, requests of each cluster, and what is left there.
    pub fn compute_usage(&self, plan: &Plan) -> Vec<PlannedUsage> {
        let earlier = Plan { placements: self.settings().previous.rows().to_vec(), ..Plan::default() };
        let engine = self.build_engine();
        let earlier = PreviousPlan::new(engine.fill_in_replicas(&earlier).unwrap_or(earlier));
        capacity::compute_usage(&engine.index_templates(), self.clusters(), plan, &earlier)
    }

    /// The limit of the work of each part of a run.
    pub fn work_limit(&self) -> WorkLimit {
        WorkLimit::new(self.repo(), self.settings().allowance)
    }

    /// Prepares scenarios over this session.
    pub fn what_if(&self) -> ScenarioRunner<'_> {
        ScenarioRunner { session: self, options: TimelineOptions::default(), baseline: OnceLock::new() }
    }
}

impl<'s> ScenarioRunner<'s> {
    /// This runner, with other options.
    #[must_use]
    pub fn with_options(self, options: TimelineOptions) -> Self {
        let same_time = self.options.at == options.at;
        Self { options, baseline: if same_time { self.baseline } else { OnceLock::new() }, ..self }
    }

    /// The decisions that scenarios share.
    pub fn baseline(&self) -> &Baseline<'s> {
        self.baseline.get_or_init(|| {
            let session = self.session;
            let settings = session.settings();
            let settings = EngineSettings { now: self.options.at.or(settings.now), ..settings.clone() };
            Baseline::new(session.dialects(), session.repo(), session.clusters(), session.plan(), &settings)
        })
    }

    /// The effect of a scenario.
    ///
    /// # Errors
    ///
    /// If it names something that does not exist.
    pub fn run_scenario(&self, scenario: &Scenario) -> Result<ScenarioOutcome, String> {
        self.run_timeline(scenario, |_, timeline| Ok(ScenarioOutcome::from_timeline(timeline)))
    }

    /// The decisions that scenarios share, if they take no more steps than a part of a run may.
    fn limited_baseline(&self) -> Result<&Baseline<'s>, String> {
        self.run_part(|| Ok(self.baseline()))
    }

    /// Carries out a scenario, or what precedes scenarios, within the limit of the work of a part of a run.
    fn run_part<R>(&self, work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
        self.session
            .work_limit()
            .run_part("carrying out the scenario", work)
            .map_err(|exceeded| exceeded.to_string())?
    }

    /// The effect of a scenario, with the reason if nothing moves.
    ///
    /// # Errors
    ///
    /// If it names something that does not exist.
    pub fn explained_outcome(&self, scenario: &Scenario) -> Result<ScenarioOutcome, String> {
        self.run_timeline(scenario, |baseline, timeline| {
            let unmoved = scenario.explain_unmoved(baseline, self.options, &timeline)?;
            Ok(ScenarioOutcome { unmoved, ..ScenarioOutcome::from_timeline(timeline) })
        })
    }

    /// Why nothing moves in a scenario; `None` if something does.
    ///
    /// # Errors
    ///
    /// If it names something that does not exist.
    pub fn explain_unmoved(&self, scenario: &Scenario) -> Result<Option<UnmovedScenario>, String> {
        self.run_timeline(scenario, |baseline, timeline| {
            scenario.explain_unmoved(baseline, self.options, &timeline)
        })
    }

    /// Carries out a scenario and reads its end, in one part of a run. What scenarios share is a part of its own.
    fn run_timeline<R>(
        &self,
        scenario: &Scenario,
        read: impl FnOnce(&Baseline<'_>, Timeline<'_>) -> Result<R, String>,
    ) -> Result<R, String> {
        let baseline = self.limited_baseline()?;
        self.run_part(|| read(baseline, scenario.run_timeline(baseline, self.options)?))
    }

    /// The effect of losing each unit after the events of a scenario, or each pair of units. The worst comes first:
    /// by objects that run nowhere, then by missing replicas, then by lost replicas.
    ///
    /// # Errors
    ///
    /// If the scenario names something that does not exist, or if no cluster has such a unit.
    pub fn run_each_unit(
        &self,
        unit: FailureDomain,
        pairs: bool,
        scenario: &Scenario,
    ) -> Result<Vec<UnitOutcome>, String> {
        let units: Vec<(String, BTreeSet<ClusterName>)> =
            unit.group_clusters(self.session.clusters()).into_iter().collect();
        if units.is_empty() {
            return Err(format!("no cluster in the inventory has a {}", unit.name()));
        }
        let units = if pairs { pairs_of(&units) } else { units };
        self.limited_baseline()?;
        let run_all = || {
            map_charged(&units, |(name, clusters)| {
                if work::is_exceeded() {
                    return Err(String::new());
                }
                let outcome = self.run_scenario(&with_lost(scenario, clusters))?;
                Ok(UnitOutcome { name: name.clone(), clusters: clusters.clone(), outcome })
            })
        };
        let limit = self.session.work_limit().for_parts_together();
        let what = format!("carrying out the loss of each {}", unit.name());
        let all = limit.run_part(&what, run_all).map_err(|exceeded| exceeded.to_string())?;
        let mut all = all.into_iter().collect::<Result<Vec<UnitOutcome>, String>>()?;
        all.sort_by(|a, b| {
            b.outcome.compute_weight().cmp(&a.outcome.compute_weight()).then_with(|| a.name.cmp(&b.name))
        });
        Ok(all)
    }

    /// What a scenario with expectations does not fulfil, one sentence each.
    ///
    /// # Errors
    ///
    /// If the scenario names something that does not exist.
    pub fn find_violations(&self, file: &ScenarioFile) -> Result<Vec<String>, String> {
        let scenarios = self.session.what_if().with_options(file.options);
        let units = if let Some((unit, pairs)) = file.each {
            scenarios.run_each_unit(unit, pairs, &file.scenario)?
        } else {
            let (name, clusters) = (String::new(), BTreeSet::new());
            vec![UnitOutcome { name, clusters, outcome: scenarios.run_scenario(&file.scenario)? }]
        };
        let repo = self.session.repo();
        let running =
            if file.expect.is_empty() { Vec::new() } else { scenarios.baseline().running_objects() };
        let mut all: Vec<String> = Vec::new();
        for expect in &file.expect {
            all.extend(expect.violations_before(repo, &running)?);
        }
        for UnitOutcome { name, outcome, .. } in &units {
            let lost = if name.is_empty() { String::new() } else { format!("without {name}, ") };
            let violated =
                file.expect.iter().flat_map(|expect| expect.find_violations(repo, &outcome.losses));
            all.extend(violated.map(|violation| format!("{lost}{violation}")));
        }
        Ok(all)
    }

    /// Reads the clusters from a file of inventory objects.
    ///
    /// # Errors
    ///
    /// If the file is invalid or contains no inventory object.
    pub fn clusters_of(&self, path: &str, bytes: Vec<u8>) -> Result<Vec<Cluster>, String> {
        let file = RepoFile { path: path.into(), bytes: bytes.into() };
        let dialects = self.session.dialects();
        let loaded = federate_repo::load_bytes(vec![file], Config::default(), &dialects);
        let (clusters, findings) =
            federate_engine::read_inventory(dialects, &loaded.repo, self.session.settings());
        let mut errors = loaded.repo.findings.iter().chain(&findings).filter(|finding| finding.is_error());
        if let Some(error) = errors.next() {
            return Err(format!("{path}: {}", error.message));
        }
        if clusters.is_empty() {
            return Err(format!(
                "{path} contains no inventory object, such as a Cluster of cluster.karmada.io"
            ));
        }
        Ok(clusters)
    }
}

impl UnitOutcome {
    /// A scenario with the loss of this unit's clusters as its last events.
    pub fn extend_scenario(&self, before: &Scenario) -> Scenario {
        with_lost(before, &self.clusters)
    }
}

fn with_lost(scenario: &Scenario, clusters: &BTreeSet<ClusterName>) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.events.extend(
        clusters.iter().map(|cluster| ScenarioEvent::Lose(ClusterMatcher::Named(cluster.to_string()))),
    );
    scenario
}

/// All pairs of units.
fn pairs_of(units: &[(String, BTreeSet<ClusterName>)]) -> Vec<(String, BTreeSet<ClusterName>)> {
    let mut pairs = Vec::new();
    for (at, (a, of_a)) in units.iter().enumerate() {
        for (b, of_b) in units.iter().skip(at + 1) {
            pairs.push((format!("{a}, {b}"), of_a.union(of_b).cloned().collect()));
        }
    }
    pairs
}
