//! Ranges of versions: the newest tag in one, and whether a version is in one.
//!
//! Facts: Semantic Versioning 2.0.0 (order of versions), and the constraints of `Masterminds/semver`, which Flux uses:
//! comparators joined by commas or spaces must all hold, alternatives are joined by `||`; `~1.2`, `^1.2`, `1.2.x` and
//! `1.2 - 2.3` are ranges; pre-releases only count for comparators that name one.

use std::cmp::Ordering;

/// A version of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    numbers: [u64; 3],
    pre: Vec<Identifier>,
}

/// A part of a pre-release; numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A version with missing numbers, as constraints name it.
struct PartialVersion {
    version: Version,
    /// How many numbers it has.
    given: usize,
}

impl PartialVersion {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(text, _)| text);
        let (numbers, pre) = text.split_once('-').map_or((text, None), |(text, pre)| (text, Some(pre)));
        let mut version = Version { numbers: [0; 3], pre: Vec::new() };
        let mut given = 0;
        for (at, part) in numbers.split('.').enumerate() {
            let number = version.numbers.get_mut(at)?;
            if matches!(part, "x" | "X" | "*") {
                return Some(Self { version, given });
            }
            *number = parse_number(part)?;
            given += 1;
        }
        for part in pre.into_iter().flat_map(|pre| pre.split('.')) {
            if part.is_empty() || !part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                return None;
            }
            version.pre.push(
                parse_number(part).map_or_else(|| Identifier::Word(part.to_owned()), Identifier::Number),
            );
        }
        Some(Self { version, given })
    }

    /// The first version after all that start with its first numbers.
    fn first_after(&self, numbers: usize) -> Option<Version> {
        let last = numbers.checked_sub(1)?;
        let mut next = Version { numbers: self.version.numbers, pre: Vec::new() };
        *next.numbers.get_mut(last)? += 1;
        next.numbers.iter_mut().skip(numbers).for_each(|number| *number = 0);
        Some(next)
    }
}

fn parse_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Versions from one on, and before another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct VersionRange {
    from: Option<Version>,
    before: Option<Version>,
    /// A version that is left out.
    not: Option<Version>,
    /// Whether pre-releases count.
    pre: bool,
}

impl VersionRange {
    fn contains(&self, version: &Version) -> bool {
        (self.pre || version.pre.is_empty())
            && self.from.as_ref().is_none_or(|from| version >= from)
            && self.before.as_ref().is_none_or(|before| version < before)
            && self.not.as_ref() != Some(version)
    }

    /// `operator` and a version.
    fn parse_comparator(operator: &str, text: &str) -> Option<Self> {
        let PartialVersion { version, given } = PartialVersion::parse(text)?;
        let partial = PartialVersion { version: version.clone(), given };
        let pre = !version.pre.is_empty();
        let all = Self { from: None, before: None, not: None, pre };
        let from = Some(version.clone());
        // The smallest version that is larger.
        let next = if given == 3 {
            let mut next = version.clone();
            if next.pre.is_empty() {
                next.numbers[2] += 1;
            }
            next.pre.push(Identifier::Number(0));
            Some(next)
        } else {
            partial.first_after(given)
        };
        Some(match operator {
            ">=" => Self { from, ..all },
            "<" => Self { before: from, ..all },
            ">" if given == 0 => Self { before: Some(Version { numbers: [0; 3], pre: Vec::new() }), ..all },
            ">" => Self { from: next, ..all },
            "<=" => Self { before: next, ..all },
            "!=" if given == 3 => Self { not: from, ..all },
            "" | "=" => Self { from, before: next, ..all },
            "~" => Self { from, before: partial.first_after(given.min(2)), ..all },
            "^" => {
                let first = version.numbers.iter().take(given).position(|number| *number > 0);
                let kept = first.map_or(given, |first| first + 1);
                Self { from, before: partial.first_after(kept), ..all }
            }
            _ => return None,
        })
    }
}

/// A range of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionConstraint(Vec<Vec<VersionRange>>);

impl VersionConstraint {
    /// Parses a range; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        text.split("||").map(parse_alternative).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Whether a version is in the range.
    pub fn includes_version(&self, version: &str) -> bool {
        self.find_newest(std::iter::once(version)).is_some()
    }

    /// The newest of some tags that is in the range.
    pub fn find_newest<'t>(&self, tags: impl Iterator<Item = &'t str>) -> Option<&'t str> {
        let versions = tags.filter_map(|tag| {
            let PartialVersion { version, given } =
                PartialVersion::parse(tag).filter(|partial| partial.given > 0)?;
            (given == 3 || version.pre.is_empty()).then_some((version, tag))
        });
        let fitting = versions.filter(|(version, _)| {
            self.0.iter().any(|ranges| ranges.iter().all(|range| range.contains(version)))
        });
        fitting.max().map(|(_, tag)| tag)
    }
}

/// Comparators that must all hold.
fn parse_alternative(text: &str) -> Option<Vec<VersionRange>> {
    if let Some((from, to)) = text.split_once(" - ") {
        return Some(vec![
            VersionRange::parse_comparator(">=", from.trim())?,
            VersionRange::parse_comparator("<=", to.trim())?,
        ]);
    }
    let mut ranges = Vec::new();
    let mut operator = String::new();
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        let start = word.find(|c: char| !"=!<>~^".contains(c)).unwrap_or(word.len());
        let (before, version) = word.split_at(start);
        operator.push_str(before);
        if !version.is_empty() {
            ranges.push(VersionRange::parse_comparator(&operator, version)?);
            operator.clear();
        }
    }
    (operator.is_empty() && !ranges.is_empty()).then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGS: [&str; 9] =
        ["v1.2.3", "1.2.10", "v1.10.0", "v2.0.0-rc.1", "v2.0.0-rc.10", "0.3.4", "0.4.0", "latest", "v0.0.9"];

    #[test]
    fn ranges_choose_the_newest_tag() {
        for (range, expected) in [
            ("1.x", Some("v1.10.0")),
            ("*", Some("v1.10.0")),
            ("~1.2", Some("1.2.10")),
            ("~1.2.3", Some("1.2.10")),
            ("^1.2.3", Some("v1.10.0")),
            ("^0.3.1", Some("0.3.4")),
            ("^0.3", Some("0.3.4")),
            (">=1.0.0 <1.3.0", Some("1.2.10")),
            (">= 1.0, < 1.3", Some("1.2.10")),
            ("1.2 - 1.9", Some("1.2.10")),
            ("=1.2.3", Some("v1.2.3")),
            ("1.2.3", Some("v1.2.3")),
            (">1.2.3 <1.2.10 || 0.3.x", Some("0.3.4")),
            (">=2.0.0-0", Some("v2.0.0-rc.10")),
            (">=2.0.0", None),
            ("<=0.4", Some("0.4.0")),
            (">1.2", Some("v1.10.0")),
            ("!=1.10.0, >1", None),
            ("!=1.10.0, >=1", Some("1.2.10")),
            ("~0", Some("0.4.0")),
        ] {
            let constraint = VersionConstraint::parse(range).unwrap();
            assert_eq!(constraint.find_newest(TAGS.into_iter()), expected, "{range}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "one", ">=", "=>1.0", "1.2.3.4", "1..2", "1.2.3 ||"] {
            assert_eq!(VersionConstraint::parse(text), None, "{text}");
        }
    }
}
