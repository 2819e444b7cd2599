//! What is seen of the loop from outside: metrics for Prometheus, and the status page.

use crate::metrics::Metrics;
use crate::page::StatusPage;

/// What threads report about their Syncs, and addresses serve.
#[derive(Default)]
pub struct Telemetry {
    pub(crate) metrics: Metrics,
    pub(crate) page: StatusPage,
}
