//! What the custom resource definitions and admission webhooks refuse, told before anything is placed.
//!
//! The schema says which fields there are; the rules say how they go together. Where the schema has
//! found an error, no rule adds another. Rules that compare an object with what it was before (the
//! placement type never changes, tolerations are only added to) need a previous version and are left
//! to the API server.

use std::collections::BTreeSet;

use super::version::{Behaviour, RunState};
use federate_kubernetes::schema::{Cursor, Refusals, Shape, check_by};
use federate_kubernetes::{Finding, Object};

mod overrides;
mod placement;
mod property;
mod schema;
mod terms;

/// Everything that is wrong with one of the dialect's own objects, by the rules of a release.
pub(super) fn check(object: &Object, behaviour: &Behaviour) -> Vec<Finding> {
    if let Some(not_served) = behaviour.not_served(object) {
        return vec![not_served];
    }
    match object.id.kind.as_str() {
        "ClusterResourcePlacement" | "ResourcePlacement" => {
            let rules = |refusals: &mut Refusals<'_>, spec: &Cursor<'_>| {
                placement::rules(refusals, spec, behaviour);
            };
            check_by(rules, object, &schema::PLACEMENT, "invalid-policy")
        }
        "ClusterResourceOverride" => {
            check_by(overrides::cluster_rules, object, &schema::CLUSTER_OVERRIDE, "invalid-policy")
        }
        "ResourceOverride" => check_by(overrides::rules, object, &schema::OVERRIDE, "invalid-policy"),
        "MemberCluster" => check_by(member, object, &schema::CLUSTER, "invalid-cluster"),
        "ClusterStagedUpdateRun" | "StagedUpdateRun" => {
            let rules = |refusals: &mut Refusals<'_>, spec: &Cursor<'_>| run(refusals, spec, behaviour);
            check_by(rules, object, &Shape::Any, "invalid-policy")
        }
        _ => Vec::new(),
    }
}

/// What an update run does with its `state`, and how long its name may be.
fn run(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &Behaviour) {
    let longest = behaviour.longest_run_name;
    if refusals.object.id.name.len() > longest {
        let message = format!("the name of an update run has at most {longest} characters");
        refusals.add(spec, message, "shorten the name");
    }
    let state = spec.field("state");
    let allowed: &[&str] = match behaviour.run_state {
        RunState::IgnoredStarted => &["NotStarted", "Started", "Stopped", "Abandoned"],
        RunState::IgnoredExecute => &["Initialize", "Execute", "Pause", "Abandon"],
        RunState::Obeyed => &["Initialize", "Run", "Stop"],
    };
    let release = behaviour.release;
    if !state.text().is_empty() && !allowed.contains(&state.text()) {
        let message = format!(
            "`state` is `{}`, but must be one of {} in KubeFleet {release}",
            state.text(),
            allowed.join(", ")
        );
        refusals.add(&state, message, "releases name the states differently: write the one that is meant");
        return;
    }
    let (message, help) = match (behaviour.run_state, state.text()) {
        (RunState::Obeyed, "") => (
            format!("the run only initializes: KubeFleet {release} waits for `state: Run`"),
            "write `state: Initialize` if that is meant, or `state: Run`",
        ),
        (RunState::Obeyed, _) | (_, "Started" | "Execute" | "") => return,
        (_, text) => (
            format!("KubeFleet {release} ignores `state: {text}`: the run begins at once"),
            "apply the run when it is to begin",
        ),
    };
    let warning = Finding::warning("no-effect", refusals.object, message);
    refusals.findings.push(warning.at(state.pointer()).help(help));
}

/// The rules of `MemberCluster`.
fn member(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    let mut taints = BTreeSet::new();
    for taint in spec.field("taints").items() {
        let (key, value) = (taint.field("key"), taint.field("value"));
        refusals.label_key(&key);
        refusals.label_value(&value);
        if !taints.insert((key.text(), value.text(), taint.field("effect").text())) {
            refusals.add(&taint, "this taint is there twice", "remove one of the two");
        }
    }
}

#[cfg(test)]
mod tests;
