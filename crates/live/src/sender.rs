//! Sends requests about objects, and counts what is done.

use tokio::task::JoinSet;

use super::client::Client;
use super::object_requests::{ObjectRequests, send_requests};
use super::runtime::join_result;
use super::send_results::SendResults;
use super::{ClusterProgress, Error, ProgressReporter};
use federate_kubernetes::ClusterName;

/// Counts the objects that are done, and reports the count.
pub(super) struct ProgressCounter<'t> {
    cluster: &'t ClusterName,
    progress: &'t dyn ProgressReporter,
    done: usize,
    of: usize,
}

impl<'t> ProgressCounter<'t> {
    pub(super) fn new(cluster: &'t ClusterName, progress: &'t dyn ProgressReporter, of: usize) -> Self {
        Self { cluster, progress, done: 0, of }
    }

    pub(super) fn report_progress(&self) {
        self.progress
            .report_progress(self.cluster, ClusterProgress::Applying { done: self.done, of: self.of });
    }

    /// A counter that starts again, for objects that were counted before.
    pub(super) fn start_again(&self) -> Self {
        Self { done: 0, ..*self }
    }

    fn count_one(&mut self) {
        self.done += 1;
        self.report_progress();
    }
}

/// Sends the requests about several objects at once. A cluster that does not answer about one of them is not asked
/// about the others: each would run into its time limit.
pub(super) async fn send_all(
    client: &Client,
    all: Vec<ObjectRequests>,
    results: &mut SendResults,
    counter: &mut ProgressCounter<'_>,
) -> Result<(), Error> {
    // Dropping the set aborts the requests.
    let mut under_way = JoinSet::new();
    for requests in all {
        let client = client.clone();
        under_way.spawn(async move {
            let result = send_requests(&client, &requests).await;
            (requests.object, result)
        });
    }
    while let Some(task) = under_way.join_next().await {
        counter.count_one();
        match join_result(task)? {
            (_, Err(Error::Access(why))) => return Err(Error::Access(why)),
            (object, Err(Error::Unreachable(why))) => {
                return Err(Error::Unreachable(format!("{why}; gave up at {object}")));
            }
            (object, result) => results.set_result(object, result.into()),
        }
    }
    Ok(())
}
