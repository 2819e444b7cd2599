//! The threads and tasks in which clusters are worked on, and their time limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinError;

use super::desired_state::DesiredState;
use super::error::Error;
use super::target::{Access, Connections};

/// The number of clusters that are connected to at a time; [`Access`] limits how many are worked on.
const MAX_CONNECTED_CLUSTERS: usize = 256;
/// The time limit for what is done in a cluster, from its turn on and besides waiting for health, unless
/// [`Access::timeout`] says otherwise.
pub(super) const CLUSTER_TIMEOUT: Duration = Duration::from_mins(10);

/// Works on all clusters, some at a time.
pub(super) fn for_each_cluster<'j, T: Send>(
    access: &Access,
    desired_states: &'j [DesiredState<'j>],
    one: impl Fn(&Runtime, &Arc<Connections>, &'j DesiredState<'j>) -> T + Sync,
) -> Result<Vec<T>, Error> {
    let connections = access.open_connections(desired_states.len())?;
    let runtime = build_runtime()?;
    let all = for_each_bounded(desired_states, |desired| one(&runtime, &connections, desired));
    // A credential plugin may still run although its time is over.
    runtime.shutdown_background();
    Ok(all)
}

pub(super) fn build_runtime() -> Result<Runtime, Error> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| Error::Access(error.to_string()))
}

/// Works on all clusters, each in a thread. The results are in the order of the clusters.
pub(super) fn for_each_bounded<'j, T: Send>(
    desired_states: &'j [DesiredState<'j>],
    one: impl Fn(&'j DesiredState<'j>) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..MAX_CONNECTED_CLUSTERS.min(desired_states.len()))
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(desired) = desired_states.get(at) else { return done };
                        done.push((at, one(desired)));
                    }
                })
            })
            .collect();
        let joined =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        joined.flatten().collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Limits the time of some work.
pub(super) async fn limit_time<T>(
    time: Option<Duration>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(time) = time else { return work.await };
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| Err(Error::timed_out(time)))
}

/// The result of a task that has ended.
pub(super) fn join_result<T>(task: Result<T, JoinError>) -> Result<T, Error> {
    task.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Error::Unreachable(error.to_string()),
    })
}
