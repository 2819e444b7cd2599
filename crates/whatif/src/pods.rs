//! Which replicas fit, for control planes that move those that do not.
//!
//! The free resources of a cluster count what runs there before the scenario, and nodes are not known. So replicas that run
//! stay where they are; new ones take what is free, in the order of the objects. If a cluster shrinks, the replicas of the
//! last objects do not fit any more. In a cluster that is lost, or whose resources are not known, everything fits.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::free_resources::PodRequest;
use super::timeline::{StagePlanner, Timeline, TimelineRun};
use federate_dialect::{MigrationOutcome, Placement, PodCount, PodCounts, RowKey};
use federate_engine::replicas::ObjectReplicas;
use federate_kubernetes::{Capacity, Cluster, ClusterName, work};

/// The steps of counting the pods of a workload in a cluster.
const STEPS_PER_CLUSTER: u64 = 20;

/// The replicas of workloads that differ from those before the scenario.
#[derive(Default)]
pub(super) struct ScenarioPods {
    counts: BTreeMap<RowKey, PodCounts>,
    /// When control planes count them, in seconds.
    due: BTreeMap<RowKey, i64>,
}

impl TimelineRun<'_> {
    /// Counts the replicas that fit after a stage. Returns what does not fit from now on, in words.
    pub(super) fn count_pods(&mut self, seconds: i64) -> Vec<String> {
        let Some(delay) = self.timeline.baseline.counts_pods_after() else { return Vec::new() };
        let counts = count_workload_pods(&self.timeline, &self.pods.counts, seconds);
        let mut new: BTreeMap<ClusterName, i64> = BTreeMap::new();
        let due = seconds.saturating_add(delay);
        for (key, pods) in counts.iter().filter(|(key, pods)| self.pods.counts.get(key) != Some(pods)) {
            self.pods.due.insert(key.clone(), due);
            for (cluster, pod) in pods {
                let now = pod.unschedulable.iter().filter(|(since, _)| *since == seconds);
                let number: i64 = now.map(|(_, replicas)| replicas).sum();
                if number > 0 {
                    *new.entry(cluster.clone()).or_default() += number;
                }
            }
        }
        self.pods.counts = counts;
        if self.pods.due.values().any(|at| *at == due) {
            self.look_at(due);
        }
        new.iter()
            .map(|(cluster, number)| {
                let replicas = if *number == 1 { "replica does" } else { "replicas do" };
                format!("{cluster}: {number} {replicas} not fit")
            })
            .collect()
    }

    /// Records the replicas that do not fit, for the next decisions. Returns what happens, in words, or `None` if no
    /// decision can change.
    pub(super) fn migrate_pods(
        &mut self,
        seconds: i64,
        planner: &mut StagePlanner<'_>,
    ) -> Option<Vec<String>> {
        let due: Vec<RowKey> =
            self.pods.due.iter().filter(|(_, due)| **due <= seconds).map(|(key, _)| key.clone()).collect();
        let mut full: BTreeMap<ClusterName, i64> = BTreeMap::new();
        let mut changed = false;
        for key in due {
            self.pods.due.remove(&key);
            let Some(done) = self.ask_control_plane(&key, seconds, planner) else { continue };
            if let Some(next) = done.next {
                self.pods.due.insert(key.clone(), next);
                self.look_at(next);
            }
            let Some(row) = done.placement.map(Arc::new) else { continue };
            for (cluster, number) in done.full {
                *full.entry(cluster).or_default() += number;
            }
            Arc::make_mut(&mut self.timeline.plan.rows).insert(key, Some(row));
            changed = true;
        }
        changed.then(|| {
            full.iter()
                .map(|(cluster, number)| {
                    let (replicas, are) = if *number == 1 { ("replica", "is") } else { ("replicas", "are") };
                    format!(
                        "{cluster}: {number} {replicas} {are} still unschedulable, and {are} scheduled again"
                    )
                })
                .collect()
        })
    }

    /// Asks the control plane what it does about the replicas of a workload.
    fn ask_control_plane(
        &self,
        key: &RowKey,
        seconds: i64,
        planner: &mut StagePlanner<'_>,
    ) -> Option<MigrationOutcome> {
        let Timeline { baseline, plan, .. } = &self.timeline;
        let (row, pods) = (plan.find_row(baseline, key)?, self.pods.counts.get(key)?);
        let planner = planner.open_engine().find_planner(&row.dialect)?;
        Some(planner.failover().record_unschedulable(baseline.find_object(key)?, row, pods, seconds))
    }
}

/// The replicas of a workload in a cluster.
struct Entry<'e> {
    key: RowKey,
    request: Cow<'e, PodRequest>,
    /// Before the scenario.
    before: i64,
    desired: i64,
    /// Those that run: at the end of the stage before, until [`fit`] changes it.
    running: i64,
    /// Those that did not run at the end of the stage before.
    unschedulable: Vec<(i64, i64)>,
}

/// Counts the replicas of workloads that differ from those before the scenario.
fn count_workload_pods(
    timeline: &Timeline<'_>,
    before: &BTreeMap<RowKey, PodCounts>,
    seconds: i64,
) -> BTreeMap<RowKey, PodCounts> {
    let mut counts: BTreeMap<RowKey, PodCounts> = BTreeMap::new();
    let mut changed: BTreeSet<RowKey> = before.keys().cloned().collect();
    for (cluster, mut entries) in collect_entries(timeline, before) {
        let capacity =
            |clusters| find_capacity(clusters, &cluster).filter(|_| !timeline.down.contains(&cluster));
        match capacity(&timeline.world.clusters) {
            Some(now) => fit_replicas(&mut entries, now, capacity(timeline.baseline.clusters)),
            None => entries.iter_mut().for_each(|entry| entry.running = entry.desired),
        }
        for entry in entries {
            if entry.desired != entry.before || entry.running != entry.desired {
                changed.insert(entry.key.clone());
            }
            let pods = counts.entry(entry.key.clone()).or_default();
            if entry.desired > 0 {
                pods.insert(cluster.clone(), entry.into_pod_count(seconds));
            }
        }
    }
    counts.retain(|key, _| changed.contains(key));
    counts
}

fn find_capacity<'c>(clusters: &'c [Cluster], name: &str) -> Option<&'c Capacity> {
    clusters.iter().find(|cluster| cluster.name.as_ref() == name)?.capacity.as_ref()
}

/// The workloads that may differ, by cluster and in the order of the objects.
fn collect_entries<'t>(
    timeline: &'t Timeline<'_>,
    before: &BTreeMap<RowKey, PodCounts>,
) -> BTreeMap<ClusterName, Vec<Entry<'t>>> {
    let (baseline, after) = (timeline.baseline, timeline.end_state());
    let mut keys: BTreeSet<RowKey> = after.plan.rows.keys().chain(before.keys()).cloned().collect();
    let shrunk = after.clusters.iter().filter(|cluster| {
        let earlier = find_capacity(baseline.clusters, &cluster.name);
        cluster.capacity.as_ref().is_some_and(|capacity| {
            capacity.available.iter().any(|(name, free)| free.as_nanos() < least_free(name, earlier))
        })
    });
    keys.extend(baseline.rows_on(shrunk.map(|cluster| cluster.name.as_ref())));
    let mut all: BTreeMap<ClusterName, Vec<Entry<'t>>> = BTreeMap::new();
    for key in keys {
        let Some(object) = baseline.find_object(&key) else { continue };
        let request = baseline.row_requests().find_request(&key);
        let request = request.map_or_else(|| Cow::Owned(baseline.object_requests(object)), Cow::Borrowed);
        let ran = by_cluster(baseline.find_row(&key), &baseline.object_replicas(&key));
        let desired = by_cluster(after.plan.find_row(baseline, &key), &after.object_replicas(baseline, &key));
        let counted = before.get(&key);
        let clusters: BTreeSet<&ClusterName> = ran.keys().chain(desired.keys()).copied().collect();
        work::charge_steps(STEPS_PER_CLUSTER * (1 + clusters.len()) as u64);
        if work::is_exceeded() {
            break;
        }
        for cluster in clusters {
            let number = |of: &BTreeMap<&ClusterName, i64>| of.get(cluster).copied().unwrap_or(0);
            let earlier = counted.map(|pods| pods.get(cluster).cloned().unwrap_or_default());
            let running = earlier.as_ref().map_or_else(|| number(&ran), PodCount::count_scheduled);
            let unschedulable = earlier.map(|pods| pods.unschedulable).unwrap_or_default();
            let (key, request) = (key.clone(), request.clone());
            let (before, desired) = (number(&ran), number(&desired));
            let entry = Entry { key, request, before, desired, running, unschedulable };
            all.entry(cluster.clone()).or_default().push(entry);
        }
    }
    all
}

/// The replicas of a row by cluster.
fn by_cluster<'r>(
    row: Option<&'r Arc<Placement>>,
    replicas: &ObjectReplicas,
) -> BTreeMap<&'r ClusterName, i64> {
    let placed = row.into_iter().flat_map(|row| &row.clusters);
    placed.map(|placed| (&placed.name, replicas.count_in(placed))).collect()
}

/// The free amount from which on replicas do not fit: before the scenario, everything fits.
fn least_free(resource: &str, earlier: Option<&Capacity>) -> i128 {
    let free = earlier.and_then(|capacity| capacity.available.get(resource));
    free.map_or(0, |free| free.as_nanos().min(0))
}

/// Decides which replicas run in a cluster.
fn fit_replicas(entries: &mut [Entry<'_>], now: &Capacity, earlier: Option<&Capacity>) {
    let mut free: BTreeMap<&str, i128> =
        now.available.iter().map(|(name, amount)| (name.as_str(), amount.as_nanos())).collect();
    for entry in entries.iter_mut() {
        entry.running = entry.running.min(entry.desired);
        entry.take_free(&mut free, entry.running - entry.before);
    }
    for entry in entries.iter_mut().rev() {
        let stopped = entry
            .requested_amounts()
            .filter_map(|(name, amount)| {
                let missing = least_free(name, earlier) - free.get(name)?;
                (missing > 0).then(|| (missing + amount - 1) / amount)
            })
            .max()
            .unwrap_or(0);
        let stopped = i64::try_from(stopped).unwrap_or(i64::MAX).min(entry.running);
        entry.take_free(&mut free, -stopped);
        entry.running -= stopped;
    }
    for entry in entries.iter_mut() {
        let most = |(name, amount): (&str, i128)| Some((*free.get(name)?).max(0) / amount);
        let most = entry.requested_amounts().filter_map(most).min().unwrap_or(i128::MAX);
        let started = (entry.desired - entry.running).min(i64::try_from(most).unwrap_or(i64::MAX));
        entry.take_free(&mut free, started);
        entry.running += started;
    }
}

impl Entry<'_> {
    /// What a replica requests, in billionths.
    fn requested_amounts(&self) -> impl Iterator<Item = (&str, i128)> {
        let all = self.request.iter().map(|(name, amount)| (name.as_str(), amount.as_nanos()));
        all.filter(|(_, amount)| *amount > 0)
    }

    /// Takes what replicas request from the free resources; a negative number gives it back.
    fn take_free(&self, free: &mut BTreeMap<&str, i128>, replicas: i64) {
        for (name, amount) in self.requested_amounts() {
            if let Some(free) = free.get_mut(name) {
                *free = free.saturating_sub(amount.saturating_mul(i128::from(replicas)));
            }
        }
    }

    /// The replicas after a stage. Of those that do not run, the newest start first.
    fn into_pod_count(mut self, seconds: i64) -> PodCount {
        let mut more = self.desired - self.running - self.unschedulable.iter().map(|(_, n)| n).sum::<i64>();
        if more > 0 {
            self.unschedulable.push((seconds, more));
        }
        while let Some((since, last)) = self.unschedulable.pop_if(|_| more < 0) {
            more += last;
            if more > 0 {
                self.unschedulable.push((since, more));
            }
        }
        PodCount { desired: self.desired, unschedulable: self.unschedulable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use federate_kubernetes::quantity::Quantity;

    fn cpus(number: i64) -> BTreeMap<String, Quantity> {
        BTreeMap::from([("cpu".to_owned(), Quantity::from_int(number))])
    }

    fn cluster(free: i64) -> Capacity {
        Capacity { available: cpus(free), ..Capacity::default() }
    }

    /// Workloads by CPUs of a replica, replicas before, desired replicas and running ones.
    fn running(workloads: &[(i64, i64, i64, i64)], free: i64, before: i64) -> Vec<i64> {
        let entry = |(at, (cpu, before, desired, running)): (usize, &(i64, i64, i64, i64))| Entry {
            key: RowKey::Known(at),
            request: Cow::Owned(cpus(*cpu)),
            before: *before,
            desired: *desired,
            running: *running,
            unschedulable: Vec::new(),
        };
        let mut entries: Vec<Entry<'_>> = workloads.iter().enumerate().map(entry).collect();
        fit_replicas(&mut entries, &cluster(free), Some(&cluster(before)));
        entries.iter().map(|entry| entry.running).collect()
    }

    #[test]
    fn new_replicas_take_what_is_free_in_the_order_of_the_objects() {
        assert_eq!(running(&[(1, 2, 4, 2), (2, 1, 4, 1)], 5, 5), [4, 2]);
        // What another workload gives back is free.
        assert_eq!(running(&[(1, 2, 6, 2), (2, 3, 1, 3)], 0, 0), [6, 1]);
        // Replicas that did not fit before do not make room, and start when there is room.
        assert_eq!(running(&[(1, 2, 6, 4)], 3, 3), [5]);
    }

    #[test]
    fn the_last_replicas_do_not_fit_where_a_cluster_shrinks() {
        assert_eq!(running(&[(1, 4, 4, 4), (2, 4, 4, 4)], -3, 2), [4, 2]);
        assert_eq!(running(&[(1, 4, 4, 4), (2, 4, 4, 4)], -10, 2), [2, 0]);
        // What was missing before the scenario is counted in the free resources already.
        assert_eq!(running(&[(1, 4, 5, 4)], -3, -3), [4]);
    }

    #[test]
    fn replicas_wait_since_their_stage() {
        let entry = |desired: i64, running: i64, unschedulable: &[(i64, i64)]| Entry {
            key: RowKey::Known(0),
            request: Cow::Owned(cpus(1)),
            before: 0,
            desired,
            running,
            unschedulable: unschedulable.to_vec(),
        };
        let waits = |entry: Entry<'_>| entry.into_pod_count(60).unschedulable;
        assert_eq!(waits(entry(5, 2, &[(0, 2)])), [(0, 2), (60, 1)]);
        assert_eq!(waits(entry(5, 4, &[(0, 2), (30, 3)])), [(0, 1)]);
        assert_eq!(waits(entry(5, 3, &[(0, 1), (30, 3)])), [(0, 1), (30, 1)]);
        assert_eq!(waits(entry(5, 5, &[(0, 2)])), []);
    }
}
