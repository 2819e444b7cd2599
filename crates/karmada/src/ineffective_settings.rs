//! Parts of policies that Karmada accepts and that change nothing: empty lists of clusters, weights of clusters that
//! the placement does not select, overriders that remove what is not there, and overriders without a value.

use std::collections::BTreeSet;

use serde_json::Value;

use federate_kubernetes::pods::containers_pointer;
use federate_kubernetes::schema::{Cursor, find_similar};
use federate_kubernetes::{Cluster, Finding, Object, finding, work};

use super::KarmadaPlanner;
use super::api::KarmadaImageOverrider;
use super::overrides::{CompiledOverridePolicy, change_images};
use super::policies::PropagationPolicy;
use super::schedule::ignores_spread_constraints;
use super::validation::REFUSED_OVERRIDERS;

/// The most names that a message lists.
const MAX_LISTED: usize = 5;

/// The longest option of a command that a message shows.
const MAX_OPTION_LENGTH: usize = 40;

/// The most overriders that are tried on templates, for each of which the template is copied.
const MAX_TRIALS: usize = 20_000;

/// The steps of copying and comparing a value of a template.
const STEPS_PER_VALUE: u64 = 4;

/// The findings about all policies.
pub(super) fn find_ineffective_settings(plane: &KarmadaPlanner<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for policy in plane.policies.iter() {
        let body = Cursor::new(&policy.object.body);
        let placement = body.field("spec").field("placement");
        found.extend(selects_all(policy.object, &placement.field("clusterAffinity")));
        let terms = placement.field("clusterAffinities");
        found.extend(terms.items().filter_map(|term| selects_all(policy.object, &term)));
        found.extend(check_weights(policy, &placement.field("replicaScheduling"), plane.clusters));
        found.extend(check_spread(policy, &placement.field("spreadConstraints")));
        found.extend(check_failover(policy));
    }
    let selected = plane.overrides.select_templates(plane.templates);
    for (policy, selected) in plane.overrides.iter().zip(selected) {
        let body = Cursor::new(&policy.object.body);
        let spec = body.field("spec");
        let selected: Vec<&Value> = selected.into_iter().map(|template| &template.body).collect();
        found.extend(ignored_overriders(policy.object, &spec));
        for rule in spec.field("overrideRules").items().chain([spec]) {
            found.extend(check_images(
                plane,
                policy,
                &rule.field("overriders").field("imageOverrider"),
                &selected,
            ));
            found.extend(selects_all(policy.object, &rule.field("targetCluster")));
            found.extend(without_value(policy.object, &rule.field("overriders").field("plaintext")));
            found.extend(check_removals(plane, policy, &rule.field("overriders"), &selected));
        }
    }
    found
}

/// The finding about spread constraints that choose no clusters. Those by region, zone and provider still exclude the clusters
/// that have none.
fn check_spread(policy: &PropagationPolicy<'_>, constraints: &Cursor<'_>) -> Option<Finding> {
    let placement = &policy.spec.placement;
    if placement.spread_constraints.is_empty() || !ignores_spread_constraints(placement) {
        return None;
    }
    let mut filters = Vec::new();
    for constraint in &placement.spread_constraints {
        let field = constraint.spread_by_field.as_str();
        if ["region", "zone", "provider"].contains(&field) && !filters.contains(&field) {
            filters.push(field);
        }
    }
    let but = match filters.as_slice() {
        [] => String::new(),
        filters => format!("; they only exclude clusters without a {}", filters.join(" or a ")),
    };
    let message = format!(
        "`spreadConstraints` choose no clusters, because replicas are divided by static weights{but}"
    );
    let help = "remove them and select the clusters by the cluster affinity, or divide by `dynamicWeight: AvailableReplicas` \
                or `Aggregated`, which obey them";
    Some(no_effect(policy.object, constraints, message, help))
}

/// The finding about a policy's `failover`, which acts only with a feature gate that every release starts off.
fn check_failover(policy: &PropagationPolicy<'_>) -> Option<Finding> {
    let failover = policy.spec.failover.as_ref()?;
    let (field, what) = match (&failover.application, &failover.cluster) {
        (Some(_), _) => ("application", "moves no application"),
        (None, Some(_)) => ("cluster", "evicts from no cluster"),
        (None, None) => return None,
    };
    let message =
        format!("`failover.{field}` {what} without the feature gate `Failover`, which Karmada starts off");
    let finding =
        Finding::warning("no-effect", policy.object, message).with_pointer(format!("/spec/failover/{field}"));
    Some(finding.with_help(
        "turn the gate on in Karmada's controllers, for which `federate whatif --lose CLUSTER --gates Failover=true` shows \
         the effect, or remove `failover`",
    ))
}

/// The findings about overriders of the old form beside `overrideRules`, which Karmada's webhook accepts and its
/// controllers do not read. It refuses the others.
fn ignored_overriders(object: &Object, spec: &Cursor<'_>) -> Vec<Finding> {
    if !spec.field("overrideRules").has_items() {
        return Vec::new();
    }
    let overriders = spec.field("overriders");
    let keys = overriders.value().as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let ignored = keys.filter(|key| !REFUSED_OVERRIDERS.contains(key) && overriders.field(key).has_items());
    ignored
        .map(|key| {
            let message = format!("`spec.overriders.{key}` is ignored, because `overrideRules` is set");
            no_effect(object, &overriders.field(key), message, "move it into one of the `overrideRules`")
        })
        .collect()
}

/// The findings about image overriders that change no image of the selected templates.
fn check_images(
    plane: &KarmadaPlanner<'_>,
    policy: &CompiledOverridePolicy<'_>,
    overriders: &Cursor<'_>,
    selected: &[&Value],
) -> Vec<Finding> {
    let all: Vec<(Cursor<'_>, KarmadaImageOverrider)> = overriders
        .items()
        .filter_map(|one| {
            let overrider = serde_json::from_value(one.value().clone()).ok()?;
            Some((one, overrider))
        })
        .collect();
    if all.is_empty() || selected.is_empty() || all.len() * selected.len() > MAX_TRIALS {
        return Vec::new();
    }
    // Whether each changes an image, or fails, which is an error of its own.
    let mut works = vec![false; all.len()];
    for template in selected {
        if works.iter().all(|works| *works) {
            return Vec::new();
        }
        let mut manifest = (*template).clone();
        let size = work::count_values(template);
        for ((_, overrider), works) in all.iter().zip(&mut works) {
            work::charge_steps(STEPS_PER_VALUE * size);
            if work::is_exceeded() {
                return Vec::new();
            }
            let before = manifest.clone();
            *works |= change_images(overrider, &mut manifest).is_err() || manifest != before;
        }
    }
    let has_containers = selected.iter().any(|template| containers_pointer(template).is_some());
    // Another policy may change the images first.
    let mut others = plane.overrides.iter().filter(|other| other.object.id != policy.object.id);
    if has_containers && others.any(changes_images) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for ((at, overrider), works) in all.iter().zip(&works) {
        if *works {
            continue;
        }
        let (why, help) = match (overrider.component.as_str(), overrider.operator.as_str()) {
            _ if overrider.predicate.is_none() && !has_containers => (
                "none of the selected objects has containers".to_owned(),
                "name the image with `predicate.path`, or correct the `resourceSelectors`",
            ),
            ("Registry", "remove") => {
                ("no image has a registry".to_owned(), "remove the overrider, or correct its `component`")
            }
            ("Tag", "remove") => (
                "no image has a tag or a digest".to_owned(),
                "remove the overrider, or correct its `component`",
            ),
            _ => ("the images have its value already".to_owned(), "correct its value, or remove it"),
        };
        let message = format!(
            "`imageOverrider` ({} {}) changes no image: {why}",
            overrider.operator, overrider.component
        );
        found.push(no_effect(policy.object, at, message, help));
    }
    found
}

/// Whether a policy may change images.
fn changes_images(policy: &CompiledOverridePolicy<'_>) -> bool {
    let spec = Cursor::new(&policy.object.body).field("spec");
    spec.field("overrideRules").items().chain([spec]).any(|rule| {
        let overriders = rule.field("overriders");
        overriders.field("imageOverrider").has_items() || overriders.field("plaintext").has_items()
    })
}

fn no_effect(
    object: &Object,
    at: &Cursor<'_>,
    message: impl Into<String>,
    help: impl Into<String>,
) -> Finding {
    Finding::warning("no-effect", object, message.into()).with_pointer(at.pointer()).with_help(help)
}

/// The finding about an empty list of names, which does not mean what it seems to.
fn selects_all(object: &Object, affinity: &Cursor<'_>) -> Option<Finding> {
    let names = affinity.field("clusterNames");
    let others = ["labelSelector", "fieldSelector", "exclude"];
    if !names.is_present() || names.has_items() || others.iter().any(|key| affinity.field(key).is_present()) {
        return None;
    }
    let help = "name the clusters, or remove the empty list if every cluster is meant";
    Some(no_effect(object, &names, "an empty `clusterNames` selects every cluster", help))
}

/// The findings about overriders that set a field to null, because they have no value.
fn without_value(object: &Object, plaintext: &Cursor<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for one in plaintext.items() {
        let (operator, path) = (one.field("operator"), one.field("path"));
        if !["add", "replace"].contains(&operator.as_text()) || one.field("value").is_present() {
            continue;
        }
        let message = format!("`{}` without `value` sets `{}` to null", operator.as_text(), path.as_text());
        let help = "add `value`, or use `operator: remove`";
        found.push(
            Finding::warning("invalid-override", object, message)
                .with_pointer(operator.pointer())
                .with_help(help),
        );
    }
    found
}

/// The findings about weights that no replica is divided by.
fn check_weights(
    policy: &PropagationPolicy<'_>,
    scheduling: &Cursor<'_>,
    clusters: &[Cluster],
) -> Vec<Finding> {
    let preference = scheduling.field("weightPreference");
    let placement = &policy.spec.placement;
    let Some(typed) = &placement.replica_scheduling else { return Vec::new() };
    let Some(weights) = &typed.weight_preference else { return Vec::new() };
    if preference.is_present() && typed.replica_scheduling_type != "Divided" {
        let message = "`weightPreference` has no effect: replicas are not divided";
        let help = "set `replicaSchedulingType: Divided` and `replicaDivisionPreference: Weighted`";
        return vec![no_effect(policy.object, &preference, message, help)];
    }
    let mut found = Vec::new();
    for (weight, at) in weights.static_weight_list.iter().zip(preference.field("staticWeightList").items()) {
        let targets: Vec<&Cluster> =
            clusters.iter().filter(|cluster| weight.target_cluster.selects_cluster(cluster)).collect();
        if !targets.is_empty() && !targets.iter().any(|cluster| placement.selects_cluster(cluster)) {
            let names: Vec<&str> = targets.iter().map(|cluster| cluster.name.as_ref()).collect();
            let message = format!(
                "the weight is for {}, which the cluster affinity of the policy does not select",
                finding::join_names(&names, MAX_LISTED)
            );
            let help = "correct the clusters of the weight, or select them in the cluster affinity";
            found.push(no_effect(policy.object, &at, message, help));
        }
    }
    found
}

/// The findings about overriders that remove words, labels or annotations that no selected template has.
fn check_removals(
    plane: &KarmadaPlanner<'_>,
    policy: &CompiledOverridePolicy<'_>,
    overriders: &Cursor<'_>,
    selected: &[&Value],
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (list, field) in [("commandOverrider", "command"), ("argsOverrider", "args")] {
        for change in overriders.field(list).items().filter(|one| one.field("operator").as_text() == "remove")
        {
            let container = change.field("containerName");
            let Some(mut there) = collect_words(selected, container.as_text(), field) else { continue };
            there.extend(collect_added(plane, list, |one| {
                one.field("value").items().map(|v| v.as_text().to_owned()).collect()
            }));
            for word in change.field("value").items().filter(|word| !there.contains(word.as_text())) {
                let what = match word.as_text() {
                    option if is_option(option) => format!("does not contain `{option}`, which this removes"),
                    _ => "does not contain the word that this removes".to_owned(),
                };
                let message = format!("`{field}` of the container `{}` {what}", container.as_text());
                found.push(no_effect(policy.object, &word, message, suggest_similar(word.as_text(), &there)));
            }
        }
    }
    for (list, field) in [("labelsOverrider", "labels"), ("annotationsOverrider", "annotations")] {
        let changes = overriders.field(list).items();
        let mut changes =
            changes.filter(|one| ["remove", "replace"].contains(&one.field("operator").as_text())).peekable();
        if changes.peek().is_none() {
            continue;
        }
        let mut there = collect_metadata_keys(selected, field);
        there.extend(collect_added(plane, list, |one| map_keys(&one.field("value"))));
        for change in changes {
            let value = change.field("value");
            for key in map_keys(&value).into_iter().filter(|key| !there.contains(key)) {
                // Karmada adds labels and annotations of its own.
                if selected.is_empty() || key.contains("karmada.io") {
                    continue;
                }
                let operator = change.field("operator");
                let one = field.trim_end_matches('s');
                let message =
                    format!("no object that it selects has the {one} `{key}` to {}", operator.as_text());
                found.push(no_effect(
                    policy.object,
                    &value.entry(&key),
                    message,
                    suggest_similar(&key, &there),
                ));
            }
        }
    }
    found
}

/// The words of a container in the templates that have it; `None` if none has.
fn collect_words(selected: &[&Value], container: &str, field: &str) -> Option<BTreeSet<String>> {
    let all =
        selected.iter().filter_map(|body| body.pointer(containers_pointer(body)?)?.as_array()).flatten();
    let mut named = all.filter(|one| one.get("name").and_then(Value::as_str) == Some(container)).peekable();
    named.peek()?;
    let words = named.filter_map(|one| one.get(field)?.as_array()).flatten();
    Some(words.filter_map(Value::as_str).map(str::to_owned).collect())
}

fn collect_metadata_keys(selected: &[&Value], field: &str) -> BTreeSet<String> {
    let maps = selected.iter().filter_map(|body| body.get("metadata")?.get(field)?.as_object());
    maps.flat_map(|map| map.keys().cloned()).collect()
}

fn map_keys(map: &Cursor<'_>) -> Vec<String> {
    map.value().as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

/// What the overriders of all policies add, in lists of this name.
fn collect_added(
    plane: &KarmadaPlanner<'_>,
    list: &str,
    of: impl Fn(&Cursor<'_>) -> Vec<String>,
) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for policy in plane.overrides.iter() {
        let body = Cursor::new(&policy.object.body);
        let spec = body.field("spec");
        for rule in spec.field("overrideRules").items().chain([spec]) {
            let changes = rule.field("overriders").field(list);
            for change in changes.items().filter(|one| one.field("operator").as_text() == "add") {
                all.extend(of(&change));
            }
        }
    }
    all
}

/// Whether a word is the name of an option, and not a value, which may be a credential.
fn is_option(word: &str) -> bool {
    word.starts_with('-')
        && word.len() <= MAX_OPTION_LENGTH
        && word.bytes().all(|b| b == b'-' || b.is_ascii_lowercase())
}

/// The nearest name that is there, if it may be shown.
fn suggest_similar(name: &str, there: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = there
        .iter()
        .map(String::as_str)
        .filter(|known| is_option(known) || !name.starts_with('-') && !known.starts_with('-'))
        .collect();
    match find_similar(name, &shown) {
        Some(near) if is_option(near) == is_option(name) => format!("did you mean `{near}`?"),
        _ => "it is compared as a whole: correct it, or remove the overrider".to_owned(),
    }
}
