//! The fields and values of an object that not every release of Kubernetes accepts.
//!
//! Facts: `releases.txt`. An API server does not know a field before the release that added it. While the feature gate
//! of a field is off, the server drops the field without an error; it refuses a value.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use federate_kubernetes::pointer::escape;

use super::{Problem, ProblemEffect, words};
use crate::ResourceKind;
use crate::schema::Type;
use crate::served_versions::Minor;

/// A field or a value that a release added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseAddition {
    /// The field, as a JSON pointer.
    pub pointer: String,
    fact: &'static Fact,
}

#[derive(Debug, PartialEq, Eq)]
struct Fact {
    /// The value that was added; `None` if it is the field.
    value: Option<&'static str>,
    added: Minor,
    /// The feature gate, and the release in which it is on by default.
    gate: Option<(&'static str, Option<Minor>)>,
}

/// The fields and values of a built-in kind in an object that depend on the release.
pub fn find_release_additions(kind: &ResourceKind, object: &Value) -> Vec<ReleaseAddition> {
    let mut found = Vec::new();
    if kind.custom.is_none() {
        collect_additions(&kind.schema, object, &mut String::new(), &mut found);
    }
    found
}

impl ReleaseAddition {
    /// The problem with it in a release, if there is one.
    pub fn find_problem(&self, release: Minor) -> Option<Problem> {
        let field = words::format_field(&self.pointer);
        let what = match self.fact.value {
            Some(value) => format!("the value `{value}` of {field}"),
            None => field,
        };
        let remove = "remove it, or place the object only on clusters with a later release".to_owned();
        let added = self.fact.added;
        let (effect, message, help) = if release < added {
            (ProblemEffect::Dropped, format!("Kubernetes 1.{added} added {what}"), remove)
        } else {
            let (gate, on) = self.fact.gate.filter(|(_, on)| on.is_none_or(|on| release < on))?;
            let default = match on {
                Some(on) => format!("on by default since 1.{on}"),
                None => "off by default".to_owned(),
            };
            let message = format!("{what} needs the feature gate `{gate}`, {default}");
            (ProblemEffect::Gated, message, format!("enable the feature gate, {remove}"))
        };
        let effect = if self.fact.value.is_some() { ProblemEffect::Refused } else { effect };
        Some(Problem { pointer: self.pointer.clone(), effect, message, help: Some(help) })
    }
}

fn collect_additions(of: &Type, value: &Value, pointer: &mut String, found: &mut Vec<ReleaseAddition>) {
    let length = pointer.len();
    match (of.resolve_name(), value) {
        (Type::List { item, .. }, Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                collect_additions(item, value, pointer, found);
                pointer.truncate(length);
            }
        }
        (Type::Struct(_) | Type::Map { .. }, Value::Object(map)) => {
            let Some(parts) = of.parts() else { return };
            let facts = if let Type::Named(name) = of { release_facts().get(name) } else { None };
            for (key, value) in map {
                let Some(ty) = parts.get(key) else { continue };
                pointer.push('/');
                pointer.push_str(&escape(key));
                let about = facts.and_then(|facts| facts.get(key.as_str())).into_iter().flatten();
                let used = about.filter(|fact| {
                    !value.is_null() && fact.value.is_none_or(|text| value.as_str() == Some(text))
                });
                // Of a field and its value, the value was added last.
                let fact = used.max_by_key(|fact| fact.added);
                found.extend(fact.map(|fact| ReleaseAddition { pointer: pointer.clone(), fact }));
                collect_additions(ty, value, pointer, found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// The facts by type and field.
type Facts = BTreeMap<&'static str, BTreeMap<&'static str, Vec<Fact>>>;

fn release_facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| {
        let mut facts = Facts::new();
        for (of, field, fact) in include_str!("releases.txt").lines().filter_map(parse_fact) {
            facts.entry(of).or_default().entry(field).or_default().push(fact);
        }
        facts
    })
}

fn parse_fact(line: &'static str) -> Option<(&'static str, &'static str, Fact)> {
    let mut words = line.split(' ').filter(|_| !line.starts_with('#'));
    let (of, field, added) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let (field, value) = match field.split_once('=') {
        Some((field, value)) => (field, Some(value)),
        None => (field, None),
    };
    let on = words.next().and_then(|on| on.parse().ok());
    Some((of, field, Fact { value, added, gate: words.next().map(|gate| (gate, on)) }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::find_builtin;

    #[test]
    fn every_line_names_a_field_of_the_schema() {
        let lines = include_str!("releases.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.clone().filter_map(parse_fact).count(), lines.count());
        for (of, fields) in release_facts() {
            let ty = find_builtin(of).unwrap_or_else(|| panic!("no type {of}"));
            for field in fields.keys() {
                assert!(ty.parts().unwrap().find_field(field).is_some(), "{of} has no field {field}");
            }
        }
    }

    fn effects(release: Minor, spec: &Value) -> Vec<(String, ProblemEffect)> {
        let kind = ResourceKind::find_builtin("v1", "Pod").unwrap();
        let found = find_release_additions(kind, &json!({"apiVersion": "v1", "kind": "Pod", "spec": spec}));
        found.iter().filter_map(|one| one.find_problem(release)).map(|p| (p.pointer, p.effect)).collect()
    }

    #[test]
    fn a_field_is_unknown_then_gated_then_kept() {
        let spec = || json!({"volumes": [{"name": "a", "image": {"reference": "r"}}]});
        let at = "/spec/volumes/0/image".to_owned();
        assert_eq!(effects(30, &spec()), [(at.clone(), ProblemEffect::Dropped)]);
        assert_eq!(effects(34, &spec()), [(at, ProblemEffect::Gated)]);
        assert_eq!(effects(35, &spec()), []);
    }

    #[test]
    fn a_value_is_refused_where_the_field_is_known() {
        let spec = |policy: &str| json!({"initContainers": [{"name": "a", "restartPolicy": policy}]});
        assert_eq!(effects(33, &spec("Always")), []);
        let at = "/spec/initContainers/0/restartPolicy".to_owned();
        assert_eq!(effects(33, &spec("Never")), [(at, ProblemEffect::Refused)]);
        assert_eq!(effects(36, &spec("Never")), []);
    }
}
