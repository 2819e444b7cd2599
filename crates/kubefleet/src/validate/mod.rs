//! Validation: what the custom resource definitions and admission webhooks refuse.
//!
//! The schema defines the fields; the rules define how they go together. If the schema finds an error, no rule
//! adds another. Rules that compare an object with its former state are in `updates`.

use std::collections::BTreeSet;

use super::version::{Behaviour, RunState, WaitTimes};
use federate_dialect::stages::Amount;
use federate_kubernetes::schema::{Cursor, Refusals, Shape, check_by};
use federate_kubernetes::{Finding, Object};

mod overrides;
mod placement;
mod property;
mod schema;
mod terms;

/// Returns the findings about one of the dialect's own objects, by the rules of a release.
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
        "ClusterStagedUpdateStrategy" | "StagedUpdateStrategy" => {
            let rules = |refusals: &mut Refusals<'_>, spec: &Cursor<'_>| stages(refusals, spec, behaviour);
            check_by(rules, object, &schema::STAGED_STRATEGY, "invalid-policy")
        }
        _ => Vec::new(),
    }
}

/// Checks the stages of an update strategy: wait times and maximum concurrency.
fn stages(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &Behaviour) {
    for stage in spec.field("stages").items() {
        for task in stage.field("afterStageTasks").items() {
            let wait = task.field("waitTime");
            if wait.present() && !is_wait_time(wait.text(), behaviour.wait_times) {
                let message =
                    format!("`waitTime: {}` is not a duration in hours, minutes and seconds", wait.text());
                refusals.add(&wait, message, "write it like `1h30m`");
            }
        }
        let most = stage.field("maxConcurrency");
        let refused = behaviour.max_concurrency_starts_at_one
            && Amount::read(most.value()).is_none_or(|amount| match amount {
                Amount::Count(count) => count < 1,
                Amount::Percent(percent) => !(1..=100).contains(&percent),
            });
        if most.present() && refused {
            let message = "`maxConcurrency` is neither a number from 1 nor a percentage from 1% to 100%";
            refusals.add(&most, message, "write it like `3` or `25%`");
        }
    }
}

/// Whether the custom resource definition accepts a `waitTime`.
fn is_wait_time(text: &str, accepted: WaitTimes) -> bool {
    let durations = |text: &str| {
        let mut rest = text;
        while let Some(end) = rest.find(['h', 'm', 's']) {
            let (number, unit_and_rest) = rest.split_at(end);
            let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if !digits(whole) || !digits(fraction) {
                return false;
            }
            rest = unit_and_rest.get(1..).unwrap_or_default();
        }
        rest.is_empty() && !text.is_empty()
    };
    match accepted {
        WaitTimes::Durations => durations(text),
        WaitTimes::Partly => {
            text.starts_with('0') || text.char_indices().any(|(at, _)| text.get(at..).is_some_and(durations))
        }
    }
}

/// Checks the `state` and the name of an update run.
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
        refusals.add(&state, message, "use a state of this release");
        return;
    }
    let (message, help) = match (behaviour.run_state, state.text()) {
        (RunState::Obeyed, "") => (
            format!("the run only initializes: KubeFleet {release} starts it when `state` is `Run`"),
            "write `state: Run` to start it, or `state: Initialize` to keep it",
        ),
        (RunState::Obeyed, _) | (_, "Started" | "Execute" | "") => return,
        (_, text) => (
            format!("KubeFleet {release} ignores `state: {text}`: the run starts at once"),
            "create the run when it should start",
        ),
    };
    let warning = Finding::warning("no-effect", refusals.object, message);
    refusals.findings.push(warning.at(state.pointer()).help(help));
}

/// The finding about a placement `PickFixed` that names no cluster.
pub(super) fn pick_fixed_without_names(placement: &Object) -> Finding {
    let body = Cursor::new(&placement.body);
    let policy = body.field("spec").field("policy");
    let names = policy.field("clusterNames");
    let at = if names.present() { names } else { policy.field("placementType") };
    let message = format!("{} picks no cluster: `PickFixed` without `clusterNames`", placement.id);
    let help = "name the clusters in `clusterNames`, or write `placementType: PickAll` for all";
    Finding::warning("no-effect", placement, message).at(at.pointer()).help(help)
}

/// The rules of `MemberCluster`.
fn member(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    let mut taints = BTreeSet::new();
    for taint in spec.field("taints").items() {
        let (key, value) = (taint.field("key"), taint.field("value"));
        refusals.label_key(&key);
        refusals.label_value(&value);
        if !taints.insert((key.text(), value.text(), taint.field("effect").text())) {
            refusals.add(&taint, "this taint occurs twice", "remove one of the two");
        }
    }
}

#[cfg(test)]
mod tests;
