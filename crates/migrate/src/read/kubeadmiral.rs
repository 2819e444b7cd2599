//! Reads policies of `KubeAdmiral`, which templates name by labels, with the annotations of templates that replace values
//! of their policy, and override policies as far as they can be written as rules.

use std::collections::{BTreeMap, BTreeSet};

use federate_dialect::Placement;
use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};
use federate_kubernetes::{Labels, Object};
use federate_session::Session;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::claimed::{add_joins, find_policies};
use crate::Reason;
use crate::intent::{
    Adoption, ClusterRule, ClusterWeight, PlacementIntent, ReplicaRule, RepoIntent, TaintRule,
    TemplateIntent, TemplateSource, unequal_rule, unread_rules,
};

mod overrides;

const NAME: &str = "kubeadmiral";

/// Reads everything of `KubeAdmiral` in a repo.
pub(crate) fn read_intent(session: &Session, intent: &mut RepoIntent) {
    add_joins(session, NAME, intent);
    let policies = find_policies(session, NAME);
    let overrides = overrides::NamedOverrides::new(session);
    for row in session.plan().placements.iter().filter(|row| row.dialect == NAME) {
        let Some(template) = session.repo().find_template(&row.object) else { continue };
        let rules = overrides.read_rules(&template.object);
        intent.overrides.extend(rules.intent);
        for policy in rules.unread {
            intent.add_unequal(&row.object, unread_rules(&policy.origin));
        }
        let (old, id) = (row.object.clone(), row.object.clone());
        intent.templates.push(TemplateIntent::unchanged(old, id, TemplateSource::Own));
        match row.policy.as_ref().and_then(|policy| policies.get(policy)) {
            Some(policy) => {
                let reader = PolicyReader { row, template: &template.object, policy };
                reader.read_placement(intent);
            }
            None if row.policy.is_some() && !row.clusters.is_empty() => {
                // The policy is gone: what was placed stays.
                let clusters = row.clusters.iter().map(|placed| placed.name.to_string());
                let detail = "its policy does not exist: it stays where it is";
                let origin = Some(&template.object.origin);
                intent.add_unequal(&row.object, unequal_rule(Reason::Sticky, detail, origin, ""));
                let rule = ClusterRule::from_names(clusters);
                intent.placements.push(PlacementIntent::from_object(row.object.clone(), rule));
            }
            None if row.implicit && row.object.kind == "Namespace" && !row.clusters.is_empty() => {
                let everywhere = ClusterRule::every_cluster();
                let detail = "the namespace goes to clusters whatever they serve";
                let origin = Some(&template.object.origin);
                intent.add_unequal(&row.object, unequal_rule(Reason::Readiness, detail, origin, ""));
                intent.placements.push(PlacementIntent::from_object(row.object.clone(), everywhere));
            }
            None => {}
        }
    }
    let mut leaders = BTreeSet::new();
    for row in session.plan().placements.iter().filter(|row| row.dialect == NAME) {
        leaders.extend(&row.required_by);
    }
    for placement in &mut intent.placements {
        placement.leads |= placement.objects.iter().any(|object| leaders.contains(object));
    }
}

/// Reads the policy of one template.
struct PolicyReader<'r> {
    row: &'r Placement,
    template: &'r Object,
    policy: &'r Object,
}

/// A cluster that may be chosen, with its preferences.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ListedCluster {
    cluster: String,
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    preferences: ListedPreferences,
}

/// The preferences for one cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedPreferences {
    min_replicas: Option<i64>,
    max_replicas: Option<i64>,
    weight: Option<i64>,
    priority: Option<i64>,
}

/// A term of an affinity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KubeAdmiralTerm {
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    match_expressions: Vec<SelectorRequirement>,
    #[serde(deserialize_with = "federate_kubernetes::selector::null_default")]
    match_fields: Vec<SelectorRequirement>,
}

impl PolicyReader<'_> {
    fn read_placement(&self, intent: &mut RepoIntent) {
        self.add(intent, Reason::Readiness, "only ready clusters get what they do not have", "");
        let listed = self.listed_clusters();
        let mut clusters = self.read_clusters(&listed, intent);
        let is_divided = self.row.clusters.iter().any(|placed| placed.replicas.is_some());
        let max_clusters = self
            .annotation("maxClusters")
            .and_then(|text| text.parse::<i64>().ok())
            .or_else(|| self.spec("maxClusters").and_then(Value::as_i64));
        let replicas = if is_divided { self.read_replicas(&listed, intent) } else { ReplicaRule::Duplicated };
        let mut spread = max_clusters;
        if let Some(most) = max_clusters {
            let detail = format!("maxClusters: {most}: clusters are ranked by scores");
            self.add(intent, Reason::Scores, &detail, "/spec/maxClusters");
            if most == 0 {
                clusters = ClusterRule::nowhere();
            } else if matches!(replicas, ReplicaRule::Weights(_)) {
                // Static weights ignore limits.
                clusters = self.current_clusters();
                spread = None;
            }
        }
        self.read_rescheduling(intent);
        if self.row.unschedulable.is_some() && !self.row.clusters.is_empty() {
            // What cannot be scheduled stays where it is.
            self.add(intent, Reason::Sticky, "it cannot be scheduled and stays where it is", "");
            clusters = self.current_clusters();
        }
        if clusters.is_nowhere() || self.row.unschedulable.is_some() && self.row.clusters.is_empty() {
            return;
        }
        let is_cluster_wide = self.policy.id.namespace.is_none();
        let adopts = self.annotation("conflict-resolution") == Some("adopt");
        intent.placements.push(PlacementIntent {
            name: self.policy.id.name.clone(),
            origin: Some(self.policy.origin.clone()),
            is_cluster_wide,
            replicas,
            taints: TaintRule::Respected(self.read_tolerations()),
            adoption: if adopts { Adoption::Overwrite } else { Adoption::Abort },
            max_clusters: spread,
            ..PlacementIntent::from_object(self.row.object.clone(), clusters)
        });
    }

    fn add(&self, intent: &mut RepoIntent, reason: Reason, detail: &str, pointer: &str) {
        intent
            .add_unequal(&self.row.object, unequal_rule(reason, detail, Some(&self.policy.origin), pointer));
    }

    fn spec(&self, key: &str) -> Option<&Value> {
        self.policy.value_at(&["spec", key]).filter(|value| !value.is_null())
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.template.annotation(&format!("kubeadmiral.io/{key}"))
    }

    /// The value of an annotation in JSON, which replaces that of the policy.
    fn replaced<T: DeserializeOwned + Default>(&self, annotation: &str, field: &str) -> T {
        let own = self.annotation(annotation).and_then(|text| serde_json::from_str::<Option<T>>(text).ok());
        match own {
            Some(own) => own.unwrap_or_default(),
            None => self.spec(field).and_then(|value| T::deserialize(value).ok()).unwrap_or_default(),
        }
    }

    fn listed_clusters(&self) -> Vec<ListedCluster> {
        self.replaced("placements", "placement")
    }

    /// The clusters that have the object now.
    fn current_clusters(&self) -> ClusterRule {
        ClusterRule::from_names(self.row.clusters.iter().map(|placed| placed.name.to_string()))
    }

    fn read_clusters(&self, listed: &[ListedCluster], intent: &mut RepoIntent) -> ClusterRule {
        let labels: Labels = self.replaced("clusterSelector", "clusterSelector");
        let mut rule =
            ClusterRule::from_labels(LabelSelector { match_labels: labels, match_expressions: Vec::new() });
        if !listed.is_empty() {
            rule.names = Some(listed.iter().map(|one| one.cluster.clone()).collect());
        }
        let own = self.annotation("affinity").and_then(|text| serde_json::from_str::<Value>(text).ok());
        let required = "/clusterAffinity/requiredDuringSchedulingIgnoredDuringExecution/clusterSelectorTerms";
        let preferred = "/clusterAffinity/preferredDuringSchedulingIgnoredDuringExecution";
        if own.as_ref().is_some_and(|own| own.pointer(preferred).is_some_and(|terms| !terms.is_null())) {
            self.add(intent, Reason::Scores, "preferred affinities of clusters", "");
        }
        let terms = match &own {
            Some(own) => own.pointer(required).cloned(),
            None => self.spec("clusterAffinity").cloned(),
        };
        let terms: Vec<KubeAdmiralTerm> =
            terms.and_then(|terms| Vec::deserialize(&terms).ok()).unwrap_or_default();
        match terms.as_slice() {
            [] => rule,
            [term] if can_select(term) => {
                rule.labels.match_expressions.extend(term.match_expressions.iter().cloned());
                for field in &term.match_fields {
                    rule = rule.intersect(&ClusterRule::from_names(field.values.iter().cloned()));
                }
                rule
            }
            _ => {
                let detail = "terms of which one must match, or comparisons of numbers";
                self.add(intent, Reason::FrozenSelector, detail, "/spec/clusterAffinity");
                self.current_clusters()
            }
        }
    }

    fn read_tolerations(&self) -> Vec<Value> {
        let tolerations: Vec<Value> = self.replaced("tolerations", "tolerations");
        let strip = |mut toleration: Value| {
            if let Some(map) = toleration.as_object_mut() {
                map.shift_remove("tolerationSeconds");
            }
            toleration
        };
        tolerations.into_iter().map(strip).filter(|toleration| *toleration != json!({})).collect()
    }

    fn read_replicas(&self, listed: &[ListedCluster], intent: &mut RepoIntent) -> ReplicaRule {
        for (index, one) in listed.iter().enumerate() {
            let ListedPreferences { min_replicas, max_replicas, priority, .. } = one.preferences;
            let pointer = format!("/spec/placement/{index}/preferences");
            let limits =
                [("minReplicas", min_replicas), ("maxReplicas", max_replicas), ("priority", priority)];
            for (name, value) in limits {
                if let Some(value) = value.filter(|value| *value != 0 || name == "maxReplicas") {
                    let detail = format!("{name}: {value} of {}", one.cluster);
                    self.add(intent, Reason::MinMax, &detail, &format!("{pointer}/{name}"));
                }
            }
        }
        if self.spec("replicasStrategy").and_then(Value::as_str) == Some("Binpack") {
            self.add(intent, Reason::Binpack, "replicasStrategy: Binpack", "/spec/replicasStrategy");
            return ReplicaRule::Aggregated;
        }
        let mut by_weight: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
        for one in listed {
            if let Some(weight) = one.preferences.weight.filter(|weight| *weight > 0) {
                by_weight.entry(weight).or_default().insert(one.cluster.clone());
            }
        }
        if listed.iter().all(|one| one.preferences.weight.is_none()) {
            let detail = "weights by the free resources of clusters";
            self.add(intent, Reason::DynamicWeights, detail, "/spec/placement");
            return ReplicaRule::FreeResources;
        }
        self.add(
            intent,
            Reason::Rounding,
            "shares are rounded up in the order of weights",
            "/spec/placement",
        );
        self.add(intent, Reason::Capacity, "replicas that a cluster cannot hold go to others", "");
        let by_weight = by_weight.into_iter().rev();
        let weights = by_weight
            .map(|(weight, names)| ClusterWeight { clusters: ClusterRule::from_names(names), weight })
            .collect();
        self.add(
            intent,
            Reason::ZeroWeight,
            "a cluster without a weight or with weight 0 has no share",
            "/spec/placement",
        );
        ReplicaRule::Weights(weights)
    }

    fn read_rescheduling(&self, intent: &mut RepoIntent) {
        let at = |pointer: &str| self.policy.body.pointer(&format!("/spec/reschedulePolicy{pointer}"));
        let is_divided = self.row.clusters.iter().any(|placed| placed.replicas.is_some());
        let sticky = self.annotation("sticky-cluster");
        if sticky == Some("true")
            || sticky.is_none() && at("/disableRescheduling") == Some(&Value::Bool(true))
        {
            let pointer = "/spec/reschedulePolicy/disableRescheduling";
            self.add(intent, Reason::DisableRescheduling, "what is placed stays as it is", pointer);
        }
        if is_divided && at("/replicaRescheduling/avoidDisruption") != Some(&Value::Bool(false)) {
            let pointer = "/spec/reschedulePolicy/replicaRescheduling/avoidDisruption";
            self.add(intent, Reason::AvoidDisruption, "replicas that run are kept where they are", pointer);
        }
        if self.spec("autoMigration").is_some() {
            let detail = "replicas whose pods cannot be scheduled move to other clusters";
            self.add(intent, Reason::AutoMigration, detail, "/spec/autoMigration");
        }
    }
}

/// Whether a label selector and names say the same as a term.
fn can_select(term: &KubeAdmiralTerm) -> bool {
    let plain = ["In", "NotIn", "Exists", "DoesNotExist"];
    let labels = term.match_expressions.iter().all(|one| plain.contains(&one.operator.as_str()));
    let names = term.match_fields.iter().all(|one| one.key == "metadata.name" && one.operator == "In");
    labels && names && !(term.match_expressions.is_empty() && term.match_fields.is_empty())
}
