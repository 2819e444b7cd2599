//! Names of properties, and requirements on one property that contradict each other.
//!
//! Facts: validation splits the name of a resource property at its first `-`, unlike the lookup, and the whole name
//! must be a qualified name, so that a resource such as `nvidia.com/gpu` cannot be named. Values count as continuous.

use super::super::properties::{CapacityType, RESOURCES};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::invalid_key;

/// Why `name` is not the name of a property, if it is not.
pub(super) fn invalid_name(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix(RESOURCES) {
        let resource = rest.split_once('-').filter(|(usage, _)| CapacityType::parse(usage).is_some());
        return match resource {
            Some((_, resource)) => invalid_key(name).map(|_| {
                format!("`{name}` is not a qualified name: `{resource}` must be a name without a prefix")
            }),
            None => Some(format!("`{name}` does not start with `total-`, `allocatable-` or `available-`")),
        };
    }
    let mut segments = name.split('/');
    let valid = invalid_key(name).is_none()
        || (segments.next().is_some_and(is_domain_or_name) && segments.all(|s| invalid_key(s).is_none()));
    (!valid).then(|| format!("`{name}` is not the name of a property: it must be names separated by `/`"))
}

/// A DNS subdomain is a qualified name, except for its length.
fn is_domain_or_name(segment: &str) -> bool {
    invalid_key(segment).is_none() || invalid_key(&format!("{segment}/x")).is_none()
}

/// The range of values that the requirements on one property allow.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    equal: Option<Quantity>,
    unequal: Vec<Quantity>,
    /// The greatest lower bound, and whether it is exclusive.
    lower: Option<(Quantity, bool)>,
    /// The least upper bound, and whether it is exclusive.
    upper: Option<(Quantity, bool)>,
}

impl Bounds {
    /// Adds a requirement, and returns whether the range is not empty.
    pub(super) fn add_requirement(&mut self, operator: &str, value: Quantity) -> bool {
        match operator {
            "Eq" if self.equal.is_some_and(|equal| equal != value) => return false,
            "Eq" => self.equal = Some(value),
            "Ne" => self.unequal.push(value),
            "Gt" | "Ge" => self.lower = self.lower.max(Some((value, operator == "Gt"))),
            // Of two equal bounds the exclusive one is less.
            _ => {
                let new = (value, operator == "Lt");
                self.upper =
                    self.upper.into_iter().chain([new]).min_by_key(|(value, strict)| (*value, !strict));
            }
        }
        self.is_possible()
    }

    /// Whether a value is between the bounds.
    fn is_in_bounds(&self, v: Quantity) -> bool {
        self.lower.is_none_or(|(lower, strict)| v > lower || (v == lower && !strict))
            && self.upper.is_none_or(|(upper, strict)| v < upper || (v == upper && !strict))
    }

    fn is_possible(&self) -> bool {
        let interval = match (self.lower, self.upper) {
            (Some((lower, open)), Some((upper, closed))) => {
                lower < upper || (lower == upper && !open && !closed)
            }
            _ => true,
        };
        let equal = self.equal.is_none_or(|v| self.is_in_bounds(v) && !self.unequal.contains(&v));
        interval && equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn possible(requirements: &[(&str, &str)]) -> bool {
        let mut bounds = Bounds::default();
        requirements
            .iter()
            .all(|(operator, value)| bounds.add_requirement(operator, Quantity::parse(value).unwrap()))
    }

    #[test]
    fn contradictions_are_found_in_any_order() {
        assert!(possible(&[("Gt", "1"), ("Lt", "2")]), "values are continuous");
        assert!(possible(&[("Le", "5"), ("Ge", "5")]) && possible(&[("Eq", "5"), ("Le", "5")]));
        assert!(
            possible(&[("Lt", "5"), ("Le", "5"), ("Ne", "3")]) && possible(&[("Eq", "1"), ("Eq", "1000m")])
        );
        for bad in [
            [("Eq", "1"), ("Eq", "2")],
            [("Eq", "1"), ("Ne", "1000m")],
            [("Gt", "5"), ("Eq", "1")],
            [("Lt", "5"), ("Ge", "5")],
            [("Le", "4"), ("Ge", "5")],
            [("Eq", "5"), ("Lt", "5")],
        ] {
            let [first, second] = bad;
            assert!(!possible(&bad) && !possible(&[second, first]), "{bad:?}");
        }
        assert!(!possible(&[("Le", "5"), ("Lt", "5"), ("Ge", "5")]));
        assert!(!possible(&[("Ge", "5"), ("Gt", "5"), ("Le", "5")]));
    }

    #[test]
    fn names_are_qualified_or_paths() {
        for good in [
            "kubernetes-fleet.io/node-count",
            "resources.kubernetes-fleet.io/total-cpu",
            "resources.kubernetes-fleet.io/available-hugepages-2Mi",
            "kubernetes.azure.com/vm-sizes/Standard_D8s/count",
            "a",
        ] {
            assert_eq!(invalid_name(good), None, "{good}");
        }
        for bad in [
            "",
            "/",
            "a//b",
            "resources.kubernetes-fleet.io/total",
            "resources.kubernetes-fleet.io/used-cpu",
            "resources.kubernetes-fleet.io/allocatable-nvidia.com/gpu",
        ] {
            assert!(invalid_name(bad).is_some(), "{bad}");
        }
    }
}
