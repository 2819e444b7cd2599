//! Services.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_kubernetes::names::{is_dns_label, is_dns_subdomain};

use super::super::failure::StatusCause;
use super::metadata::{LABEL_MESSAGE, SUBDOMAIN_MESSAGE};
use super::{integer_at, list_at, text_at};

const PORT_MESSAGE: &str = "must be between 1 and 65535, inclusive";

/// The errors of a Service.
pub(super) fn find_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (kind, address) = (text_at(object, "/spec/type"), text_at(object, "/spec/clusterIP"));
    if list_at(object, "/spec/ports").is_empty() && address != "None" && kind != "ExternalName" {
        causes.push(StatusCause::required("spec.ports", ""));
    }
    match kind {
        "ExternalName" if !address.is_empty() => {
            causes
                .push(StatusCause::forbidden("spec.clusterIPs", "may not be set for ExternalName services"));
        }
        "NodePort" | "LoadBalancer" if address == "None" => {
            let why = format!("may not be set to 'None' for {kind} services");
            causes.push(StatusCause::invalid("spec.clusterIPs[0]", &address.into(), &why));
        }
        _ => {}
    }
    causes.extend(external_name_cause(object));
    causes.extend(port_causes(object));
    let affinity = text_at(object, "/spec/sessionAffinity");
    if !matches!(affinity, "" | "ClientIP" | "None") {
        causes.push(StatusCause::unsupported(
            "spec.sessionAffinity",
            &affinity.into(),
            &["ClientIP", "None"],
        ));
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kind.is_empty() && !kinds.contains(&kind) {
        causes.push(StatusCause::unsupported("spec.type", &kind.into(), &kinds));
    }
    if kind == "ClusterIP" {
        for (place, port) in list_at(object, "/spec/ports").iter().enumerate() {
            if integer_at(port, "/nodePort").unwrap_or(0) != 0 {
                let why = "may not be used when `type` is 'ClusterIP'";
                causes.push(StatusCause::forbidden(format!("spec.ports[{place}].nodePort"), why));
            }
        }
    }
    causes
}

fn external_name_cause(object: &Value) -> Option<StatusCause> {
    if text_at(object, "/spec/type") != "ExternalName" {
        return None;
    }
    let name = text_at(object, "/spec/externalName");
    if name.is_empty() {
        return Some(StatusCause::required("spec.externalName", ""));
    }
    let valid = is_dns_subdomain(name.strip_suffix('.').unwrap_or(name));
    (!valid).then(|| StatusCause::invalid("spec.externalName", &name.into(), SUBDOMAIN_MESSAGE))
}

fn port_causes(object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let ports = list_at(object, "/spec/ports");
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (place, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{place}]");
        let name = text_at(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(StatusCause::required(format!("{at}.name"), ""));
        } else if !name.is_empty() {
            if !is_dns_label(name) {
                causes.push(StatusCause::invalid(format!("{at}.name"), &name.into(), LABEL_MESSAGE));
            }
            if !names.insert(name) {
                causes.push(StatusCause::duplicate(format!("{at}.name"), &name.into()));
            }
        }
        let number = integer_at(port, "/port").unwrap_or_default();
        if !(1..=65535).contains(&number) {
            causes.push(StatusCause::invalid(format!("{at}.port"), &number.into(), PORT_MESSAGE));
        }
        let protocol = text_at(port, "/protocol");
        if !matches!(protocol, "" | "SCTP" | "TCP" | "UDP") {
            causes.push(StatusCause::unsupported(
                format!("{at}.protocol"),
                &protocol.into(),
                &["SCTP", "TCP", "UDP"],
            ));
        }
        let target = integer_at(port, "/targetPort");
        if let Some(target) = target.filter(|target| !(1..=65535).contains(target)) {
            causes.push(StatusCause::invalid(format!("{at}.targetPort"), &target.into(), PORT_MESSAGE));
        }
        if !numbers.insert((number, protocol)) {
            causes.push(StatusCause::duplicate(at, port));
        }
    }
    causes
}

/// The errors of a change of a Service.
pub(super) fn find_change_causes(live: &Value, object: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (old, new) = (text_at(live, "/spec/clusterIP"), text_at(object, "/spec/clusterIP"));
    let has_name = [live, object].iter().any(|service| text_at(service, "/spec/type") == "ExternalName");
    if !old.is_empty() && old != new && !has_name {
        let value = serde_json::json!([new]);
        causes.push(StatusCause::invalid("spec.clusterIPs[0]", &value, "may not change once set"));
    }
    causes
}
