//! The status of a DNS record: its load balancers in the ready clusters.
//!
//! Facts: the record of a Service fails as a whole if its Domain is missing, or if a ready cluster has no
//! region or no zones. A Service counts if its Endpoints have addresses, unless the record allows Services
//! without endpoints. Only managed objects count.

use serde_json::Value;

use super::{RecordFailure, RecordKind};
use crate::KubeFedPlanner;
use crate::api::ServiceRecordSpec;
use crate::observation::{is_managed, string_at};
use crate::state::{ClusterDns, LoadBalancer, LoadBalancerAddress, RecordStatus};
use federate_kubernetes::{Cluster, Object};

/// What one cluster contributes.
pub(super) struct RecordEntry {
    pub cluster: String,
    pub region: String,
    pub zones: Vec<String>,
    /// The addresses of its load balancer, sorted.
    pub addresses: Vec<LoadBalancerAddress>,
}

/// The status of a record.
pub(super) struct ResolvedRecord {
    pub kind: RecordKind,
    pub domain: String,
    /// Sorted by cluster name.
    pub entries: Vec<RecordEntry>,
}

/// Computes the status of a record.
pub(super) fn resolve_record(
    plane: &KubeFedPlanner<'_>,
    record: &Object,
) -> Result<ResolvedRecord, RecordFailure> {
    let kind = RecordKind::from_record(record);
    let domain = match &kind {
        RecordKind::Service(spec) => find_domain(plane, &spec.domain_ref)?,
        RecordKind::Ingress(_) => String::new(),
    };
    let ready = plane.clusters.iter().filter(|c| c.ready);
    let entries = ready.map(|cluster| match &kind {
        RecordKind::Service(spec) => service_entry(plane, record, spec, cluster),
        RecordKind::Ingress(_) => Ok(build_entry(cluster, ingress_addresses(plane, record, &cluster.name))),
    });
    let entries = entries.collect::<Result<_, _>>()?;
    Ok(ResolvedRecord { kind, domain, entries })
}

fn find_domain(plane: &KubeFedPlanner<'_>, name: &str) -> Result<String, RecordFailure> {
    let found = plane.domains.get(name).map(|found| found.domain.clone());
    found.ok_or_else(|| RecordFailure {
        reason: "DomainNotFound",
        message: format!("there is no Domain `{name}` in namespace `{}`", plane.config.namespace),
        help: "add it there, or use another one in `spec.domainRef`",
    })
}

fn service_entry(
    plane: &KubeFedPlanner<'_>,
    record: &Object,
    spec: &ServiceRecordSpec,
    cluster: &Cluster,
) -> Result<RecordEntry, RecordFailure> {
    if cluster.region.is_empty() || cluster.zones.is_empty() {
        let message =
            format!("cluster `{}` has no region or no zones, and all ready clusters must", cluster.name);
        let help = "write `status.region` and `status.zones` of the cluster";
        return Err(RecordFailure { reason: "ClusterWithoutRegionOrZones", message, help });
    }
    let answers = spec.allow_service_without_endpoints
        || find_managed(plane, record, cluster, "Endpoints").is_some_and(has_addresses);
    let service = find_managed(plane, record, cluster, "Service").filter(|_| answers);
    Ok(build_entry(cluster, service.map(load_balancer_addresses).unwrap_or_default()))
}

/// The managed core object of a kind with the namespace and the name of the record.
fn find_managed<'p>(
    plane: &'p KubeFedPlanner<'_>,
    record: &Object,
    cluster: &Cluster,
    kind: &str,
) -> Option<&'p Object> {
    let id = &record.id;
    let found = plane.input.live.get(&cluster.name, "", kind, id.namespace.as_deref(), &id.name);
    found.filter(|object| is_managed(object))
}

fn build_entry(cluster: &Cluster, addresses: Vec<LoadBalancerAddress>) -> RecordEntry {
    RecordEntry {
        cluster: cluster.name.to_string(),
        region: cluster.region.clone(),
        zones: cluster.zones.clone(),
        addresses,
    }
}

fn has_addresses(endpoints: &Object) -> bool {
    let subsets = endpoints.value_at(&["subsets"]).and_then(Value::as_array);
    let mut addresses =
        subsets.into_iter().flatten().filter_map(|subset| subset.get("addresses")?.as_array());
    addresses.any(|addresses| !addresses.is_empty())
}

fn ingress_addresses(plane: &KubeFedPlanner<'_>, record: &Object, cluster: &str) -> Vec<LoadBalancerAddress> {
    let id = &record.id;
    let groups = ["networking.k8s.io", "extensions"];
    let found = groups
        .into_iter()
        .find_map(|group| plane.input.live.get(cluster, group, "Ingress", id.namespace.as_deref(), &id.name));
    found.filter(|object| is_managed(object)).map(load_balancer_addresses).unwrap_or_default()
}

fn load_balancer_addresses(object: &Object) -> Vec<LoadBalancerAddress> {
    let list = object.value_at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let addresses = list.into_iter().flatten().map(|ingress| LoadBalancerAddress {
        ip: string_at(ingress, "ip").to_owned(),
        hostname: string_at(ingress, "hostname").to_owned(),
    });
    let mut addresses: Vec<LoadBalancerAddress> = addresses.collect();
    addresses.sort();
    addresses
}

impl ResolvedRecord {
    /// The status as the record carries it.
    pub(super) fn to_record_status(&self) -> RecordStatus {
        let of_service = matches!(self.kind, RecordKind::Service(_));
        let dns = self.entries.iter().map(|entry| ClusterDns {
            cluster: entry.cluster.clone(),
            load_balancer: LoadBalancer { ingress: entry.addresses.clone() },
            region: of_service.then(|| entry.region.clone()),
            zones: of_service.then(|| entry.zones.clone()),
        });
        RecordStatus { domain: of_service.then(|| self.domain.clone()), dns: dns.collect() }
    }
}
