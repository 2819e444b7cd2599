//! Validation: what the custom resource definitions and admission webhooks refuse.
//!
//! The schema defines the fields; the rules define how they go together. If the schema finds an error, no rule
//! adds another. Rules that compare an object with its former state are in `updates`.

use std::collections::BTreeSet;

use super::version::{KubeFleetBehaviour, RunState, WaitTimes};
use federate_dialect::stages::ClusterAmount;
use federate_kubernetes::schema::{Cursor, Refusals, Shape, check_by};
use federate_kubernetes::{Finding, Object};

mod overrides;
mod placement;
mod property;
mod schema;
mod terms;

/// Returns the findings about one of the dialect's own objects, by the rules of a release.
pub(super) fn validate_object(object: &Object, behaviour: &KubeFleetBehaviour) -> Vec<Finding> {
    if let Some(not_served) = behaviour.not_served(object) {
        return vec![not_served];
    }
    match object.id.kind.as_str() {
        "ClusterResourcePlacement" | "ResourcePlacement" => check_by(
            |refusals, spec| placement::check_placement(refusals, spec, behaviour),
            object,
            &schema::PLACEMENT,
            "invalid-policy",
        ),
        "ClusterResourceOverride" => check_by(
            |refusals, spec| overrides::check_cluster_override(refusals, spec, behaviour),
            object,
            &schema::CLUSTER_OVERRIDE,
            "invalid-policy",
        ),
        "ResourceOverride" => check_by(
            |refusals, spec| overrides::check_override(refusals, spec, behaviour),
            object,
            &schema::OVERRIDE,
            "invalid-policy",
        ),
        "MemberCluster" => check_by(check_member_cluster, object, &schema::CLUSTER, "invalid-cluster"),
        "ClusterStagedUpdateRun" | "StagedUpdateRun" => check_by(
            |refusals, spec| check_run(refusals, spec, behaviour),
            object,
            &Shape::Any,
            "invalid-policy",
        ),
        "ClusterStagedUpdateStrategy" | "StagedUpdateStrategy" => check_by(
            |refusals, spec| check_stages(refusals, spec, behaviour),
            object,
            &schema::STAGED_STRATEGY,
            "invalid-policy",
        ),
        _ => Vec::new(),
    }
}

/// The most stages of an update strategy.
const MAX_STAGES: usize = 31;

/// Checks the stages of an update strategy: their number, their tasks and their maximum concurrency.
fn check_stages(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let stages = spec.field("stages");
    let count = stages.items().count();
    if count > MAX_STAGES {
        let message = format!("a strategy has at most {MAX_STAGES} stages, but there are {count}");
        refusals.add_error(&stages, message, "join stages, or split the clusters over several placements");
    }
    for stage in stages.items() {
        check_tasks_before_stage(refusals, &stage.field("beforeStageTasks"));
        check_tasks_after_stage(refusals, &stage.field("afterStageTasks"), behaviour);
        let most = stage.field("maxConcurrency");
        let refused = behaviour.max_concurrency_starts_at_one
            && ClusterAmount::from_value(most.value()).is_none_or(|amount| match amount {
                ClusterAmount::Count(count) => count < 1,
                ClusterAmount::Percent(percent) => !(1..=100).contains(&percent),
            });
        if most.is_present() && refused {
            let message = "`maxConcurrency` is neither a number from 1 nor a percentage from 1% to 100%";
            refusals.add_error(&most, message, "write it like `3` or `25%`");
        }
    }
}

/// Checks the tasks before a stage: at most one, which is an `Approval`.
fn check_tasks_before_stage(refusals: &mut Refusals<'_>, tasks: &Cursor<'_>) {
    if tasks.items().count() > 1 {
        refusals.add_error(tasks, "a stage has at most one task before it", "keep one `type: Approval`");
    }
    for task in tasks.items() {
        let kind = task.field("type");
        if kind.as_text() == "TimedWait" {
            let help = "wait after the stage before: move the task to its `afterStageTasks`";
            refusals.add_error(&kind, "a task before a stage must not be a TimedWait", help);
        }
        refuse_wait_of_approval(refusals, &task);
    }
}

/// Checks the tasks after a stage: at most two; an `Approval` takes no `waitTime`, and a `TimedWait` needs one.
fn check_tasks_after_stage(refusals: &mut Refusals<'_>, tasks: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    if tasks.items().count() > 2 {
        let help = "keep one `type: TimedWait` and one `type: Approval`";
        refusals.add_error(tasks, "a stage has at most two tasks after it", help);
    }
    for task in tasks.items() {
        let wait = task.field("waitTime");
        if wait.is_present() && !is_wait_time(wait.as_text(), behaviour.wait_times) {
            let message =
                format!("`waitTime: {}` is not a duration in hours, minutes and seconds", wait.as_text());
            refusals.add_error(&wait, message, "write it like `1h30m`");
        }
        if task.field("type").as_text() == "TimedWait" && !wait.is_present() {
            refusals.add_error(&task, "a TimedWait must have a `waitTime`", "add e.g. `waitTime: 1h`");
        }
        refuse_wait_of_approval(refusals, &task);
    }
}

fn refuse_wait_of_approval(refusals: &mut Refusals<'_>, task: &Cursor<'_>) {
    let wait = task.field("waitTime");
    if task.field("type").as_text() == "Approval" && wait.is_present() {
        let help = "remove it, or use `type: TimedWait` after the stage";
        refusals.add_error(&wait, "an Approval must not have a `waitTime`", help);
    }
}

/// Whether a text is one or more numbers with the units `h`, `m` or `s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while let Some(end) = rest.find(['h', 'm', 's']) {
        let (number, unit_and_rest) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if !is_digits(whole) || !is_digits(fraction) {
            return false;
        }
        rest = unit_and_rest.get(1..).unwrap_or_default();
    }
    rest.is_empty() && !text.is_empty()
}

/// Whether a text is a number without sign or fraction.
fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether the custom resource definition accepts a `waitTime`.
fn is_wait_time(text: &str, accepted: WaitTimes) -> bool {
    match accepted {
        WaitTimes::Durations => is_duration(text),
        WaitTimes::Partly => {
            text.starts_with('0')
                || text.char_indices().any(|(at, _)| text.get(at..).is_some_and(is_duration))
        }
    }
}

/// Checks the `state` and the name of an update run.
fn check_run(refusals: &mut Refusals<'_>, spec: &Cursor<'_>, behaviour: &KubeFleetBehaviour) {
    let longest = behaviour.longest_run_name;
    if refusals.object.id.name.len() > longest {
        let message = format!("the name of an update run has at most {longest} characters");
        refusals.add_error(spec, message, "shorten the name");
    }
    let state = spec.field("state");
    let allowed: &[&str] = match behaviour.run_state {
        RunState::IgnoredStarted => &["NotStarted", "Started", "Stopped", "Abandoned"],
        RunState::IgnoredExecute => &["Initialize", "Execute", "Pause", "Abandon"],
        RunState::Obeyed => &["Initialize", "Run", "Stop"],
    };
    let release = behaviour.release;
    if !state.as_text().is_empty() && !allowed.contains(&state.as_text()) {
        let message = format!(
            "`state` is `{}`, but must be one of {} in KubeFleet {release}",
            state.as_text(),
            allowed.join(", ")
        );
        refusals.add_error(&state, message, "use a state of this release");
        return;
    }
    let (message, help) = match (behaviour.run_state, state.as_text()) {
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
    refusals.findings.push(warning.with_pointer(state.pointer()).with_help(help));
}

/// The finding about a placement `PickFixed` that names no cluster.
pub(super) fn pick_fixed_without_names(placement: &Object) -> Finding {
    let body = Cursor::new(&placement.body);
    let policy = body.field("spec").field("policy");
    let names = policy.field("clusterNames");
    let at = if names.is_present() { names } else { policy.field("placementType") };
    let message = format!("{} picks no cluster: `PickFixed` without `clusterNames`", placement.id);
    let help = "name the clusters in `clusterNames`, or write `placementType: PickAll` for all";
    Finding::warning("no-effect", placement, message).with_pointer(at.pointer()).with_help(help)
}

/// The rules of `MemberCluster`.
fn check_member_cluster(refusals: &mut Refusals<'_>, spec: &Cursor<'_>) {
    let mut taints = BTreeSet::new();
    for taint in spec.field("taints").items() {
        let (key, value) = (taint.field("key"), taint.field("value"));
        refusals.label_key(&key);
        refusals.label_value(&value);
        if !taints.insert((key.as_text(), value.as_text(), taint.field("effect").as_text())) {
            refusals.add_error(&taint, "this taint occurs twice", "remove one of the two");
        }
    }
}

#[cfg(test)]
mod tests;
