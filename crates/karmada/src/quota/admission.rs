//! Admission of bindings by the quotas of the control plane.
//!
//! Facts: only scheduled bindings count, and only when they change. Amounts are added up in whole units, in
//! thousandths for cpu; resources that schedulers do not count are ignored. A resource that is over its limit
//! already makes the quota refuse any change of another one.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::Object;
use federate_kubernetes::formatted_quantity::FormattedQuantity;
use federate_kubernetes::pods::is_counted_resource;
use federate_kubernetes::quantity::Quantity;

use super::usage::QuotaBindingSpec;
use super::{ResourceList, read_quantities, read_section};
use crate::capacity::format_of;

/// The result of writing a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaAdmission {
    /// It is written. The new usage of the quotas that change, by name.
    Allowed(BTreeMap<String, BTreeMap<String, String>>),
    /// It is refused.
    Exceeded {
        /// The quota.
        quota: String,
        /// The resource.
        resource: String,
        /// The usage with the binding.
        used: String,
        /// The limit.
        limit: String,
    },
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    overall_used: Option<ResourceList>,
}

/// Admits a binding in place of `old` by `quotas`, those of its namespace by name.
pub fn admit_binding(
    binding: &Object,
    old: Option<&Object>,
    quotas: &[&Object],
) -> Result<QuotaAdmission, serde_json::Error> {
    let allowed = QuotaAdmission::Allowed(BTreeMap::new());
    let new = QuotaBindingSpec::from_binding(binding)?;
    let old = old.map(QuotaBindingSpec::from_binding).transpose()?;
    if !is_checked(&new, old.as_ref()) {
        return Ok(allowed);
    }
    let mut delta = new.compute_usage();
    for (name, amount) in old.map(|old| old.compute_usage()).unwrap_or_default() {
        delta.entry(name).or_default().sub(amount);
    }
    delta.retain(|_, amount| !amount.amount.is_zero());
    let mut written = BTreeMap::new();
    for quota in quotas {
        let spec: super::Spec = read_section(quota, "spec")?;
        let status: Status = read_section(quota, "status")?;
        let Some(overall) = spec.overall else { continue };
        let delta: Vec<_> = delta.iter().filter(|(name, _)| overall.contains_key(*name)).collect();
        if delta.is_empty() {
            continue;
        }
        let limits = read_quantities(&overall);
        let change = QuotaChange::new(&read_quantities(&status.overall_used.unwrap_or_default()), &delta);
        if let Some((resource, used)) = change.exceeding(&limits).next() {
            return Ok(QuotaAdmission::Exceeded {
                quota: quota.id.name.clone(),
                resource: resource.clone(),
                used: used.to_string(),
                limit: limits.get(resource).map(ToString::to_string).unwrap_or_default(),
            });
        }
        written.insert(quota.id.name.clone(), super::format_quantities(&change.0));
    }
    Ok(QuotaAdmission::Allowed(written))
}

/// The usage of a quota with a change, as it is counted and printed.
pub(super) struct QuotaChange(BTreeMap<String, FormattedQuantity>);

impl QuotaChange {
    pub(super) fn new(
        used: &BTreeMap<String, FormattedQuantity>,
        delta: &[(&String, &FormattedQuantity)],
    ) -> Self {
        let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
        let changes = delta.iter().map(|(name, amount)| (*name, **amount));
        for (name, amount) in used.iter().map(|(name, amount)| (name, *amount)).chain(changes) {
            let rounded = match name.as_str() {
                "cpu" => Quantity::from_milli(amount.amount.milli_value()),
                _ => Quantity::from_int(amount.amount.value()),
            };
            let sum = sums.entry(name.clone()).or_default();
            *sum = *sum + rounded;
        }
        sums.retain(|name, sum| *sum > Quantity::default() && (name == "pods" || is_counted_resource(name)));
        let used = sums.into_iter().map(|(name, amount)| {
            let format = format_of(&name);
            (name, FormattedQuantity { amount, format })
        });
        Self(used.collect())
    }

    /// The resources of which more is used than a quota allows.
    pub(super) fn exceeding(
        &self,
        limits: &BTreeMap<String, FormattedQuantity>,
    ) -> impl Iterator<Item = (&String, &FormattedQuantity)> {
        self.0.iter().filter(|(name, used)| limits.get(*name).is_some_and(|limit| used.amount > limit.amount))
    }
}

/// Whether anything changes that quotas count.
fn is_checked(new: &QuotaBindingSpec, old: Option<&QuotaBindingSpec>) -> bool {
    let Some(old) = old else { return !new.clusters.is_empty() };
    requested_amounts(new) != requested_amounts(old)
        || new.total_replicas() != old.total_replicas()
        || new.components != old.components
        || (!new.components.is_empty() && cluster_names(new) != cluster_names(old))
}

fn requested_amounts(spec: &QuotaBindingSpec) -> BTreeMap<String, Quantity> {
    spec.replica_request().into_iter().map(|(name, request)| (name, request.amount)).collect()
}

fn cluster_names(spec: &QuotaBindingSpec) -> BTreeSet<&str> {
    spec.clusters.iter().map(|cluster| cluster.name.as_str()).collect()
}
