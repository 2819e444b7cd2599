//! Suggestions for mistyped names.

/// The largest number of edits that counts as a typo.
const TYPO: usize = 2;

/// The known name nearest to `name`: equal except for case, or at most two edits away (but not the whole
/// name). The first of several equally near names.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let same = known.iter().find(|k| k.eq_ignore_ascii_case(name));
    let close = || {
        known
            .iter()
            .map(|k| (distance(name, k), k))
            .filter(|(edits, k)| *edits <= TYPO && *edits < k.len())
            .min_by_key(|(edits, _)| *edits)
            .map(|(_, k)| k)
    };
    same.or_else(close).copied()
}

/// The edit distance between two names; `usize::MAX` if their lengths alone make it too large.
fn distance(from: &str, to: &str) -> usize {
    if from.len().abs_diff(to.len()) > TYPO {
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
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
    }

    #[test]
    fn suggests_a_typo_but_not_another_word() {
        let known = ["exclude", "clusterNames", "json"];
        assert_eq!(nearest("clusterName", &known), Some("clusterNames"));
        assert_eq!(nearest("CLUSTERNAMES", &known), Some("clusterNames"));
        assert_eq!(nearest("excludes", &known), Some("exclude"));
        assert_eq!(nearest("include", &known), Some("exclude"));
        assert_eq!(nearest("regions", &known), None);
        assert_eq!(nearest("a", &["b"]), None);
    }
}
