//! Federation v1's cluster selector: an annotation with a list of requirements, all of which must
//! match.
//!
//! Facts: operators have several spellings, but are case-sensitive. Equality takes exactly one value. `gt` and
//! `lt` take one integer, and the label must be one, too. Negative operators also match clusters without the
//! key.

use serde_json::Value;

use super::json;
use federate_kubernetes::Labels;
use federate_kubernetes::selector::{invalid_key, invalid_value};

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct V1Requirement {
    key: String,
    test: Test,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    In,
    NotIn,
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

/// Reads the annotation. `null` and an empty list match all clusters.
pub(super) fn parse_annotation(annotation: &str) -> Result<Vec<V1Requirement>, String> {
    match json::parse(annotation)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(parse_requirement).collect(),
        _ => Err("expected a list of requirements".to_owned()),
    }
}

fn parse_requirement(item: &Value) -> Result<V1Requirement, String> {
    let map = json::read_structure(item)?;
    let (key, operator, values) = (
        json::read_text(map, "key")?,
        json::read_text(map, "operator")?,
        json::read_string_list(map, "values")?,
    );
    if let Some(why) = invalid_key(&key) {
        return Err(why);
    }
    let test = parse_operator(&operator, &values)?;
    match values.iter().find_map(|value| invalid_value(value)) {
        Some(why) => Err(why),
        None => Ok(V1Requirement { key, test, values }),
    }
}

fn parse_operator(operator: &str, values: &[String]) -> Result<Test, String> {
    match (operator, values.len()) {
        ("in" | "In", 1..) | ("=" | "==", 1) => Ok(Test::In),
        ("notin" | "NotIn", 1..) | ("!=", 1) => Ok(Test::NotIn),
        ("exists" | "Exists", 0) => Ok(Test::Exists),
        ("!" | "DoesNotExist", 0) => Ok(Test::Absent),
        ("gt" | "Gt" | ">", _) => parse_bound(operator, values).map(Test::Above),
        ("lt" | "Lt" | "<", _) => parse_bound(operator, values).map(Test::Below),
        ("in" | "In" | "notin" | "NotIn", _) => Err(format!("`{operator}` needs at least one value")),
        ("=" | "==" | "!=", _) => Err(format!("`{operator}` takes exactly one value")),
        ("exists" | "Exists" | "!" | "DoesNotExist", _) => Err(format!("`{operator}` takes no values")),
        _ => Err(format!("`{operator}` is not an operator")),
    }
}

fn parse_bound(operator: &str, values: &[String]) -> Result<i64, String> {
    match values {
        [one] => one.parse().map_err(|_| format!("`{operator}` needs an integer")),
        _ => Err(format!("`{operator}` takes exactly one value")),
    }
}

impl V1Requirement {
    /// Whether a cluster's labels satisfy it.
    pub(super) fn matches_labels(&self, labels: &Labels) -> bool {
        let label = labels.get(&self.key);
        match self.test {
            Test::In => label.is_some_and(|label| self.values.contains(label)),
            Test::NotIn => label.is_none_or(|label| !self.values.contains(label)),
            Test::Exists => label.is_some(),
            Test::Absent => label.is_none(),
            Test::Above(bound) => {
                label.and_then(|label| label.parse().ok()).is_some_and(|number: i64| number > bound)
            }
            Test::Below(bound) => {
                label.and_then(|label| label.parse().ok()).is_some_and(|number: i64| number < bound)
            }
        }
    }

    /// Why a cluster does not satisfy it.
    pub(super) fn describe_mismatch(&self, labels: &Labels) -> String {
        let found = labels.get(&self.key).map_or_else(|| "absent".to_owned(), |label| format!("`{label}`"));
        let wanted = match self.test {
            Test::In => format!("one of {}", self.values.join(", ")),
            Test::NotIn => format!("none of {}", self.values.join(", ")),
            Test::Exists => "there".to_owned(),
            Test::Absent => "absent".to_owned(),
            Test::Above(bound) => format!("a number above {bound}"),
            Test::Below(bound) => format!("a number below {bound}"),
        };
        format!("its label `{}` is {found}, but must be {wanted}", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(operator: &str, values: &str) -> Result<V1Requirement, String> {
        let mut all =
            parse_annotation(&format!(r#"[{{"key": "v", "operator": "{operator}", "values": {values}}}]"#))?;
        Ok(all.remove(0))
    }

    #[test]
    fn operators_match() {
        let labels = |value: &str| Labels::from([("v".to_owned(), value.to_owned())]);
        for (operator, values, on_five, without) in [
            ("in", r#"["5", "6"]"#, true, false),
            ("NotIn", r#"["5"]"#, false, true),
            ("==", r#"["5"]"#, true, false),
            ("!=", r#"["5"]"#, false, true),
            ("exists", "[]", true, false),
            ("!", "null", false, true),
            (">", r#"["4"]"#, true, false),
            ("Lt", r#"["5"]"#, false, false),
        ] {
            let requirement = one(operator, values).unwrap();
            assert_eq!(requirement.matches_labels(&labels("5")), on_five, "{operator}");
            assert_eq!(requirement.matches_labels(&Labels::new()), without, "{operator}");
        }
        assert!(!one("gt", r#"["4"]"#).unwrap().matches_labels(&labels("x")));
    }

    #[test]
    fn what_is_no_requirement_is_an_error() {
        for (operator, values) in [
            ("IN", r#"["a"]"#),
            ("in", "[]"),
            ("=", r#"["a", "b"]"#),
            ("exists", r#"["a"]"#),
            ("gt", r#"["a"]"#),
            ("gt", r#"["1", "2"]"#),
            ("in", "5"),
            ("in", r#"["not a label"]"#),
        ] {
            assert!(one(operator, values).is_err(), "{operator} {values}");
        }
        for annotation in ["", "{}", "[null]", r#"[{"key": 1}]"#] {
            assert!(parse_annotation(annotation).is_err(), "{annotation}");
        }
        assert_eq!(parse_annotation("[]"), Ok(Vec::new()));
        assert_eq!(parse_annotation("null"), Ok(Vec::new()));
    }
}
