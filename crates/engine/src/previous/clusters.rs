//! The lists of clusters in a plan's text. They are nearly all of a large plan, so they are written and
//! read as the lines they are, without a detour over YAML values; whatever looks otherwise than we
//! write it is left to the YAML reader.

use std::collections::BTreeMap;

use federate_dialect::Placed;
use federate_kubernetes::ClusterName;

const KEY: &str = "  clusters:\n";
const NAME: &str = "  - name: ";
const REPLICAS: &str = "    replicas: ";

/// The lines of a list of clusters; `None` where a name needs more than itself to be written.
pub(super) fn write(clusters: &[Placed]) -> Option<String> {
    if clusters.is_empty() {
        return Some("  clusters: []\n".to_owned());
    }
    let mut text = KEY.to_owned();
    for placed in clusters {
        if !federate_yaml::is_plain(&placed.name) {
            return None;
        }
        text.push_str(NAME);
        text.push_str(&placed.name);
        text.push('\n');
        text.push_str(REPLICAS);
        match placed.replicas {
            Some(replicas) => text.push_str(&replicas.to_string()),
            None => text.push_str("null"),
        }
        text.push('\n');
    }
    Some(text)
}

/// Takes the lists of clusters out of a list of placements: what is left of the text, and the lists of
/// each item, if it has one. `None` where any is not as we write it.
pub(super) fn take(text: &str) -> Option<(String, Vec<Vec<Placed>>)> {
    let mut names: BTreeMap<&str, ClusterName> = BTreeMap::new();
    let mut left = String::with_capacity(text.len() / 4);
    let mut all: Vec<Vec<Placed>> = Vec::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('-') {
            all.push(Vec::new());
        }
        if line != KEY {
            left.push_str(line);
            continue;
        }
        let list = all.last_mut().filter(|list| list.is_empty())?;
        while let Some(name) = lines.peek().and_then(|line| line.strip_prefix(NAME)) {
            let name = name.strip_suffix('\n').filter(|name| federate_yaml::is_plain(name))?;
            lines.next();
            let replicas = lines.next()?.strip_prefix(REPLICAS)?.strip_suffix('\n')?;
            let replicas = match replicas {
                "null" => None,
                // YAML knows more ways to write a number.
                number => Some(number.parse().ok().filter(|read: &i64| read.to_string() == number)?),
            };
            let name = names.entry(name).or_insert_with(|| name.into()).clone();
            list.push(Placed { name, replicas });
        }
        let goes_on = |line: &&str| line.starts_with("  -") || line.starts_with("   ");
        if list.is_empty() || lines.peek().is_some_and(goes_on) {
            return None;
        }
    }
    Some((left, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "- object:\n    name: a\n  clusters:\n  - name: m1\n    replicas: 3\n  - name: m2\n    \
                        replicas: null\n  dialect: karmada\n- object:\n    name: b\n  clusters: []\n";

    #[test]
    fn what_is_written_is_taken() {
        let (left, lists) = take(TEXT).unwrap();
        assert_eq!(
            left,
            "- object:\n    name: a\n  dialect: karmada\n- object:\n    name: b\n  clusters: []\n"
        );
        let placed = |name: &str, replicas| Placed { name: name.into(), replicas };
        assert_eq!(lists, [vec![placed("m1", Some(3)), placed("m2", None)], vec![]]);
        assert!(TEXT.contains(&write(&lists[0]).unwrap()) && TEXT.contains(&write(&lists[1]).unwrap()));
        assert_eq!(write(&[placed("yes", None)]), None);
    }

    #[test]
    fn anything_else_is_left_to_yaml() {
        for (from, to) in [
            ("- name: m1", "- name: \"m1\""),
            ("- name: m1", "- name: yes"),
            ("- name: m1", "- name: m1 # first"),
            ("- name: m1", "- replicas: 1\n    name: m1"),
            ("replicas: 3\n", "replicas: 03\n"),
            ("replicas: 3\n", "replicas: 3\n    more: 1\n"),
            ("    replicas: 3\n", ""),
            ("  dialect: karmada\n", "  clusters:\n  - name: m3\n    replicas: 1\n"),
        ] {
            assert!(TEXT.contains(from));
            assert!(take(&TEXT.replacen(from, to, 1)).is_none(), "{to}");
        }
    }
}
