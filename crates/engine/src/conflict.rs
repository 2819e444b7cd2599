//! Conflicts: objects that two dialects place, and clusters that two inventory objects describe.

use federate_dialect::Placement;
use federate_kubernetes::{Cluster, Finding, Severity};
use federate_repo::Repo;

use super::config_clusters::CONFIG_GROUP;

/// Keeps one row of `placements` (sorted by object) for each object. Policies take precedence over rules that
/// need no policy; among such rules, the first dialect takes precedence. Objects that policies of two dialects
/// place are removed, with an error that names both.
pub(super) fn two_claims(repo: &Repo, placements: Vec<Placement>) -> (Vec<Placement>, Vec<Finding>) {
    let mut kept: Vec<Placement> = Vec::with_capacity(placements.len());
    let mut findings = Vec::new();
    let mut clashing = Vec::new();
    for next in placements {
        let Some(last) = kept.last_mut().filter(|last| last.object == next.object) else {
            kept.push(next);
            continue;
        };
        match (last.implicit, next.implicit) {
            (true, false) => *last = next,
            (true, true) if last.clusters.is_empty() => *last = next,
            (_, true) => {}
            (false, false) => {
                clashing.push(next.object.clone());
                findings.extend(report_clash(repo, last, &next));
            }
        }
    }
    // Both are sorted by object.
    kept.retain(|p| clashing.binary_search(&p.object).is_err());
    (kept, findings)
}

fn report_clash(repo: &Repo, a: &Placement, b: &Placement) -> Option<Finding> {
    let template = repo.find_template(&a.object).map(|t| &t.object);
    let policies = [a, b].into_iter().filter_map(|row| {
        let policy = row.policy.as_ref()?;
        repo.claimed.iter().find(|claimed| claimed.object.id == *policy)
    });
    let place = template.or_else(|| policies.map(|claimed| &claimed.object).next())?;
    let [by_a, by_b] = [a, b].map(|row| match &row.policy {
        Some(policy) if *policy != row.object => format!("{policy} ({})", row.dialect),
        _ => format!("its own annotations or labels ({})", row.dialect),
    });
    let message = format!("{} is placed by both {by_a} and {by_b}", a.object);
    let mut finding = Finding::error("two-dialects", place, message)
        .with_help("let one dialect's policies select it, not both");
    finding.object = Some(a.object.clone());
    Some(finding)
}

/// Reports two inventory objects with the same cluster name.
pub(super) fn same_cluster(first: &Cluster, later: &Cluster) -> Finding {
    let help = if [first, later].iter().any(|cluster| cluster.id.group() == CONFIG_GROUP) {
        "keep one of the two: in `clusters`, only the provider, the region, the zones, the version and properties add to another object"
    } else {
        "keep one of the two"
    };
    Finding {
        severity: Severity::Error,
        origin: Some(later.origin.clone()),
        pointer: "/metadata/name".to_owned(),
        text_line: None,
        column: None,
        code: "duplicate-cluster",
        object: Some(later.id.clone()),
        message: format!(
            "cluster `{}` is described twice: as {} in {} and as {} in {}",
            later.name, first.id.kind, first.origin, later.id.kind, later.origin
        ),
        help: Some(help.to_owned()),
        cause: None,
    }
}
