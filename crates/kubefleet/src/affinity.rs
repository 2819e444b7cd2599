//! Cluster selector terms: label selector and property requirements, both of which must hold.
//!
//! Facts: the label selector comes first, so that an invalid property of a cluster with other labels is not an
//! error. A term does not match a cluster without the property, whatever the operator.

use super::api;
use super::failure::SchedulingError;
use super::properties::{PropertyName, compare_quantities};
use federate_kubernetes::quantity::Quantity;
use federate_kubernetes::selector::LabelSelector;
use federate_kubernetes::{Cluster, Labels, work};

/// A label selector, checked once.
pub(super) struct LabelTerm<'p> {
    selector: &'p LabelSelector,
    invalid: Option<String>,
}

impl<'p> LabelTerm<'p> {
    pub(super) fn new(selector: &'p LabelSelector) -> Self {
        Self { selector, invalid: selector.find_mistake().map(|(_, why)| why) }
    }

    pub(super) fn matches_labels(&self, labels: &Labels) -> Result<bool, SchedulingError> {
        if let Some(why) = &self.invalid {
            let message = format!("a label selector is invalid: {why}");
            return Err(SchedulingError { reason: "InvalidLabelSelector", message });
        }
        work::charge_items(self.selector.match_labels.len());
        if work::is_exceeded() {
            return Ok(false);
        }
        Ok(self.selector.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.selector.match_expressions.iter().all(|r| r.matches(labels)))
    }
}

/// A term of required affinity.
pub(super) struct RequiredTerm<'p> {
    labels: Option<LabelTerm<'p>>,
    properties: Vec<Requirement<'p>>,
}

struct Requirement<'p> {
    property: PropertyName,
    written: &'p api::PropertyRequirement,
    /// The one value, if there is one and it is a quantity.
    expected: Option<Quantity>,
}

impl<'p> RequiredTerm<'p> {
    pub(super) fn new(term: &'p api::ClusterSelectorTerm) -> Self {
        let requirements = term.property_selector.as_ref().map_or(&[][..], |s| &s.match_expressions);
        Self {
            labels: term.label_selector.as_ref().map(LabelTerm::new),
            properties: requirements.iter().map(Requirement::new).collect(),
        }
    }

    pub(super) fn matches_cluster(&self, cluster: &Cluster) -> Result<bool, SchedulingError> {
        if let Some(labels) = &self.labels
            && !labels.matches_labels(&cluster.labels)?
        {
            return Ok(false);
        }
        for requirement in &self.properties {
            if !requirement.is_met_by(cluster)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<'p> Requirement<'p> {
    fn new(written: &'p api::PropertyRequirement) -> Self {
        let expected = match written.values.as_slice() {
            [value] => Quantity::parse(value),
            _ => None,
        };
        Self { property: PropertyName::parse(&written.name), written, expected }
    }

    fn is_met_by(&self, cluster: &Cluster) -> Result<bool, SchedulingError> {
        let Some(observed) = self.property.read_amount(cluster)? else { return Ok(false) };
        let api::PropertyRequirement { name, operator, values } = self.written;
        let expected = self.expected.ok_or_else(|| {
            SchedulingError::invalid_property(format!(
                "the requirement on `{name}` must have one quantity, not {values:?}"
            ))
        })?;
        compare_quantities(observed.exact, operator, expected).ok_or_else(|| SchedulingError {
            reason: "InvalidPropertyOperator",
            message: format!("the requirement on `{name}` has the unknown operator `{operator}`"),
        })
    }
}
