//! Suggestions for mistyped names.

/// The largest number of edits that counts as a typo.
const MAX_TYPO_EDITS: usize = 2;

/// The shortest part of a name that suggests it.
const MIN_PART_LENGTH: usize = 3;

/// The most known names among which a similar one is searched by edits: each of many names may be searched among many others.
const MAX_KNOWN: usize = 1000;

/// The known name nearest to `name`: equal except for case, or at most two edits away (but not the whole
/// name). The first of several equally near names.
pub fn find_nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let same = known.iter().find(|k| k.eq_ignore_ascii_case(name));
    let close = || {
        known
            .iter()
            .filter(|_| known.len() <= MAX_KNOWN)
            .map(|k| (edit_distance(name, k), k))
            .filter(|(edits, k)| *edits <= MAX_TYPO_EDITS && *edits < k.len())
            .min_by_key(|(edits, _)| *edits)
            .map(|(_, k)| k)
    };
    same.or_else(close).copied()
}

/// The known name most similar to `name`: the [`nearest`] one, or the only one that contains it, is contained in it,
/// or differs only in its separators. For names that people choose, such as those of clusters.
pub fn find_similar<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if known.len() > MAX_KNOWN {
        return find_nearest(name, known);
    }
    let bare = |name: &str| name.replace(['-', '_', '.'], "").to_ascii_lowercase();
    let wanted = bare(name);
    let one = |matches: &dyn Fn(&str) -> bool| {
        let mut all = known.iter().filter(|k| matches(&bare(k)));
        all.next().filter(|_| all.next().is_none()).copied()
    };
    let within = |k: &str| k.len() >= MIN_PART_LENGTH && (wanted.contains(k) || k.contains(&wanted));
    find_nearest(name, known)
        .or_else(|| one(&|k| k == wanted))
        .or_else(|| if wanted.len() >= MIN_PART_LENGTH { one(&within) } else { None })
        .or_else(|| one(&|k| is_prefix_of_most(&wanted, k)))
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
