//! Label selectors of generators, of which a mistake is an error of the set.

use std::collections::BTreeMap;

use federate_kubernetes::selector::LabelSelector;
use serde_json::Value;

use crate::description::DescriptionError;

/// A selector without mistakes.
pub(super) struct RowSelector(LabelSelector);

impl RowSelector {
    /// Reads the selector after a generator, or of clusters if `of_labels`. Only the values of labels are limited to what a label can be.
    pub(super) fn read(value: &Value, of_labels: bool, at: &str) -> Result<Self, DescriptionError> {
        let selector: LabelSelector = serde_json::from_value(value.clone())
            .map_err(|error| DescriptionError::new(at, format!("invalid selector: {error}")))?;
        let mut checked = selector.clone();
        if !of_labels {
            checked.match_labels.values_mut().for_each(String::clear);
            let values = checked.match_expressions.iter_mut().flat_map(|requirement| &mut requirement.values);
            values.for_each(String::clear);
        }
        if let Some((pointer, why)) = checked.find_mistake() {
            return Err(DescriptionError::new(&format!("{at}{pointer}"), format!("invalid selector: {why}")));
        }
        Ok(Self(selector))
    }

    /// Whether it has no requirement.
    pub(super) fn is_empty(&self) -> bool {
        self.0.match_labels.is_empty() && self.0.match_expressions.is_empty()
    }

    /// Whether labels match.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.0.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }

    /// About how many bytes one comparison reads.
    pub(super) fn count_bytes(&self) -> usize {
        let labels: usize = self.0.match_labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        let values = self.0.match_expressions.iter().flat_map(|requirement| &requirement.values);
        labels + values.map(|value| 1 + value.len()).sum::<usize>() + self.0.match_expressions.len()
    }
}
