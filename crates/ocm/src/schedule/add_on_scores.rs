//! The scores that add-ons report about clusters.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use federate_kubernetes::Object;

use crate::api::{NamedScore, ScoreStatus};
use crate::fleet::Fleet;

/// The scores that an add-on reports about a cluster.
#[derive(Debug)]
pub(crate) struct ReportedScores {
    /// When they end, if they do.
    pub(super) valid_until: Option<Timestamp>,
    /// The scores.
    pub scores: Vec<NamedScore>,
}

/// The scores that add-ons report, by name and by the index of the cluster.
#[derive(Debug, Default)]
pub(crate) struct AddOnScores<'a>(BTreeMap<&'a str, BTreeMap<usize, ReportedScores>>);

impl<'a> AddOnScores<'a> {
    /// Reads the scores among objects.
    pub(crate) fn read(objects: impl Iterator<Item = &'a Object>, fleet: &Fleet<'_>) -> Self {
        let mut scores = BTreeMap::<&str, BTreeMap<usize, ReportedScores>>::new();
        for object in objects {
            let status = object.value_at(&["status"]).unwrap_or(&Value::Null);
            let status: Option<ScoreStatus> = Deserialize::deserialize(status).ok().flatten();
            let ScoreStatus { valid_until, scores: list } = status.unwrap_or_default();
            let Some(index) = object.id.namespace.as_deref().and_then(|name| fleet.index(name)) else {
                continue;
            };
            let reported = ReportedScores { valid_until: valid_until.parse().ok(), scores: list };
            scores.entry(object.id.name.as_str()).or_default().insert(index, reported);
        }
        Self(scores)
    }

    /// The scores of a cluster under a name.
    pub(crate) fn find(&self, cluster: usize, name: &str) -> Option<&ReportedScores> {
        self.0.get(name)?.get(&cluster)
    }
}
