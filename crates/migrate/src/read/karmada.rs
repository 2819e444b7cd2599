//! Reads policies of Karmada.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::{Dialect, Placement};
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Object, ObjectRef};
use federate_repo::{Role, Template};
use federate_session::Session;
use serde::Deserialize;
use serde_json::Value;

use super::claimed::{add_joins, find_policies};
use crate::Reason;
use crate::intent::{
    Adoption, ClusterRule, ClusterWeight, KindSelector, PlacementIntent, ReplicaRule, RepoIntent, Suspended,
    TaintRule, TemplateIntent, TemplateSource, unequal_rule, unread_rules,
};
use crate::placed::{PlacedObject, find_placed};
use crate::write::karmada::{RETAIN_LABEL, goes_everywhere};

mod affinity;
mod overrides;

use affinity::{NAME, ReadAffinity};
use overrides::OverrideSelectors;

/// The kinds in which other control planes have names in DNS.
const DNS_KINDS: [&str; 2] = ["MultiClusterIngress", "MultiClusterService"];

/// The annotation with which a template says what becomes of objects that exist.
const CONFLICT_ANNOTATION: &str = "work.karmada.io/conflict-resolution";

/// Reads everything of Karmada in a repo.
pub(crate) fn read_intent(session: &Session, intent: &mut RepoIntent) {
    add_joins(session, NAME, intent);
    add_other_objects(session, intent);
    let policies = find_policies(session, NAME);
    let unnamed: BTreeMap<&ObjectRef, UnnamedSelectors> =
        policies.iter().filter_map(|(id, policy)| Some((*id, find_unnamed(policy)?))).collect();
    let overrides = OverrideSelectors::new(session);
    for (object, placed) in find_placed(session, &[NAME].into_iter().collect()) {
        let Some(own) = session.repo().find_template(object) else { continue };
        let template = TemplateIntent::unchanged(object.clone(), object.clone(), TemplateSource::Own);
        let retains_replicas = own.object.label(RETAIN_LABEL) == Some("true");
        intent.templates.push(TemplateIntent { retains_replicas, ..template });
        read_overrides(&overrides, own, intent);
        if goes_everywhere(&own.object) {
            intent
                .placements
                .push(PlacementIntent::from_object(object.clone(), ClusterRule::every_cluster()));
            continue;
        }
        let policy = placed.rows.iter().find_map(|row| Some((*row, *policies.get(row.policy.as_ref()?)?)));
        match policy {
            Some((row, policy)) => {
                let unnamed = unnamed.get(&policy.id);
                let reader = PolicyReader { row, policy, template: &own.object, unnamed };
                reader.read_placement(&placed, intent);
            }
            None => read_unclaimed(object, &placed, intent),
        }
    }
}

/// Reads the override policies about a template.
fn read_overrides(overrides: &OverrideSelectors<'_>, own: &Template, intent: &mut RepoIntent) {
    let object = &own.object.id;
    let rules = overrides.read_rules(own);
    intent.overrides.extend(rules.intent);
    for policy in rules.unread {
        intent.add_unequal(object, unread_rules(&policy.origin));
    }
    for policy in rules.selecting {
        let detail = "objects that are added later are not overridden";
        let origin = Some(&policy.origin);
        intent
            .add_unequal(object, unequal_rule(Reason::NewObjects, detail, origin, "/spec/resourceSelectors"));
    }
}

/// Notes the objects that do more than place and override.
fn add_other_objects(session: &Session, intent: &mut RepoIntent) {
    let repo = session.repo();
    let claimed = repo.claimed.iter().filter(|one| one.dialect == NAME && one.role == Role::Other);
    let claimed = claimed.map(|one| &one.object);
    let kinds = session.dialects().get(NAME).map(Dialect::kinds);
    let own = repo.templates.iter().map(|template| &template.object).filter(|object| {
        kinds.is_some_and(|kinds| kinds.own_kinds().iter().any(|known| known.group == object.id.group()))
    });
    for object in claimed.chain(own) {
        let is_dns = DNS_KINDS.contains(&object.id.kind.as_str());
        let reason = if is_dns { Reason::Dns } else { Reason::OtherObjects };
        intent.unequal_of_repo.push(unequal_rule(reason, object.id.to_string(), Some(&object.origin), ""));
    }
}

/// Reads an object that no policy places: it stays where it is, or follows others, which is done later.
fn read_unclaimed(object: &ObjectRef, placed: &PlacedObject<'_>, intent: &mut RepoIntent) {
    let follows = placed.rows.iter().any(|row| !row.required_by.is_empty());
    if placed.clusters.is_empty() || follows {
        return;
    }
    if placed.is_implicit() {
        intent.placements.push(PlacementIntent::from_object(object.clone(), ClusterRule::every_cluster()));
        return;
    }
    let detail = "its policy does not exist: it stays where it is";
    intent.add_unequal(object, unequal_rule(Reason::Sticky, detail, None, ""));
    let names = placed.clusters.iter().map(ToString::to_string);
    intent.placements.push(PlacementIntent::from_object(object.clone(), ClusterRule::from_names(names)));
}

/// Reads the policy of one template.
struct PolicyReader<'r> {
    row: &'r Placement,
    policy: &'r Object,
    template: &'r Object,
    unnamed: Option<&'r UnnamedSelectors>,
}

/// The selectors of a policy without a name.
struct UnnamedSelectors {
    /// The position of the first one.
    first: usize,
    selectors: Arc<[KindSelector]>,
}

/// One of the objects of a policy, without its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicySelector {
    api_version: String,
    kind: String,
    namespace: String,
    label_selector: Option<LabelSelector>,
}

/// The selectors of a policy without a name; `None` if it has none.
fn find_unnamed(policy: &Object) -> Option<UnnamedSelectors> {
    let selectors = policy.value_at(&["spec", "resourceSelectors"])?.as_array()?;
    let is_unnamed = |selector: &Value| selector["name"].as_str().is_none_or(str::is_empty);
    let first = selectors.iter().position(is_unnamed)?;
    let unnamed = selectors.iter().filter(|selector| is_unnamed(selector));
    let read = unnamed.filter_map(|selector| PolicySelector::deserialize(selector).ok());
    let own = policy.id.namespace.as_ref();
    let read = read.map(|selector| KindSelector {
        api_version: selector.api_version,
        kind: selector.kind,
        namespace: own.cloned().or_else(|| Some(selector.namespace).filter(|name| !name.is_empty())),
        labels: selector.label_selector.unwrap_or_default(),
    });
    Some(UnnamedSelectors { first, selectors: read.collect() })
}

/// A weight of some clusters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StaticWeight {
    target_cluster: Option<ReadAffinity>,
    weight: i64,
}

/// Over how many groups of clusters an object spreads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpreadConstraint {
    spread_by_field: String,
    spread_by_label: String,
    max_groups: i64,
    min_groups: i64,
}

impl PolicyReader<'_> {
    fn read_placement(&self, placed: &PlacedObject<'_>, intent: &mut RepoIntent) {
        self.read_rest(intent);
        let replicas = self.read_replicas();
        let is_static = matches!(replicas, Some(ReplicaRule::Weights(_)));
        let mut clusters = self.read_affinity(intent);
        let mut max_clusters = None;
        for constraint in self.read_list::<SpreadConstraint>("/spec/placement/spreadConstraints") {
            let by_field = constraint.spread_by_field.as_str();
            let by_cluster =
                by_field == "cluster" || by_field.is_empty() && constraint.spread_by_label.is_empty();
            if !by_cluster {
                let detail = format!("clusters are spread over {by_field}{}s", constraint.spread_by_label);
                self.add(intent, Reason::TopologySpread, &detail, "/spec/placement/spreadConstraints");
                clusters = None;
            } else if !is_static {
                max_clusters = Some(constraint.max_groups);
                if constraint.min_groups > 1 {
                    let detail = format!("at least {} clusters, or none", constraint.min_groups);
                    self.add(intent, Reason::Scores, &detail, "/spec/placement/spreadConstraints");
                }
            }
        }
        let follows = !self.row.required_by.is_empty();
        if follows {
            let detail = "it has a policy of its own, and follows others";
            self.add(intent, Reason::Followers, detail, "");
        }
        let is_kept = self.row.unschedulable.is_some() && !placed.clusters.is_empty();
        if is_kept {
            self.add(intent, Reason::Sticky, "it cannot be scheduled and stays where it is", "");
        }
        let clusters = clusters.filter(|_| !follows && !is_kept);
        // The clusters of today are not those of later objects.
        let unnamed = self.unnamed.filter(|_| clusters.is_some());
        let clusters = clusters.unwrap_or_else(|| {
            max_clusters = None;
            ClusterRule::from_names(placed.clusters.iter().map(ToString::to_string))
        });
        intent.placements.push(PlacementIntent {
            name: self.policy.id.name.clone(),
            origin: Some(self.policy.origin.clone()),
            is_cluster_wide: self.policy.id.namespace.is_none(),
            replicas: replicas.unwrap_or(ReplicaRule::Duplicated),
            taints: TaintRule::Respected(self.read_tolerations()),
            adoption: self.read_adoption(),
            suspension: self.read_suspension(),
            is_preserved: self.spec("/preserveResourcesOnDeletion") == Some(&Value::Bool(true)),
            max_clusters,
            leads: self.spec("/propagateDeps") == Some(&Value::Bool(true)),
            selectors: unnamed
                .map(|unnamed| (self.policy.origin.clone(), Arc::clone(&unnamed.selectors)))
                .into_iter()
                .collect(),
            ..PlacementIntent::from_object(self.row.object.clone(), clusters)
        });
    }

    fn add(&self, intent: &mut RepoIntent, reason: Reason, detail: &str, pointer: &str) {
        intent
            .add_unequal(&self.row.object, unequal_rule(reason, detail, Some(&self.policy.origin), pointer));
    }

    fn spec(&self, pointer: &str) -> Option<&Value> {
        self.policy.body.pointer(&format!("/spec{pointer}")).filter(|value| !value.is_null())
    }

    fn read_list<T: for<'de> Deserialize<'de>>(&self, pointer: &str) -> Vec<T> {
        let list = self.policy.body.pointer(pointer);
        list.and_then(|list| Vec::deserialize(list).ok()).unwrap_or_default()
    }

    /// The clusters; `None` if only their names of today say the same.
    fn read_affinity(&self, intent: &mut RepoIntent) -> Option<ClusterRule> {
        if self.spec("/placement/clusterAffinities").and_then(Value::as_array).is_some_and(|l| !l.is_empty())
        {
            let detail = "groups of clusters, of which the first that fits is taken";
            self.add(intent, Reason::FrozenSelector, detail, "/spec/placement/clusterAffinities");
            return None;
        }
        let affinity = self.spec("/placement/clusterAffinity");
        let affinity = affinity.and_then(|value| ReadAffinity::deserialize(value).ok()).unwrap_or_default();
        Some(affinity.into())
    }

    /// How replicas are divided; `None` if they are not.
    fn read_replicas(&self) -> Option<ReplicaRule> {
        let scheduling = self.spec("/placement/replicaScheduling")?;
        let text = |key: &str| scheduling.get(key).and_then(Value::as_str).unwrap_or_default();
        let has_replicas = self.row.clusters.iter().any(|placed| placed.replicas.is_some())
            || ["/spec/replicas", "/spec/parallelism"]
                .iter()
                .any(|at| self.template.body.pointer(at).is_some());
        if text("replicaSchedulingType") == "Duplicated" || !has_replicas {
            return None;
        }
        if text("replicaDivisionPreference") == "Aggregated" {
            return Some(ReplicaRule::Aggregated);
        }
        let dynamic = scheduling.pointer("/weightPreference/dynamicWeight").and_then(Value::as_str);
        if dynamic.is_some_and(|factor| !factor.is_empty()) {
            return Some(ReplicaRule::FreeResources);
        }
        let list = "/spec/placement/replicaScheduling/weightPreference/staticWeightList";
        let weights = self.read_list::<StaticWeight>(list).into_iter();
        let weights = weights.map(|one| ClusterWeight {
            clusters: one.target_cluster.unwrap_or_default().into(),
            weight: one.weight,
        });
        Some(ReplicaRule::Weights(weights.collect()))
    }

    fn read_tolerations(&self) -> Vec<Value> {
        let mut tolerations: Vec<Value> = self.read_list("/spec/placement/clusterTolerations");
        for toleration in tolerations.iter_mut().filter_map(Value::as_object_mut) {
            toleration.shift_remove("tolerationSeconds");
        }
        tolerations
    }

    fn read_adoption(&self) -> Adoption {
        let own = self
            .template
            .annotation(CONFLICT_ANNOTATION)
            .filter(|text| matches!(*text, "abort" | "overwrite"));
        let policy = self.spec("/conflictResolution").and_then(Value::as_str);
        match own.or(policy) {
            Some("overwrite" | "Overwrite") => Adoption::Overwrite,
            _ => Adoption::Abort,
        }
    }

    fn read_suspension(&self) -> Suspended {
        if self.spec("/suspension/dispatching") == Some(&Value::Bool(true)) {
            return Suspended::Everywhere;
        }
        let names: BTreeSet<_> = self.row.suspended.iter().cloned().collect();
        if names.is_empty() { Suspended::Nowhere } else { Suspended::In(names) }
    }

    /// Notes the rules that no other control plane has.
    fn read_rest(&self, intent: &mut RepoIntent) {
        if self.spec("/failover").is_some() {
            self.add(intent, Reason::Failover, "what becomes of objects that fail", "/spec/failover");
        }
        let has_priority =
            self.spec("/priority").and_then(Value::as_i64).is_some_and(|priority| priority != 0);
        for (pointer, is_set) in [
            ("/priority", has_priority),
            ("/preemption", self.spec("/preemption").and_then(Value::as_str) == Some("Always")),
            ("/schedulePriority", self.spec("/schedulePriority").is_some()),
        ] {
            if is_set {
                let detail = "which policy comes first";
                self.add(intent, Reason::Priority, detail, &format!("/spec{pointer}"));
            }
        }
        if self.spec("/activationPreference").and_then(Value::as_str) == Some("Lazy") {
            let detail = "changes of the policy wait for one of the object";
            self.add(intent, Reason::Sticky, detail, "/spec/activationPreference");
        }
        if let Some(unnamed) = self.unnamed {
            let detail = "objects that are added later are not selected";
            let pointer = format!("/spec/resourceSelectors/{}", unnamed.first);
            self.add(intent, Reason::NewObjects, detail, &pointer);
        }
    }
}
