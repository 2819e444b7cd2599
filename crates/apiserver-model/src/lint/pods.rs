//! Values in pods that an API server refuses, as people get them wrong: ports, resources, probes, volumes, variables.
//!
//! Facts: the validation of Kubernetes 1.36. Checks of [`validation`](crate::validation) are not repeated.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::schema::{Cursor, find_nearest};

use super::{Problem, ProblemEffect, scheduling};

/// The resources of Kubernetes; others have a domain, such as `nvidia.com/gpu`.
const RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "storage"];

/// The handlers of probes.
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// The whole numbers of probes.
const PROBE_NUMBERS: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

/// The fields of its pod that a variable can have, other than single labels and annotations.
const FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The pointer to the spec of an object's pods.
fn spec_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Pod" => "/spec",
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            "/spec/template/spec"
        }
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        "PodTemplate" => "/template/spec",
        _ => return None,
    })
}

/// The problems of the pods of an object, and of the selectors of pods.
pub(super) fn find_problems(kind: &str, object: &Value) -> Vec<Problem> {
    let mut found = PodProblems(Vec::new());
    scheduling::add_selector_problems(&mut found, kind, object);
    let Some(spec) = spec_of(kind).map(|pointer| Cursor::new(object).at_pointer(pointer)) else {
        return found.0;
    };
    for list in ["initContainers", "containers"] {
        spec.field(list).items().for_each(|container| found.check_container(&container));
    }
    found.check_volumes(&spec.field("volumes"));
    found.check_one_of(
        &spec.field("dnsPolicy"),
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    );
    scheduling::add_problems(&mut found, &spec);
    found.0
}

/// Whether a text at a pointer of an object, which has a text there already, cannot be a problem.
pub(super) fn is_plain(kind: &str, pointer: &str, text: &str) -> bool {
    let Some(below) = spec_of(kind).and_then(|spec| pointer.strip_prefix(spec)) else { return false };
    let tokens: Vec<&str> = below.split('/').skip(1).collect();
    match tokens.as_slice() {
        ["containers" | "initContainers", _, "image"] => !text.is_empty() && text.trim() == text,
        ["containers" | "initContainers", _, "args" | "command", _]
        | ["containers" | "initContainers", _, "env", _, "value"] => true,
        _ => false,
    }
}

/// The problems of the pods of an object.
pub(super) struct PodProblems(Vec<Problem>);

impl PodProblems {
    pub(super) fn add_refusal(&mut self, at: &Cursor<'_>, why: &str, help: Option<String>) {
        self.0.push(Problem::about_field(at.pointer(), ProblemEffect::Refused, why, help));
    }

    pub(super) fn check_one_of(&mut self, at: &Cursor<'_>, allowed: &[&str]) {
        let text = at.as_text();
        if !text.is_empty() && !allowed.contains(&text) {
            let why = format!("is `{text}`, but must be one of {}", allowed.join(", "));
            self.add_refusal(
                at,
                &why,
                find_nearest(text, allowed).map(|near| format!("did you mean `{near}`?")),
            );
        }
    }

    fn check_container(&mut self, container: &Cursor<'_>) {
        let name = container.field("name");
        let label = name.as_text().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !label
            || name.as_text().starts_with('-')
            || name.as_text().ends_with('-')
            || name.as_text().len() > 63
        {
            let why = format!(
                "is `{}`, but must consist of up to 63 lower-case letters, digits and `-`",
                name.as_text()
            );
            self.add_refusal(&name, &why, None);
        }
        self.check_one_of(&container.field("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
        self.check_one_of(&container.field("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
        if container.field("image").as_text().trim() != container.field("image").as_text() {
            self.add_refusal(&container.field("image"), "must not begin or end with a space", None);
        }
        self.check_ports(&container.field("ports"));
        self.check_variables(&container.field("env"));
        self.check_resources(&container.field("resources"));
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            self.check_probe(&container.field(probe), probe == "readinessProbe");
        }
        let mut paths = BTreeSet::new();
        for mount in container.field("volumeMounts").items() {
            let path = mount.field("mountPath");
            if path.as_text().is_empty() {
                self.add_refusal(&mount, "lacks the required field `mountPath`", None);
            } else if !paths.insert(path.as_text().to_owned()) {
                self.add_refusal(
                    &path,
                    "is the path of an earlier mount",
                    Some("use each path once".to_owned()),
                );
            }
        }
    }

    fn check_ports(&mut self, ports: &Cursor<'_>) {
        let mut names = BTreeSet::new();
        for port in ports.items() {
            self.check_port_number(&port, "containerPort", true);
            self.check_port_number(&port, "hostPort", false);
            self.check_one_of(&port.field("protocol"), &["TCP", "UDP", "SCTP"]);
            let name = port.field("name");
            if name.as_text().len() > 15 {
                self.add_refusal(&name, "has more than 15 characters", Some("shorten the name".to_owned()));
            } else if name
                .as_text()
                .bytes()
                .any(|b| !b.is_ascii_lowercase() && !b.is_ascii_digit() && b != b'-')
            {
                self.add_refusal(&name, "may only have lower-case letters, digits and `-`", None);
            } else if name.is_present() && !names.insert(name.as_text().to_owned()) {
                self.add_refusal(
                    &name,
                    "is the name of an earlier port",
                    Some("use each name once".to_owned()),
                );
            }
        }
    }

    /// Checks a port number.
    fn check_port_number(&mut self, of: &Cursor<'_>, key: &str, required: bool) {
        let port = of.field(key);
        if !port.is_present() {
            if required {
                self.add_refusal(of, &format!("lacks the required field `{key}`"), None);
            }
        } else if !(i64::from(required)..=65535).contains(&port.as_integer()) {
            let why = format!("is {}, but a port is between 1 and 65535", port.as_integer());
            self.add_refusal(&port, &why, None);
        }
    }

    fn check_variables(&mut self, variables: &Cursor<'_>) {
        for variable in variables.items() {
            let (name, from) = (variable.field("name"), variable.field("valueFrom"));
            if name.as_text().is_empty() {
                self.add_refusal(&variable, "lacks the required field `name`", None);
            } else if name.as_text().contains('=') {
                self.add_refusal(
                    &name,
                    "must not contain `=`",
                    Some("write the value under `value`".to_owned()),
                );
            }
            let path = from.field("fieldRef").field("fieldPath");
            let entry = ["metadata.labels['", "metadata.annotations['"];
            if !entry.iter().any(|start| path.as_text().starts_with(start) && path.as_text().ends_with("']"))
            {
                self.check_one_of(&path, &FIELD_PATHS);
            }
            if from.has_items() && !variable.field("value").as_text().is_empty() {
                self.add_refusal(
                    &from,
                    "may not be set together with `value`",
                    Some("remove one of the two".to_owned()),
                );
            }
        }
    }

    fn check_resources(&mut self, resources: &Cursor<'_>) {
        for list in ["requests", "limits"] {
            let amounts = resources.field(list);
            for (key, _) in amounts.value().as_object().into_iter().flatten() {
                let known =
                    RESOURCES.contains(&key.as_str()) || key.contains('/') || key.starts_with("hugepages-");
                if !known {
                    let near = find_nearest(key, &RESOURCES)
                        .or(RESOURCES.iter().copied().find(|r| r.starts_with(key.as_str())));
                    let help = near.map(|near| format!("did you mean `{near}`?"));
                    self.add_refusal(&amounts.entry(key), "is not a resource of containers", help);
                }
            }
        }
        let (requests, limits) = (resources.field("requests"), resources.field("limits"));
        for (key, _) in requests.value().as_object().into_iter().flatten() {
            let (request, limit) = (requests.entry(key), limits.entry(key));
            if let Some(requested) = Quantity::from_json(request.value())
                && Quantity::from_json(limit.value()).is_some_and(|limit| requested > limit)
            {
                self.add_refusal(
                    &request,
                    "is more than the limit",
                    Some("raise the limit, or lower the request".to_owned()),
                );
            }
        }
    }

    fn check_probe(&mut self, probe: &Cursor<'_>, may_repeat: bool) {
        if !probe.is_present() {
            return;
        }
        for key in PROBE_NUMBERS {
            let number = probe.field(key);
            if number.as_integer() < 0 {
                self.add_refusal(
                    &number,
                    &format!("is {}, but must not be negative", number.as_integer()),
                    None,
                );
            }
        }
        let successes = probe.field("successThreshold");
        if !may_repeat && successes.as_integer() > 1 {
            let help = "remove it; only a readiness probe can ask for several successes";
            self.add_refusal(&successes, "must be 1", Some(help.to_owned()));
        }
        let handlers = HANDLERS.iter().filter(|handler| probe.field(handler).is_present()).count();
        if handlers != 1 {
            let why = if handlers == 0 { "has no handler" } else { "has more than one handler" };
            self.add_refusal(probe, why, Some(format!("set one of {}", HANDLERS.join(", "))));
        }
        for handler in ["httpGet", "tcpSocket"] {
            let handler = probe.field(handler);
            let port = handler.field("port");
            if handler.is_present() && !port.is_present() {
                self.add_refusal(&handler, "lacks the required field `port`", None);
            } else if port.value().is_number() && !(1..=65535).contains(&port.as_integer()) {
                self.add_refusal(&port, "is not between 1 and 65535", None);
            }
        }
    }

    /// Checks the permissions of a file.
    fn check_file_mode(&mut self, mode: &Cursor<'_>) {
        let bits = mode.as_integer();
        if !(0..=0o777).contains(&bits) {
            let octal = bits > 0 && bits <= 7777 && !bits.to_string().contains(['8', '9']);
            let help = octal.then(|| format!("write it in octal: `0{bits}`"));
            self.add_refusal(
                mode,
                &format!("is {bits}, but permissions are between 0 and 0777 (octal)"),
                help,
            );
        }
    }

    fn check_volumes(&mut self, volumes: &Cursor<'_>) {
        let mut names = BTreeSet::new();
        for volume in volumes.items() {
            let name = volume.field("name");
            if !name.as_text().is_empty() && !names.insert(name.as_text().to_owned()) {
                self.add_refusal(
                    &name,
                    "is the name of an earlier volume",
                    Some("use each name once".to_owned()),
                );
            }
            let sources = volume.value().as_object().map_or(0, |map| {
                map.iter().filter(|(key, value)| *key != "name" && !value.is_null()).count()
            });
            if sources == 0 {
                let help = "add one, such as `emptyDir: {}` or `configMap: {name: …}`";
                self.add_refusal(&volume, "has no volume type", Some(help.to_owned()));
            } else if sources > 1 {
                self.add_refusal(
                    &volume,
                    "has more than one volume type",
                    Some("keep one of them".to_owned()),
                );
            }
            for source in ["configMap", "secret", "downwardAPI", "projected"].map(|key| volume.field(key)) {
                self.check_file_mode(&source.field("defaultMode"));
                source.field("items").items().for_each(|item| self.check_file_mode(&item.field("mode")));
            }
        }
    }
}
