//! Semantic versions and their constraints, as the functions of sprig and the sources of Flux read them.
//!
//! Facts: Semantic Versioning 2.0.0, and `Masterminds/semver` 3: a version may lack numbers and begin with `v`; in a
//! constraint, what is joined by commas or blanks must hold, and one of what is joined by `||`. A version with a
//! pre-release only fits alternatives that name one.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

/// A version.
#[derive(Clone, Debug)]
pub struct SemanticVersion {
    /// Major, minor and patch.
    pub numbers: [u64; 3],
    /// The pre-release; empty for none.
    pub pre: String,
    /// The metadata of the build; empty for none.
    pub metadata: String,
    /// The text that was parsed.
    pub original: String,
}

impl fmt::Display for SemanticVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl SemanticVersion {
    /// A version, which may lack its last numbers; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('v').unwrap_or(text);
        let (rest, metadata) = rest.split_once('+').map_or((rest, None), |(rest, after)| (rest, Some(after)));
        let (numbers, pre) = rest.split_once('-').map_or((rest, None), |(rest, after)| (rest, Some(after)));
        let mut version = Self {
            numbers: [0; 3],
            pre: pre.unwrap_or_default().to_owned(),
            metadata: metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        };
        for (at, part) in numbers.split('.').enumerate() {
            *version.numbers.get_mut(at)? = parse_number(part)?;
        }
        let are_identifiers = |text: &str| {
            text.split('.').all(|part| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            })
        };
        let has_leading_zero = |text: &str| {
            text.split('.').any(|part| {
                part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        let valid = pre.is_none_or(|pre| are_identifiers(pre) && !has_leading_zero(pre))
            && metadata.is_none_or(are_identifiers);
        valid.then_some(version)
    }

    /// The order of versions, which ignores metadata.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| compare_pre(&self.pre, &other.pre))
    }
}

fn parse_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The order of pre-releases; a version without one is later.
fn compare_pre(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let mut left = left.split('.');
    let mut right = right.split('.');
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => match (parse_number(left), parse_number(right)) {
                (Some(left), Some(right)) => left.cmp(&right),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => left.cmp(right),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// A constraint: alternatives of comparators that must all hold.
#[derive(Clone, Debug)]
pub struct VersionConstraint(Vec<Vec<Comparator>>);

#[derive(Clone, Debug)]
struct Comparator {
    operator: String,
    version: SemanticVersion,
    /// How many numbers are given before the first missing one or `x`.
    given: usize,
}

const VERSION: &str = r"v?(?:[0-9]+|[xX*])(?:\.(?:[0-9]+|[xX*]))?(?:\.(?:[0-9]+|[xX*]))?(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?";

/// `1.2 - 2.3`.
static RANGE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"\s*({VERSION})\s+-\s+({VERSION})\s*")).ok());

/// One comparator at the start of a text.
static COMPARATOR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"^\s*(!=|>=|=>|<=|=<|~>|=|>|<|~|\^|)\s*({VERSION})")).ok());

impl VersionConstraint {
    /// Parses a constraint; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = RANGE.as_ref()?.replace_all(text, ">= $1, <= $2 ");
        text.split("||").map(parse_alternative).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Whether a version is one, and fits.
    pub fn includes_version(&self, version: &str) -> bool {
        SemanticVersion::parse(version).is_some_and(|version| self.fits(&version))
    }

    /// The newest of some tags that fits. Tags that are not versions are left out.
    pub fn find_newest<'t>(&self, tags: impl Iterator<Item = &'t str>) -> Option<&'t str> {
        let versions = tags.filter_map(|tag| Some((SemanticVersion::parse(tag)?, tag)));
        let fitting = versions.filter(|(version, _)| self.fits(version));
        fitting.max_by(|(a, own), (b, other)| a.compare(b).then_with(|| own.cmp(other))).map(|(_, tag)| tag)
    }

    /// Whether a version fits.
    pub fn fits(&self, version: &SemanticVersion) -> bool {
        self.0.iter().any(|comparators| {
            let names_pre = comparators.iter().any(|comparator| !comparator.version.pre.is_empty());
            (names_pre || version.pre.is_empty())
                && comparators.iter().all(|comparator| comparator.fits(version))
        })
    }
}

fn parse_alternative(text: &str) -> Option<Vec<Comparator>> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut comparators = Vec::new();
    while !rest.is_empty() {
        let found = COMPARATOR.as_ref()?.captures(rest)?;
        let (whole, operator, version) = (found.get(0)?, found.get(1)?, found.get(2)?);
        comparators.push(parse_comparator(operator.as_str(), version.as_str())?);
        let after = rest.get(whole.end()..)?;
        rest = after.trim_start();
        if let Some(next) = rest.strip_prefix(',') {
            rest = next.trim_start();
            if rest.is_empty() {
                return None;
            }
        } else if !rest.is_empty() && rest.len() == after.len() {
            return None;
        }
    }
    Some(comparators)
}

fn parse_comparator(operator: &str, text: &str) -> Option<Comparator> {
    let rest = text.strip_prefix('v').unwrap_or(text);
    let end = rest.find(['-', '+']).unwrap_or(rest.len());
    let (numbers, suffix) = rest.split_at(end);
    let is_given = |part: &&str| !matches!(*part, "x" | "X" | "*");
    let given: Vec<&str> = numbers.split('.').take_while(is_given).collect();
    let mut full = given.clone();
    full.resize(3, "0");
    let pre = suffix.split('+').next().unwrap_or_default();
    let suffix = if given.len() < 3 { pre } else { suffix };
    let version = SemanticVersion::parse(&format!("{}{suffix}", full.join(".")))?;
    Some(Comparator { operator: operator.to_owned(), version, given: given.len() })
}

impl Comparator {
    fn fits(&self, version: &SemanticVersion) -> bool {
        let order = version.compare(&self.version);
        let [major, minor, patch] = version.numbers;
        let [own_major, own_minor, own_patch] = self.version.numbers;
        let partial = self.given < 3;
        match self.operator.as_str() {
            "" | "=" if partial => self.fits_tilde(version),
            "" | "=" => order == Ordering::Equal,
            "!=" => match self.given {
                0 | 1 => major != own_major,
                2 => {
                    (major, minor) != (own_major, own_minor)
                        || (!(version.pre.is_empty() && self.version.pre.is_empty())
                            && compare_pre(&version.pre, &self.version.pre) != Ordering::Equal)
                }
                _ => order != Ordering::Equal,
            },
            ">" => match self.given {
                0 | 1 => major > own_major,
                2 => (major, minor) > (own_major, own_minor),
                _ => order == Ordering::Greater,
            },
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" => match self.given {
                0 | 1 => major <= own_major,
                2 => (major, minor) <= (own_major, own_minor),
                _ => order != Ordering::Greater,
            },
            "~" | "~>" => self.fits_tilde(version),
            _ if order == Ordering::Less => false,
            // `^`: the first number that is not zero stays.
            _ if own_major > 0 || self.given <= 1 => major == own_major,
            _ if own_minor > 0 || self.given == 2 => (major, minor) == (0, own_minor),
            _ => (major, minor, patch) == (0, 0, own_patch),
        }
    }

    /// `~`: the numbers before the last one that is given stay.
    fn fits_tilde(&self, version: &SemanticVersion) -> bool {
        if version.compare(&self.version) == Ordering::Less {
            return false;
        }
        if self.version.numbers == [0; 3] && !matches!(self.given, 1 | 2) {
            return true;
        }
        let [major, minor, _] = version.numbers;
        let [own_major, own_minor, _] = self.version.numbers;
        major == own_major && (self.given < 2 || minor == own_minor)
    }
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
        for text in ["", "one", ">=", "<>1.0", "1.2.3.4", "1..2", "1.2.3 ||"] {
            assert!(VersionConstraint::parse(text).is_none(), "{text}");
        }
    }
}
