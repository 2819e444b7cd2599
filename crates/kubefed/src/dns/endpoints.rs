//! From the status of a DNS record to the endpoints of its `DNSEndpoint`.
//!
//! Facts: each zone falls back to its region, and each region to the global name, which has no fallback. Host
//! names of load balancers are resolved. Endpoints of one name are merged, and addresses replace aliases.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Value, json};

use super::status::ResolvedRecord;
use super::{RecordFailure, RecordKind};
use crate::api::{IngressRecordSpec, ServiceRecordSpec};
use crate::state::LoadBalancerAddress;
use federate_dialect::HostAddresses;
use federate_kubernetes::Object;

/// The default TTL, in seconds.
const DEFAULT_TTL: i64 = 180;

/// An endpoint before those of one name are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    name: String,
    record_type: &'static str,
    targets: BTreeSet<String>,
    labelled: bool,
}

/// The endpoints, sorted by name.
pub(super) fn compute_endpoints(
    record: &Object,
    status: &ResolvedRecord,
    hosts: &HostAddresses,
) -> Result<Vec<Value>, RecordFailure> {
    let (ttl, endpoints) = match &status.kind {
        RecordKind::Service(spec) => (spec.record_ttl, service_endpoints(record, spec, status, hosts)?),
        RecordKind::Ingress(spec) => (spec.record_ttl, ingress_endpoints(spec, status, hosts)?),
    };
    let ttl = if ttl == 0 { DEFAULT_TTL } else { ttl };
    let written = merge_endpoints(endpoints).into_iter().map(|endpoint| {
        let mut value = json!({"dnsName": endpoint.name, "recordTTL": ttl,
            "recordType": endpoint.record_type, "targets": endpoint.targets});
        if endpoint.labelled {
            value["labels"] = json!({"serviceName": record.id.name});
        }
        value
    });
    Ok(written.collect())
}

/// The names of a service: by zone, by region and global, for each cluster.
fn service_endpoints(
    record: &Object,
    spec: &ServiceRecordSpec,
    status: &ResolvedRecord,
    hosts: &HostAddresses,
) -> Result<Vec<Endpoint>, RecordFailure> {
    let external = spec.external_name.as_str();
    let labelled = !external.is_empty();
    let own = if labelled { external } else { &record.id.name };
    let namespace = record.id.namespace.as_deref().unwrap_or_default();
    let prefix = format!("{own}.{namespace}.{}.svc", spec.domain_ref);
    let domain = &status.domain;
    let global = format!("{prefix}.{domain}");
    let mut endpoints = Vec::new();
    let alias = &spec.dns_prefix;
    if !alias.is_empty() {
        endpoints.push(Endpoint {
            name: format!("{alias}.{domain}"),
            record_type: "CNAME",
            targets: BTreeSet::from([global.clone()]),
            labelled: false,
        });
    }
    for entry in &status.entries {
        let targets = resolve_addresses(&entry.addresses, hosts)?;
        let region = format!("{prefix}.{}.{domain}", entry.region);
        let mut names: Vec<(String, &str)> = Vec::new();
        names.extend(
            entry.zones.iter().map(|z| (format!("{prefix}.{z}.{}.{domain}", entry.region), region.as_str())),
        );
        names.push((region.clone(), &global));
        names.push((global.clone(), ""));
        endpoints.extend(names.into_iter().map(|(name, fallback)| {
            if targets.is_empty() {
                let targets = BTreeSet::from([fallback.to_owned()]);
                Endpoint { name, record_type: "CNAME", targets, labelled }
            } else {
                Endpoint { name, record_type: "A", targets: targets.clone(), labelled }
            }
        }));
    }
    Ok(endpoints)
}

/// One name for each host, with the addresses of all clusters.
fn ingress_endpoints(
    spec: &IngressRecordSpec,
    status: &ResolvedRecord,
    hosts: &HostAddresses,
) -> Result<Vec<Endpoint>, RecordFailure> {
    let mut targets = BTreeSet::new();
    for entry in &status.entries {
        targets.extend(resolve_addresses(&entry.addresses, hosts)?);
    }
    let endpoints = spec.hosts.iter().map(|name| Endpoint {
        name: name.clone(),
        record_type: "A",
        targets: targets.clone(),
        labelled: false,
    });
    Ok(endpoints.collect())
}

/// The addresses behind a load balancer.
fn resolve_addresses(
    addresses: &[LoadBalancerAddress],
    hosts: &HostAddresses,
) -> Result<BTreeSet<String>, RecordFailure> {
    let mut targets = BTreeSet::new();
    for LoadBalancerAddress { ip, hostname } in addresses {
        if !ip.is_empty() {
            targets.insert(ip.clone());
        }
        if hostname.is_empty() {
            continue;
        }
        if hostname.parse::<IpAddr>().is_ok() {
            // A literal is not looked up.
            targets.insert(hostname.to_owned());
            continue;
        }
        match hosts.get(hostname) {
            Some(found) if !found.is_empty() => targets.extend(found.iter().cloned()),
            _ => {
                return Err(RecordFailure {
                    reason: "ResolveFailed",
                    message: format!("the host name `{hostname}` of a load balancer does not resolve"),
                    help: "give its addresses with --hosts",
                });
            }
        }
    }
    Ok(targets)
}

/// Merges endpoints by name: addresses replace aliases, and targets of one type are joined.
fn merge_endpoints(endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    let mut by_name: BTreeMap<String, Endpoint> = BTreeMap::new();
    for mut endpoint in endpoints {
        endpoint.targets.remove("");
        if endpoint.targets.is_empty() {
            continue;
        }
        match by_name.get_mut(&endpoint.name) {
            None => drop(by_name.insert(endpoint.name.clone(), endpoint)),
            Some(first) if first.record_type == endpoint.record_type => {
                first.targets.extend(endpoint.targets);
            }
            Some(first) if first.record_type == "CNAME" => *first = endpoint,
            Some(_) => {}
        }
    }
    by_name.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(name: &str, record_type: &'static str, targets: &[&str]) -> Endpoint {
        let targets = targets.iter().map(|t| (*t).to_owned()).collect();
        Endpoint { name: name.into(), record_type, targets, labelled: false }
    }

    #[test]
    fn addresses_go_before_aliases() {
        let all = vec![
            endpoint("b", "CNAME", &["x"]),
            endpoint("b", "A", &["2"]),
            endpoint("b", "CNAME", &["y"]),
            endpoint("b", "A", &["1"]),
            endpoint("a", "CNAME", &[""]),
        ];
        assert_eq!(merge_endpoints(all), [endpoint("b", "A", &["1", "2"])]);
    }

    #[test]
    fn host_names_are_resolved_or_fail_the_record() {
        let hosts = HostAddresses::from([("lb".to_owned(), vec!["10.0.0.2".to_owned(), "::1".to_owned()])]);
        let of = |ip: &str, name: &str| {
            resolve_addresses(&[LoadBalancerAddress { ip: ip.to_owned(), hostname: name.to_owned() }], &hosts)
        };
        assert_eq!(of("10.0.0.1", "lb").unwrap().len(), 3);
        assert_eq!(of("", "other").unwrap_err().reason, "ResolveFailed");
    }
}
