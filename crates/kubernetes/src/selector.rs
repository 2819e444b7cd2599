//! Label selectors: `matchLabels` and `matchExpressions`, as Kubernetes evaluates them.

use serde::{Deserialize, Serialize};

use super::names::{is_dns_label, is_name_part};
use super::object::Labels;
use super::work;

mod parser;

crate::crd! {
    /// A `metav1.LabelSelector`. The empty selector matches everything.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LabelSelector {
        /// Every pair must be there.
        #[serde(skip_serializing_if = "Labels::is_empty")]
        pub match_labels: Labels = optional("matchLabels"),
        /// Every requirement must hold.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub match_expressions: Vec<SelectorRequirement> = optional("matchExpressions"),
    }
}

crate::crd! {
    /// One requirement on one key.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SelectorRequirement {
        /// The key of the label or field.
        pub key: String = required("key"),
        /// `In`, `NotIn`, `Exists`, `DoesNotExist` (node and cluster terms also know `Gt`, `Lt`).
        pub operator: String = required("operator"),
        /// The values of `In` and `NotIn`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub values: Vec<String> = optional("values"),
    }
}

/// Deserializes `null` as the type's empty value, as Go does for lists and maps.
pub fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl LabelSelector {
    /// Whether the labels match. An invalid selector matches nothing.
    pub fn matches(&self, labels: &Labels) -> bool {
        // Every value is validated, too.
        let values: usize = self.match_expressions.iter().map(|r| r.values.len()).sum();
        work::charge_steps(1 + (self.match_labels.len() + 2 * values) as u64);
        if work::is_exceeded() {
            return false;
        }
        // The search of a mistake takes longer than the others, and few selectors match.
        self.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.match_expressions.iter().all(|r| r.matches(labels))
            && self.find_mistake().is_none()
    }

    /// Why the selector is invalid: the place (a JSON pointer below the selector) and the reason.
    pub fn find_mistake(&self) -> Option<(String, String)> {
        for (key, value) in &self.match_labels {
            if let Some(why) = invalid_key(key).or_else(|| invalid_value(value)) {
                return Some((format!("/matchLabels/{}", crate::pointer::escape(key)), why));
            }
        }
        for (i, requirement) in self.match_expressions.iter().enumerate() {
            if let Some(why) = requirement.find_mistake() {
                return Some((format!("/matchExpressions/{i}"), why));
            }
        }
        None
    }
}

impl SelectorRequirement {
    /// Whether the labels meet the requirement; an unknown operator never matches.
    pub fn matches(&self, labels: &Labels) -> bool {
        work::charge_items(self.values.len());
        if work::is_exceeded() {
            return false;
        }
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.is_some_and(|v| self.values.contains(v)),
            "NotIn" => value.is_none_or(|v| !self.values.contains(v)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }

    /// Why the requirement is invalid, if it is.
    pub fn find_mistake(&self) -> Option<String> {
        invalid_key(&self.key).or_else(|| match (self.operator.as_str(), self.values.is_empty()) {
            ("In" | "NotIn", true) => Some(format!("`{}` needs at least one value", self.operator)),
            ("Exists" | "DoesNotExist", false) => Some(format!("`{}` takes no values", self.operator)),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {
                self.values.iter().find_map(|v| invalid_value(v))
            }
            (other, _) => Some(format!("`{other}` is not one of In, NotIn, Exists, DoesNotExist")),
        })
    }
}

/// Why `key` is not a valid label key (`[prefix/]name`).
pub fn invalid_key(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let prefix_ok = prefix.is_none_or(|p| !p.is_empty() && p.len() <= 253 && p.split('.').all(is_dns_label));
    if prefix_ok && !name.is_empty() && name.len() <= 63 && is_name_part(name) {
        return None;
    }
    Some(format!(
        "`{key}` is not a label key (optional DNS prefix and `/`, then up to 63 of A-Z a-z 0-9 - _ .)"
    ))
}

/// Why `value` is not a valid label value.
pub fn invalid_value(value: &str) -> Option<String> {
    let ok = value.is_empty() || (value.len() <= 63 && is_name_part(value));
    (!ok).then(|| {
        format!("`{value}` is not a label value (up to 63 of A-Z a-z 0-9 - _ ., alphanumeric at both ends)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn selector(json: serde_json::Value) -> LabelSelector {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn empty_matches_everything() {
        assert!(LabelSelector::default().matches(&labels(&[])));
    }

    #[test]
    fn not_in_matches_a_missing_key() {
        let s = selector(
            serde_json::json!({"matchExpressions":[{"key":"env","operator":"NotIn","values":["prod"]}]}),
        );
        assert!(s.matches(&labels(&[])) && !s.matches(&labels(&[("env", "prod")])));
    }

    #[test]
    fn invalid_selectors_match_nothing_and_say_why() {
        for (json, pointer) in [
            (serde_json::json!({"matchLabels":{"a b":"x"}}), "/matchLabels/a b"),
            (serde_json::json!({"matchExpressions":[{"key":"a","operator":"In"}]}), "/matchExpressions/0"),
            (
                serde_json::json!({"matchExpressions":[{"key":"a","operator":"Like","values":["x"]}]}),
                "/matchExpressions/0",
            ),
        ] {
            let s = selector(json);
            assert!(!s.matches(&labels(&[("a", "x")])));
            assert_eq!(s.find_mistake().map(|(p, _)| p).as_deref(), Some(pointer));
        }
    }
}
