//! Functions of texts and versions, by characters and not by bytes.

use std::cmp::Ordering;

/// A version by the rules of semantic versioning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Major, minor, patch.
    pub(super) numbers: [u64; 3],
    /// The identifiers of a pre-release.
    pre_release: Vec<String>,
}

impl Version {
    /// Parses a version; a leading `v` is an error.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
            return None;
        }
        let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
        let parts: Vec<&str> = core.split('.').collect();
        let [major, minor, patch] = *parts.as_slice() else { return None };
        let pre_release: Vec<String> =
            pre.into_iter().flat_map(|pre| pre.split('.')).map(str::to_owned).collect();
        if !pre_release.iter().all(|part| is_pre_release(part)) {
            return None;
        }
        let numbers = [parse_number(major)?, parse_number(minor)?, parse_number(patch)?];
        Some(Self { numbers, pre_release })
    }

    /// The order of versions.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| self.compare_pre_release(other))
    }

    fn compare_pre_release(&self, other: &Self) -> Ordering {
        match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.pre_release.iter().zip(&other.pre_release);
                let mut orders = pairs.map(|(a, b)| compare_identifiers(a, b));
                let first = orders.find(|order| *order != Ordering::Equal);
                first.unwrap_or_else(|| self.pre_release.len().cmp(&other.pre_release.len()))
            }
        }
    }
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a part of a pre-release is an identifier. A number in it has no leading zeros.
fn is_pre_release(part: &str) -> bool {
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    is_identifier(part) && (!is_number || parse_number(part).is_some())
}

/// Parses a number without leading zeros.
fn parse_number(part: &str) -> Option<u64> {
    let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = part.len() > 1 && part.starts_with('0');
    if is_number && !is_padded { part.parse().ok() } else { None }
}

fn compare_identifiers(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// The characters from one index to before another; `None` if they are out of range.
pub(super) fn cut(text: &str, from: i64, to: Option<i64>) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let from = usize::try_from(from).ok()?;
    let to = to.map_or(Some(chars.len()), |to| usize::try_from(to).ok())?;
    chars.get(from..to).map(|part| part.iter().collect())
}

/// The index of a part in a text, from an index on; -1 if there is none. An empty part is where the search begins.
pub(super) fn find(text: &str, part: &str, from: i64) -> Option<i64> {
    if part.is_empty() {
        return Some(from);
    }
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let from = usize::try_from(from).ok()?;
    let at = (from..text.len()).find(|at| text.get(*at..at + part.len()) == Some(part.as_slice()));
    Some(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

/// The last index of a part in a text, up to an index; -1 if there is none, or the index is behind the text.
pub(super) fn find_last(text: &str, part: &str, up_to: Option<i64>) -> Option<i64> {
    let (text, letters): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    if part.is_empty() {
        return up_to.or(i64::try_from(text.len()).ok());
    }
    let last = text.len().saturating_sub(1);
    let up_to = up_to.map_or(Some(last), |up_to| usize::try_from(up_to).ok())?;
    if up_to >= text.len() {
        return Some(-1);
    }
    let at = (0..=up_to).rev().find(|at| text.get(*at..at + letters.len()) == Some(letters.as_slice()));
    Some(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

/// The parts of a text between separators, at most `limit` if that is not negative.
pub(super) fn split(text: &str, separator: &str, limit: i64) -> Vec<String> {
    match usize::try_from(limit) {
        Err(_) if separator.is_empty() => text.chars().map(String::from).collect(),
        Err(_) => text.split(separator).map(str::to_owned).collect(),
        Ok(0) => Vec::new(),
        Ok(limit) if separator.is_empty() => {
            let chars: Vec<char> = text.chars().collect();
            let first = chars.iter().take(limit.saturating_sub(1)).map(ToString::to_string);
            let rest: String = chars.iter().skip(limit.saturating_sub(1)).collect();
            first.chain(Some(rest).filter(|rest| !rest.is_empty())).collect()
        }
        Ok(limit) => text.splitn(limit, separator).map(str::to_owned).collect(),
    }
}
