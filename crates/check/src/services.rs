//! Services, budgets and network policies that nearly select the pods of a workload in the repo, and ports of Services
//! that their pods or API servers do not have.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use federate_kubernetes::object::string_map;
use federate_kubernetes::schema::{Cursor, find_similar};
use federate_kubernetes::{Finding, Labels, Object, work};
use federate_repo::Repo;

use super::suggestions::suggest_instead;
use federate_engine::work_limit::map_charged;

/// Where workloads have the template of their pods.
const TEMPLATE_POINTERS: [&str; 3] = ["/spec/template", "/spec/jobTemplate/spec/template", ""];

/// The pods of a workload: their labels, and the names of their ports.
struct Pods<'r> {
    labels: Labels,
    ports: Vec<&'r str>,
}

/// Kinds that select pods: the API group, the kind, and the pointer to the labels.
const POD_SELECTORS: [(&str, &str, &str); 3] = [
    ("", "Service", "/spec/selector"),
    ("policy", "PodDisruptionBudget", "/spec/selector/matchLabels"),
    ("networking.k8s.io", "NetworkPolicy", "/spec/podSelector/matchLabels"),
];

/// The range of node ports, unless `--service-node-port-range` of an API server says otherwise.
const NODE_PORT_RANGE: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// Node ports out of the range that is the default. API servers refuse them only when they create the Service, so that
/// not even a dry run finds them.
pub(super) fn node_ports(repo: &Repo) -> Vec<Finding> {
    let objects = repo.templates.iter().map(|template| &template.object);
    let services = objects.filter(|object| object.id.group().is_empty() && object.id.kind == "Service");
    let findings = services.flat_map(|service| {
        let body = Cursor::new(&service.body);
        let ports = body.field("spec").field("ports").items().map(|port| port.field("nodePort").clone());
        let wrong = ports.filter_map(|port| {
            let number = port.value().as_i64().filter(|number| *number != 0 && !NODE_PORT_RANGE.contains(number))?;
            let message = format!("`nodePort: {number}` is not between 30000 and 32767, and an API server refuses it");
            let help = "choose a port of that range, or leave it out, unless `--service-node-port-range` sets another range";
            Some(Finding::warning("invalid-field", service, message).with_pointer(port.pointer()).with_help(help))
        });
        wrong.collect::<Vec<_>>()
    });
    findings.collect()
}

/// The findings about selectors and ports.
pub(super) fn find_mistyped(repo: &Repo) -> Vec<Finding> {
    let templates = repo.templates.iter().map(|template| &template.object);
    let selecting = templates.clone().filter_map(|object| {
        let (.., labels) = POD_SELECTORS
            .iter()
            .find(|(group, kind, _)| object.id.group() == *group && object.id.kind == *kind)?;
        Some((object, *labels))
    });
    let services: Vec<(&Object, &str)> = selecting.collect();
    if services.is_empty() {
        return Vec::new();
    }
    let mut pods: BTreeMap<Option<&str>, Namespace<'_>> = BTreeMap::new();
    for object in templates {
        if let Some(found) = pods_of(object) {
            pods.entry(object.id.namespace.as_deref()).or_default().add_pods(found);
        }
    }
    let none = Namespace::default();
    let found = map_charged(&services, |(service, labels)| {
        check_service(service, labels, pods.get(&service.id.namespace.as_deref()).unwrap_or(&none))
    });
    found.into_iter().flatten().collect()
}

/// The pods of the workloads of a namespace.
#[derive(Default)]
struct Namespace<'r> {
    pods: Vec<Pods<'r>>,
    /// The places of the pods with a label.
    by_label: HashMap<(String, String), Vec<usize>>,
}

impl<'r> Namespace<'r> {
    fn add_pods(&mut self, pods: Pods<'r>) {
        for (key, value) in &pods.labels {
            self.by_label.entry((key.clone(), value.clone())).or_default().push(self.pods.len());
        }
        self.pods.push(pods);
    }

    /// The pods with all of these labels: those with the rarest of them, as far as they have the others.
    fn select_pods(&self, selector: &Labels) -> Vec<&Pods<'r>> {
        let rarest = selector
            .iter()
            .map(|(key, value)| {
                self.by_label.get(&(key.clone(), value.clone())).map_or(&[][..], Vec::as_slice)
            })
            .min_by_key(|places| places.len())
            .unwrap_or_default();
        let pods = rarest.iter().filter_map(|at| self.pods.get(*at));
        pods.filter(|pods| selector.iter().all(|(key, value)| pods.labels.get(key) == Some(value))).collect()
    }
}

fn pods_of(object: &Object) -> Option<Pods<'_>> {
    let template = TEMPLATE_POINTERS.iter().find_map(|pointer| {
        let template = object.body.pointer(pointer)?;
        template.pointer("/spec/containers").is_some().then_some(template)
    })?;
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    let ports = containers.into_iter().flatten().filter_map(|container| container.get("ports")?.as_array());
    Some(Pods {
        labels: string_map(template.pointer("/metadata/labels")),
        ports: ports.flatten().filter_map(|port| port.get("name")?.as_str()).collect(),
    })
}

fn check_service(service: &Object, labels: &str, namespace: &Namespace<'_>) -> Vec<Finding> {
    let body = Cursor::new(&service.body);
    let place = body.at_pointer(labels);
    let selector = string_map(Some(place.value()));
    if selector.is_empty() {
        return Vec::new();
    }
    let selected = namespace.select_pods(&selector);
    work::charge_steps(selected.len() as u64);
    if selected.is_empty() {
        return find_near_label(service, &place, &selector, &namespace.pods).into_iter().collect();
    }
    let known: Vec<&str> = selected.iter().flat_map(|pods| pods.ports.iter().copied()).collect();
    let targets = body.field("spec").field("ports").items().map(|port| port.field("targetPort").clone());
    let missing = targets.filter(|port| {
        work::charge_items(known.len());
        !port.as_text().is_empty() && !work::is_exceeded() && !known.contains(&port.as_text())
    });
    missing
        .map(|port| {
            let message = format!("the pods that the Service selects have no port `{}`", port.as_text());
            Finding::warning("unknown-reference", service, message).with_pointer(port.pointer()).with_help(
                suggest_instead(port.as_text(), &known, "named port")
                    .replace("the repo has", "the pods have"),
            )
        })
        .collect()
}

/// The finding about a selector that differs from the labels of pods in one label, by a typo.
fn find_near_label(
    service: &Object,
    place: &Cursor<'_>,
    selector: &Labels,
    pods: &[Pods<'_>],
) -> Option<Finding> {
    pods.iter().take_while(|_| !work::is_exceeded()).find_map(|pods| {
        work::charge_steps(1 + selector.len() as u64);
        let differing: Vec<(&String, &String)> =
            selector.iter().filter(|(key, value)| pods.labels.get(*key) != Some(value)).collect();
        let [(key, value)] = differing.as_slice() else { return None };
        let keys: Vec<&str> = pods.labels.keys().map(String::as_str).collect();
        let right = if let Some(has) = pods.labels.get(*key) {
            find_similar(value, &[has]).map(|has| format!("{key}: {has}"))?
        } else {
            let near = find_similar(key, &keys)?;
            let has = pods.labels.get(near).filter(|has| has == value)?;
            format!("{near}: {has}")
        };
        let message = format!(
            "no pods of the repo in the namespace of the {} have the label `{key}: {value}`",
            service.id.kind
        );
        let at = place.entry(key);
        Some(
            Finding::warning("unknown-reference", service, message)
                .with_pointer(at.pointer())
                .with_help(format!("did you mean `{right}`?")),
        )
    })
}
