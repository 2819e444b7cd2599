//! Reads templates that Federation v1 places by their annotations.

use std::collections::BTreeMap;

use federate_dialect::Placement;
use federate_kubernetes::pointer::escape;
use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};
use federate_kubernetes::{Object, ObjectRef};
use federate_session::Session;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::preferences::{Preference, PreferencePlace, Preferences, divide_by_preferences};
use crate::Reason;
use crate::intent::{
    ClusterOperations, ClusterRule, ManifestOperation, OverrideIntent, PatchAction, PlacementIntent,
    ReplicaRule, RepoIntent, TaintRule, TemplateIntent, TemplateSource, group_operations, unequal_rule,
};

const SELECTOR: &str = "federation.alpha.kubernetes.io/cluster-selector";
const AUTOSCALER: &str = "federation.kubernetes.io/hpa-target-cluster-list";

/// Reads one template.
pub(super) fn read_template(session: &Session, row: &Placement, intent: &mut RepoIntent) {
    let Some(template) = session.repo().find_template(&row.object) else { return };
    let object = &template.object;
    let (old, id) = (row.object.clone(), row.object.clone());
    intent.templates.push(TemplateIntent::unchanged(old, id, TemplateSource::Own));
    let detail = "only ready clusters take part";
    intent.add_unequal(&row.object, unequal_rule(Reason::Readiness, detail, Some(&object.origin), ""));
    let mut clusters = read_clusters(object, row, intent);
    let mut replicas = ReplicaRule::Duplicated;
    let annotation = preferences_annotation(&row.object);
    if object.id.kind != "Job" && object.annotation(AUTOSCALER).is_some() {
        fix_replicas(row, object, intent);
        clusters = ClusterRule::from_names(row.clusters.iter().map(|placed| placed.name.to_string()));
    } else if let Some(annotation) = annotation {
        let preferences = read_preferences(object.annotation(annotation));
        let pointer = format!("/metadata/annotations/{}", escape(annotation));
        let division =
            divide_by_preferences(&preferences, &PreferencePlace { origin: &object.origin, pointer });
        for rule in division.unequal {
            intent.add_unequal(&row.object, rule);
        }
        clusters = clusters.intersect(&division.clusters);
        replicas = division.replicas;
    }
    if clusters.is_nowhere() {
        return;
    }
    intent.placements.push(PlacementIntent {
        replicas,
        taints: TaintRule::Respected(Vec::new()),
        ..PlacementIntent::from_object(row.object.clone(), clusters)
    });
}

/// The annotation with the preferences for a kind that is divided.
fn preferences_annotation(id: &ObjectRef) -> Option<&'static str> {
    match id.kind.as_str() {
        "Deployment" => Some("federation.kubernetes.io/deployment-preferences"),
        "ReplicaSet" => Some("federation.kubernetes.io/replica-set-preferences"),
        "Job" => Some("federation.kubernetes.io/job-preferences"),
        _ => None,
    }
}

/// The replicas that an autoscaler has decided about, as they are now.
fn fix_replicas(row: &Placement, object: &Object, intent: &mut RepoIntent) {
    let operations = row.clusters.iter().filter_map(|placed| {
        let action = PatchAction::Add(placed.replicas?.into());
        let operation = ManifestOperation { action, pointer: "/spec/replicas".to_owned() };
        Some(ClusterOperations { clusters: vec![placed.name.clone()], operations: vec![operation] })
    });
    let rules = group_operations(operations);
    if !rules.is_empty() {
        intent.overrides.push(OverrideIntent::from_rules(row.object.clone(), rules));
    }
    let pointer = format!("/metadata/annotations/{}", escape(AUTOSCALER));
    let detail = "an autoscaler of the control plane has chosen clusters and replicas";
    intent.add_unequal(&row.object, unequal_rule(Reason::Sticky, detail, Some(&object.origin), pointer));
}

/// The clusters of the selector. A comparison of numbers lists those that it selects now.
fn read_clusters(object: &Object, row: &Placement, intent: &mut RepoIntent) -> ClusterRule {
    let annotation = object.annotation(SELECTOR).filter(|_| object.id.kind != "Job");
    let Some(annotation) = annotation else { return ClusterRule::every_cluster() };
    let requirements: Option<Vec<V1SelectorRequirement>> =
        serde_json::from_str(annotation).unwrap_or_default();
    let mut labels = LabelSelector::default();
    for requirement in requirements.unwrap_or_default() {
        if let Some(requirement) = requirement.to_requirement() {
            labels.match_expressions.push(requirement);
            continue;
        }
        let pointer = format!("/metadata/annotations/{}", escape(SELECTOR));
        let detail = format!("{} {}", requirement.key, requirement.operator);
        let rule = unequal_rule(Reason::FrozenSelector, detail, Some(&object.origin), pointer);
        intent.add_unequal(&row.object, rule);
        return ClusterRule::from_names(row.clusters.iter().map(|placed| placed.name.to_string()));
    }
    // A label with one value is written as such.
    let (equal, rest): (Vec<_>, Vec<_>) = labels
        .match_expressions
        .drain(..)
        .partition(|one: &SelectorRequirement| one.operator == "In" && one.values.len() == 1);
    labels.match_expressions = rest;
    let mut rule = ClusterRule::from_labels(labels);
    for one in equal {
        let labels = one.values.into_iter().map(|value| (one.key.clone(), value)).collect();
        rule = rule.intersect(&ClusterRule::from_labels(LabelSelector {
            match_labels: labels,
            match_expressions: Vec::new(),
        }));
    }
    rule
}

/// A requirement of the annotation.
#[derive(Deserialize)]
struct V1SelectorRequirement {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    #[serde(default, deserialize_with = "federate_kubernetes::selector::null_default")]
    values: Vec<String>,
}

impl V1SelectorRequirement {
    /// The same requirement in a label selector; `None` for comparisons of numbers.
    fn to_requirement(&self) -> Option<SelectorRequirement> {
        let operator = match self.operator.to_ascii_lowercase().as_str() {
            "in" | "=" | "==" => "In",
            "notin" | "!=" => "NotIn",
            "exists" => "Exists",
            "!" | "doesnotexist" => "DoesNotExist",
            _ => return None,
        };
        Some(SelectorRequirement {
            key: self.key.clone(),
            operator: operator.to_owned(),
            values: self.values.clone(),
        })
    }
}

/// Preferences as an annotation has them. Those that cannot be read count as equal weights, those without clusters as no
/// weights.
fn read_preferences(annotation: Option<&str>) -> Preferences {
    let equal = || BTreeMap::from([("*".to_owned(), Preference { weight: 1, ..Preference::default() })]);
    let parsed = annotation.map(serde_json::from_str::<Value>);
    let Some(Ok(value)) = parsed else { return Preferences { clusters: equal(), rebalance: false } };
    let lower = lower_keys(&value, &["rebalance", "clusters"]);
    let rebalance = lower.get("rebalance").is_some_and(|value| *value == Value::Bool(true));
    let clusters = match lower.get("clusters") {
        Some(Value::Object(clusters)) => clusters
            .iter()
            .map(|(name, value)| {
                let value = lower_keys(value, &["weight", "minReplicas", "maxReplicas"]);
                (name.clone(), Preference::deserialize(Value::Object(value)).unwrap_or_default())
            })
            .collect(),
        _ if value.is_object() || value.is_null() => BTreeMap::new(),
        _ => equal(),
    };
    Preferences { clusters, rebalance }
}

/// A mapping with known keys, whatever their case, as they are written here.
fn lower_keys(value: &Value, known: &[&str]) -> Map<String, Value> {
    let entries = value.as_object().into_iter().flatten();
    let known = entries.filter_map(|(key, value)| {
        let name = known.iter().find(|known| known.eq_ignore_ascii_case(key))?;
        Some(((*name).to_owned(), value.clone()))
    });
    known.collect()
}
