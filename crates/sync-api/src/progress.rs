//! How far a rollout is, and which step is next: a function of stages, clusters, approvals and time.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::rollout::stage::{ActiveStage, TasksAfterStage};
use federate_dialect::rollout::{ClusterUpdate, UpdateState};
use federate_dialect::stages::UpdateStage as Clusters;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::{RolloutSpec, RolloutStage, StageTask, StageTaskType};

/// How far a rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutState {
    /// The revision that is rolled out: a commit, or a tag object.
    pub target: String,
    /// The revision from whose plan the next one continues if this rollout is aborted: the last one that succeeded somewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<String>,
    /// Whether it was aborted, and clusters return to their former revisions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
    /// The stages that have started, by name.
    pub stages: BTreeMap<String, StageProgress>,
}

/// How far a stage is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StageProgress {
    /// The tasks that were approved: `before`, `after`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub approved: BTreeSet<String>,
    /// When its first cluster was updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub started: Option<Timestamp>,
    /// When its last cluster became healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub updated: Option<Timestamp>,
    /// When the tasks after it were done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub finished: Option<Timestamp>,
}

/// The revision of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRevision {
    /// The revision that it has; none before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The revision to which it returns if the rollout that is under way is aborted: the last one that it had whose rollout
    /// was neither halted nor aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<String>,
    /// Since when it is being updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub updating: Option<Timestamp>,
    /// Whether everything was applied, and only health is waited for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What is not healthy yet, and why, if everything was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<String>,
    /// Whether the spec has changed since it was updated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

impl ClusterRevision {
    /// How long it has been updated by now.
    pub fn time_updating(&self, now: Timestamp) -> SignedDuration {
        self.updating.map_or(SignedDuration::ZERO, |since| now.duration_since(since))
    }

    /// How far the update to a revision is.
    fn update_state(&self, target: &str) -> UpdateState {
        match (self.updating, &self.failed) {
            (Some(_), Some(_)) => UpdateState::Failed,
            (Some(_), None) => UpdateState::Updating,
            (None, _) if self.stale || self.revision.as_deref() != Some(target) => UpdateState::Pending,
            (None, _) => UpdateState::Updated,
        }
    }
}

/// The clusters of a Sync, by name.
pub type ClusterRevisions = BTreeMap<String, ClusterRevision>;

/// What a rollout does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextRolloutStep {
    /// These clusters of a stage are updated, or are still becoming healthy.
    Update {
        /// The stage.
        stage: String,
        /// The clusters.
        clusters: BTreeSet<String>,
    },
    /// It waits for approval.
    Approval {
        /// The stage.
        stage: String,
        /// What the annotation `federate.dev/approve` must contain.
        token: String,
    },
    /// It waits until a time.
    Until {
        /// The stage.
        stage: String,
        /// The time.
        time: Timestamp,
    },
    /// All clusters are at the revision.
    Done,
}

/// The first characters of a revision, as approvals name it.
pub fn short_revision(revision: &str) -> &str {
    revision.get(..8).unwrap_or(revision)
}

impl RolloutState {
    /// The start of a rollout, after the revision `before` and in place of the rollout that is `running`, if one is. Clusters
    /// that it was updating keep what it has applied.
    pub fn start(
        target: &str,
        before: Option<&str>,
        running: Option<&Self>,
        clusters: &mut ClusterRevisions,
    ) -> Self {
        // A revision whose rollout was halted or aborted is not one to return to.
        let halted = clusters.values().any(|cluster| cluster.failed.is_some());
        let is_good = running.is_none_or(|running| !halted && !running.aborted && running.target != target);
        let sent = match running {
            Some(running) if running.target != target => Some(running.target.as_str()),
            Some(running) => running.former.as_deref(),
            None => before,
        };
        let mut has_succeeded = running.is_none();
        for cluster in clusters.values_mut() {
            let is_interrupted = cluster.updating.take().is_some();
            if is_interrupted {
                cluster.revision = sent.map(str::to_owned);
            }
            (cluster.failed, cluster.unhealthy) = (None, None);
            let has_it = !is_interrupted && cluster.revision.as_deref() == sent;
            has_succeeded |= is_good && has_it;
            let is_former = running.is_none() || is_good && has_it;
            if is_former && cluster.revision.as_deref() != Some(target) {
                cluster.former.clone_from(&cluster.revision);
            }
        }
        let kept = running.and_then(|running| running.former.as_deref()).filter(|_| !has_succeeded);
        let former = kept.or(before).filter(|former| *former != target).map(str::to_owned);
        Self { target: target.to_owned(), former, ..Self::default() }
    }

    /// What approves a task.
    fn approval_token(&self, task: &str, stage: &str) -> String {
        format!("{}-{task}-{stage}", short_revision(&self.target))
    }

    /// The next step. Clusters and stages that start with it are noted.
    pub fn advance_rollout(
        &mut self,
        rollout: &RolloutSpec,
        stages: &[Clusters],
        clusters: &mut ClusterRevisions,
        approvals: &BTreeSet<String>,
        now: Timestamp,
    ) -> NextRolloutStep {
        for (spec, stage) in rollout.stages.iter().zip(stages) {
            if stage.clusters.is_empty() {
                continue;
            }
            let step = self.advance_stage(spec, stage, clusters, approvals, now);
            if let Some(step) = step {
                return step;
            }
        }
        NextRolloutStep::Done
    }

    /// The next step in a stage; `None` if it is finished.
    fn advance_stage(
        &mut self,
        spec: &RolloutStage,
        stage: &Clusters,
        clusters: &mut ClusterRevisions,
        approvals: &BTreeSet<String>,
        now: Timestamp,
    ) -> Option<NextRolloutStep> {
        let (before, after) =
            (self.approval_token("before", &spec.name), self.approval_token("after", &spec.name));
        let target = self.target.clone();
        let progress = self.stages.entry(spec.name.clone()).or_default();
        if progress.finished.is_some() {
            return None;
        }
        let asks = |tasks: &[StageTask]| tasks.iter().any(|task| task.r#type == StageTaskType::Approval);
        let mut approved = |task: &str, token: &String| {
            if approvals.contains(token) {
                progress.approved.insert(task.to_owned());
            }
            progress.approved.contains(task)
        };
        if asks(&spec.before_stage_tasks) && !approved("before", &before) {
            return Some(NextRolloutStep::Approval { stage: spec.name.clone(), token: before });
        }
        let is_approved = !asks(&spec.after_stage_tasks) || approved("after", &after);
        progress.started.get_or_insert(now);
        if let Some(clusters) = start_clusters(stage, &target, clusters, now) {
            return Some(NextRolloutStep::Update { stage: spec.name.clone(), clusters });
        }
        let tasks = TasksAfterStage {
            since: *progress.updated.get_or_insert(now),
            wait: spec.after_stage_wait(),
            is_approved,
        };
        if let Some(open) = tasks.find_open(now) {
            let stage = spec.name.clone();
            return Some(if open.left.is_positive() {
                let time = now.checked_add(open.left).unwrap_or(Timestamp::MAX);
                NextRolloutStep::Until { stage, time }
            } else {
                NextRolloutStep::Approval { stage, token: after }
            });
        }
        progress.finished = Some(now);
        None
    }
}

/// The clusters of a stage that are being updated, with those that start now; `None` if all are at the target. No
/// cluster starts while another one fails.
fn start_clusters(
    stage: &Clusters,
    target: &str,
    clusters: &mut ClusterRevisions,
    now: Timestamp,
) -> Option<BTreeSet<String>> {
    let updates = stage.clusters.iter().map(|name| {
        let cluster = clusters.entry(name.to_string()).or_default();
        ClusterUpdate { cluster: name.clone(), state: cluster.update_state(target), since: cluster.updating }
    });
    let stage = ActiveStage {
        clusters: updates.collect(),
        max_concurrency: usize::try_from(stage.max_concurrency).unwrap_or(1),
        halts_on_failure: true,
    };
    let decision = stage.advance();
    for name in decision.starting() {
        if let Some(cluster) = clusters.get_mut(&**name) {
            (cluster.updating, cluster.applied) = (Some(now), false);
        }
    }
    let active = decision.active.iter().map(|active| active.cluster.to_string());
    (!decision.is_done).then(|| active.collect())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    fn rollout() -> RolloutSpec {
        let spec = json!({"stages": [
            {"name": "canary", "labelSelector": {"matchLabels": {"stage": "canary"}},
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}, {"type": "Approval"}]},
            {"name": "rest", "labelSelector": {"matchLabels": {"stage": "rest"}}, "maxConcurrency": 2,
             "beforeStageTasks": [{"type": "Approval"}]},
        ]});
        serde_json::from_value(spec).unwrap()
    }

    fn stages() -> Vec<Clusters> {
        let stage = |name: &str, clusters: &[&str], max_concurrency| Clusters {
            name: name.to_owned(),
            clusters: clusters.iter().map(|name| (*name).into()).collect(),
            max_concurrency,
        };
        vec![stage("canary", &["c1", "c2"], 1), stage("rest", &["r1", "r2", "r3"], 2)]
    }

    struct Run {
        progress: RolloutState,
        clusters: ClusterRevisions,
        approvals: BTreeSet<String>,
        now: Timestamp,
    }

    impl Run {
        fn new() -> Self {
            let mut clusters = ClusterRevisions::new();
            let progress = RolloutState::start("0123456789", None, None, &mut clusters);
            Self { progress, clusters, approvals: BTreeSet::new(), now: Timestamp::UNIX_EPOCH }
        }

        fn next(&mut self) -> NextRolloutStep {
            self.progress.advance_rollout(
                &rollout(),
                &stages(),
                &mut self.clusters,
                &self.approvals,
                self.now,
            )
        }

        /// The clusters that are being updated.
        fn updates(&mut self) -> Vec<String> {
            match self.next() {
                NextRolloutStep::Update { clusters, .. } => clusters.into_iter().collect(),
                step => panic!("{step:?}"),
            }
        }

        fn healthy(&mut self, name: &str) {
            let target = Some(self.progress.target.clone());
            let cluster = self.clusters.get_mut(name).unwrap();
            (cluster.revision, cluster.updating, cluster.failed) = (target, None, None);
        }
    }

    #[test]
    fn stages_follow_each_other_when_clusters_time_and_people_agree() {
        let mut run = Run::new();
        assert_eq!(run.updates(), ["c1"]);
        assert_eq!(run.updates(), ["c1"], "it is not healthy yet");
        run.healthy("c1");
        assert_eq!(run.updates(), ["c2"]);
        run.healthy("c2");
        let hour = run.now + SignedDuration::from_hours(1);
        assert_eq!(run.next(), NextRolloutStep::Until { stage: "canary".to_owned(), time: hour });
        run.now = hour;
        let approval =
            |stage: &str, token: &str| NextRolloutStep::Approval { stage: stage.into(), token: token.into() };
        assert_eq!(run.next(), approval("canary", "01234567-after-canary"));
        run.approvals.insert("89abcdef-after-canary".to_owned());
        assert_eq!(run.next(), approval("canary", "01234567-after-canary"), "of another revision");
        run.approvals.insert("01234567-after-canary".to_owned());
        assert_eq!(run.next(), approval("rest", "01234567-before-rest"));
        run.approvals = BTreeSet::from(["01234567-before-rest".to_owned()]);
        assert_eq!(run.updates(), ["r1", "r2"], "former approvals are remembered");
        run.healthy("r2");
        assert_eq!(run.updates(), ["r1", "r3"]);
        run.healthy("r1");
        run.healthy("r3");
        assert_eq!(run.next(), NextRolloutStep::Done);
    }

    #[test]
    fn nothing_starts_while_a_cluster_fails() {
        let mut run = Run::new();
        run.approvals =
            ["after-canary", "before-rest"].map(|task| format!("01234567-{task}")).into_iter().collect();
        for name in ["c1", "c2"] {
            assert_eq!(run.updates(), [name]);
            run.healthy(name);
        }
        run.next();
        run.now += SignedDuration::from_hours(1);
        assert_eq!(run.updates(), ["r1", "r2"]);
        run.clusters.get_mut("r1").unwrap().failed = Some("no".to_owned());
        run.healthy("r2");
        assert_eq!(run.updates(), ["r1"], "r3 stays at its former revision");
        run.healthy("r1");
        assert_eq!(run.updates(), ["r3"]);
    }

    #[test]
    fn a_newer_revision_starts_over_and_keeps_what_clusters_have() {
        let mut run = Run::new();
        run.updates();
        run.healthy("c1");
        assert_eq!(run.updates(), ["c2"]);
        let former = run.progress.target.clone();
        run.progress =
            RolloutState::start("fedcba9876", Some(&former), Some(&run.progress), &mut run.clusters);
        assert_eq!(run.clusters["c2"].revision.as_ref(), Some(&former));
        assert_eq!(run.updates(), ["c1"]);
        assert_eq!(run.clusters["c1"].former.as_ref(), Some(&former));
        assert!(!run.clusters.contains_key("r1"), "it is not its turn");
    }

    #[test]
    fn clusters_return_to_the_last_revision_that_succeeded_and_not_to_one_that_was_halted() {
        let mut run = Run::new();
        let good = run.progress.target.clone();
        for name in ["c1", "c2", "r1"] {
            run.clusters.entry(name.to_owned()).or_default().revision = Some(good.clone());
        }
        let start = |run: &mut Run, target: &str, running: Option<&RolloutState>, before: &str| {
            run.progress = RolloutState::start(target, Some(before), running, &mut run.clusters);
        };
        let formers = |run: &Run| {
            let formers = ["c1", "c2", "r1"].map(|name| run.clusters[name].former.clone().unwrap());
            (formers, run.progress.former.clone().unwrap())
        };
        start(&mut run, "broken", None, &good);
        run.updates();
        run.healthy("c1");
        run.updates();
        run.clusters.get_mut("c2").unwrap().failed = Some("no".to_owned());
        let halted = run.progress.clone();
        start(&mut run, "fix", Some(&halted), "broken");
        let all_good = [good.clone(), good.clone(), good.clone()];
        assert_eq!(formers(&run), (all_good.clone(), good.clone()));
        assert_eq!(run.clusters["c2"].revision.as_deref(), Some("broken"), "it has a part of it");
        // Another revision before the first cluster has the fix.
        let waiting = run.progress.clone();
        start(&mut run, "fix-2", Some(&waiting), "fix");
        assert_eq!(formers(&run).0, all_good);
        // A revision that was merely replaced is one to return to, where it has arrived.
        run.updates();
        run.healthy("c1");
        let replaced = run.progress.clone();
        start(&mut run, "next", Some(&replaced), "fix-2");
        assert_eq!(formers(&run), (["fix-2".to_owned(), good.clone(), good], "fix-2".to_owned()));
    }
}
