//! Values in pods that an API server accepts and that are surely not meant: probes of ports that the container does
//! not have, and fractions of bytes.

use rayon::prelude::*;

use federate_kubernetes::schema::{Cursor, similar};
use federate_kubernetes::{Finding, Object};
use federate_repo::Repo;

/// The findings.
pub(super) fn findings(repo: &Repo) -> Vec<Finding> {
    repo.templates.par_iter().flat_map_iter(|template| of(&template.object)).collect()
}

fn of(object: &Object) -> Vec<Finding> {
    if !matches!(object.id.group(), "" | "apps" | "batch") {
        return Vec::new();
    }
    let body = Cursor::new(&object.body);
    let specs = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let lists = specs
        .iter()
        .flat_map(|spec| ["containers", "initContainers"].map(|list| body.below(spec).field(list)));
    let containers = lists.flat_map(|list| list.items().collect::<Vec<_>>());
    containers
        .flat_map(|container| {
            let mut found = probes(object, &container);
            found.extend(fractions(object, &container));
            found
        })
        .collect()
}

/// Probes of a named port that the container does not have.
fn probes(object: &Object, container: &Cursor<'_>) -> Vec<Finding> {
    let ports = container.field("ports");
    let known: Vec<&str> =
        ports.items().map(|port| port.field("name").text()).filter(|n| !n.is_empty()).collect();
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| container.field(probe));
    let handlers = probes.iter().flat_map(|probe| ["httpGet", "tcpSocket"].map(|key| probe.field(key)));
    handlers
        .map(|handler| handler.field("port"))
        .filter(|port| !port.text().is_empty() && !known.contains(&port.text()))
        .map(|port| {
            let message = format!("the container has no port `{}`, so the probe always fails", port.text());
            let help = match similar(port.text(), &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None if port.text().bytes().all(|b| b.is_ascii_digit()) => {
                    "remove the quotes of the number".to_owned()
                }
                None => "name the port in `ports` of the container, or write its number".to_owned(),
            };
            Finding::warning("unknown-reference", object, message).at(port.pointer()).help(help)
        })
        .collect()
}

/// Amounts of memory in thousandths of bytes.
fn fractions(object: &Object, container: &Cursor<'_>) -> Vec<Finding> {
    let resources = container.field("resources");
    let amounts = ["requests", "limits"]
        .map(|list| resources.field(list))
        .into_iter()
        .flat_map(|list| ["memory", "ephemeral-storage"].map(|key| list.field(key)));
    amounts
        .filter(|amount| {
            amount.text().strip_suffix('m').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        })
        .map(|amount| {
            let number = amount.text().trim_end_matches('m');
            let message = format!("`{}` are thousandths of a byte", amount.text());
            Finding::warning("no-effect", object, message)
                .at(amount.pointer())
                .help(format!("did you mean `{number}Mi`?"))
        })
        .collect()
}
