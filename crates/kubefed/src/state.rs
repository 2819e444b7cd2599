//! The scheduler state of a row of the plan: what a preference has written, the numbers of a Federation v1 Job, or the status
//! of a DNS record.

use std::collections::BTreeMap;

use federate_dialect::Placement;
use federate_dialect::scheduler_state::or_default;
use federate_kubernetes::ClusterName;
use serde::{Deserialize, Serialize};

/// The scheduler state of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KubeFedState {
    /// The clusters and replicas that a preference has written into the federated object.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub written: Option<BTreeMap<ClusterName, i64>>,
    /// The replicas that run where overrides fail: nothing is sent there, and the object stays as it is.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub running: BTreeMap<ClusterName, i64>,
    /// The share of each ready cluster in a Job.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub job: Option<BTreeMap<ClusterName, JobShare>>,
    /// The status of a DNS record.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub record_status: Option<RecordStatus>,
}

/// A cluster's share of a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct JobShare {
    /// The number of pods that run at a time.
    pub parallelism: Option<i64>,
    /// The number of pods that must succeed, where the Job sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<i64>,
}

/// The status of a DNS record, as the record carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RecordStatus {
    /// The domain, in the record of a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The ready clusters, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<ClusterDns>,
}

/// What one cluster contributes to a DNS record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterDns {
    /// The cluster.
    pub cluster: String,
    /// Its load balancer.
    pub load_balancer: LoadBalancer,
    /// Its region, in the record of a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Its zones, in the record of a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Vec<String>>,
}

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LoadBalancer {
    /// Its addresses, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<LoadBalancerAddress>,
}

/// An address of a load balancer: an IP, a host name, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LoadBalancerAddress {
    /// The IP.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// The host name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
}

impl KubeFedState {
    /// Reads the scheduler state of a row.
    pub(super) fn from_row(row: &Placement) -> Self {
        row.read_scheduler_state()
    }

    /// Writes the state to a row.
    pub(super) fn write_to(&self, row: &mut Placement) {
        row.write_scheduler_state(self);
    }
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::ObjectRef;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_memory_keeps_its_form() {
        let id = ObjectRef {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            namespace: None,
            name: "j".into(),
        };
        let form = json!({
            "written": {"a": 2, "b": 0},
            "running": {"b": 1},
            "job": {"a": {"parallelism": 2, "completions": 3}, "b": {"parallelism": null}},
            "recordStatus": {"domain": "example.com", "dns": [
                {"cluster": "a", "loadBalancer": {}, "region": "eu", "zones": []},
                {"cluster": "b", "loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "192.0.2.1"}]}},
            ]},
        });
        let mut given = Placement::new("kubefed", id.clone(), None);
        given.scheduler_state = form.as_object().unwrap().clone().into();
        let mut written = Placement::new("kubefed", id, None);
        KubeFedState::from_row(&given).write_to(&mut written);
        assert_eq!(serde_json::to_value(&written.scheduler_state).unwrap(), form);
    }
}
