//! Values in pods that an API server accepts and that are surely not meant: probes of ports that the container does
//! not have, and fractions of bytes.

use federate_kubernetes::schema::{Cursor, find_similar};
use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

use federate_engine::work_limit::map_charged;

/// The findings.
pub(super) fn check_pods(repo: &Repo) -> Vec<Finding> {
    let found = map_charged(&repo.templates, |template| check_object(&template.object));
    found.into_iter().flatten().collect()
}

fn check_object(object: &Object) -> Vec<Finding> {
    if !matches!(object.id.group(), "" | "apps" | "batch") {
        return Vec::new();
    }
    let body = Cursor::new(&object.body);
    let specs = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let lists = specs
        .iter()
        .flat_map(|spec| ["containers", "initContainers"].map(|list| body.at_pointer(spec).field(list)));
    let containers = lists.flat_map(|list| list.items().collect::<Vec<_>>());
    containers
        .flat_map(|container| {
            let mut found = check_probes(object, &container);
            found.extend(check_fractions(object, &container));
            found
        })
        .collect()
}

/// Probes of a named port that the container does not have.
fn check_probes(object: &Object, container: &Cursor<'_>) -> Vec<Finding> {
    let ports = container.field("ports");
    let known: Vec<&str> =
        ports.items().map(|port| port.field("name").as_text()).filter(|n| !n.is_empty()).collect();
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| container.field(probe));
    let handlers = probes.iter().flat_map(|probe| ["httpGet", "tcpSocket"].map(|key| probe.field(key)));
    handlers
        .map(|handler| handler.field("port"))
        .filter(|port| !port.as_text().is_empty() && !known.contains(&port.as_text()))
        .map(|port| {
            let message =
                format!("the container has no port `{}`, so the probe always fails", port.as_text());
            let help = match find_similar(port.as_text(), &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None if port.as_text().bytes().all(|b| b.is_ascii_digit()) => {
                    "remove the quotes of the number".to_owned()
                }
                None => "name the port in `ports` of the container, or write its number".to_owned(),
            };
            Finding::warning("unknown-reference", object, message)
                .with_pointer(port.pointer())
                .with_help(help)
        })
        .collect()
}

/// Amounts of memory in thousandths of bytes.
fn check_fractions(object: &Object, container: &Cursor<'_>) -> Vec<Finding> {
    let resources = container.field("resources");
    let amounts = ["requests", "limits"]
        .map(|list| resources.field(list))
        .into_iter()
        .flat_map(|list| ["memory", "ephemeral-storage"].map(|key| list.field(key)));
    amounts
        .filter(|amount| {
            amount
                .as_text()
                .strip_suffix('m')
                .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        })
        .map(|amount| {
            let number = amount.as_text().trim_end_matches('m');
            let message = format!("`{}` are thousandths of a byte", amount.as_text());
            Finding::warning("no-effect", object, message)
                .with_pointer(amount.pointer())
                .with_help(format!("did you mean `{number}Mi`?"))
        })
        .collect()
}
