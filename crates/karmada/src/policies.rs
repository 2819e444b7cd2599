//! Finds the policy of a template.
//!
//! Facts: some objects are never propagated; a `PropagationPolicy` of the template's namespace beats any
//! `ClusterPropagationPolicy`; among several the highest priority wins, then the most specific selector,
//! then the smallest name. The first claim wins: a template keeps its policy, of which the previous plan tells, as long
//! as that policy exists and its selectors match. A change of the template's own labels does not end a claim either, but
//! then nothing is applied to the template any more.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::api::PropagationSpec;
use super::schedule::PolicyEligibility;
use super::selector::{ImplicitPriority, SelectorIndex};
use super::state::{KarmadaState, POLICY_DIGEST};
use super::version::{HeldApi, KarmadaBehaviour};
use super::{NAME, defaults};
use federate_dialect::{Placement, SchedulerState, scheduler_state};
use federate_kubernetes::{Cluster, ClusterName, Object, ObjectRef};

/// A valid propagation policy, compiled.
pub(super) struct PropagationPolicy<'a> {
    pub(super) object: &'a Object,
    pub(super) spec: PropagationSpec,
    held_api: HeldApi,
    eligibility: OnceLock<PolicyEligibility>,
    applied: OnceLock<Arc<Value>>,
    written: LastState,
    digest: OnceLock<String>,
    earlier: EarlierPolicies<'a>,
}

/// The state that was written last, with its written form.
type LastState = Mutex<Option<(KarmadaState, SchedulerState)>>;

/// A policy with placements that it had earlier, by their JSON.
type EarlierPolicies<'a> = Mutex<BTreeMap<String, Arc<PropagationPolicy<'a>>>>;

impl<'a> PropagationPolicy<'a> {
    /// The clusters of a row to which it suspends dispatching.
    pub(super) fn suspended_clusters(&self, row: &Placement) -> Vec<ClusterName> {
        let Some(suspension) = &self.spec.suspension else { return Vec::new() };
        let all = suspension.dispatching == Some(true);
        let named = suspension.dispatching_on_clusters.as_ref().map_or(&[][..], |c| &c.cluster_names);
        let names = row.clusters.iter().map(|p| &p.name);
        names.filter(|n| all || named.iter().any(|c| c.as_str() == n.as_ref())).cloned().collect()
    }

    pub(super) fn new(object: &'a Object, spec: PropagationSpec, behaviour: &KarmadaBehaviour) -> Self {
        Self {
            object,
            spec,
            held_api: behaviour.held_api,
            eligibility: OnceLock::new(),
            applied: OnceLock::new(),
            written: Mutex::default(),
            digest: OnceLock::new(),
            earlier: Mutex::default(),
        }
    }

    /// Whether it is applied to a template that it has claimed only when the template changes.
    pub(super) fn is_lazy(&self) -> bool {
        self.spec.activation_preference.as_deref() == Some("Lazy")
    }

    /// The digest of its spec.
    pub(super) fn spec_digest(&self) -> &str {
        let spec = self.object.body.get("spec");
        self.digest.get_or_init(|| scheduler_state::compute_digest(spec.unwrap_or(&Value::Null)))
    }

    /// The same policy with a placement that it had earlier; `None` if that cannot be read.
    fn with_placement(&self, placement: &Value, behaviour: &KarmadaBehaviour) -> Option<Arc<Self>> {
        let key = placement.to_string();
        if let Some(known) = self.earlier.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(Arc::clone(known));
        }
        let mut spec = self.spec.clone();
        (spec.placement, spec.added_tolerations) = defaults::placement_as_applied(placement, behaviour)?;
        let made = Arc::new(Self::new(self.object, spec, behaviour));
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(earlier.entry(key).or_insert(made)))
    }

    /// The eligibility of each cluster under its placement; computed once, when first needed.
    pub(super) fn cluster_eligibility(&self, clusters: &[Cluster]) -> &PolicyEligibility {
        self.eligibility.get_or_init(|| PolicyEligibility::new(&self.spec.placement, clusters, self.held_api))
    }

    /// Its placement as the plan remembers it, to find out whether it has changed: without the tolerations of
    /// admission, which the next release may not add.
    pub(super) fn recorded_placement(&self) -> &Arc<Value> {
        self.applied.get_or_init(|| {
            let mut placement = self.spec.placement.clone();
            let written = placement.cluster_tolerations.len().saturating_sub(self.spec.added_tolerations);
            placement.cluster_tolerations.truncate(written);
            Arc::new(serde_json::to_value(placement).unwrap_or_default())
        })
    }

    /// Writes the scheduler state of a row that it places. Most rows of a policy remember the same, and share it.
    pub(super) fn write_state(&self, state: KarmadaState) -> SchedulerState {
        let mut last = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, written)) if *known == state => written.clone(),
            _ => {
                let written = state.clone().into_scheduler_state();
                *last = Some((state, written.clone()));
                written
            }
        }
    }
}

/// A policy that matches a template, and how specifically.
#[derive(Clone, Copy)]
pub(super) struct PolicyMatch<'m, 'a> {
    pub(super) policy: &'m PropagationPolicy<'a>,
    pub(super) implicit_priority: ImplicitPriority,
}

/// The claim of a policy on a template.
#[derive(Clone, Copy)]
pub(super) enum Claim<'m, 'a> {
    /// The policy matches the template, which it is applied to.
    Applied(PolicyMatch<'m, 'a>),
    /// The labels of the template do not match any more. The policy keeps it, and is not applied to it.
    Outlived(&'m PropagationPolicy<'a>),
}

impl<'m, 'a> Claim<'m, 'a> {
    /// The policy that claims the template.
    pub(super) fn policy(self) -> &'m PropagationPolicy<'a> {
        match self {
            Self::Applied(found) => found.policy,
            Self::Outlived(policy) => policy,
        }
    }
}

/// The policy that a decision follows: as it stands in the repo, or with its earlier placement.
pub(super) enum PolicyVersion<'m, 'a> {
    Current(&'m PropagationPolicy<'a>),
    Earlier(Arc<PropagationPolicy<'a>>),
}

impl<'m, 'a> PolicyVersion<'m, 'a> {
    /// The policy with the placement that was applied last.
    pub(super) fn as_applied(
        policy: &'m PropagationPolicy<'a>,
        applied: Option<&Value>,
        behaviour: &KarmadaBehaviour,
    ) -> Self {
        let differs = applied.filter(|applied| *applied != &**policy.recorded_placement());
        let earlier = differs.and_then(|applied| policy.with_placement(applied, behaviour));
        earlier.map_or(Self::Current(policy), Self::Earlier)
    }
}

impl<'a> Deref for PolicyVersion<'_, 'a> {
    type Target = PropagationPolicy<'a>;

    fn deref(&self) -> &PropagationPolicy<'a> {
        match self {
            Self::Current(policy) => policy,
            Self::Earlier(policy) => policy,
        }
    }
}

/// Every valid propagation policy.
#[derive(Default)]
pub(super) struct PropagationPolicies<'a> {
    namespaced: BTreeMap<&'a str, Index<'a>>,
    cluster: Index<'a>,
}

/// Policies by their selectors, so that a template is compared with few of them, and by their names.
#[derive(Default)]
struct Index<'a> {
    policies: Vec<PropagationPolicy<'a>>,
    selectors: SelectorIndex,
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Index<'a> {
    fn add_policy(&mut self, policy: PropagationPolicy<'a>) {
        let at = self.policies.len();
        self.selectors.add_selectors(at, &policy.spec.resource_selectors, None);
        self.by_name.entry(&policy.object.id.name).or_insert(at);
        self.policies.push(policy);
    }

    /// The matching policies, the winner first.
    fn find_matches(&self, template: &Object) -> Vec<PolicyMatch<'_, 'a>> {
        let matches = self.selectors.find_matches(template).into_iter();
        let mut found: Vec<PolicyMatch<'_, 'a>> = matches
            .filter_map(|(at, implicit_priority)| {
                Some(PolicyMatch { policy: self.policies.get(at)?, implicit_priority })
            })
            .collect();
        found.sort_by(|a, b| {
            let priorities = (b.policy.spec.priority, b.implicit_priority);
            priorities
                .cmp(&(a.policy.spec.priority, a.implicit_priority))
                .then_with(|| a.policy.object.id.name.cmp(&b.policy.object.id.name))
        });
        found
    }
}

impl<'a> PropagationPolicies<'a> {
    /// Adds a policy, unless it is being deleted.
    pub(super) fn add_policy(&mut self, policy: PropagationPolicy<'a>) {
        if policy.object.is_deleting() {
            return;
        }
        match &policy.object.id.namespace {
            Some(namespace) => self.namespaced.entry(namespace).or_default().add_policy(policy),
            None => self.cluster.add_policy(policy),
        }
    }

    /// The policies of the scope that decides: those of the template's namespace if any matches, else
    /// the cluster-wide ones. The winner comes first.
    pub(super) fn find_matches(&self, template: &Object) -> Vec<PolicyMatch<'_, 'a>> {
        let namespaced = template.id.namespace.as_deref().and_then(|n| self.namespaced.get(n));
        let found = namespaced.map(|index| index.find_matches(template)).unwrap_or_default();
        if found.is_empty() { self.cluster.find_matches(template) } else { found }
    }

    /// All policies that match a template, of both scopes.
    pub(super) fn all_matches(&self, template: &Object) -> Vec<PolicyMatch<'_, 'a>> {
        let namespaced = template.id.namespace.as_deref().and_then(|n| self.namespaced.get(n));
        let found = namespaced.map(|index| index.find_matches(template)).unwrap_or_default();
        found.into_iter().chain(self.cluster.find_matches(template)).collect()
    }

    /// The claim on a template. `previous` is its row of the previous plan.
    pub(super) fn find_claim(
        &self,
        template: &Object,
        previous: Option<&Placement>,
    ) -> Option<Claim<'_, 'a>> {
        if reserved_reason(template).is_some() {
            return None;
        }
        let matches = self.find_matches(template);
        let claimant = previous.filter(|row| row.dialect == NAME).and_then(|row| row.policy.as_ref());
        let Some(claimant) = claimant.and_then(|id| self.by_id(id)) else {
            return matches.first().copied().map(Claim::Applied);
        };
        if let Some(found) = matches.iter().find(|found| std::ptr::eq(found.policy, claimant)) {
            return Some(Claim::Applied(*found));
        }
        if claimant.object.id.namespace.is_none()
            && let Some(found) =
                self.cluster.find_matches(template).iter().find(|found| std::ptr::eq(found.policy, claimant))
        {
            return Some(Claim::Applied(*found));
        }
        let digest = previous.and_then(|row| row.scheduler_state.get(POLICY_DIGEST)?.as_str());
        if digest == Some(claimant.spec_digest()) {
            return Some(Claim::Outlived(claimant));
        }
        matches.first().copied().map(Claim::Applied)
    }

    /// The policy of a reference.
    pub(super) fn by_id(&self, id: &ObjectRef) -> Option<&PropagationPolicy<'a>> {
        if !id.kind.ends_with("PropagationPolicy") {
            return None;
        }
        self.get(id.namespace.as_deref(), &id.name)
    }

    /// The policy with a namespace (`None` for a cluster-wide one) and name.
    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Option<&PropagationPolicy<'a>> {
        let index = match namespace {
            Some(namespace) => self.namespaced.get(namespace)?,
            None => &self.cluster,
        };
        index.by_name.get(name).and_then(|at| index.policies.get(*at))
    }

    /// All policies.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PropagationPolicy<'a>> {
        self.namespaced.values().chain([&self.cluster]).flat_map(|index| &index.policies)
    }
}

/// Why no policy can propagate the object; `None` when one can.
pub(super) fn reserved_reason(object: &Object) -> Option<&'static str> {
    const GROUPS: [&str; 8] = [
        "cluster.karmada.io",
        "policy.karmada.io",
        "work.karmada.io",
        "config.karmada.io",
        "networking.karmada.io",
        "autoscaling.karmada.io",
        "remedy.karmada.io",
        "apps.karmada.io",
    ];
    let id = &object.id;
    let namespace = id.namespace.as_deref().unwrap_or_default();
    if matches!(namespace, "karmada-system" | "karmada-cluster")
        || namespace.starts_with("karmada-es-")
        || namespace.starts_with("kube-")
    {
        return Some("its namespace is reserved for the control plane");
    }
    let event = id.api_version == "v1" && id.kind == "Event";
    if GROUPS.contains(&id.group())
        || id.group() == "events.k8s.io"
        || id.api_version == "coordination.k8s.io/v1"
        || event
    {
        return Some("its kind stays on the control plane");
    }
    let claimed = object.label("resourcetemplate.karmada.io/claimed-by").is_some_and(|by| !by.is_empty());
    claimed.then_some("the label `resourcetemplate.karmada.io/claimed-by` keeps it out")
}

/// Whether a Namespace goes to every cluster without any policy.
pub(super) fn propagates_everywhere(namespace: &Object) -> bool {
    let id = &namespace.id;
    let name = id.name.as_str();
    let kept_out = matches!(name, "default" | "karmada-system" | "karmada-cluster")
        || name.starts_with("karmada-es-")
        || name.starts_with("kube-");
    let skipped = namespace
        .label("namespace.karmada.io/skip-auto-propagation")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    id.api_version == "v1" && id.kind == "Namespace" && !kept_out && !skipped
}
