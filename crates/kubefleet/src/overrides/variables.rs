//! Variables in the values of JSON patches: the cluster's name and labels.
//!
//! Facts: variables are replaced in the JSON text of the value, keys included: first the name, then labels from
//! left to right. A label that the cluster does not have, or a variable without an end, is an error.

use serde_json::Value;

use federate_kubernetes::Labels;

const NAME: &str = "${MEMBER-CLUSTER-NAME}";
const LABEL: &str = "${MEMBER-CLUSTER-LABEL-KEY-";

/// Why a variable has no value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum UnresolvedVariable {
    /// The cluster lacks the label.
    #[error("the cluster has no label `{0}`")]
    LabelKeyNotFound(String),
    /// There is no `}` after it.
    #[error("a variable `{LABEL}…` has no closing brace")]
    MalformedVariable,
    /// The result is not JSON.
    #[error("with its variables replaced, the value is not valid JSON")]
    NotJson,
}

/// The texts in a value that look like variables but are not variables.
pub(crate) fn unknown_variables(value: &Value) -> Vec<String> {
    let text = value.to_string();
    let starts = text.match_indices("${").filter_map(|(at, _)| text.get(at..));
    let ends = starts.filter_map(|rest| rest.get(..=rest.find('}')?));
    let unknown = ends.filter(|variable| {
        let is_known = *variable == NAME || variable.starts_with(LABEL);
        !is_known && variable.to_ascii_uppercase().replace('_', "-").starts_with("${MEMBER-CLUSTER")
    });
    unknown.map(str::to_owned).collect()
}

/// The keys of the labels that the variables in a value name.
pub(crate) fn label_keys(value: &Value) -> Vec<String> {
    let text = value.to_string();
    let keys = text.split(LABEL).skip(1).filter_map(|rest| rest.split_once('}'));
    keys.map(|(key, _)| key.to_owned()).collect()
}

/// The value for one cluster.
pub(super) fn resolve_variables(
    value: &Value,
    cluster: &str,
    labels: &Labels,
) -> Result<Value, UnresolvedVariable> {
    let text = value.to_string();
    if !text.contains("${MEMBER-CLUSTER-") {
        return Ok(value.clone());
    }
    let text = text.replace(NAME, cluster);
    let (mut done, mut left) = (String::with_capacity(text.len()), text.as_str());
    while let Some((before, rest)) = left.split_once(LABEL) {
        let (key, after) = rest.split_once('}').ok_or(UnresolvedVariable::MalformedVariable)?;
        let label = labels.get(key).ok_or_else(|| UnresolvedVariable::LabelKeyNotFound(key.to_owned()))?;
        done.push_str(before);
        done.push_str(label);
        left = after;
    }
    let text = done + left;
    serde_json::from_str(&text).map_err(|_| UnresolvedVariable::NotJson)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resolved(value: &Value) -> Result<Value, UnresolvedVariable> {
        let labels = [("example.com/zone".to_owned(), "z1".to_owned()), ("n".to_owned(), "3".to_owned())];
        resolve_variables(value, "m1", &labels.into())
    }

    #[test]
    fn what_only_looks_like_a_variable_is_found() {
        let value = json!(
            "${MEMBER-CLUSTER-NAM} ${OTHER} ${MEMBER-CLUSTER-NAME} ${member_cluster_name} ${MEMBER-CLUSTER-LABEL-KEY-a}"
        );
        assert_eq!(unknown_variables(&value), ["${MEMBER-CLUSTER-NAM}", "${member_cluster_name}"]);
        assert_eq!(label_keys(&value), ["a"]);
    }

    #[test]
    fn names_and_labels_become_text() {
        let value = json!({"${MEMBER-CLUSTER-NAME}": ["${MEMBER-CLUSTER-LABEL-KEY-n}", 1]});
        assert_eq!(resolved(&value), Ok(json!({"m1": ["3", 1]})));
        let value = json!("a-${MEMBER-CLUSTER-LABEL-KEY-example.com/zone}-${MEMBER-CLUSTER-LABEL-KEY-n}");
        assert_eq!(resolved(&value), Ok(json!("a-z1-3")));
        assert_eq!(
            resolved(&json!("${OTHER} ${MEMBER-CLUSTER-X}")),
            Ok(json!("${OTHER} ${MEMBER-CLUSTER-X}"))
        );
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        let value = json!("${MEMBER-CLUSTER-LABEL-KEY-x}");
        assert_eq!(resolved(&value), Err(UnresolvedVariable::LabelKeyNotFound("x".into())));
        let value = json!("${MEMBER-CLUSTER-LABEL-KEY-x");
        assert_eq!(resolved(&value), Err(UnresolvedVariable::MalformedVariable));
        // The next brace ends the variable, even one of the JSON text.
        let value = json!({"a": "${MEMBER-CLUSTER-LABEL-KEY-x"});
        assert_eq!(resolved(&value), Err(UnresolvedVariable::LabelKeyNotFound("x\"".into())));
    }
}
