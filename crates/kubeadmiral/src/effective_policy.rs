//! The effective policy of one template: the values of its policy, each replaced by an annotation of the
//! template, if there is one.
//!
//! Facts: an annotation replaces the whole value of the policy. Annotations that cannot be read are ignored. So
//! is `Divide` for a kind without replicas.

use std::borrow::Cow;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::api::{DesiredPlacement, PolicyAffinityTerm, PolicySpec, Toleration};
use super::cluster_preferences::{ClusterPreferences, UsablePreferences};
use super::keys;
use federate_kubernetes::selector::null_default;
use federate_kubernetes::{Cluster, Labels, Object};

/// The effective policy of one template.
#[derive(Clone, Debug)]
pub(super) struct EffectivePolicy<'p> {
    /// Whether replicas are divided among the clusters, or the object is duplicated.
    pub(super) divide: bool,
    /// Whether clusters are filled one after the other.
    pub(super) binpack: bool,
    /// Whether a placement never changes.
    pub(super) sticky: bool,
    /// Whether replicas avoid moving.
    pub(super) avoid_disruption: bool,
    pub(super) selector: Cow<'p, Labels>,
    /// The affinity terms, one of which must match; `None` accepts every cluster.
    pub(super) required: Option<Cow<'p, [PolicyAffinityTerm]>>,
    /// Affinity terms that add to the score.
    pub(super) preferred: Vec<PreferredTerm>,
    pub(super) tolerations: Cow<'p, [Toleration]>,
    pub(super) max_clusters: Option<i64>,
    /// The placement lists of the policy and of the template.
    listed: &'p ClusterPreferences,
    own: Option<(UsablePreferences, ClusterPreferences)>,
}

/// An affinity term with a weight.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PreferredTerm {
    #[serde(deserialize_with = "null_default")]
    pub(super) weight: i32,
    #[serde(deserialize_with = "null_default")]
    pub(super) preference: PolicyAffinityTerm,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    #[serde(deserialize_with = "null_default")]
    cluster_affinity: ClusterAffinity,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ClusterAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Required>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "null_default")]
    preferred: Vec<PreferredTerm>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Required {
    #[serde(deserialize_with = "null_default")]
    cluster_selector_terms: Vec<PolicyAffinityTerm>,
}

impl<'p> EffectivePolicy<'p> {
    /// Computes the effective policy of a template. `listed` is the policy's placement list. `divisible` tells
    /// whether the template's kind has replicas.
    pub(super) fn new(
        template: &Object,
        policy: &'p PolicySpec,
        listed: &'p ClusterPreferences,
        clusters: &[Cluster],
        divisible: bool,
    ) -> Self {
        let rescheduling = &policy.reschedule_policy;
        let (required, preferred) = read_affinity(template, policy);
        let own: Option<Vec<DesiredPlacement>> = read_list(template, keys::PLACEMENTS);
        let own = own
            .map(|list| (UsablePreferences::from_placement(&list), ClusterPreferences::new(&list, clusters)));
        Self {
            divide: divisible && read_divides(template).unwrap_or_else(|| policy.divides_replicas()),
            binpack: policy.replicas_strategy == "Binpack",
            sticky: read_flag(template, keys::STICKY_CLUSTER).unwrap_or(rescheduling.disable_rescheduling),
            avoid_disruption: rescheduling.replica_rescheduling.avoid_disruption.0,
            selector: match read_json::<Option<Labels>>(template, keys::CLUSTER_SELECTOR) {
                Some(own) => Cow::Owned(own.unwrap_or_default()),
                None => Cow::Borrowed(&policy.cluster_selector),
            },
            required,
            preferred,
            tolerations: match read_list(template, keys::TOLERATIONS) {
                Some(own) => Cow::Owned(own),
                None => Cow::Borrowed(&policy.tolerations),
            },
            max_clusters: read_count(template, keys::MAX_CLUSTERS).or(policy.max_clusters),
            listed,
            own,
        }
    }

    /// The placement list that names clusters.
    pub(super) fn named_clusters(&self) -> &ClusterPreferences {
        self.select_preferences(|_| true)
    }

    /// The placement list that sets minimums.
    pub(super) fn min_replicas(&self) -> &ClusterPreferences {
        self.select_preferences(|usable| usable.min)
    }

    /// The placement list that sets maximums.
    pub(super) fn max_replicas(&self) -> &ClusterPreferences {
        self.select_preferences(|usable| usable.max)
    }

    /// The placement list that sets weights.
    pub(super) fn cluster_weights(&self) -> &ClusterPreferences {
        self.select_preferences(|usable| usable.weight)
    }

    /// The placement list that sets priorities.
    pub(super) fn cluster_priorities(&self) -> &ClusterPreferences {
        self.select_preferences(|usable| usable.priority)
    }

    fn select_preferences(&self, usable: fn(&UsablePreferences) -> bool) -> &ClusterPreferences {
        match &self.own {
            Some((how, own)) if usable(how) => own,
            _ => self.listed,
        }
    }
}

fn read_affinity<'p>(
    template: &Object,
    policy: &'p PolicySpec,
) -> (Option<Cow<'p, [PolicyAffinityTerm]>>, Vec<PreferredTerm>) {
    match read_json::<Option<Affinity>>(template, keys::AFFINITY) {
        Some(own) => {
            let own = own.unwrap_or_default().cluster_affinity;
            (own.required.map(|r| Cow::Owned(r.cluster_selector_terms)), own.preferred)
        }
        None if policy.cluster_affinity.is_empty() => (None, Vec::new()),
        None => (Some(Cow::Borrowed(policy.cluster_affinity.as_slice())), Vec::new()),
    }
}

fn read_divides(template: &Object) -> Option<bool> {
    match template.annotation(keys::SCHEDULING_MODE)? {
        "Divide" => Some(true),
        "Duplicate" => Some(false),
        _ => None,
    }
}

fn read_flag(template: &Object, key: &str) -> Option<bool> {
    match template.annotation(key)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn read_count(template: &Object, key: &str) -> Option<i64> {
    i64::from_str(template.annotation(key)?).ok().filter(|n| *n >= 0)
}

/// An annotation of a template that takes the place of a field of its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldReplacement {
    /// The annotation.
    pub(super) annotation: &'static str,
    /// The field in the policy's `spec`.
    pub(super) field: &'static str,
}

/// The annotations that take the place of fields of the policy. Those that cannot be read do not.
pub(super) fn find_replacements(template: &Object) -> Vec<FieldReplacement> {
    const ALL: [(&str, &str); 7] = [
        (keys::SCHEDULING_MODE, "schedulingMode"),
        (keys::STICKY_CLUSTER, "reschedulePolicy.disableRescheduling"),
        (keys::CLUSTER_SELECTOR, "clusterSelector"),
        (keys::AFFINITY, "clusterAffinity"),
        (keys::TOLERATIONS, "tolerations"),
        (keys::MAX_CLUSTERS, "maxClusters"),
        (keys::PLACEMENTS, "placement"),
    ];
    let unreadable = unreadable_annotations(template);
    ALL.into_iter()
        .filter(|(annotation, _)| template.annotation(annotation).is_some())
        .filter(|(annotation, _)| unreadable.iter().all(|(key, _)| key != annotation))
        .map(|(annotation, field)| FieldReplacement { annotation, field })
        .collect()
}

/// The annotations that cannot be read, with the reason.
pub(super) fn unreadable_annotations(template: &Object) -> Vec<(&'static str, String)> {
    let words = [
        (keys::SCHEDULING_MODE, read_divides(template).is_some(), "`Duplicate` or `Divide`"),
        (keys::STICKY_CLUSTER, read_flag(template, keys::STICKY_CLUSTER).is_some(), "`true` or `false`"),
        (keys::CONFLICTS, template.annotation(keys::CONFLICTS) == Some("adopt"), "`adopt`"),
        (keys::MAX_CLUSTERS, read_count(template, keys::MAX_CLUSTERS).is_some(), "an integer from 0"),
    ];
    let mut unreadable = Vec::new();
    for (key, is_read, expected) in words {
        if !is_read && let Some(text) = template.annotation(key) {
            unreadable.push((key, format!("`{text}` is not {expected}")));
        }
    }
    for key in [keys::CLUSTER_SELECTOR, keys::AFFINITY, keys::TOLERATIONS, keys::PLACEMENTS] {
        let Some(text) = template.annotation(key) else { continue };
        let error = match key {
            keys::CLUSTER_SELECTOR => serde_json::from_str::<Option<Labels>>(text).err(),
            keys::AFFINITY => serde_json::from_str::<Option<Affinity>>(text).err(),
            keys::TOLERATIONS => serde_json::from_str::<Option<Vec<Toleration>>>(text).err(),
            _ => serde_json::from_str::<Option<Vec<DesiredPlacement>>>(text).err(),
        };
        unreadable.extend(error.map(|error| (key, error.to_string())));
    }
    unreadable
}

fn read_json<T: DeserializeOwned>(template: &Object, key: &str) -> Option<T> {
    serde_json::from_str(template.annotation(key)?).ok()
}

fn read_list<T: DeserializeOwned>(template: &Object, key: &str) -> Option<Vec<T>> {
    read_json::<Option<Vec<T>>>(template, key).map(Option::unwrap_or_default)
}
