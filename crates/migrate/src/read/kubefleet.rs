//! Reads placements of `KubeFleet`, and its overrides as far as they can be written as rules.

use std::collections::BTreeSet;

use federate_dialect::Placement;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Cluster, Object, ObjectRef};
use federate_session::Session;
use serde::Deserialize;
use serde_json::Value;

use super::claimed::{add_joins, find_policies};
use crate::Reason;
use crate::freeze::EmbeddedObjects;
use crate::intent::{
    Adoption, ClusterRule, PlacementIntent, RepoIntent, TaintRule, TemplateIntent, TemplateSource,
    late_overrides, unequal_rule, unread_rules,
};
use crate::placed::{PlacedObject, find_placed};

mod overrides;

const NAME: &str = "kubefleet";

/// Where the terms of a required affinity stand in a policy.
const REQUIRED_TERMS: &str =
    "/affinity/clusterAffinity/requiredDuringSchedulingIgnoredDuringExecution/clusterSelectorTerms";

/// Where preferred affinities stand in a policy.
const PREFERRED_TERMS: &str = "/affinity/clusterAffinity/preferredDuringSchedulingIgnoredDuringExecution";

/// Reads everything of `KubeFleet` in a repo.
pub(crate) fn read_intent(session: &Session, intent: &mut RepoIntent) {
    let sources = [NAME].into_iter().collect();
    add_joins(session, NAME, intent);
    let policies = find_policies(session, NAME);
    let embedded = EmbeddedObjects::find(session, &sources);
    let overrides = overrides::SelectedOverrides::new(session);
    for (object, placed) in find_placed(session, &sources) {
        let source = match embedded.find_object(object) {
            Some(source) => source,
            None if session.repo().find_template(object).is_some() => TemplateSource::Own,
            None => continue,
        };
        let id = source.identity_of(object);
        intent.templates.push(TemplateIntent::unchanged(object.clone(), id.clone(), source));
        let rules = overrides.read_rules(&id, &placed);
        if let Some(one) = &rules.intent
            && let Some(rule) = late_overrides(&one.own, one.origins.first())
        {
            intent.add_unequal(object, rule);
        }
        intent.overrides.extend(rules.intent);
        for policy in rules.unread {
            intent.add_unequal(object, unread_rules(&policy.origin));
        }
        let is_deleted = |cluster: &&Cluster| rules.deleted.iter().any(|rule| rule.matches_cluster(cluster));
        let clusters = session.clusters().iter().filter(|_| !rules.deleted.is_empty());
        let deleted: BTreeSet<String> =
            clusters.filter(is_deleted).map(|cluster| cluster.name.to_string()).collect();
        if placed.clusters.is_empty() {
            continue;
        }
        let placement = match placed.rows.as_slice() {
            [row] => row.policy.as_ref().and_then(|policy| policies.get(policy)).map(|policy| {
                PlacementReader { row, policy, id: &id, deleted: &deleted }.read_placement(intent)
            }),
            _ => None,
        };
        let placement = match placement {
            Some(placement) => placement,
            None => name_clusters(object, &id, &placed, intent),
        };
        intent.placements.push(placement);
    }
}

/// Several placements together, as their clusters now.
fn name_clusters(
    object: &ObjectRef,
    id: &ObjectRef,
    placed: &PlacedObject<'_>,
    intent: &mut RepoIntent,
) -> PlacementIntent {
    let detail = "several placements select it";
    intent.add_unequal(object, unequal_rule(Reason::FrozenSelector, detail, None, ""));
    let clusters = placed.clusters.iter().map(ToString::to_string);
    PlacementIntent::from_object(id.clone(), ClusterRule::from_names(clusters))
}

/// Reads the placement of one object.
struct PlacementReader<'r> {
    row: &'r Placement,
    policy: &'r Object,
    id: &'r ObjectRef,
    /// The clusters in which overrides delete it.
    deleted: &'r BTreeSet<String>,
}

/// A term of an affinity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorTerm {
    label_selector: Option<LabelSelector>,
    property_selector: Option<Value>,
    property_sorter: Option<Value>,
}

impl PlacementReader<'_> {
    fn read_placement(&self, intent: &mut RepoIntent) -> PlacementIntent {
        let policy = self.policy.value_at(&["spec", "policy"]).cloned().unwrap_or_default();
        let kind = policy.get("placementType").and_then(Value::as_str).unwrap_or("PickAll");
        self.add(intent, Reason::Readiness, "only clusters that are joined and report are chosen", "");
        if policy.pointer(REQUIRED_TERMS).is_some() {
            self.add(intent, Reason::Sticky, "clusters that no longer match keep the object", "/spec/policy");
        }
        let mut clusters = if kind == "PickFixed" {
            let names = policy.get("clusterNames").and_then(Value::as_array).into_iter().flatten();
            ClusterRule::from_names(names.filter_map(Value::as_str))
        } else {
            self.read_affinity(&policy, intent)
        };
        if !self.deleted.is_empty() {
            let detail = "an override deletes it in the clusters that are left out";
            self.add(intent, Reason::FrozenSelector, detail, "");
            clusters.excluded.extend(self.deleted.iter().cloned());
        }
        let number = policy.get("numberOfClusters").and_then(Value::as_i64).filter(|_| kind == "PickN");
        if let Some(number) = number {
            let detail = format!("PickN of {number}: clusters are ranked by scores");
            self.add(intent, Reason::Scores, &detail, "/spec/policy/numberOfClusters");
        }
        let spread = policy.get("topologySpreadConstraints").and_then(Value::as_array);
        if spread.is_some_and(|constraints| !constraints.is_empty()) {
            let detail = "clusters are spread over values of labels";
            self.add(intent, Reason::TopologySpread, detail, "/spec/policy/topologySpreadConstraints");
        }
        self.read_rest(intent);
        let tolerations = policy.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
        // Without a number of clusters there is nothing to spread.
        let is_nowhere = number == Some(0);
        PlacementIntent {
            name: self.policy.id.name.clone(),
            origin: Some(self.policy.origin.clone()),
            is_cluster_wide: self.policy.id.namespace.is_none(),
            taints: TaintRule::Respected(tolerations),
            adoption: self.read_adoption(),
            max_clusters: number,
            ..PlacementIntent::from_object(
                self.id.clone(),
                if is_nowhere { ClusterRule::nowhere() } else { clusters },
            )
        }
    }

    fn add(&self, intent: &mut RepoIntent, reason: Reason, detail: &str, pointer: &str) {
        intent
            .add_unequal(&self.row.object, unequal_rule(reason, detail, Some(&self.policy.origin), pointer));
    }

    /// The clusters of the required terms: one of labels is a selector, for others the clusters are named.
    fn read_affinity(&self, policy: &Value, intent: &mut RepoIntent) -> ClusterRule {
        let pointer = format!("/spec/policy{REQUIRED_TERMS}");
        if policy.pointer(PREFERRED_TERMS).and_then(Value::as_array).is_some_and(|terms| !terms.is_empty()) {
            self.add(intent, Reason::Scores, "preferred affinities of clusters", "/spec/policy/affinity");
        }
        let terms: Vec<SelectorTerm> =
            policy.pointer(REQUIRED_TERMS).and_then(|terms| Vec::deserialize(terms).ok()).unwrap_or_default();
        let has_properties =
            terms.iter().any(|term| term.property_selector.is_some() || term.property_sorter.is_some());
        match terms.as_slice() {
            [] => return ClusterRule::every_cluster(),
            [SelectorTerm { label_selector: Some(labels), .. }] if !has_properties => {
                return ClusterRule::from_labels(labels.clone());
            }
            _ if has_properties => {
                self.add(intent, Reason::PropertySelectors, "properties of clusters", &pointer);
            }
            _ => {
                let detail = "terms of which one must match";
                self.add(intent, Reason::FrozenSelector, detail, &pointer);
            }
        }
        ClusterRule::from_names(self.row.clusters.iter().map(|placed| placed.name.to_string()))
    }

    fn read_rest(&self, intent: &mut RepoIntent) {
        let selectors = self.policy.value_at(&["spec", "resourceSelectors"]).and_then(Value::as_array);
        let selects_namespaces = selectors
            .into_iter()
            .flatten()
            .any(|selector| selector["kind"] == "Namespace" && selector["selectionScope"] != "NamespaceOnly");
        if selects_namespaces {
            let detail = "what is added to the namespace later is not selected";
            self.add(intent, Reason::NewKinds, detail, "/spec/resourceSelectors");
        }
        if self.policy.value_at(&["spec", "strategy"]).is_some_and(|strategy| !strategy.is_null()) {
            let detail = "changes reach clusters in steps";
            self.add(intent, Reason::Rollout, detail, "/spec/strategy");
        }
    }

    fn read_adoption(&self) -> Adoption {
        match self.policy.text_at(&["spec", "strategy", "applyStrategy", "whenToTakeOver"]) {
            "" | "Always" => Adoption::Overwrite,
            _ => Adoption::Abort,
        }
    }
}
