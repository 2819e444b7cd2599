//! The cluster lists in the text of a plan. They make up nearly all of a large plan, so they are written and read
//! line by line, without YAML values. The YAML reader reads lists in any other format.

use std::collections::BTreeMap;
use std::iter::Peekable;

use federate_dialect::plan::CLUSTER_LISTS;
use federate_dialect::{Placed, PlacedClusters};
use federate_kubernetes::ClusterName;

const CLUSTERS_KEY: &str = "  clusters:\n";
const LIST_NAME_KEY: &str = "  clusters: ";
const NAME_KEY: &str = "  - name: ";
const REPLICAS_KEY: &str = "    replicas: ";

/// Writes the clusters of a row. `None` if a name must be quoted.
pub(super) fn write_clusters(clusters: &[Placed]) -> Option<String> {
    if clusters.is_empty() {
        return Some("  clusters: []\n".to_owned());
    }
    Some(format!("{CLUSTERS_KEY}{}", write_lines(clusters)?))
}

/// Writes the lines of a cluster list. `None` if a name must be quoted.
pub(super) fn write_lines(clusters: &[Placed]) -> Option<String> {
    let mut text = String::with_capacity(clusters.len() * 40);
    for placed in clusters {
        if !federate_yaml::is_plain(&placed.name) {
            return None;
        }
        text.push_str(NAME_KEY);
        text.push_str(&placed.name);
        text.push('\n');
        text.push_str(REPLICAS_KEY);
        match placed.replicas {
            Some(replicas) => text.push_str(&replicas.to_string()),
            None => text.push_str("null"),
        }
        text.push('\n');
    }
    Some(text)
}

/// The clusters of a row, as they are written in its lines.
#[derive(Debug, PartialEq)]
pub(super) enum RowClusters<'t> {
    /// They were not taken: the rest of the text has them.
    InRest,
    /// The list itself.
    Listed(Vec<Placed>),
    /// The name of a list below `clusterLists`.
    Named(&'t str),
}

/// Removes the clusters from the text of a list of placements. Returns the rest of the text, and the clusters of
/// each item. `None` if any clusters are in another format than [`write`] uses.
pub(super) fn take_clusters(text: &str) -> Option<(String, Vec<RowClusters<'_>>)> {
    let mut names = Names::new();
    let mut rest = String::with_capacity(text.len() / 4);
    let mut all: Vec<RowClusters<'_>> = Vec::new();
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('-') {
            all.push(RowClusters::InRest);
        }
        let clusters = if line == CLUSTERS_KEY {
            RowClusters::Listed(read_entries(&mut lines, &mut names)?)
        } else if let Some(name) = line.strip_prefix(LIST_NAME_KEY).filter(|name| *name != "[]\n") {
            RowClusters::Named(name.strip_suffix('\n').filter(|name| federate_yaml::is_plain(name))?)
        } else {
            rest.push_str(line);
            continue;
        };
        *all.last_mut().filter(|known| **known == RowClusters::InRest)? = clusters;
        if lines.peek().is_some_and(|line| is_continuation(line)) {
            return None;
        }
    }
    Some((rest, all))
}

/// Reads the lists below `clusterLists`, with which the text may begin. Returns them by name, and the rest of the
/// text.
pub(super) fn take_lists(text: &str) -> Option<(BTreeMap<&str, PlacedClusters>, &str)> {
    let mut all = BTreeMap::new();
    let key = text.strip_prefix(CLUSTER_LISTS).and_then(|rest| rest.strip_prefix(":\n"));
    let Some(rest) = key else { return Some((all, text)) };
    let mut names = Names::new();
    let (indented, rest) = rest.split_at_checked(end_of_indented(rest))?;
    let mut lines = indented.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("  ")?.strip_suffix(":\n")?;
        let list = read_entries(&mut lines, &mut names)?;
        if !federate_yaml::is_plain(name) || all.insert(name, list.into()).is_some() {
            return None;
        }
    }
    Some((all, rest))
}

/// The length of the leading lines that begin with a space.
fn end_of_indented(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum()
}

type Names<'t> = BTreeMap<&'t str, ClusterName>;

/// Reads the entries of one list, which must not be empty and must end where the next key begins.
fn read_entries<'t>(
    lines: &mut Peekable<impl Iterator<Item = &'t str>>,
    names: &mut Names<'t>,
) -> Option<Vec<Placed>> {
    let mut list = Vec::new();
    while let Some(name) = lines.peek().and_then(|line| line.strip_prefix(NAME_KEY)) {
        let name = name.strip_suffix('\n').filter(|name| federate_yaml::is_plain(name))?;
        lines.next();
        let replicas = lines.next()?.strip_prefix(REPLICAS_KEY)?.strip_suffix('\n')?;
        let replicas = match replicas {
            "null" => None,
            // Numbers in other notations are left to the YAML reader.
            number => Some(number.parse().ok().filter(|read: &i64| read.to_string() == number)?),
        };
        let name = names.entry(name).or_insert_with(|| name.into()).clone();
        list.push(Placed { name, replicas });
    }
    if list.is_empty() || lines.peek().is_some_and(|line| is_continuation(line)) { None } else { Some(list) }
}

/// Whether a line continues the value of the line before it.
fn is_continuation(line: &str) -> bool {
    line.starts_with("  -") || line.starts_with("   ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "- object:\n    name: a\n  clusters:\n  - name: m1\n    replicas: 3\n  - name: m2\n    \
                        replicas: null\n  dialect: karmada\n- object:\n    name: b\n  clusters: []\n";

    #[test]
    fn written_lists_are_taken() {
        let (rest, lists) = take_clusters(TEXT).unwrap();
        assert_eq!(
            rest,
            "- object:\n    name: a\n  dialect: karmada\n- object:\n    name: b\n  clusters: []\n"
        );
        let placed = |name: &str, replicas| Placed { name: name.into(), replicas };
        let list = vec![placed("m1", Some(3)), placed("m2", None)];
        assert!(
            TEXT.contains(&write_clusters(&list).unwrap()) && TEXT.contains(&write_clusters(&[]).unwrap())
        );
        assert_eq!(lists, [RowClusters::Listed(list), RowClusters::InRest]);
        assert_eq!(write_clusters(&[placed("yes", None)]), None);
    }

    #[test]
    fn named_lists_are_taken() {
        let (rest, clusters) = take_clusters("- object: {}\n  clusters: two-1f\n").unwrap();
        assert_eq!((rest.as_str(), clusters), ("- object: {}\n", vec![RowClusters::Named("two-1f")]));
        let text = "clusterLists:\n  two-1f:\n  - name: m1\n    replicas: 3\n  one:\n  - name: m2\n    replicas: \
                    null\nshared: {}\n";
        let (all, rest) = take_lists(text).unwrap();
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), ["one", "two-1f"]);
        assert_eq!((all["one"].len(), rest), (1, "shared: {}\n"));
        for (from, to) in
            [("  one:", "  two-1f:"), ("  one:", "  1:"), ("  one:\n", "  one: []\n"), ("  - name: m2\n", "")]
        {
            assert!(take_lists(&text.replacen(from, to, 1)).is_none(), "{to}");
        }
        for text in [
            "- clusters: {}\n  clusters: \"a\"\n",
            "- a: 1\n  clusters: a\n    b\n",
            "- a: 1\n  clusters: 1\n",
        ] {
            assert!(take_clusters(text).is_none(), "{text}");
        }
    }

    #[test]
    fn other_formats_are_left_to_the_yaml_reader() {
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
            assert!(take_clusters(&TEXT.replacen(from, to, 1)).is_none(), "{to}");
        }
    }
}
