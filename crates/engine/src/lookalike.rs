//! Objects that almost belong to a control plane: their group, kind or version has a typo. No control plane
//! serves them, and federate would treat them as templates without a warning.

use federate_dialect::Dialects;
use federate_kubernetes::kinds::GroupKinds;
use federate_kubernetes::schema::{find_nearest, find_similar};
use federate_kubernetes::{Finding, Object};

use federate_repo::Repo;

/// Reports objects in a version that their control plane does not serve.
pub fn find_unserved_objects(dialects: Dialects, repo: &Repo) -> Vec<Finding> {
    let claimed = repo.claimed.iter();
    claimed.filter_map(|claimed| check_version(dialects, &claimed.object)).collect()
}

/// The API groups of all control planes.
fn all_groups(dialects: Dialects) -> Vec<&'static GroupKinds> {
    dialects.iter().flat_map(|dialect| dialect.kinds().own_kinds()).collect()
}

/// Reports a template that was almost certainly meant for a control plane, with the probable correction.
pub(super) fn find_lookalike(dialects: Dialects, object: &Object) -> Option<Finding> {
    let (group, kind) = (object.id.group(), object.id.kind.as_str());
    if dialects.find_scope(group, kind).is_some() {
        return None;
    }
    let groups = all_groups(dialects);
    if let Some(known) = groups.iter().find(|known| known.group == group) {
        return (known.find_scope(kind).is_none()).then(|| unknown_kind(known, object, &groups));
    }
    let names: Vec<&str> = groups.iter().map(|known| known.group).collect();
    let mut renamed = dialects.iter().flat_map(|dialect| dialect.kinds().renamed_groups());
    let now = renamed.find(|renamed| renamed.group == group).map(|renamed| renamed.now);
    let near = now.or_else(|| find_nearest(group, &names)).or_else(|| same_service(group, kind, &groups));
    match near.and_then(|near| groups.iter().find(|known| known.group == near)) {
        Some(known) if known.find_scope(kind).is_some() || dialects.is_own_domain(group) => {
            Some(unknown_group(known, object))
        }
        _ => dialects.is_own_domain(group).then(|| report_kind(object, &groups)),
    }
}

/// The finding about a group that belongs to a control plane and that it does not serve.
fn report_kind(object: &Object, groups: &[&GroupKinds]) -> Finding {
    let group = object.id.group();
    let message = format!("{}: no control plane serves the API group `{group}`", object.id);
    let help = match groups.iter().find(|known| known.find_scope(&object.id.kind).is_some()) {
        Some(known) => format!("did you mean `{}`?", preferred_version(known)),
        None => "correct `apiVersion`".to_owned(),
    };
    Finding::warning("unknown-group", object, message).with_pointer("/apiVersion").with_help(help)
}

/// Returns the group that has the kind and differs only after the last dot, such as `policy.karmada.com`.
fn same_service<'g>(group: &str, kind: &str, groups: &[&'g GroupKinds]) -> Option<&'g str> {
    let (stem, _) = group.rsplit_once('.')?;
    let mut of_kind = groups.iter().filter(|known| known.find_scope(kind).is_some());
    let same = of_kind.find(|known| known.group.rsplit_once('.').is_some_and(|(known, _)| known == stem));
    same.map(|known| known.group)
}

fn unknown_kind(known: &GroupKinds, object: &Object, groups: &[&GroupKinds]) -> Finding {
    let kinds: Vec<&str> = known.kind_names().collect();
    let kind = object.id.kind.as_str();
    let message = format!("the API group `{}` has no kind `{kind}`", known.group);
    let elsewhere = groups.iter().find(|known| known.find_scope(kind).is_some());
    let finding = Finding::warning("unknown-kind", object, message);
    match (elsewhere, find_similar(kind, &kinds)) {
        (Some(other), _) => finding
            .with_pointer("/apiVersion")
            .with_help(format!("did you mean `{}`?", preferred_version(other))),
        (None, Some(near)) => finding.with_pointer("/kind").with_help(format!("did you mean `{near}`?")),
        (None, None) => {
            finding.with_pointer("/kind").with_help(format!("its kinds are {}", kinds.join(", ")))
        }
    }
}

fn unknown_group(known: &GroupKinds, object: &Object) -> Finding {
    let group = object.id.group();
    let message = format!("{}: no control plane serves the API group `{group}`", object.id);
    Finding::warning("unknown-group", object, message)
        .with_pointer("/apiVersion")
        .with_help(format!("did you mean `{}`?", preferred_version(known)))
}

/// The preferred `apiVersion` of a group.
fn preferred_version(known: &GroupKinds) -> String {
    match known.versions.split_whitespace().next() {
        Some(version) => format!("{}/{version}", known.group),
        None => known.group.to_owned(),
    }
}

fn check_version(dialects: Dialects, object: &Object) -> Option<Finding> {
    let known = all_groups(dialects).into_iter().find(|known| known.group == object.id.group())?;
    let version = object.id.api_version.split_once('/').map_or("", |(_, version)| version);
    let mut served = known.versions.split_whitespace().peekable();
    served.peek()?;
    if served.any(|served| served == version) {
        return None;
    }
    let message = format!(
        "`{}` is not a version that the API server of the control plane serves",
        object.id.api_version
    );
    Some(
        Finding::warning("unserved-version", object, message)
            .with_pointer("/apiVersion")
            .with_help(format!("use `{}`", preferred_version(known))),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use federate_dialects::DIALECTS;

    fn finding(api_version: &str, kind: &str) -> Option<(&'static str, String)> {
        let body = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let object = Object::from_manifest(body, "a.yaml");
        let found = find_lookalike(DIALECTS, &object).or_else(|| check_version(DIALECTS, &object))?;
        Some((found.code, found.help.unwrap_or_default()))
    }

    #[test]
    fn typos_are_found_with_a_correction() {
        for (api_version, kind, code, help) in [
            (
                "policy.karmada.io/v1alpha1",
                "PropagationPolice",
                "unknown-kind",
                "did you mean `PropagationPolicy`?",
            ),
            (
                "placement.kubernetes-fleet.io/v1",
                "ClusterResourcePlacment",
                "unknown-kind",
                "did you mean `ClusterResourcePlacement`?",
            ),
            (
                "policy.karmada.com/v1alpha1",
                "PropagationPolicy",
                "unknown-group",
                "did you mean `policy.karmada.io/v1alpha1`?",
            ),
            (
                "polcy.karmada.io/v1alpha1",
                "OverridePolicy",
                "unknown-group",
                "did you mean `policy.karmada.io/v1alpha1`?",
            ),
            (
                "policy.karmada.example/v1alpha1",
                "PropagationPolicy",
                "unknown-group",
                "did you mean `policy.karmada.io/v1alpha1`?",
            ),
            ("foo.karmada.io/v1alpha1", "Bar", "unknown-group", "correct `apiVersion`"),
            (
                "policy.karmada.io/v1beta1",
                "PropagationPolicy",
                "unserved-version",
                "use `policy.karmada.io/v1alpha1`",
            ),
            (
                "cluster.kubernetes-fleet.io/v1beta7",
                "MemberCluster",
                "unserved-version",
                "use `cluster.kubernetes-fleet.io/v1`",
            ),
        ] {
            assert_eq!(finding(api_version, kind), Some((code, help.to_owned())), "{api_version} {kind}");
        }
    }

    #[test]
    fn other_kinds_are_not_reported() {
        for (api_version, kind) in [
            ("v1", "ConfigMap"),
            ("apps/v1", "Deployment"),
            ("example.org/v1", "PropagationPolicy"),
            ("policy/v1", "PodDisruptionBudget"),
            ("karma.io/v1", "Cluster"),
            ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
            ("types.kubefed.io/v1beta1", "FederatedDeployment"),
        ] {
            assert_eq!(finding(api_version, kind), None, "{api_version} {kind}");
        }
    }
}
