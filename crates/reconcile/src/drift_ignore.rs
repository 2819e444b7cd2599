//! Differences that do not count as drift, by the rules of the repo.

use serde_json::Value;

use super::blame::Blame;
use super::settings::DecisionSettings;
use super::{FieldDiff, path_steps};
use federate_kubernetes::ObjectRef;
use federate_repo::config::DriftIgnoreRule;

/// Whether a path is that of a value or of something in it.
pub(super) fn is_below(around: &str, path: &str) -> bool {
    let rest = path.strip_prefix(around.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
}

/// Whether one of the rules matches a difference of the live object.
pub(super) fn is_ignored(rules: &[DriftIgnoreRule], id: &ObjectRef, live: &Value, diff: &FieldDiff) -> bool {
    rules.iter().any(|rule| ignores_difference(rule, id, live, diff))
}

/// The differences, in which a map that only one side has is split into its keys if a rule names one of them.
pub(super) fn split_maps(
    diffs: Vec<FieldDiff>,
    ignore: &[DriftIgnoreRule],
    live: &Value,
    settings: &DecisionSettings<'_>,
) -> Vec<FieldDiff> {
    let paths: Vec<&str> = ignore.iter().flat_map(|rule| &rule.paths).map(String::as_str).collect();
    if paths.is_empty() {
        return diffs;
    }
    let mut split = Vec::new();
    for diff in diffs {
        match (&diff.desired, &diff.live) {
            (Some(Value::Object(map)), None) | (None, Some(Value::Object(map)))
                if paths.iter().any(|path| *path != diff.path && is_below(&diff.path, path)) =>
            {
                let (blame, is_live) = (Blame::from_live(live), diff.live.is_some());
                for (key, value) in map {
                    let key = federate_kubernetes::pointer::escape(key).replace('[', "~2");
                    let path = format!("{}/{key}", diff.path);
                    let (manager, time) = blame.last_writer(&path).filter(|_| is_live).unzip();
                    split.push(FieldDiff {
                        desired: (!is_live).then(|| value.clone()),
                        live: is_live.then(|| value.clone()),
                        writer: settings.managers.classify_writer(manager.as_deref(), is_live),
                        time: time.flatten(),
                        manager,
                        path,
                    });
                }
            }
            _ => split.push(diff),
        }
    }
    split
}

/// Whether a rule matches an object.
pub(super) fn names_object(rule: &DriftIgnoreRule, object: &ObjectRef) -> bool {
    let kind = super::apply_set::group_kind(object);
    matches_any(&rule.kinds, &|name| name == object.kind || name == kind)
        && matches_any(&rule.names, &|name| name == object.name || name == object.namespaced_name())
}

/// Whether a rule matches a difference.
fn ignores_difference(rule: &DriftIgnoreRule, id: &ObjectRef, live: &Value, diff: &FieldDiff) -> bool {
    names_object(rule, id)
        && matches_any(&rule.paths, &|path| {
            is_below(path, &diff.path)
                || path_steps::resolve_pointer(&diff.path, live)
                    .is_some_and(|pointer| is_below(path, &pointer))
        })
        && matches_any(&rule.managers, &|name| diff.manager.as_deref() == Some(name))
}

/// Whether a list has a match; an empty list matches everything.
fn matches_any(list: &[String], is: &dyn Fn(&str) -> bool) -> bool {
    list.is_empty() || list.iter().any(|item| is(item))
}
