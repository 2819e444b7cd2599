//! Where a field belongs that was written in the wrong mapping: `containers` in the `spec` of a Deployment.

use std::collections::{BTreeSet, VecDeque};

use crate::schema::{Struct, Type};

/// Fields of earlier API versions, and the fields that replaced them.
const RENAMED: [(&str, &str); 5] = [
    ("serviceName", "service.name"),
    ("servicePort", "service.port.number"),
    ("targetCPUUtilizationPercentage", "spec.metrics"),
    ("targetAverageUtilization", "target.averageUtilization"),
    ("rollbackTo", "kubectl rollout undo"),
];

/// The field that replaced one of an earlier version.
pub(super) fn find_renamed(key: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// The only field whose name begins or ends with the one that was written.
pub(super) fn find_longer_name<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    if key.len() < 4 {
        return None;
    }
    let written = key.to_ascii_lowercase();
    let mut all = known.iter().filter(|name| {
        let name = name.to_ascii_lowercase();
        name.starts_with(&written) || name.ends_with(&written)
    });
    all.next().filter(|_| all.next().is_none()).copied()
}

/// The depth of the search.
const MAX_DEPTH: usize = 6;

/// The path of the nearest mapping with the field below the mapping at `parent` (a JSON pointer).
pub(super) fn find_deeper(schema: &Type, parent: &str, key: &str) -> Option<String> {
    let tokens: Vec<&str> = parent.split('/').skip(1).collect();
    let mut at = schema;
    for token in &tokens {
        at = match at.resolve_name() {
            Type::List { item, .. } => item,
            other => other.parts()?.get(token)?,
        };
    }
    find_nearest(at, tokens.iter().map(|token| (*token).to_owned()).collect(), key)
}

/// The path of the mapping with the field that is nearest to the object's root, such as `spec.template.spec`.
pub(super) fn find_anywhere(schema: &Type, key: &str) -> Option<String> {
    find_nearest(schema, Vec::new(), key)
}

/// The nearest mapping below a type that declares the field.
fn find_nearest(from: &Type, path: Vec<String>, key: &str) -> Option<String> {
    let mut seen: BTreeSet<*const Type> = BTreeSet::new();
    let mut queue = VecDeque::from([(from, path)]);
    let start = queue.front().map_or(0, |(_, path)| path.len());
    while let Some((ty, path)) = queue.pop_front() {
        let resolved = ty.resolve_name();
        if !seen.insert(std::ptr::from_ref(resolved)) || path.len() > start + MAX_DEPTH {
            continue;
        }
        match resolved {
            Type::Struct(Struct { fields, .. }) => {
                if fields.contains_key(key) && path.len() > start {
                    return Some(join_path(&path));
                }
                for (name, field) in
                    fields.iter().filter(|(name, _)| !matches!(name.as_str(), "status" | "metadata"))
                {
                    let mut path = path.clone();
                    path.push(name.clone());
                    queue.push_back((&field.ty, path));
                }
            }
            Type::List { item, .. } => {
                let mut path = path;
                if let Some(last) = path.last_mut() {
                    last.push_str("[]");
                }
                queue.push_back((item, path));
            }
            _ => {}
        }
    }
    None
}

fn join_path(path: &[String]) -> String {
    let mut joined = String::new();
    for token in path {
        if !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit()) {
            joined.push_str(&format!("[{token}]"));
        } else {
            if !joined.is_empty() {
                joined.push('.');
            }
            joined.push_str(token);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::find_builtin;

    #[test]
    fn a_part_of_the_name_of_one_field_is_that_field() {
        let known = ["items", "secretName", "defaultMode"];
        for (key, want) in [("name", Some("secretName")), ("mode", Some("defaultMode")), ("e", None)] {
            assert_eq!(find_longer_name(key, &known), want, "{key}");
        }
        assert_eq!(find_longer_name("name", &["secretName", "claimName"]), None);
    }

    #[test]
    fn the_nearest_mapping_with_the_field_is_found() {
        let deployment = find_builtin("Deployment").unwrap();
        for (parent, key, want) in [
            ("/spec", "containers", Some("spec.template.spec")),
            ("", "replicas", Some("spec")),
            ("/spec/template/spec", "image", Some("spec.template.spec.containers[]")),
            ("/spec/template/spec/containers/0", "replicas", Some("spec")),
            ("/spec", "unheard", None),
        ] {
            let found = find_deeper(deployment, parent, key).or_else(|| find_anywhere(deployment, key));
            assert_eq!(found.as_deref(), want, "{parent} {key}");
        }
    }
}
