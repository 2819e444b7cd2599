//! The status of a DNS record: which load balancers answer for it in the ready clusters.
//!
//! Facts: a record of services needs its domain, and every ready cluster a region and zones, or the
//! record as a whole fails; a service counts while it has endpoints with addresses, unless the record
//! says otherwise. Only objects count that the control plane has marked as its own.

use serde_json::{Map, Value, json};

use super::{Failure, Kind};
use crate::KubeFeds;
use crate::observe::is_managed;
use federate_kubernetes::{Cluster, Object};

/// A load balancer's addresses: each an IP, a host name, or both; sorted.
pub(super) type Addresses = Vec<(String, String)>;

/// What one cluster contributes.
pub(super) struct Entry {
    pub cluster: String,
    pub region: String,
    pub zones: Vec<String>,
    pub addresses: Addresses,
}

/// The status of a record.
pub(super) struct Status {
    pub kind: Kind,
    pub domain: String,
    /// Sorted by cluster name.
    pub entries: Vec<Entry>,
}

/// Computes the status of a record.
pub(super) fn of(plane: &KubeFeds<'_>, record: &Object) -> Result<Status, Failure> {
    let kind = Kind::of(record);
    let domain = match kind {
        Kind::Service => domain(plane, record)?,
        Kind::Ingress => String::new(),
    };
    let ready = plane.clusters.iter().filter(|c| c.ready);
    let entries = ready.map(|cluster| match kind {
        Kind::Service => service(plane, record, cluster),
        Kind::Ingress => Ok(entry(cluster, ingress(plane, record, &cluster.name))),
    });
    Ok(Status { kind, domain, entries: entries.collect::<Result<_, _>>()? })
}

fn domain(plane: &KubeFeds<'_>, record: &Object) -> Result<String, Failure> {
    let name = record.text(&["spec", "domainRef"]);
    let found = plane.domains.get(name).map(|domain| domain.text(&["domain"]).to_owned());
    found.ok_or_else(|| Failure {
        reason: "DomainNotFound",
        message: format!("there is no Domain `{name}` in namespace `{}`", plane.config.namespace),
        help: "add it there, or name another one in `spec.domainRef`",
    })
}

fn service(plane: &KubeFeds<'_>, record: &Object, cluster: &Cluster) -> Result<Entry, Failure> {
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
    let unconditional = record.at(&["spec", "allowServiceWithoutEndpoints"]).is_some_and(|v| v == true);
    let answers = unconditional || managed("Endpoints").is_some_and(has_addresses);
    let addresses = managed("Service").filter(|_| answers).map(addresses).unwrap_or_default();
    Ok(entry(cluster, addresses))
}

fn entry(cluster: &Cluster, addresses: Addresses) -> Entry {
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

fn ingress(plane: &KubeFeds<'_>, record: &Object, cluster: &str) -> Addresses {
    let id = &record.id;
    let groups = ["networking.k8s.io", "extensions"];
    let found = groups
        .into_iter()
        .find_map(|group| plane.input.live.get(cluster, group, "Ingress", id.namespace.as_deref(), &id.name));
    found.filter(|object| is_managed(object)).map(addresses).unwrap_or_default()
}

fn addresses(object: &Object) -> Addresses {
    let text =
        |ingress: &Value, key: &str| ingress.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let mut addresses: Addresses =
        list.into_iter().flatten().map(|i| (text(i, "ip"), text(i, "hostname"))).collect();
    addresses.sort();
    addresses
}

impl Status {
    /// The status as the record carries it.
    pub(super) fn written(&self) -> Value {
        let entries: Vec<Value> = self.entries.iter().map(|entry| self.entry(entry)).collect();
        let mut status = Map::new();
        if self.kind == Kind::Service {
            status.insert("domain".to_owned(), self.domain.as_str().into());
        }
        if !entries.is_empty() {
            status.insert("dns".to_owned(), entries.into());
        }
        Value::Object(status)
    }

    fn entry(&self, entry: &Entry) -> Value {
        let mut written = Map::new();
        written.insert("cluster".to_owned(), entry.cluster.as_str().into());
        let ingress: Vec<Value> =
            entry.addresses.iter().map(|(ip, hostname)| address(ip, hostname)).collect();
        let load_balancer = if ingress.is_empty() { json!({}) } else { json!({"ingress": ingress}) };
        written.insert("loadBalancer".to_owned(), load_balancer);
        if self.kind == Kind::Service {
            written.insert("region".to_owned(), entry.region.as_str().into());
            written.insert("zones".to_owned(), json!(entry.zones));
        }
        Value::Object(written)
    }
}

fn address(ip: &str, hostname: &str) -> Value {
    let given = [("ip", ip), ("hostname", hostname)].into_iter().filter(|(_, text)| !text.is_empty());
    Value::Object(given.map(|(key, text)| (key.to_owned(), text.into())).collect())
}
