//! Which lines of a repo's files a message may quote: those that cannot contain a credential.
//!
//! A file is quoted only if all its objects have known kinds and none is a Secret, because a mistyped `kind`
//! must not reveal a Secret. Of other files, only the lines with the API version and the kind of an object are quoted. No line near a key that is named like a credential is quoted. Of
//! `federate.yaml`, only keys are quoted.

use std::collections::BTreeMap;

use federate_dialect::Dialects;
use federate_engine::change::names_credential;
use federate_repo::Repo;

/// Longer lines are not quoted.
const MAX_LINE_BYTES: usize = 400;

/// Longer types are not quoted.
const MAX_TYPE_BYTES: usize = 100;

/// How many lines above and below are also searched for names of credentials: in a list of environment
/// variables, the name is on one line and the value on the next.
const NEAR_LINES: usize = 3;

/// How many bytes are read to quote lines. Beyond it, no line is quoted.
const MAX_READ_BYTES: usize = 256 << 20;

/// Quotes lines of the files of a repo.
pub(crate) struct LineQuoter<'r> {
    repo: &'r Repo,
    dialects: Dialects,
    /// The files of which lines were asked for.
    files: BTreeMap<&'r str, QuotableFile<'r>>,
    /// How many bytes may still be read.
    left: usize,
}

/// A file, and which of its lines may be quoted.
struct QuotableFile<'r> {
    lines: Vec<&'r [u8]>,
    rule: QuoteRule,
}

/// Which lines of a file may be quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuoteRule {
    /// Of each, its key alone.
    Keys,
    /// Those with the API version and the kind of an object.
    Types,
    /// All that are not near a credential.
    Harmless {
        /// Whether a value may be that of an override, which may be a credential whatever its name is.
        overrides: bool,
    },
}

impl<'r> LineQuoter<'r> {
    pub(crate) fn new(repo: &'r Repo, dialects: Dialects) -> Self {
        Self { repo, dialects, files: BTreeMap::new(), left: MAX_READ_BYTES }
    }

    /// The line with this number, from 1, if it may be quoted.
    pub(crate) fn quote_line(&mut self, file: &str, number: u32) -> Option<String> {
        let at = (number as usize).checked_sub(1)?;
        let (name, bytes) = self.repo.texts.get_key_value(file)?;
        // The lines above are searched for names of credentials.
        self.left = self.left.checked_sub(bytes.len())?;
        let (is_config, dialects) = (*file == *self.repo.config_path(), self.dialects);
        let file = self.files.entry(name).or_insert_with(|| QuotableFile::new(is_config, bytes, dialects));
        file.quote_line(at)
    }
}

impl<'r> QuotableFile<'r> {
    fn new(is_config: bool, bytes: &'r [u8], dialects: Dialects) -> Self {
        let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
        let rule = if is_config {
            QuoteRule::Keys
        } else if lines.iter().any(|line| contains_word(line, b"kind")) && is_harmless(bytes, dialects) {
            QuoteRule::Harmless { overrides: contains_word(bytes, b"Override") }
        } else {
            QuoteRule::Types
        };
        Self { lines, rule }
    }

    /// The line with this number, from 0, if it may be quoted.
    fn quote_line(&self, at: usize) -> Option<String> {
        let line = self.lines.get(at)?;
        let overrides = match self.rule {
            QuoteRule::Keys => return quote_key(&decode_line(line)),
            QuoteRule::Types => return Some(decode_line(line)).filter(|line| names_type(line)),
            QuoteRule::Harmless { overrides } => overrides,
        };
        if line.len() > MAX_LINE_BYTES || (overrides && contains_word(line, b"value")) {
            return None;
        }
        let last = self.lines.len().min(at + NEAR_LINES + 1);
        let near = self.lines.get(at.saturating_sub(NEAR_LINES)..last)?;
        (!near.iter().any(|line| is_credential(line)) && !within_credential(&self.lines, at))
            .then(|| decode_line(line))
    }
}

/// Whether a line states the API version or the kind of a document, and nothing else: it may be shown of any object.
fn names_type(line: &str) -> bool {
    let value = ["kind: ", "apiVersion: "].into_iter().find_map(|key| line.strip_prefix(key));
    value.is_some_and(|value| {
        value.len() <= MAX_TYPE_BYTES
            && value.trim_end().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '-'))
    })
}

fn decode_line(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    line.trim_end_matches('\r').trim_start_matches('\u{feff}').to_owned()
}

/// The key of a line, without its value.
fn quote_key(line: &str) -> Option<String> {
    let (key, value) = line.split_once(':')?;
    let name = key.trim_start_matches([' ', '-']);
    if name.is_empty()
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
        || line.len() > MAX_LINE_BYTES
    {
        return None;
    }
    Some(if value.trim().is_empty() { line.to_owned() } else { format!("{key}: …") })
}

/// Whether the file names kinds, and all of them are known and are not Secrets.
fn is_harmless(bytes: &[u8], dialects: Dialects) -> bool {
    let mut named = false;
    for line in bytes.split(|b| *b == b'\n') {
        for kind in kinds_of(line) {
            if !dialects.is_known(&kind) || kind.contains("Secret") {
                return false;
            }
            named = true;
        }
    }
    named
}

/// The text after each `kind:` of a line.
fn kinds_of(line: &[u8]) -> Vec<String> {
    let line = String::from_utf8_lossy(line);
    let after = line.match_indices("kind").filter_map(|(at, word)| {
        let rest = line.get(at + word.len()..)?.trim_start_matches(['"', '\'']).trim_start();
        let value = rest.strip_prefix(':')?.trim_start().trim_start_matches(['"', '\'']);
        let end = value.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(value.len());
        Some(value.get(..end)?.to_owned())
    });
    after.collect()
}

fn contains_word(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|window| window == word)
}

fn is_credential(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    names_credential(&text) || text.to_ascii_lowercase().contains("begin")
}

/// Whether a line is below a key that is named like a credential.
fn within_credential(lines: &[&[u8]], at: usize) -> bool {
    let mut least = lines.get(at).map_or(0, |line| count_indent(line));
    for line in lines.iter().take(at).rev().filter(|line| !line.trim_ascii().is_empty()) {
        let indent = count_indent(line);
        if indent < least {
            least = indent;
            if is_credential(line) {
                return true;
            }
        }
    }
    false
}

/// The width of the indentation of a line, including the dashes of sequences.
fn count_indent(line: &[u8]) -> usize {
    line.iter().take_while(|b| matches!(b, b' ' | b'-')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, number: u32) -> Option<String> {
        let file = QuotableFile::new(false, text.as_bytes(), Dialects::default());
        file.quote_line(number as usize - 1)
    }

    #[test]
    fn lines_of_known_kinds_are_shown() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: x\n";
        assert_eq!(shown(text, 4).as_deref(), Some("  replicas: x"));
        assert_eq!(shown("{\"kind\": \"ConfigMap\"}", 1).as_deref(), Some("{\"kind\": \"ConfigMap\"}"));
    }

    #[test]
    fn credentials_are_not_shown() {
        for (text, number) in [
            ("kind: Secret\nstringData: {a: hunter2}\n", 2),
            ("kind: Secrett\nstringData: {a: hunter2}\n", 2),
            ("kind: Secrett\nstringData:\n  kind: hunter2\n", 3),
            ("kind: hunter2 hunter3\n", 1),
            ("kind: \"Secret\"\nx: hunter2\n", 2),
            ("stringData: {a: hunter2}\n", 1),
            ("{\"kind\":\"Sekret\",\"data\":{\"a\":\"hunter2\"}}\n", 1),
            ("kind: ConfigMap\n---\nkind: Sekret\nx: hunter2\n", 4),
            ("kind: Pod\npassword: hunter2\n", 2),
            ("kind: OverridePolicy\nx: {path: /a, value: hunter2}\n", 2),
            ("kind: Pod\nenv:\n- name: DB_PASSWORD\n  value: hunter2\n", 4),
            ("kind: Pod\ndb-password: |\n  a\n  b\n  c\n  d\n  hunter2\n", 7),
            ("kind: Pod\ntls:\n  a: |\n    -----BEGIN KEY-----\n    hunter2\n", 5),
        ] {
            assert_eq!(shown(text, number), None, "{text}");
        }
    }

    #[test]
    fn the_kind_of_any_object_is_shown() {
        let text = "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolice\nspec: {a: hunter2}\n";
        assert_eq!(shown(text, 1).as_deref(), Some("apiVersion: policy.karmada.io/v1alpha1"));
        assert_eq!(shown(text, 2).as_deref(), Some("kind: PropagationPolice"));
        assert_eq!(shown(text, 3), None);
    }

    #[test]
    fn settings_show_their_keys_alone() {
        let settings =
            |text: &str| QuotableFile::new(true, text.as_bytes(), Dialects::default()).quote_line(0);
        assert_eq!(settings("values: {a: hunter2}").as_deref(), Some("values: …"));
        assert_eq!(settings("  paths:").as_deref(), Some("  paths:"));
        assert_eq!(settings("hunter2"), None);
        assert_eq!(settings("\"hunter2\": 1"), None);
    }
}
