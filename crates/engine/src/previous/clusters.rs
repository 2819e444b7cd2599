//! The lists of clusters in a plan's text. They are nearly all of a large plan, so they are written and
//! read as the lines they are, without a detour over YAML values; whatever looks otherwise than we
//! write it is left to the YAML reader.

use std::collections::BTreeMap;
use std::iter::Peekable;

use federate_dialect::plan::CLUSTER_LISTS;
use federate_dialect::{Placed, PlacedClusters};
use federate_kubernetes::ClusterName;

const KEY: &str = "  clusters:\n";
const NAMED: &str = "  clusters: ";
const NAME: &str = "  - name: ";
const REPLICAS: &str = "    replicas: ";

/// The clusters of a row; `None` where a name needs more than itself to be written.
pub(super) fn write(clusters: &[Placed]) -> Option<String> {
    if clusters.is_empty() {
        return Some("  clusters: []\n".to_owned());
    }
    Some(format!("{KEY}{}", lines(clusters)?))
}

/// The lines of a list of clusters; `None` where a name needs more than itself to be written.
pub(super) fn lines(clusters: &[Placed]) -> Option<String> {
    let mut text = String::with_capacity(clusters.len() * 40);
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

/// What stands in the lines of a row about its clusters.
#[derive(Debug, PartialEq)]
pub(super) enum Clusters<'t> {
    /// Nothing that was taken.
    Elsewhere,
    /// The list itself.
    Listed(Vec<Placed>),
    /// The name of a list that stands below `clusterLists`.
    Named(&'t str),
}

/// Takes the clusters out of a list of placements: what is left of the text, and the clusters of each item.
/// `None` where any are not as we write them.
pub(super) fn take(text: &str) -> Option<(String, Vec<Clusters<'_>>)> {
    let mut names = Names::new();
    let mut left = String::with_capacity(text.len() / 4);
    let mut all: Vec<Clusters<'_>> = Vec::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('-') {
            all.push(Clusters::Elsewhere);
        }
        let clusters = if line == KEY {
            Clusters::Listed(entries(&mut lines, &mut names)?)
        } else if let Some(name) = line.strip_prefix(NAMED).filter(|name| *name != "[]\n") {
            Clusters::Named(name.strip_suffix('\n').filter(|name| federate_yaml::is_plain(name))?)
        } else {
            left.push_str(line);
            continue;
        };
        *all.last_mut().filter(|known| **known == Clusters::Elsewhere)? = clusters;
        if lines.peek().is_some_and(|line| goes_on(line)) {
            return None;
        }
    }
    Some((left, all))
}

/// Takes the lists below `clusterLists`, with which the text begins if it has any, by name; and what is left
/// of the text.
pub(super) fn lists(text: &str) -> Option<(BTreeMap<&str, PlacedClusters>, &str)> {
    let mut all = BTreeMap::new();
    let key = text.strip_prefix(CLUSTER_LISTS).and_then(|rest| rest.strip_prefix(":\n"));
    let Some(rest) = key else { return Some((all, text)) };
    let mut names = Names::new();
    let (indented, rest) = rest.split_at_checked(end_of_indented(rest))?;
    let mut lines = indented.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("  ")?.strip_suffix(":\n")?;
        let list = entries(&mut lines, &mut names)?;
        if !federate_yaml::is_plain(name) || all.insert(name, list.into()).is_some() {
            return None;
        }
    }
    Some((all, rest))
}

/// Where the lines end that begin with a space.
fn end_of_indented(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum()
}

type Names<'t> = BTreeMap<&'t str, ClusterName>;

/// The entries of one list, which must have some and end where the next key begins.
fn entries<'t>(
    lines: &mut Peekable<impl Iterator<Item = &'t str>>,
    names: &mut Names<'t>,
) -> Option<Vec<Placed>> {
    let mut list = Vec::new();
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
    if list.is_empty() || lines.peek().is_some_and(|line| goes_on(line)) { None } else { Some(list) }
}

/// Whether a line belongs to what stands before it.
fn goes_on(line: &str) -> bool {
    line.starts_with("  -") || line.starts_with("   ")
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
        let list = vec![placed("m1", Some(3)), placed("m2", None)];
        assert!(TEXT.contains(&write(&list).unwrap()) && TEXT.contains(&write(&[]).unwrap()));
        assert_eq!(lists, [Clusters::Listed(list), Clusters::Elsewhere]);
        assert_eq!(write(&[placed("yes", None)]), None);
    }

    #[test]
    fn named_lists_are_taken() {
        let (left, clusters) = take("- object: {}\n  clusters: two-1f\n").unwrap();
        assert_eq!((left.as_str(), clusters), ("- object: {}\n", vec![Clusters::Named("two-1f")]));
        let text = "clusterLists:\n  two-1f:\n  - name: m1\n    replicas: 3\n  one:\n  - name: m2\n    replicas: \
                    null\nshared: {}\n";
        let (all, rest) = lists(text).unwrap();
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), ["one", "two-1f"]);
        assert_eq!((all["one"].len(), rest), (1, "shared: {}\n"));
        for (from, to) in
            [("  one:", "  two-1f:"), ("  one:", "  1:"), ("  one:\n", "  one: []\n"), ("  - name: m2\n", "")]
        {
            assert!(lists(&text.replacen(from, to, 1)).is_none(), "{to}");
        }
        for text in [
            "- clusters: {}\n  clusters: \"a\"\n",
            "- a: 1\n  clusters: a\n    b\n",
            "- a: 1\n  clusters: 1\n",
        ] {
            assert!(take(text).is_none(), "{text}");
        }
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
