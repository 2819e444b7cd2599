//! Override policies: the rules for an object on a cluster, their order and their effects.
//!
//! Facts: cluster-wide policies come first, then those of the object's namespace; everything that
//! matches applies; within a group the more specific selector and then the later name is applied last.
//! A group is matched against the object as it is before that group's changes. Any error keeps the
//! object from the cluster.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::api::{
    KarmadaClusterAffinity, KarmadaMapOverrider, KarmadaOverrideSpec, KarmadaOverriders, PlaintextOverrider,
};
use super::selector::{ImplicitPriority, SelectorIndex};
use super::version::KarmadaBehaviour;
use federate_dialect::ReplicaFields;
use federate_kubernetes::patch::{self, JsonPatchOperation};
use federate_kubernetes::{Cluster, Object, work};
use federate_repo::Template;

mod field;
mod image;
mod lists;

pub(super) use image::override_images as change_images;

/// A rule that cannot be applied: where in its policy, and why.
#[derive(Clone, Debug)]
pub(super) struct OverrideRuleFailure {
    pub(super) pointer: String,
    pub(super) message: String,
}

type Result<T> = std::result::Result<T, OverrideRuleFailure>;

/// The steps of applying a rule.
const STEPS_OF_RULE: u64 = 200;
/// The steps of applying an overrider, besides those of what it changes.
const STEPS_OF_OVERRIDER: u64 = 10;

/// One rule of a policy.
pub(super) struct CompiledOverrideRule {
    target: Option<KarmadaClusterAffinity>,
    overriders: KarmadaOverriders,
    /// Where its overriders stand in the policy.
    pointer: String,
}

impl CompiledOverrideRule {
    /// Whether the rule targets a cluster.
    pub(super) fn targets_cluster(&self, cluster: &Cluster) -> bool {
        self.target.as_ref().is_none_or(|target| target.selects_cluster(cluster))
    }

    /// Changes the manifest.
    pub(super) fn apply_to_manifest(&self, manifest: &mut Value) -> Result<()> {
        work::charge_steps(STEPS_OF_RULE);
        let o = &self.overriders;
        for (index, overrider) in o.image_overrider.iter().enumerate() {
            image::override_images(overrider, manifest)
                .map_err(|message| self.failure_at("imageOverrider", index, message))?;
        }
        for overrider in &o.command_overrider {
            lists::override_list(overrider, "command", manifest);
        }
        for overrider in &o.args_overrider {
            lists::override_list(overrider, "args", manifest);
        }
        let simple = o.command_overrider.len() + o.args_overrider.len() + o.labels_overrider.len();
        work::charge_steps(STEPS_OF_OVERRIDER * (simple + o.annotations_overrider.len()) as u64);
        if work::is_exceeded() {
            return Ok(());
        }
        for overrider in &o.labels_overrider {
            apply_map(overrider, "labels", manifest);
        }
        for overrider in &o.annotations_overrider {
            apply_map(overrider, "annotations", manifest);
        }
        for (index, overrider) in o.field_overrider.iter().enumerate() {
            field::override_field(overrider, manifest)
                .map_err(|message| self.failure_at("fieldOverrider", index, message))?;
        }
        for (index, overrider) in o.plaintext.iter().enumerate() {
            apply_plaintext(overrider, manifest)
                .map_err(|message| self.failure_at("plaintext", index, message))?;
        }
        Ok(())
    }

    /// The paths at which its overriders change something, besides the images, commands and arguments of containers.
    fn changed_paths(&self) -> impl Iterator<Item = &str> {
        let o = &self.overriders;
        let maps =
            [("/metadata/labels", &o.labels_overrider), ("/metadata/annotations", &o.annotations_overrider)];
        let maps = maps.into_iter().filter(|(_, overriders)| !overriders.is_empty()).map(|(path, _)| path);
        let images = o.image_overrider.iter().filter_map(|overrider| overrider.predicate.as_ref());
        maps.chain(images.map(|predicate| predicate.path.as_str()))
            .chain(o.field_overrider.iter().map(|overrider| overrider.field_path.as_str()))
            .chain(o.plaintext.iter().map(|overrider| overrider.path.as_str()))
    }

    fn failure_at(&self, list: &str, index: usize, message: String) -> OverrideRuleFailure {
        OverrideRuleFailure { pointer: format!("{}/{list}/{index}", self.pointer), message }
    }
}

/// A policy, compiled.
pub(super) struct CompiledOverridePolicy<'a> {
    pub(super) object: &'a Object,
    spec: KarmadaOverrideSpec,
    pub(super) rules: Vec<CompiledOverrideRule>,
    reach: OverrideReach,
    classes: OnceLock<Classes>,
}

/// What the rules of a policy can change, in whatever cluster.
#[derive(Clone, Copy)]
struct OverrideReach {
    /// The replicas of kinds of Kubernetes.
    replicas: bool,
    /// Those of other kinds.
    other_replicas: bool,
    /// The labels, by which policies of a namespace select.
    labels: bool,
}

impl OverrideReach {
    fn new(rules: &[CompiledOverrideRule]) -> Self {
        let reaches = |is_reached: &dyn Fn(&str) -> bool| {
            rules.iter().flat_map(CompiledOverrideRule::changed_paths).any(is_reached)
        };
        Self {
            replicas: reaches(&|path| ReplicaFields::OfKubernetes.may_be_at(path)),
            other_replicas: reaches(&|path| ReplicaFields::AnyInSpec.may_be_at(path)),
            labels: reaches(&|path| {
                patch::parse_pointer(path)
                    .is_ok_and(|steps| steps.starts_with(&["metadata", "labels"].map(str::to_owned)))
            }),
        }
    }

    fn may_change_replicas(self, fields: ReplicaFields) -> bool {
        match fields {
            ReplicaFields::OfKubernetes => self.replicas,
            ReplicaFields::AnyInSpec => self.other_replicas,
        }
    }
}

/// The clusters of the inventory by the rules that target them.
struct Classes {
    /// By number of the class: the rules, by number. For the first class there are none.
    rules: Vec<Vec<usize>>,
    /// The class of each cluster, by index.
    of: Vec<usize>,
}

impl Classes {
    fn new(rules: &[CompiledOverrideRule], clusters: &[Cluster]) -> Self {
        let mut numbers = BTreeMap::from([(Vec::new(), 0)]);
        let mut of = Vec::with_capacity(clusters.len());
        for cluster in clusters {
            let meant = rules.iter().enumerate().filter(|(_, rule)| rule.targets_cluster(cluster));
            let next = numbers.len();
            of.push(*numbers.entry(meant.map(|(number, _)| number).collect::<Vec<_>>()).or_insert(next));
        }
        let mut rules: Vec<(usize, Vec<usize>)> =
            numbers.into_iter().map(|(r, number)| (number, r)).collect();
        rules.sort_unstable();
        Self { rules: rules.into_iter().map(|(_, rules)| rules).collect(), of }
    }
}

impl<'a> CompiledOverridePolicy<'a> {
    fn new(object: &'a Object, behaviour: &KarmadaBehaviour) -> Option<Self> {
        let mut spec: KarmadaOverrideSpec =
            KarmadaOverrideSpec::deserialize(object.value_at(&["spec"])?).ok()?;
        let mut rules: Vec<CompiledOverrideRule> = std::mem::take(&mut spec.override_rules)
            .into_iter()
            .enumerate()
            .map(|(index, rule)| CompiledOverrideRule {
                target: rule.target_cluster,
                overriders: rule.overriders,
                pointer: format!("/spec/overrideRules/{index}/overriders"),
            })
            .collect();
        if rules.is_empty() {
            rules.push(CompiledOverrideRule {
                target: spec.target_cluster.take(),
                overriders: std::mem::take(&mut spec.overriders),
                pointer: "/spec/overriders".to_owned(),
            });
        }
        for target in rules.iter_mut().filter_map(|rule| rule.target.as_mut()) {
            target.read_as(behaviour);
        }
        let reach = OverrideReach::new(&rules);
        Some(Self { object, spec, rules, reach, classes: OnceLock::new() })
    }

    /// The class of a cluster, which identifies the rules that target it. The inventory is always the same.
    pub(super) fn find_class(&self, inventory: &[Cluster], cluster: Option<usize>) -> usize {
        cluster.and_then(|index| self.cluster_classes(inventory).of.get(index).copied()).unwrap_or_default()
    }

    /// The rules of a class, by number.
    pub(super) fn rules_of(&self, inventory: &[Cluster], class: usize) -> &[usize] {
        self.cluster_classes(inventory).rules.get(class).map_or(&[], Vec::as_slice)
    }

    fn cluster_classes(&self, inventory: &[Cluster]) -> &Classes {
        self.classes.get_or_init(|| Classes::new(&self.rules, inventory))
    }
}

/// Every valid override policy, in groups.
#[derive(Default)]
pub(super) struct OverridePolicies<'a> {
    /// Whether one of them can change the replicas of some kind.
    reaches_replicas: bool,
    cluster: OverrideGroup<'a>,
    namespaced: BTreeMap<&'a str, OverrideGroup<'a>>,
}

/// The policies of a namespace, or the cluster-wide ones, sorted by name.
#[derive(Default)]
struct OverrideGroup<'a> {
    policies: Vec<CompiledOverridePolicy<'a>>,
    /// By the number of the policy.
    selectors: SelectorIndex,
    /// Those without selectors, which select everything.
    unselective: Vec<usize>,
}

impl<'a> OverrideGroup<'a> {
    fn new(mut policies: Vec<CompiledOverridePolicy<'a>>) -> Self {
        policies.sort_by(|a, b| a.object.id.name.cmp(&b.object.id.name));
        let (mut selectors, mut unselective) = (SelectorIndex::default(), Vec::new());
        for (at, policy) in policies.iter().enumerate() {
            let own = &policy.spec.resource_selectors;
            if own.is_empty() {
                unselective.push(at);
            }
            selectors.add_selectors(at, own, policy.object.id.namespace.as_deref());
        }
        Self { policies, selectors, unselective }
    }

    /// The policies that match, by number, in the order in which they apply: by priority, then by name.
    fn find_matches(&self, manifest: &Object) -> impl Iterator<Item = usize> + use<> {
        let selecting = self.selectors.find_matches(manifest).into_iter();
        let all = self.unselective.iter().map(|at| (ImplicitPriority::All, *at));
        let mut found: Vec<(ImplicitPriority, usize)> =
            selecting.map(|(at, priority)| (priority, at)).chain(all).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, at)| at)
    }
}

impl<'a> OverridePolicies<'a> {
    pub(super) fn new(objects: impl Iterator<Item = &'a Object>, behaviour: &KarmadaBehaviour) -> Self {
        let (mut cluster, mut namespaced) = (Vec::new(), BTreeMap::<&'a str, Vec<_>>::new());
        for policy in objects.filter_map(|object| CompiledOverridePolicy::new(object, behaviour)) {
            match policy.object.id.namespace.as_deref() {
                Some(namespace) => namespaced.entry(namespace).or_default().push(policy),
                None => cluster.push(policy),
            }
        }
        let namespaced = namespaced.into_iter().map(|(name, policies)| (name, OverrideGroup::new(policies)));
        let all = Self {
            reaches_replicas: false,
            cluster: OverrideGroup::new(cluster),
            namespaced: namespaced.collect(),
        };
        let reaches_replicas = all.iter().any(|policy| policy.reach.other_replicas);
        Self { reaches_replicas, ..all }
    }

    /// Whether some policies are those of a namespace.
    pub(super) fn has_namespaced(&self) -> bool {
        !self.namespaced.is_empty()
    }

    /// Whether the policies that apply to an object may change its replicas. Policies of its namespace apply to what those that
    /// are cluster-wide make of it: where these change labels, any of the namespace may.
    pub(super) fn may_change_replicas(&self, manifest: &Object) -> bool {
        if !self.reaches_replicas {
            return false;
        }
        let fields = ReplicaFields::for_kind(&manifest.id);
        let reaches = |policy: &CompiledOverridePolicy<'_>| policy.reach.may_change_replicas(fields);
        let wide = self.matching_policies(None, manifest);
        if wide.iter().copied().any(reaches) {
            return true;
        }
        let Some(own) = manifest.id.namespace.as_deref() else { return false };
        if wide.iter().any(|policy| policy.reach.labels) {
            self.policies_in(Some(own)).iter().any(reaches)
        } else {
            self.matching_policies(Some(own), manifest).into_iter().any(reaches)
        }
    }

    /// All policies, the cluster-wide ones first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &CompiledOverridePolicy<'a>> {
        self.cluster.policies.iter().chain(self.namespaced.values().flat_map(|group| &group.policies))
    }

    /// The templates that each policy selects, in the order of [`iter`](Self::iter).
    pub(super) fn select_templates<'t>(&self, templates: &'t [Template]) -> Vec<Vec<&'t Object>> {
        let mut next = self.cluster.policies.len();
        let mut first_numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (namespace, group) in &self.namespaced {
            first_numbers.insert(namespace, next);
            next += group.policies.len();
        }
        let mut selected = vec![Vec::new(); next];
        for template in templates {
            let own = template.object.id.namespace.as_deref();
            let own = own.and_then(|own| Some((*first_numbers.get(own)?, self.namespaced.get(own)?)));
            for (first, group) in std::iter::once((0, &self.cluster)).chain(own) {
                for at in group.find_matches(&template.object) {
                    selected.get_mut(first + at).into_iter().for_each(|found| found.push(&template.object));
                }
            }
        }
        selected
    }

    /// Whether there is a policy of that name in the namespace, or cluster-wide without one.
    pub(super) fn has_policy(&self, namespace: Option<&str>, name: &str) -> bool {
        self.policies_in(namespace).iter().any(|p| p.object.id.name == name)
    }

    /// The names of the policies in the namespace, or of the cluster-wide ones without one.
    pub(super) fn policy_names(&self, namespace: Option<&str>) -> Vec<&str> {
        self.policies_in(namespace).iter().map(|policy| policy.object.id.name.as_str()).collect()
    }

    fn policies_in(&self, namespace: Option<&str>) -> &[CompiledOverridePolicy<'a>] {
        self.find_group(namespace).map_or(&[], |group| group.policies.as_slice())
    }

    fn find_group(&self, namespace: Option<&str>) -> Option<&OverrideGroup<'a>> {
        match namespace {
            Some(namespace) => self.namespaced.get(namespace),
            None => Some(&self.cluster),
        }
    }

    /// The policies of a group that match, in the order in which they apply. `namespace` is `None` for
    /// the cluster-wide group.
    pub(super) fn matching_policies(
        &self,
        namespace: Option<&str>,
        manifest: &Object,
    ) -> Vec<&CompiledOverridePolicy<'a>> {
        let Some(group) = self.find_group(namespace) else { return Vec::new() };
        group.find_matches(manifest).filter_map(|at| group.policies.get(at)).collect()
    }
}

fn apply_map(overrider: &KarmadaMapOverrider, field: &str, manifest: &mut Value) {
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let entry = metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    let Some(map) = entry.as_object_mut() else { return };
    for (key, value) in &overrider.value {
        match overrider.operator.as_str() {
            "add" => drop(map.insert(key.clone(), Value::from(value.as_str()))),
            "replace" => {
                if let Some(present) = map.get_mut(key) {
                    *present = Value::from(value.as_str());
                }
            }
            "remove" => {
                work::charge_items(map.len());
                map.shift_remove(key);
            }
            _ => {}
        }
    }
}

fn apply_plaintext(overrider: &PlaintextOverrider, manifest: &mut Value) -> std::result::Result<(), String> {
    let operation = JsonPatchOperation {
        name: &overrider.operator,
        path: &overrider.path,
        value: overrider.value.as_ref(),
    };
    patch::apply_operation(manifest, operation)
        .map_err(|error| format!("{} {}: {error}", overrider.operator, overrider.path))
}
