//! Ingresses and `NetworkPolicies`.

use serde_json::Value;

use federate_kubernetes::names::is_dns_subdomain;

use super::super::failure::StatusCause;
use super::metadata::SUBDOMAIN_MESSAGE;
use super::{integer_at, list_at, present_at, text_at};

const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
    must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
    '*.example.com', regex used for validation is \
    '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The errors of an Ingress.
pub(super) fn ingress_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let rules = list_at(object, "/spec/rules");
    let default = object.pointer("/spec/defaultBackend").filter(|backend| !backend.is_null());
    if rules.is_empty() && default.is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(StatusCause::invalid("spec", &Value::Null, why));
    }
    causes.extend(default.and_then(|default| backend_cause(default, "spec.defaultBackend")));
    for (place, rule) in rules.iter().enumerate() {
        let at = format!("spec.rules[{place}]");
        let host = text_at(rule, "/host");
        if !host.is_empty() {
            if host.parse::<std::net::IpAddr>().is_ok() {
                let why = "must be a DNS name, not an IP address";
                causes.push(StatusCause::invalid(format!("{at}.host"), &host.into(), why));
            }
            causes.extend(
                host_error(host).map(|why| StatusCause::invalid(format!("{at}.host"), &host.into(), why)),
            );
        }
        for (place, path) in list_at(rule, "/http/paths").iter().enumerate() {
            causes.extend(http_path_causes(path, &format!("{at}.http.paths[{place}]")));
        }
    }
    for (place, tls) in list_at(object, "/spec/tls").iter().enumerate() {
        for (host_place, host) in list_at(tls, "/hosts").iter().enumerate() {
            let why = host_error(host.as_str().unwrap_or_default());
            let field = format!("spec.tls[{place}].hosts[{host_place}]");
            causes.extend(why.map(|why| StatusCause::invalid(field, host, why)));
        }
    }
    causes
}

fn host_error(host: &str) -> Option<&'static str> {
    if host.contains('*') {
        let rest = host.strip_prefix("*.");
        return (!rest.is_some_and(is_dns_subdomain)).then_some(WILDCARD);
    }
    (!is_dns_subdomain(host)).then_some(SUBDOMAIN_MESSAGE)
}

fn http_path_causes(path: &Value, at: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (kind, value) = (text_at(path, "/pathType"), text_at(path, "/path"));
    let field = format!("{at}.path");
    if kind.is_empty() {
        causes.push(StatusCause::required(format!("{at}.pathType"), "pathType must be specified"));
    } else if matches!(kind, "Exact" | "Prefix") {
        if !value.starts_with('/') {
            causes.push(StatusCause::invalid(field.clone(), &value.into(), "must be an absolute path"));
        }
        if value.contains("//") {
            causes.push(StatusCause::invalid(field, &value.into(), "must not contain '//'"));
        }
    } else if kind != "ImplementationSpecific" {
        let known = ["Exact", "ImplementationSpecific", "Prefix"];
        causes.push(StatusCause::unsupported(format!("{at}.pathType"), &kind.into(), &known));
    }
    causes.extend(backend_cause(path.get("backend").unwrap_or(&Value::Null), &format!("{at}.backend")));
    causes
}

fn backend_cause(backend: &Value, at: &str) -> Option<StatusCause> {
    if present_at(backend, "/service").is_none() {
        let why = "resource or service backend is required";
        let is_missing = present_at(backend, "/resource").is_none();
        return is_missing.then(|| StatusCause::invalid(at, &"".into(), why));
    }
    let name = !text_at(backend, "/service/port/name").is_empty();
    let number = integer_at(backend, "/service/port/number").unwrap_or(0) != 0;
    match (name, number) {
        (true, true) => Some(StatusCause::invalid(at, &"".into(), "cannot set both port name & port number")),
        (false, false) => Some(StatusCause::required(at, "port name or number is required")),
        _ => None,
    }
}

/// The errors of a `NetworkPolicy`.
pub(super) fn policy_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (place, rule) in list_at(object, &format!("/spec/{direction}")).iter().enumerate() {
            let at = format!("spec.{direction}[{place}]");
            for (place, port) in list_at(rule, "/ports").iter().enumerate() {
                let number = integer_at(port, "/port");
                if let Some(number) = number.filter(|number| !(1..=65535).contains(number)) {
                    let why = "must be between 1 and 65535, inclusive";
                    causes.push(StatusCause::invalid(
                        format!("{at}.ports[{place}].port"),
                        &number.into(),
                        why,
                    ));
                }
            }
            for (place, peer) in list_at(rule, &format!("/{peers}")).iter().enumerate() {
                if peer.as_object().is_none_or(serde_json::Map::is_empty) {
                    causes
                        .push(StatusCause::required(format!("{at}.{peers}[{place}]"), "must specify a peer"));
                }
            }
        }
    }
    for (place, kind) in list_at(object, "/spec/policyTypes").iter().enumerate() {
        if !matches!(kind.as_str(), Some("Ingress" | "Egress")) {
            let field = format!("spec.policyTypes[{place}]");
            causes.push(StatusCause::unsupported(field, kind, &["Ingress", "Egress"]));
        }
    }
    causes
}
