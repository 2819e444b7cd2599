//! What policies say, apart from how a control plane writes it.
//!
//! Readers turn policies of one control plane into intents, writers turn intents into policies of another, so that
//! each control plane has one reader and one writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::import::ImportEdit;
use federate_kubernetes::selector::{LabelSelector, SelectorRequirement};
use federate_kubernetes::{Cluster, ClusterName, Labels, Object, ObjectRef, Origin};
use serde_json::Value;

use crate::{Reason, UnequalRule};

/// What the policies of a repo say about its objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepoIntent {
    /// The objects of the new side.
    pub templates: Vec<TemplateIntent>,
    /// Where they go.
    pub placements: Vec<PlacementIntent>,
    /// What differs between clusters.
    pub overrides: Vec<OverrideIntent>,
    /// The rules about each object, by its old name, that the new control plane does not have.
    pub unequal: BTreeMap<ObjectRef, Vec<UnequalRule>>,
    /// The same about the repo as a whole.
    pub unequal_of_repo: Vec<UnequalRule>,
}

impl RepoIntent {
    /// Adds a rule about an object that the new control plane does not have.
    pub(crate) fn add_unequal(&mut self, object: &ObjectRef, rule: UnequalRule) {
        let rules = self.unequal.entry(object.clone()).or_default();
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }

    /// Names clusters nowhere that are left out.
    pub(crate) fn leave_out_clusters(&mut self, is_left_out: impl Fn(&str) -> bool) {
        let placed = self.placements.iter_mut().flat_map(|placement| {
            let weights = match &mut placement.replicas {
                ReplicaRule::Weights(weights) => weights.as_mut_slice(),
                _ => &mut [],
            };
            std::iter::once(&mut placement.clusters).chain(weights.iter_mut().map(|one| &mut one.clusters))
        });
        let own = self.overrides.iter_mut().flat_map(|one| &mut one.own).map(|rule| &mut rule.clusters);
        for names in placed.chain(own).filter_map(|rule| rule.names.as_mut()) {
            names.retain(|name| !is_left_out(name));
        }
    }

    /// Whether rules of override policies are written as rules.
    pub(crate) fn has_own_rules(&self) -> bool {
        self.overrides.iter().any(|one| !one.own.is_empty())
    }

    /// Leaves out the rules of the override policies of some objects, and notes that: what they do is then found by comparing
    /// manifests. Returns whether there are any.
    pub(crate) fn drop_own_rules(&mut self, is_dropped: impl Fn(&ObjectRef) -> bool) -> bool {
        let mut left_out: BTreeMap<ObjectRef, Vec<Origin>> = BTreeMap::new();
        for one in self.overrides.iter_mut().filter(|one| !one.own.is_empty() && is_dropped(&one.object)) {
            one.own.clear();
            left_out.insert(one.object.clone(), one.origins.clone());
        }
        let templates = self.templates.iter().filter(|template| left_out.contains_key(&template.id));
        let olds: Vec<(ObjectRef, ObjectRef)> =
            templates.map(|template| (template.id.clone(), template.old.clone())).collect();
        for (id, old) in olds {
            for origin in left_out.get(&id).into_iter().flatten() {
                self.add_unequal(&old, unread_rules(origin));
            }
        }
        !left_out.is_empty()
    }
}

/// What overrides of a policy do is written only for the clusters of today.
pub(crate) fn unread_rules(policy: &Origin) -> UnequalRule {
    unequal_rule(Reason::Overrides, "its rules are written for the clusters of today", Some(policy), "")
}

/// The rule that clusters whose labels change keep the overrides that they have, if override rules select by labels.
pub(crate) fn late_overrides(rules: &[OwnOverrideRule], origin: Option<&Origin>) -> Option<UnequalRule> {
    let selects = rules.iter().any(|rule| rule.clusters.labels != LabelSelector::default());
    let detail = "a cluster whose labels change keeps its overrides until the next update";
    selects.then(|| unequal_rule(Reason::Rollout, detail, origin, ""))
}

/// The override rules about an object, as far as they were read.
#[derive(Default)]
pub(crate) struct ReadOverrides<'s> {
    /// Those that were read.
    pub intent: Option<OverrideIntent>,
    /// The policies with others, whose effect is found by comparing manifests.
    pub unread: Vec<&'s Object>,
    /// The policies that select the object by its kind or labels.
    pub selecting: Vec<&'s Object>,
    /// The clusters in which rules delete the object.
    pub deleted: Vec<ClusterRule>,
}

/// Makes a rule that the new control plane does not have.
pub(crate) fn unequal_rule(
    reason: Reason,
    detail: impl Into<String>,
    origin: Option<&Origin>,
    pointer: impl Into<String>,
) -> UnequalRule {
    UnequalRule { reason, detail: detail.into(), origin: origin.cloned(), pointer: pointer.into() }
}

/// An object of the new side.
#[derive(Clone, Debug)]
pub(crate) struct TemplateIntent {
    /// As members have it by the old control plane.
    pub old: ObjectRef,
    /// As members have it by the new one.
    pub id: ObjectRef,
    /// Where its text is.
    pub source: TemplateSource,
    /// The values that change in the text, as pointers into the object; `None` removes.
    pub edits: Vec<ImportEdit>,
    /// Whether members decide about its replicas.
    pub retains_replicas: bool,
}

impl TemplateIntent {
    /// An object that stays as it is.
    pub(crate) fn unchanged(old: ObjectRef, id: ObjectRef, source: TemplateSource) -> Self {
        Self { old, id, source, edits: Vec::new(), retains_replicas: false }
    }
}

/// Where the text of an object is.
#[derive(Clone, Debug)]
pub(crate) enum TemplateSource {
    /// It is an object of the repo.
    Own,
    /// It is part of another object, from which it is cut out.
    Embedded {
        /// The object that contains it.
        origin: Origin,
        /// Its place in that object.
        pointer: String,
        /// The object as it is on its own.
        body: Value,
    },
    /// A `*.j2` file is rendered to it, which is written in place of the file.
    Rendered {
        /// Its place in the file.
        origin: Origin,
        /// The file in which it is written.
        file: Arc<str>,
        /// What the first cluster gets.
        body: Value,
    },
}

impl TemplateSource {
    /// Whether the object stays where it is in the repo.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Own)
    }

    /// The object as it is written anew, and the file; `None` if it stays where it is.
    pub(crate) fn find_written(&self) -> Option<(&Arc<str>, &Value)> {
        match self {
            Self::Own => None,
            Self::Embedded { origin, body, .. } => Some((&origin.file, body)),
            Self::Rendered { file, body, .. } => Some((file, body)),
        }
    }
}

/// Where some objects go.
#[derive(Clone, Debug)]
pub(crate) struct PlacementIntent {
    /// The name that its policy should have.
    pub name: String,
    /// The objects.
    pub objects: BTreeSet<ObjectRef>,
    /// The clusters.
    pub clusters: ClusterRule,
    /// How replicas are divided.
    pub replicas: ReplicaRule,
    /// Whether taints of clusters keep the objects out.
    pub taints: TaintRule,
    /// Whether objects that exist in a cluster already are taken over.
    pub adoption: Adoption,
    /// Where nothing is sent for now.
    pub suspension: Suspended,
    /// Whether the objects stay in their clusters when the policy is deleted.
    pub is_preserved: bool,
    /// The most clusters, if there is a limit.
    pub max_clusters: Option<i64>,
    /// Whether what the objects refer to goes with them.
    pub leads: bool,
    /// Whether a policy without a namespace places them.
    pub is_cluster_wide: bool,
    /// Where the policy that placed them stands, if it was an object of its own.
    pub origin: Option<Origin>,
    /// The selectors without a name of the policies that placed them, by where these stand.
    pub selectors: BTreeMap<Origin, Arc<[KindSelector]>>,
    /// Those that are written as selectors.
    pub kept: KeptSelectors,
}

/// Selectors that are written as such.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptSelectors {
    /// The selectors.
    pub selectors: Vec<KindSelector>,
    /// What they select, which is not named.
    pub objects: BTreeSet<ObjectRef>,
}

/// A selector of objects that names none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KindSelector {
    /// The API version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; `None` for any.
    pub namespace: Option<String>,
    /// The labels.
    pub labels: LabelSelector,
}

impl PlacementIntent {
    /// Where an object goes, without anything else.
    pub(crate) fn from_object(object: ObjectRef, clusters: ClusterRule) -> Self {
        Self {
            name: object.name.clone(),
            is_cluster_wide: object.namespace.is_none(),
            objects: BTreeSet::from([object]),
            clusters,
            replicas: ReplicaRule::Duplicated,
            taints: TaintRule::Ignored,
            adoption: Adoption::Overwrite,
            suspension: Suspended::Nowhere,
            is_preserved: false,
            max_clusters: None,
            leads: false,
            origin: None,
            selectors: BTreeMap::new(),
            kept: KeptSelectors::default(),
        }
    }
}

impl PlacementIntent {
    /// The file of the policy that placed them, if it was an object of its own.
    pub(crate) fn file(&self) -> Option<Arc<str>> {
        self.origin.as_ref().map(|origin| origin.file.clone())
    }
}

/// Whether taints keep objects out of clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaintRule {
    /// They do not.
    Ignored,
    /// They do, but for these tolerations.
    Respected(Vec<Value>),
}

/// What happens to an object that another client has created in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Adoption {
    /// It is taken over.
    Overwrite,
    /// It stays as it is.
    Abort,
}

/// Where nothing is sent for now.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Suspended {
    /// Nowhere: everything is sent.
    #[default]
    Nowhere,
    /// In every cluster.
    Everywhere,
    /// In these clusters.
    In(BTreeSet<ClusterName>),
}

/// The clusters for objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterRule {
    /// Only these; `None` for any.
    pub names: Option<BTreeSet<String>>,
    /// None of these.
    pub excluded: BTreeSet<String>,
    /// The labels that they must have.
    pub labels: LabelSelector,
    /// Requirements on their `provider`, `region` and `zone`.
    pub fields: Vec<SelectorRequirement>,
}

impl ClusterRule {
    /// Every cluster.
    pub(crate) fn every_cluster() -> Self {
        Self::default()
    }

    /// Clusters by name.
    pub(crate) fn from_names(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { names: Some(names.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Clusters by their labels.
    pub(crate) fn from_labels(labels: LabelSelector) -> Self {
        Self { labels, ..Self::default() }
    }

    /// No cluster.
    pub(crate) fn nowhere() -> Self {
        Self { names: Some(BTreeSet::new()), ..Self::default() }
    }

    /// Whether it selects no cluster, whatever the inventory.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.names.as_ref().is_some_and(|names| names.iter().all(|name| self.excluded.contains(name)))
    }

    /// Whether it selects every cluster, whatever the inventory.
    pub(crate) fn is_everywhere(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it selects every cluster that another rule names, whatever the inventory.
    pub(crate) fn includes_names(&self, other: &Self) -> bool {
        let names = self.names.as_ref().zip(other.names.as_ref());
        self.labels == LabelSelector::default()
            && self.fields.is_empty()
            && self.excluded.is_empty()
            && names.is_some_and(|(own, others)| others.is_subset(own))
    }

    /// The clusters that both select.
    pub(crate) fn intersect(mut self, other: &Self) -> Self {
        self.names = match (self.names, &other.names) {
            (Some(own), Some(others)) => Some(own.intersection(others).cloned().collect()),
            (own, others) => own.or_else(|| others.clone()),
        };
        self.excluded.extend(other.excluded.iter().cloned());
        join_labels(&mut self.labels, &other.labels);
        self.fields.extend(other.fields.iter().cloned());
        self
    }

    /// The names, if nothing else is required.
    pub(crate) fn plain_names(&self) -> Option<&BTreeSet<String>> {
        let is_plain = self.labels == LabelSelector::default() && self.fields.is_empty();
        self.names.as_ref().filter(|_| is_plain && self.excluded.is_empty())
    }

    /// Whether it selects a cluster.
    pub(crate) fn matches_cluster(&self, cluster: &Cluster) -> bool {
        let name: &str = &cluster.name;
        self.names.as_ref().is_none_or(|names| names.contains(name))
            && !self.excluded.contains(name)
            && self.labels.matches(&cluster.labels)
            && self.fields.iter().all(|requirement| matches_field(requirement, cluster))
    }
}

/// Whether the provider, the region or the zones of a cluster meet a requirement.
fn matches_field(requirement: &SelectorRequirement, cluster: &Cluster) -> bool {
    let has_value = |value: &String| !value.is_empty() && requirement.values.contains(value);
    let has_any = match requirement.key.as_str() {
        "provider" => has_value(&cluster.provider),
        "region" => has_value(&cluster.region),
        "zone" => cluster.zones.iter().any(has_value),
        _ => return false,
    };
    match requirement.operator.as_str() {
        "In" => has_any,
        "NotIn" => !has_any,
        _ => false,
    }
}

/// Joins two selectors to one that selects what both do.
fn join_labels(selector: &mut LabelSelector, other: &LabelSelector) {
    for (key, value) in &other.match_labels {
        match selector.match_labels.get(key) {
            Some(own) if own == value => {}
            Some(_) => {
                let operator = "In".to_owned();
                let requirement =
                    SelectorRequirement { key: key.clone(), operator, values: vec![value.clone()] };
                selector.match_expressions.push(requirement);
            }
            None => drop(selector.match_labels.insert(key.clone(), value.clone())),
        }
    }
    for requirement in &other.match_expressions {
        if !selector.match_expressions.contains(requirement) {
            selector.match_expressions.push(requirement.clone());
        }
    }
}

/// How replicas are divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaRule {
    /// Each cluster has the replicas of the template.
    Duplicated,
    /// By weights of clusters; without any, all have the same.
    Weights(Vec<ClusterWeight>),
    /// By the replicas for which clusters have room.
    FreeResources,
    /// As few clusters as have room.
    Aggregated,
}

/// The weight of some clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterWeight {
    /// The clusters.
    pub clusters: ClusterRule,
    /// At least 1.
    pub weight: i64,
}

/// What differs between clusters in some objects.
#[derive(Clone, Debug)]
pub(crate) struct OverrideIntent {
    /// The object.
    pub object: ObjectRef,
    /// The rules of its override policies, in order.
    pub own: Vec<OwnOverrideRule>,
    /// The rules behind them, in order.
    pub rules: Vec<OverrideRuleIntent>,
    /// Where the override policies stand.
    pub origins: Vec<Origin>,
}

impl OverrideIntent {
    /// Rules that come from no override policy.
    pub(crate) fn from_rules(object: ObjectRef, rules: Vec<OverrideRuleIntent>) -> Self {
        Self { object, own: Vec::new(), rules, origins: Vec::new() }
    }
}

/// A rule of an override policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnOverrideRule {
    /// The clusters.
    pub clusters: ClusterRule,
    /// What changes, in order.
    pub changes: Vec<ManifestChange>,
}

/// A change of a manifest, as people write it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ManifestChange {
    /// An operation of a JSON patch.
    Operation(ManifestOperation),
    /// A part of image references.
    Image(ImageChange),
    /// The command of a container.
    Command(WordsChange),
    /// The arguments of a container.
    Args(WordsChange),
    /// Labels.
    Labels(EntriesChange),
    /// Annotations.
    Annotations(EntriesChange),
}

/// A change of a part of image references.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImageChange {
    /// Where they are, as JSON pointers; without any, in all containers.
    pub pointers: Vec<String>,
    /// The part.
    pub component: ImageComponent,
    /// Its new value; `None` removes it.
    pub value: Option<String>,
}

/// A part of an image reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageComponent {
    /// The host.
    Registry,
    /// The path.
    Repository,
    /// The tag.
    Tag,
}

/// A change of the words of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WordsChange {
    /// The name of the container.
    pub container: String,
    /// Whether words are added at the end, or removed.
    pub adds: bool,
    /// The words.
    pub words: Vec<String>,
}

/// A change of labels or annotations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EntriesChange {
    /// What is done.
    pub action: EntriesAction,
    /// The entries.
    pub entries: Labels,
}

/// What is done with entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntriesAction {
    /// They are added.
    Add,
    /// Those that exist get these values.
    Replace,
    /// They are removed.
    Remove,
}

/// What differs in some clusters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OverrideRuleIntent {
    /// The clusters.
    pub clusters: BTreeSet<ClusterName>,
    /// What changes, in order.
    pub operations: Vec<ManifestOperation>,
}

/// One operation of a JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManifestOperation {
    /// What is done.
    pub action: PatchAction,
    /// The value, as a JSON pointer.
    pub pointer: String,
}

impl ManifestOperation {
    /// Reads an operation; `None` if it does something else.
    pub(crate) fn from_parts(name: &str, pointer: &str, value: Option<&Value>) -> Option<Self> {
        let value = || value.cloned().unwrap_or_default();
        let action = match name {
            "add" => PatchAction::Add(value()),
            "replace" => PatchAction::Replace(value()),
            "remove" => PatchAction::Remove,
            _ => return None,
        };
        pointer.starts_with('/').then(|| Self { action, pointer: pointer.to_owned() })
    }
}

/// What an operation of a JSON patch does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PatchAction {
    /// Adds a value, or replaces it.
    Add(Value),
    /// Replaces a value that exists.
    Replace(Value),
    /// Removes a value that exists.
    Remove,
}

impl PatchAction {
    /// The name of the operation.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Add(_) => "add",
            Self::Replace(_) => "replace",
            Self::Remove => "remove",
        }
    }

    /// Its value.
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Add(value) | Self::Replace(value) => Some(value),
            Self::Remove => None,
        }
    }
}

/// The override rules of an object, from the operations of each cluster: clusters with equal ones share a rule.
pub(crate) fn group_operations(
    by_cluster: impl IntoIterator<Item = ClusterOperations>,
) -> Vec<OverrideRuleIntent> {
    let mut rules: Vec<OverrideRuleIntent> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for ClusterOperations { clusters, operations } in by_cluster {
        if operations.is_empty() {
            continue;
        }
        let key = operations.iter().map(format_operation).collect::<String>();
        let at = *known.entry(key).or_insert_with(|| {
            rules.push(OverrideRuleIntent { clusters: BTreeSet::new(), operations });
            rules.len() - 1
        });
        if let Some(rule) = rules.get_mut(at) {
            rule.clusters.extend(clusters);
        }
    }
    rules.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    rules
}

/// The operations of some clusters.
pub(crate) struct ClusterOperations {
    /// The clusters.
    pub clusters: Vec<ClusterName>,
    /// What changes there.
    pub operations: Vec<ManifestOperation>,
}

/// An operation as a text that is equal for equal ones.
fn format_operation(operation: &ManifestOperation) -> String {
    let value = operation.action.value().map(Value::to_string).unwrap_or_default();
    format!("{} {:?} {value}\n", operation.action.name(), operation.pointer)
}

/// Labels as a value.
pub(crate) fn labels_to_json(labels: &Labels) -> Value {
    labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}
