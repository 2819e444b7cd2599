//! Which clusters affinity terms and tolerations accept.
//!
//! Facts: the label requirements of Kubernetes, with `Gt` and `Lt`, and its toleration rules. Terms are
//! evaluated in order: a matching term accepts the cluster, a malformed one refuses it.

use super::api::{PolicyAffinityTerm, Toleration};
use federate_kubernetes::selector::{SelectorRequirement, invalid_key, invalid_value};
use federate_kubernetes::{Labels, Taint, work};

/// Why a requirement cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MalformedRequirement(pub(super) String);

/// Affinity terms, checked once for all clusters.
#[derive(Clone, Debug)]
pub(super) struct CheckedTerms<'t>(Vec<Checked<'t>>);

#[derive(Clone, Debug)]
struct Checked<'t> {
    term: &'t PolicyAffinityTerm,
    labels: Option<MalformedRequirement>,
    fields: Option<MalformedRequirement>,
}

impl<'t> CheckedTerms<'t> {
    /// Checks the terms. Terms without requirements match nothing and are left out.
    pub(super) fn new(terms: &'t [PolicyAffinityTerm]) -> Self {
        let filled = terms.iter().filter(|t| !t.match_expressions.is_empty() || !t.match_fields.is_empty());
        Self(
            filled
                .map(|term| Checked {
                    term,
                    labels: term.match_expressions.iter().find_map(|r| check_requirement(r).err()),
                    fields: term.match_fields.iter().find_map(|r| check_field(r).err()),
                })
                .collect(),
        )
    }

    /// Whether any term accepts a cluster with this name and these labels. No terms accept no cluster.
    pub(super) fn accepts_cluster(&self, name: &str, labels: &Labels) -> Result<bool, MalformedRequirement> {
        for Checked { term, labels: malformed_labels, fields } in &self.0 {
            work::charge_items(term.match_fields.len());
            if work::is_exceeded() {
                return Ok(false);
            }
            if let Some(malformed) = malformed_labels {
                return Err(malformed.clone());
            }
            if !term.match_expressions.iter().all(|r| requirement_holds(r, labels)) {
                continue;
            }
            if let Some(malformed) = fields {
                return Err(malformed.clone());
            }
            if term.match_fields.iter().all(|r| field_holds(r, name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether all requirements hold. An empty list holds for no cluster.
pub(super) fn all_hold(requirements: &[SelectorRequirement], labels: &Labels) -> bool {
    !requirements.is_empty() && requirements.iter().all(|r| requirement_holds(r, labels))
}

/// Why a requirement is malformed, if it is.
pub(super) fn check_requirement(requirement: &SelectorRequirement) -> Result<(), MalformedRequirement> {
    let SelectorRequirement { key, operator, values } = requirement;
    let wrong = match operator.as_str() {
        "In" | "NotIn" => values.is_empty().then(|| format!("`{operator}` needs at least one value")),
        "Exists" | "DoesNotExist" => (!values.is_empty()).then(|| format!("`{operator}` takes no values")),
        "Gt" | "Lt" => match values.as_slice() {
            [one] if one.parse::<i64>().is_ok() => None,
            _ => Some(format!("`{operator}` needs exactly one value, an integer")),
        },
        other => Some(format!("`{other}` is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt")),
    };
    let wrong = invalid_key(key).or(wrong).or_else(|| values.iter().find_map(|value| invalid_value(value)));
    wrong.map_or(Ok(()), |why| Err(MalformedRequirement(why)))
}

fn requirement_holds(requirement: &SelectorRequirement, labels: &Labels) -> bool {
    let is_greater = requirement.operator == "Gt";
    if !is_greater && requirement.operator != "Lt" {
        return requirement.matches(labels);
    }
    let label = labels.get(&requirement.key).and_then(|l| l.parse::<i64>().ok());
    let bound = requirement.values.first().and_then(|v| v.parse::<i64>().ok());
    label.zip(bound).is_some_and(|(label, bound)| if is_greater { label > bound } else { label < bound })
}

/// Why a requirement on a field is malformed, if it is.
fn check_field(requirement: &SelectorRequirement) -> Result<(), MalformedRequirement> {
    if requirement.values.len() != 1 {
        return Err(MalformedRequirement("a field takes exactly one value".to_owned()));
    }
    match requirement.operator.as_str() {
        "In" | "NotIn" => Ok(()),
        other => Err(MalformedRequirement(format!("`{other}` is not one of In, NotIn"))),
    }
}

/// The only field is the name of the cluster. Any other field is empty.
fn field_holds(requirement: &SelectorRequirement, name: &str) -> bool {
    let field = if requirement.key == "metadata.name" { name } else { "" };
    let equal = requirement.values.iter().any(|value| value == field);
    equal == (requirement.operator == "In")
}

/// Whether the labels have every pair.
pub(super) fn is_selected(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether any toleration tolerates the taint.
pub(super) fn is_tolerated<'t>(mut tolerations: impl Iterator<Item = &'t Toleration>, taint: &Taint) -> bool {
    tolerations.any(|t| {
        work::charge_steps(1);
        if work::is_exceeded() {
            return true;
        }
        let value = match t.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => t.value == taint.value,
            _ => false,
        };
        let key = if t.key.is_empty() { t.operator == "Exists" } else { t.key == taint.key };
        (t.effect.is_empty() || t.effect == taint.effect) && key && value
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn accepts_labels(
        terms: serde_json::Value,
        labels: &[(&str, &str)],
    ) -> Result<bool, MalformedRequirement> {
        let terms: Vec<PolicyAffinityTerm> = serde_json::from_value(terms).unwrap();
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        CheckedTerms::new(&terms).accepts_cluster("m1", &labels)
    }

    #[test]
    fn an_empty_term_matches_nothing() {
        assert_eq!(accepts_labels(json!([{}]), &[]), Ok(false));
    }

    #[test]
    fn numbers_compare_and_other_labels_do_not() {
        let terms = json!([{"matchExpressions": [{"key": "nodes", "operator": "Gt", "values": ["5"]}]}]);
        assert_eq!(accepts_labels(terms.clone(), &[("nodes", "6")]), Ok(true));
        assert_eq!(accepts_labels(terms.clone(), &[("nodes", "5")]), Ok(false));
        assert_eq!(accepts_labels(terms.clone(), &[("nodes", "many")]), Ok(false));
        assert_eq!(accepts_labels(terms, &[]), Ok(false));
    }

    #[test]
    fn a_malformed_term_refuses_unless_one_before_it_matched() {
        let malformed = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
        let exists = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        assert!(accepts_labels(json!([malformed, exists]), &[("a", "")]).is_err());
        assert_eq!(accepts_labels(json!([exists, malformed]), &[("a", "")]), Ok(true));
    }

    #[test]
    fn fields_know_the_name_alone() {
        let term = |op: &str, value: &str| json!([{"matchFields": [{"key": "metadata.name", "operator": op, "values": [value]}]}]);
        assert_eq!(accepts_labels(term("In", "m1"), &[]), Ok(true));
        assert_eq!(accepts_labels(term("NotIn", "m1"), &[]), Ok(false));
        assert!(accepts_labels(term("Exists", "m1"), &[]).is_err());
    }

    #[test]
    fn tolerations_follow_kubernetes() {
        let taint = |effect: &str| Taint { key: "k".into(), value: "v".into(), effect: effect.into() };
        let by = |value: serde_json::Value, taint: &Taint| {
            let toleration: Toleration = serde_json::from_value(value).unwrap();
            is_tolerated(std::iter::once(&toleration), taint)
        };
        assert!(by(json!({"operator": "Exists"}), &taint("NoExecute")));
        assert!(!by(json!({"key": ""}), &taint("NoExecute")));
        assert!(by(json!({"key": "k", "value": "v"}), &taint("NoSchedule")));
        assert!(!by(json!({"key": "k", "value": "v", "effect": "NoExecute"}), &taint("NoSchedule")));
    }
}
