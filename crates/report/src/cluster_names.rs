//! Lists of clusters in text for people: folded to the width of the terminal, and of at most three lines unless all names
//! are to be shown. A list of nearly all clusters names those that it lacks.

use super::table::{TextStyle, format_count};

/// The most lines that a list of clusters takes.
pub(crate) const MAX_LINES: usize = 3;

/// The width, in columns, of a list in the middle of a sentence. The words around it take the rest of its lines.
const SENTENCE_WIDTH: usize = 80 * (MAX_LINES - 1);

/// The most clusters of the inventory that a list lacks where it is named by them.
const MAX_MISSING: usize = 3;

/// The shortest list that is named by what it lacks. Shorter ones say more with their names.
const MIN_CLUSTERS: usize = 5;

/// The clusters of `inventory` that a list lacks, if it is a long one of nearly all of them.
pub(crate) fn find_missing<'a>(names: &[&str], inventory: &[&'a str]) -> Option<Vec<&'a str>> {
    if names.len() < MIN_CLUSTERS || inventory.len().saturating_sub(names.len()) > MAX_MISSING {
        return None;
    }
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let missing: Vec<&str> =
        inventory.iter().filter(|name| sorted.binary_search(name).is_err()).copied().collect();
    let is_subset = names.len() + missing.len() == inventory.len();
    (is_subset && missing.len() * 2 < names.len()).then_some(missing)
}

/// Clusters in a sentence: `all 30 clusters`, `29 of 30 clusters (not ap-edge)`, or their names, of which the first are
/// shown unless it is to be `full`. An empty `inventory` is unknown.
pub fn join_clusters(names: &[&str], inventory: &[&str], full: bool) -> String {
    if full {
        return names.join(", ");
    }
    match find_missing(names, inventory) {
        Some(missing) if missing.is_empty() => format!("all {} clusters", names.len()),
        Some(missing) => {
            format!("{} of {} clusters (not {})", names.len(), inventory.len(), missing.join(", "))
        }
        None => {
            let lines = NameList { names, separator: ", ", width: SENTENCE_WIDTH, max_lines: 1 }.fold("");
            lines.concat()
        }
    }
}

/// How many of the names a list in a sentence has room for.
pub(crate) fn count_fitting(names: &[&str]) -> usize {
    let widths = names.iter().scan(0, |used, name| {
        *used += name.chars().count() + ", ".len();
        Some(*used)
    });
    widths.take_while(|used| *used <= SENTENCE_WIDTH).count().max(1)
}

/// Clusters in a table: what stands in their column, and the lines below the row, without indentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterCell {
    pub(crate) text: String,
    pub(crate) below: Vec<String>,
}

impl ClusterCell {
    /// The cell with one name.
    pub(crate) fn from_name(name: &str) -> Self {
        Self { text: name.to_owned(), below: Vec::new() }
    }

    /// The cell of a column that is at most `width` columns wide. The lines below it are indented by `indent`.
    pub(crate) fn new(
        names: &[&str],
        inventory: &[&str],
        width: usize,
        indent: usize,
        style: TextStyle,
    ) -> Self {
        let joined = names.join(", ");
        if names.len() == 1 || joined.chars().count() <= width {
            return Self { text: joined, below: Vec::new() };
        }
        let missing = if style.full { None } else { find_missing(names, inventory) };
        let list = |names, max_lines| {
            let width = style.columns().saturating_sub(indent).max(MIN_WIDTH);
            NameList { names, separator: ", ", width, max_lines }
        };
        match missing {
            Some(missing) if missing.is_empty() => {
                Self { text: format!("all {} clusters", names.len()), below: Vec::new() }
            }
            Some(missing) => Self {
                text: format!("{} of {} clusters", names.len(), inventory.len()),
                below: list(&missing, MAX_LINES).fold("not "),
            },
            None => {
                let max_lines = if style.full { usize::MAX } else { MAX_LINES };
                let text = format_count(names.len(), "cluster");
                Self { text, below: list(names, max_lines).fold("") }
            }
        }
    }
}

/// The smallest width of a list.
pub(crate) const MIN_WIDTH: usize = 20;

/// Names that are folded.
pub(crate) struct NameList<'a, N> {
    pub(crate) names: &'a [N],
    pub(crate) separator: &'a str,
    /// The width of each line in columns.
    pub(crate) width: usize,
    pub(crate) max_lines: usize,
}

impl<N: AsRef<str>> NameList<'_, N> {
    /// The lines, of which the first begins with `head`. The last one counts the names that do not fit: `a, b and 3 more`.
    pub(crate) fn fold(&self, head: &str) -> Vec<String> {
        let mut lines = vec![head.to_owned()];
        // The width of the last line, and whether it has a name.
        let (mut used, mut is_empty) = (head.chars().count(), true);
        for (at, name) in self.names.iter().enumerate() {
            let name = name.as_ref();
            let left = self.names.len() - at;
            let is_last_line = lines.len() >= self.max_lines;
            let tail = if is_last_line { format!(" and {left} more") } else { String::new() };
            let between = if is_empty { "" } else { self.separator };
            let width = between.len() + name.chars().count();
            // A name is followed by a separator at the end of a line, or by the number of the others.
            let after = match left {
                1 => 0,
                _ if is_last_line => tail.chars().count(),
                _ => self.separator.trim_end().len(),
            };
            if used > 0 && used.saturating_add(width + after) > self.width {
                if is_last_line {
                    let tail = if is_empty { tail.trim_start() } else { &tail };
                    lines.last_mut().into_iter().for_each(|line| line.push_str(tail));
                    return lines;
                }
                let end = if is_empty { "" } else { self.separator.trim_end() };
                lines.last_mut().into_iter().for_each(|line| line.push_str(end));
                lines.push(name.to_owned());
                (used, is_empty) = (name.chars().count(), false);
                continue;
            }
            lines.last_mut().into_iter().for_each(|line| line.extend([between, name]));
            used += width;
            is_empty = false;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Vec<String> {
        (0..30).map(|at| format!("member-{at:02}")).collect()
    }

    #[test]
    fn nearly_all_clusters_are_named_by_what_they_lack() {
        let fleet = fleet();
        let all: Vec<&str> = fleet.iter().map(String::as_str).collect();
        assert_eq!(join_clusters(&all, &all, false), "all 30 clusters");
        assert_eq!(join_clusters(&all[1..], &all, false), "29 of 30 clusters (not member-00)");
        assert_eq!(join_clusters(&all[..2], &all, false), "member-00, member-01");
        assert_eq!(join_clusters(&all[..3], &all[..4], false), "member-00, member-01, member-02");
        assert_eq!(join_clusters(&["a", "b", "c", "d", "e"], &all[..6], false), "a, b, c, d, e");
        assert!(join_clusters(&all[1..], &all, true).ends_with(", member-29"));
    }

    #[test]
    fn lists_are_folded_and_end_with_the_number_of_the_others() {
        let fleet = fleet();
        let list = |max_lines| NameList { names: &fleet, separator: ", ", width: 40, max_lines };
        assert_eq!(
            list(3).fold("30: "),
            [
                "30: member-00, member-01, member-02,",
                "member-03, member-04, member-05,",
                "member-06, member-07 and 22 more"
            ]
        );
        let all = list(usize::MAX).fold("");
        assert!(all.iter().all(|line| line.chars().count() <= 40), "{all:?}");
        assert_eq!(all.join(" "), fleet.join(", "));
    }
}
