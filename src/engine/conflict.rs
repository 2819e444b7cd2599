//! Two claims on one thing: an object that two dialects would place, a cluster described twice.

use crate::dialect::Placement;
use crate::k8s::{Cluster, Finding, Severity};
use crate::repo::Repo;

/// Takes out of `placements` (sorted by object) what two dialects place, with an error that names both.
pub(super) fn two_claims(repo: &Repo, placements: &mut Vec<Placement>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut clashing = Vec::new();
    for pair in placements.windows(2) {
        let [a, b] = pair else { continue };
        if a.object != b.object {
            continue;
        }
        clashing.push(a.object.clone());
        let by = |p: &Placement| match &p.policy {
            Some(policy) => format!("{policy} ({})", p.dialect),
            None => p.dialect.clone(),
        };
        if let Some(template) = repo.template(&a.object) {
            let message = format!("{} is placed by both {} and {}", a.object, by(a), by(b));
            findings.push(
                Finding::error("two-dialects", &template.object, message)
                    .help("let one dialect's policies select it, not both"),
            );
        }
    }
    placements.retain(|p| !clashing.contains(&p.object));
    findings
}

/// One cluster name, two inventory objects.
pub(super) fn same_cluster(first: &Cluster, later: &Cluster) -> Finding {
    Finding {
        severity: Severity::Error,
        origin: Some(later.origin.clone()),
        pointer: "/metadata/name".to_owned(),
        column: None,
        code: "duplicate-cluster",
        object: Some(later.id.clone()),
        message: format!(
            "cluster `{}` is described twice: as {} in {} and as {} in {}",
            later.name, first.id.kind, first.origin, later.id.kind, later.origin
        ),
        help: Some("keep one of the two".to_owned()),
    }
}
