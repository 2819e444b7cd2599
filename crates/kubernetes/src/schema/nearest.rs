//! Suggestions for mistyped names.

use crate::work;

/// The largest number of edits that counts as a typo.
const MAX_TYPO_EDITS: usize = 2;

/// The shortest part of a name that suggests it.
const MIN_PART_LENGTH: usize = 3;

/// The steps of the distance to one known name, and of all comparisons with it that a search of similar names makes.
const STEPS_PER_DISTANCE: u64 = 4;
const STEPS_PER_COMPARISON: u64 = 8;

/// The most known names among which a similar one is searched by edits: each of many names may be searched among many others.
const MAX_KNOWN: usize = 1000;

/// The known name nearest to `name`: equal except for case, or at most two edits away (but not the whole
/// name). The first of several equally near names.
pub fn find_nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    work::charge_items(known.len());
    if let Some(same) = known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
        return Some(same);
    }
    if known.len() > MAX_KNOWN || work::is_exceeded() {
        return None;
    }
    work::charge_steps(STEPS_PER_DISTANCE * known.len() as u64);
    let distances = known.iter().map(|known| (edit_distance(name, known), *known));
    let (_, nearest) = distances
        .filter(|(edits, known)| *edits <= MAX_TYPO_EDITS && *edits < known.len())
        .min_by_key(|(edits, _)| *edits)?;
    Some(nearest)
}

/// The known name most similar to `name`: the [nearest](find_nearest) one, or the only one that contains it, is contained in it,
/// or differs only in its separators. For names that people choose, such as those of clusters.
pub fn find_similar<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if known.len() > MAX_KNOWN {
        return find_nearest(name, known);
    }
    let wanted = remove_separators(name);
    work::charge_steps(STEPS_PER_COMPARISON * known.len() as u64);
    find_nearest(name, known)
        .or_else(|| find_only(known, |bare| bare == wanted))
        .or_else(|| {
            // Short names are part of no other one, and need no search.
            (wanted.len() >= MIN_PART_LENGTH)
                .then(|| find_only(known, |bare| contain_each_other(&wanted, bare)))?
        })
        .or_else(|| find_only(known, |bare| is_prefix_of_most(&wanted, bare)))
}

/// The name in lower case, without `-`, `_` and `.`.
fn remove_separators(name: &str) -> String {
    name.replace(['-', '_', '.'], "").to_ascii_lowercase()
}

/// The known name that matches without its separators; `None` if several names match.
fn find_only<'k>(known: &[&'k str], matches: impl Fn(&str) -> bool) -> Option<&'k str> {
    let mut all = known.iter().filter(|name| matches(&remove_separators(name)));
    all.next().filter(|_| all.next().is_none()).copied()
}

/// Whether one of two names contains the other.
fn contain_each_other(a: &str, b: &str) -> bool {
    a.len() >= MIN_PART_LENGTH && b.len() >= MIN_PART_LENGTH && (a.contains(b) || b.contains(a))
}

/// Whether two names share more than three quarters of the longer one from their start, such as a plural and its
/// singular.
fn is_prefix_of_most(a: &str, b: &str) -> bool {
    let longer = a.len().max(b.len());
    let shared = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    longer >= 8 && shared * 4 > longer * 3
}

/// The edit distance between two names; `usize::MAX` if their lengths alone make it too large.
fn edit_distance(from: &str, to: &str) -> usize {
    if from.len().abs_diff(to.len()) > MAX_TYPO_EDITS {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, edits) in [
            ("", "", 0),
            ("ab", "", 2),
            ("kind", "kind", 0),
            ("kidn", "kind", 2),
            ("xkind", "kind", 1),
            ("sitting", "kitten", 3),
        ] {
            assert_eq!((edit_distance(a, b), edit_distance(b, a)), (edits, edits), "{a} {b}");
        }
    }

    #[test]
    fn similar_names_share_a_part() {
        let known = ["prod-eu-west", "prod-us-east", "staging"];
        for (name, want) in [
            ("prod-eu-wset", Some("prod-eu-west")),
            ("eu-west", Some("prod-eu-west")),
            ("prod_eu_west", Some("prod-eu-west")),
            ("prod", None),
            ("staging-2", Some("staging")),
            ("prod-eu-west-1a", Some("prod-eu-west")),
            ("dev", None),
        ] {
            assert_eq!(find_similar(name, &known), want, "{name}");
        }
    }

    #[test]
    fn suggests_a_typo_but_not_another_word() {
        let known = ["exclude", "clusterNames", "json"];
        assert_eq!(find_nearest("clusterName", &known), Some("clusterNames"));
        assert_eq!(find_nearest("CLUSTERNAMES", &known), Some("clusterNames"));
        assert_eq!(find_nearest("excludes", &known), Some("exclude"));
        assert_eq!(find_nearest("include", &known), Some("exclude"));
        assert_eq!(find_nearest("regions", &known), None);
        assert_eq!(find_nearest("a", &["b"]), None);
    }
}
