//! Amounts of clusters: a number, or a percentage of how many there are.

use federate_kubernetes::schema::{Schema, Shape};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterAmount {
    /// A number of clusters.
    Count(i64),
    /// A percentage.
    Percent(i64),
}

impl ClusterAmount {
    /// Reads `3` or `25%`. A number may also be text.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_i64().map(Self::Count),
            Value::String(text) => match text.strip_suffix('%') {
                Some(percent) => percent.parse().ok().map(Self::Percent),
                None => text.parse().ok().map(Self::Count),
            },
            _ => None,
        }
    }

    /// The number out of `total`, with percentages rounded up.
    pub fn rounded_up(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => scale_percent(percent, total).saturating_add(99).div_euclid(100),
        }
    }

    /// The number out of `total`, with percentages rounded down.
    pub fn rounded_down(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => scale_percent(percent, total).div_euclid(100),
        }
    }
}

fn scale_percent(percent: i64, total: i64) -> i64 {
    percent.saturating_mul(total)
}

/// The rules of validation check amounts, because their bounds differ.
impl Schema for ClusterAmount {
    const SHAPE: Shape = Shape::Any;
}

impl<'de> Deserialize<'de> for ClusterAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_value(&value)
            .ok_or_else(|| serde::de::Error::custom(format!("{value} is neither a number nor a percentage")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn percentages_round_either_way() {
        let quarter = ClusterAmount::from_value(&json!("25%")).unwrap();
        let of = |total| (quarter.rounded_up(total), quarter.rounded_down(total));
        assert_eq!([0, 2, 4, 5, 8].map(of), [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]);
        assert_eq!(ClusterAmount::from_value(&json!(3)), Some(ClusterAmount::Count(3)));
        assert_eq!(ClusterAmount::from_value(&json!("3")), Some(ClusterAmount::Count(3)));
        assert_eq!(
            [json!("x%"), json!(null), json!("1.5%")].map(|v| ClusterAmount::from_value(&v)),
            [None, None, None]
        );
    }
}
