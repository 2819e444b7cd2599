//! The status of a DNS record: its load balancers in the ready clusters.
//!
//! Facts: the record of a Service fails as a whole if its Domain is missing, or if a ready cluster has no
//! region or no zones. A Service counts if its Endpoints have addresses, unless the record allows Services
//! without endpoints. Only managed objects count.

use serde_json::Value;

use super::{Failure, Kind};
use crate::KubeFedPlane;
use crate::api::ServiceRecordSpec;
use crate::memory::{Address, ClusterDns, LoadBalancer, RecordStatus};
use crate::observe::is_managed;
use federate_kubernetes::{Cluster, Object};

/// What one cluster contributes.
pub(super) struct Entry {
    pub cluster: String,
    pub region: String,
    pub zones: Vec<String>,
    /// The addresses of its load balancer, sorted.
    pub addresses: Vec<Address>,
}

/// The status of a record.
pub(super) struct Status {
    pub kind: Kind,
    pub domain: String,
    /// Sorted by cluster name.
    pub entries: Vec<Entry>,
}

/// Computes the status of a record.
pub(super) fn of(plane: &KubeFedPlane<'_>, record: &Object) -> Result<Status, Failure> {
    let kind = Kind::of(record);
    let domain = match &kind {
        Kind::Service(spec) => domain(plane, &spec.domain_ref)?,
        Kind::Ingress(_) => String::new(),
    };
    let ready = plane.clusters.iter().filter(|c| c.ready);
    let entries = ready.map(|cluster| match &kind {
        Kind::Service(spec) => service(plane, record, spec, cluster),
        Kind::Ingress(_) => Ok(entry(cluster, ingress(plane, record, &cluster.name))),
    });
    let entries = entries.collect::<Result<_, _>>()?;
    Ok(Status { kind, domain, entries })
}

fn domain(plane: &KubeFedPlane<'_>, name: &str) -> Result<String, Failure> {
    let found = plane.domains.get(name).map(|found| found.domain.clone());
    found.ok_or_else(|| Failure {
        reason: "DomainNotFound",
        message: format!("there is no Domain `{name}` in namespace `{}`", plane.config.namespace),
        help: "add it there, or use another one in `spec.domainRef`",
    })
}

fn service(
    plane: &KubeFedPlane<'_>,
    record: &Object,
    spec: &ServiceRecordSpec,
    cluster: &Cluster,
) -> Result<Entry, Failure> {
    if cluster.region.is_empty() || cluster.zones.is_empty() {
        let message =
            format!("cluster `{}` has no region or no zones, and all ready clusters must", cluster.name);
        let help = "write `status.region` and `status.zones` of the cluster";
        return Err(Failure { reason: "ClusterWithoutRegionOrZones", message, help });
    }
    let managed = |kind: &str| {
        let id = &record.id;
        let found = plane.input.live.get(&cluster.name, "", kind, id.namespace.as_deref(), &id.name);
        found.filter(|object| is_managed(object))
    };
    let answers = spec.allow_service_without_endpoints || managed("Endpoints").is_some_and(has_addresses);
    let addresses = managed("Service").filter(|_| answers).map(addresses).unwrap_or_default();
    Ok(entry(cluster, addresses))
}

fn entry(cluster: &Cluster, addresses: Vec<Address>) -> Entry {
    Entry {
        cluster: cluster.name.to_string(),
        region: cluster.region.clone(),
        zones: cluster.zones.clone(),
        addresses,
    }
}

fn has_addresses(endpoints: &Object) -> bool {
    let subsets = endpoints.at(&["subsets"]).and_then(Value::as_array);
    let addresses =
        |subset: &Value| subset.get("addresses").and_then(Value::as_array).is_some_and(|a| !a.is_empty());
    subsets.into_iter().flatten().any(addresses)
}

fn ingress(plane: &KubeFedPlane<'_>, record: &Object, cluster: &str) -> Vec<Address> {
    let id = &record.id;
    let groups = ["networking.k8s.io", "extensions"];
    let found = groups
        .into_iter()
        .find_map(|group| plane.input.live.get(cluster, group, "Ingress", id.namespace.as_deref(), &id.name));
    found.filter(|object| is_managed(object)).map(addresses).unwrap_or_default()
}

fn addresses(object: &Object) -> Vec<Address> {
    let text =
        |ingress: &Value, key: &str| ingress.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let address = |ingress| Address { ip: text(ingress, "ip"), hostname: text(ingress, "hostname") };
    let mut addresses: Vec<Address> = list.into_iter().flatten().map(address).collect();
    addresses.sort();
    addresses
}

impl Status {
    /// The status as the record carries it.
    pub(super) fn written(&self) -> RecordStatus {
        let of_service = matches!(self.kind, Kind::Service(_));
        let entry = |entry: &Entry| ClusterDns {
            cluster: entry.cluster.clone(),
            load_balancer: LoadBalancer { ingress: entry.addresses.clone() },
            region: of_service.then(|| entry.region.clone()),
            zones: of_service.then(|| entry.zones.clone()),
        };
        RecordStatus {
            domain: of_service.then(|| self.domain.clone()),
            dns: self.entries.iter().map(entry).collect(),
        }
    }
}
