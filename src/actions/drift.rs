//! Drift: what runs otherwise than it is rendered, and is nobody's good right to have changed.
//!
//! Facts: horizontal autoscalers write `spec.replicas` through the subresource `scale`. What others add
//! (defaults, sidecars, annotations such as `restartedAt`) is in no rendered field and never differs.

use super::decide::Decision;
use super::{Action, Deed, FieldDiff, blame};
use crate::k8s::{Live, Object, ObjectRef};
use crate::repo::config::Ignore;

/// Whether a rule says that a difference is no drift.
fn ignores(rule: &Ignore, object: &ObjectRef, diff: &FieldDiff) -> bool {
    let any =
        |list: &[String], is: &dyn Fn(&str) -> bool| list.is_empty() || list.iter().any(|item| is(item));
    let kind = super::inventory::group_kind(object);
    let below = |path: &str| {
        let rest = diff.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
    };
    any(&rule.kinds, &|name| name == object.kind || name == kind)
        && any(&rule.names, &|name| name == object.name || name == object.path())
        && any(&rule.paths, &below)
        && any(&rule.managers, &|name| diff.manager.as_deref() == Some(name))
}

/// What drifted: objects that differ, that are missing, and that are there though no longer wanted.
/// `full` also tells of what other controllers may change.
pub fn drift(decisions: Vec<Decision>, live: &Live, ignore: &[Ignore], full: bool) -> Vec<Action> {
    let drifted = decisions.into_iter().map(|decision| decision.action).filter_map(|mut action| {
        match action.action {
            Deed::Create => {
                action.reason = Some("it is missing".to_owned());
                return Some(action);
            }
            Deed::Delete => {
                action.reason = Some("it is no longer wanted".to_owned());
                return Some(action);
            }
            Deed::Update | Deed::Adopt => {}
            Deed::Unchanged | Deed::Conflict | Deed::Skip => return None,
        }
        action.action = Deed::Update;
        let (cluster, object) = (action.cluster.clone(), action.object.clone());
        action.diffs.retain(|diff| {
            let scaled = !full && diff.path == "/spec/replicas" && is_scaled(live, &cluster, &object);
            let ours = super::decide::is_mark(&diff.path);
            !ours && !scaled && !ignore.iter().any(|rule| ignores(rule, &object, diff))
        });
        (!action.diffs.is_empty()).then_some(action)
    });
    drifted.collect()
}

/// Whether an autoscaler, or whoever scales, decides about the replicas.
fn is_scaled(live: &Live, cluster: &str, id: &ObjectRef) -> bool {
    let namespace = id.namespace.as_deref();
    let object = live.get(cluster, id.group(), &id.kind, namespace, &id.name);
    let scaled = object.is_some_and(|object| {
        let owners = blame::Blame::of(&object.body);
        owners.owners("/spec/replicas").iter().any(|owner| owner.subresource.as_deref() == Some("scale"))
    });
    let targets = |scaler: &Object| {
        let text = |field: &str| scaler.text(&["spec", "scaleTargetRef", field]);
        text("kind") == id.kind && text("name") == id.name
    };
    scaled
        || live.list(cluster, "autoscaling", "HorizontalPodAutoscaler", namespace).iter().any(targets)
        || live.list(cluster, "keda.sh", "ScaledObject", namespace).iter().any(targets)
}
