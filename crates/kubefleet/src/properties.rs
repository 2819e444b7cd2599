//! Cluster properties: how they are named, looked up and compared.
//!
//! Facts: names below `resources.kubernetes-fleet.io/` are resource usage, as
//! `<total|allocatable|available>-<resource>` with exactly one `-`. All other names are reports of a property
//! provider. Comparison is exact. Scores are computed in floating point, from digits times a power of ten.

use std::cmp::Ordering;

use super::api::PlacementPolicy;
use super::capacity::NODE_COUNT;
use super::failure::SchedulingError;
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::{Cluster, ClusterName};

/// The prefix of resource properties.
pub(super) const RESOURCES: &str = "resources.kubernetes-fleet.io/";

/// A property that can be looked up.
#[derive(Clone, Debug)]
pub(super) enum PropertyName {
    Reported(String),
    Resource(CapacityType, String),
    /// Not a name of a resource property.
    Malformed(String),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CapacityType {
    Total,
    Allocatable,
    Available,
}

/// An observed amount: exactly, and in floating point for scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct PropertyAmount {
    pub(super) exact: Quantity,
    pub(super) approximate: f64,
}

/// The clusters with nodes of which a policy reads a property that is not known. A cluster that has not joined cannot be
/// picked.
pub(super) fn clusters_lacking_properties(
    policy: &PlacementPolicy,
    clusters: &[Cluster],
) -> Vec<ClusterName> {
    let required = policy.required_terms().iter().filter_map(|term| term.property_selector.as_ref());
    let required = required.flat_map(|selector| &selector.match_expressions).map(|one| &one.name);
    let sorters =
        policy.preferred_selectors().iter().filter_map(|one| one.preference.property_sorter.as_ref());
    let names: Vec<PropertyName> =
        required.chain(sorters.map(|sorter| &sorter.name)).map(|name| PropertyName::parse(name)).collect();
    let unknown =
        clusters.iter().filter(|c| c.joined && names.iter().any(|property| property.is_missing_in(c)));
    unknown.map(|cluster| cluster.name.clone()).collect()
}

impl CapacityType {
    /// Parses a usage.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "total" => Self::Total,
            "allocatable" => Self::Allocatable,
            "available" => Self::Available,
            _ => return None,
        })
    }
}

impl PropertyName {
    /// Whether a cluster with nodes should have the property and does not.
    fn is_missing_in(&self, cluster: &Cluster) -> bool {
        match self {
            Self::Resource(..) => cluster.capacity.is_none(),
            Self::Reported(name) => name == NODE_COUNT && !cluster.properties.contains_key(name),
            Self::Malformed(_) => false,
        }
    }

    pub(super) fn parse(name: &str) -> Self {
        let Some(rest) = name.strip_prefix(RESOURCES) else { return Self::Reported(name.to_owned()) };
        let parts =
            rest.split_once('-').filter(|(_, resource)| !resource.is_empty() && !resource.contains('-'));
        match parts.and_then(|(usage, resource)| Some((CapacityType::parse(usage)?, resource))) {
            Some((usage, resource)) => Self::Resource(usage, resource.to_owned()),
            None => Self::Malformed(name.to_owned()),
        }
    }

    /// The value of a cluster; `None` where the cluster does not have the property.
    pub(super) fn read_amount(&self, cluster: &Cluster) -> Result<Option<PropertyAmount>, SchedulingError> {
        match self {
            Self::Reported(name) => {
                let Some(text) = cluster.properties.get(name) else { return Ok(None) };
                let amount = PropertyAmount::parse(text).ok_or_else(|| {
                    SchedulingError::invalid_property(format!(
                        "`{text}`, the property `{name}` of cluster `{}`, is not a quantity",
                        cluster.name
                    ))
                })?;
                Ok(Some(amount))
            }
            Self::Resource(usage, resource) => {
                let Some(capacity) = &cluster.capacity else { return Ok(None) };
                let amounts = match usage {
                    CapacityType::Total => &capacity.total,
                    CapacityType::Allocatable => &capacity.allocatable,
                    CapacityType::Available => &capacity.available,
                };
                Ok(amounts
                    .get(resource)
                    .map(|exact| PropertyAmount { exact: *exact, approximate: exact.as_approximate_f64() }))
            }
            Self::Malformed(name) => {
                let message = format!("`{name}` is not of the form `{RESOURCES}<usage>-<resource>`");
                Err(SchedulingError { reason: "InvalidPropertyName", message })
            }
        }
    }
}

impl PropertyAmount {
    fn parse(text: &str) -> Option<Self> {
        let exact = Quantity::parse(text)?;
        Some(Self { exact, approximate: parse_scaled(text).unwrap_or_else(|| exact.as_approximate_f64()) })
    }
}

/// A decimal number without fraction in the suffix: its digits times a power of ten, which is not
/// always the closest floating point number.
fn parse_scaled(text: &str) -> Option<f64> {
    let (number, exponent) = match text.as_bytes().last()? {
        b'm' => (&text[..text.len() - 1], -3),
        b'u' => (&text[..text.len() - 1], -6),
        b'n' => (&text[..text.len() - 1], -9),
        _ => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i64 = format!("{whole}{fraction}").parse().ok()?;
    let exponent = exponent - i32::try_from(fraction.len()).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "as the arithmetic of the scores has it")]
    let base = digits as f64;
    (exponent >= -9)
        .then(|| if exponent == 0 { base } else { base * TENTHS[exponent.unsigned_abs() as usize % 10] })
}

/// Negative powers of ten, each the floating point number closest to it.
const TENTHS: [f64; 10] = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9];

/// Whether `observed OPERATOR expected` holds; `None` for an unknown operator.
pub(super) fn compare_quantities(observed: Quantity, operator: &str, expected: Quantity) -> Option<bool> {
    let order = observed.cmp(&expected);
    Some(match operator {
        "Gt" => order == Ordering::Greater,
        "Ge" => order != Ordering::Less,
        "Lt" => order == Ordering::Less,
        "Le" => order != Ordering::Greater,
        "Eq" => order == Ordering::Equal,
        "Ne" => order != Ordering::Equal,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_names_have_exactly_two_parts() {
        let resource = |name: &str| {
            matches!(PropertyName::parse(&format!("{RESOURCES}{name}")), PropertyName::Resource(..))
        };
        assert!(resource("total-cpu") && resource("total-nvidia.com/gpu"));
        for bad in ["total", "total-", "-cpu", "used-cpu", "available-hugepages-2Mi"] {
            assert!(!resource(bad), "{bad}");
        }
        assert!(matches!(PropertyName::parse("kubernetes-fleet.io/node-count"), PropertyName::Reported(_)));
    }

    #[test]
    fn comparison_is_of_amounts_not_of_texts() {
        let of = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(compare_quantities(of("1"), "Eq", of("1000m")), Some(true));
        assert_eq!(compare_quantities(of("1"), "Ne", of("1000m")), Some(false));
        assert_eq!(compare_quantities(of("2"), "Ge", of("2")), Some(true));
        assert_eq!(compare_quantities(of("2"), "Foo", of("2")), None);
    }

    #[test]
    fn scores_see_digits_times_a_power_of_ten() {
        assert_eq!(parse_scaled("7.6"), Some(76.0 * 0.1));
        assert_eq!(parse_scaled("45m"), Some(45.0 * 0.001));
        assert_eq!((parse_scaled("16Gi"), parse_scaled("1e3")), (None, None));
    }
}
