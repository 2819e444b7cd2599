//! The repo's propagation policies and scheduling profiles, read once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::api::PolicySpec;
use super::cluster_preferences::ClusterPreferences;
use super::profile::Plugins;
use super::{hash, keys};
use federate_kubernetes::{Cluster, Finding, Object, ObjectRef, schema};

const API_VERSION: &str = "core.kubeadmiral.io/v1alpha1";

/// A propagation policy.
#[derive(Debug)]
pub(super) struct KubeAdmiralPolicy<'a> {
    pub(super) object: &'a Object,
    pub(super) spec: PolicySpec,
    /// Its placement list over the inventory.
    pub(super) cluster_preferences: ClusterPreferences,
    /// A digest of its content.
    content: String,
    /// A digest of its content with the API server's defaults.
    stored_content: String,
}

impl<'a> KubeAdmiralPolicy<'a> {
    /// Reads a policy that passed validation.
    pub(super) fn new(object: &'a Object, clusters: &[Cluster]) -> Result<Self, Finding> {
        let spec: PolicySpec = schema::read_field(object, "spec", "invalid-policy")?;
        let raw = object.value_at(&["spec"]).unwrap_or(&Value::Null);
        let (content, stored_content) = (hash::hash_policy(raw), hash::hash_stored_policy(raw));
        Ok(Self {
            object,
            cluster_preferences: ClusterPreferences::new(&spec.placement, clusters),
            spec,
            content,
            stored_content,
        })
    }

    /// Treats the policy as one from a hub. The API server has filled in defaults, so that absent fields are
    /// absent for the scheduler.
    pub(super) fn use_stored_digest(&mut self) {
        let rescheduling = self.object.value_at(&["spec", "reschedulePolicy", "replicaRescheduling"]);
        if rescheduling.is_none_or(Value::is_null) {
            self.spec.reschedule_policy.replica_rescheduling.avoid_disruption.0 = false;
        }
        std::mem::swap(&mut self.content, &mut self.stored_content);
    }

    /// The digest of its content with the API server's defaults. It is the one without them if that is the
    /// `remembered` one, as in plans of earlier versions.
    pub(super) fn content_digest(&self, remembered: Option<&str>) -> &str {
        if remembered == Some(self.content.as_str()) { &self.content } else { &self.stored_content }
    }
}

/// The policy that a template names. A namespaced one takes precedence over a cluster-scoped one, even if it
/// does not exist.
pub(super) fn named_policy(template: &Object) -> Option<ObjectRef> {
    let own = template.id.namespace.as_deref().zip(template.label(keys::POLICY));
    match own {
        Some((namespace, name)) => Some(policy_reference("PropagationPolicy", Some(namespace), name)),
        None => {
            Some(policy_reference("ClusterPropagationPolicy", None, template.label(keys::CLUSTER_POLICY)?))
        }
    }
}

/// The id of a policy.
pub(super) fn policy_reference(kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

/// Policies by id, and profiles by name.
#[derive(Debug, Default)]
pub(super) struct KubeAdmiralPolicies<'a> {
    pub(super) policies: BTreeMap<ObjectRef, KubeAdmiralPolicy<'a>>,
    pub(super) profiles: BTreeMap<&'a str, Result<Plugins, String>>,
    pub(super) default: Plugins,
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UnusablePolicy {
    /// Its profile does not exist.
    NoProfile(String),
    /// The profile cannot be built.
    BadProfile(String),
}

impl<'a> KubeAdmiralPolicies<'a> {
    /// The plugins of a policy.
    pub(super) fn select_plugins(&self, policy: &KubeAdmiralPolicy<'_>) -> Result<&Plugins, UnusablePolicy> {
        let name = policy.spec.scheduling_profile.as_str();
        if name.is_empty() {
            return Ok(&self.default);
        }
        match self.profiles.get(name) {
            None => Err(UnusablePolicy::NoProfile(name.to_owned())),
            Some(Ok(plugins)) => Ok(plugins),
            Some(Err(why)) => Err(UnusablePolicy::BadProfile(why.clone())),
        }
    }

    /// The policy with that id.
    pub(super) fn get(&self, id: &ObjectRef) -> Option<&KubeAdmiralPolicy<'a>> {
        self.policies.get(id)
    }
}
