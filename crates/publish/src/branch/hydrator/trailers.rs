//! Trailers of the rendered commit that refer to another commit, such as the one that built an image.
//!
//! Facts: `Argocd-reference-commit-*` of Argo CD's source hydrator. The last trailer of a key counts, and one with an invalid
//! value stays in the body of the message.

use serde::Serialize;

/// The start of the keys of trailers that refer to a commit.
const PREFIX: &str = "Argocd-reference-commit-";

/// A reference of the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct CommitReference {
    commit: ReferencedCommit,
}

/// The commit to which trailers refer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct ReferencedCommit {
    #[serde(skip_serializing_if = "String::is_empty")]
    author: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    date: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    body: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    sha: String,
    #[serde(rename = "repoURL", skip_serializing_if = "String::is_empty")]
    repo_url: String,
}

/// The reference in the trailers of a message, if any is valid.
pub(super) fn read_references(message: &str) -> Vec<CommitReference> {
    let mut commit = ReferencedCommit::default();
    if let Ok(trailers) = git2::message_trailers_strs(message) {
        for (key, value) in trailers.iter() {
            commit.read_trailer(key, value);
        }
    }
    if commit == ReferencedCommit::default() { Vec::new() } else { vec![CommitReference { commit }] }
}

/// The body of a message without the lines that are valid trailers. Every line ends in a line break.
pub(super) fn without_references(body: &str) -> String {
    let is_trailer = |line: &str| {
        line.split_once(": ").is_some_and(|(key, value)| ReferencedCommit::default().read_trailer(key, value))
    };
    body.lines().filter(|line| !is_trailer(line)).flat_map(|line| [line, "\n"]).collect()
}

impl ReferencedCommit {
    /// Takes over a trailer; returns whether it is valid.
    fn read_trailer(&mut self, key: &str, value: &str) -> bool {
        let (field, value) = match key.strip_prefix(PREFIX) {
            Some("author") => (&mut self.author, parse_author(value)),
            Some("date") => (&mut self.date, parse_date(value)),
            Some("subject") => (&mut self.subject, Some(value.to_owned())),
            Some("body") => (&mut self.body, serde_json::from_str(value).ok()),
            Some("sha") => (&mut self.sha, Some(value.to_owned()).filter(|id| is_commit_id(id))),
            Some("repourl") => (&mut self.repo_url, Some(value.to_owned()).filter(|url| is_url(url))),
            _ => return false,
        };
        let is_valid = value.is_some();
        if let Some(value) = value {
            *field = value;
        }
        is_valid
    }
}

/// `Name <address>` or an address alone.
fn parse_author(text: &str) -> Option<String> {
    let (name, address) = match text.strip_suffix('>') {
        Some(text) => text.split_once('<')?,
        None => ("", text),
    };
    let (local, domain) = address.trim().rsplit_once('@')?;
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.contains(|c: char| c.is_whitespace() || c.is_control() || "<>()[]:;@\\,\"".contains(c))
    };
    let name = name.trim().trim_matches('"');
    if !is_plain(local) || !is_plain(domain) || name.contains(['<', '>', '@', '\n']) {
        return None;
    }
    Some(if name.is_empty() { format!("<{local}@{domain}>") } else { format!("{name} <{local}@{domain}>") })
}

/// A time after RFC 3339, without fractions of seconds and in its own offset.
fn parse_date(text: &str) -> Option<String> {
    let (date, time) = text.split_once('T')?;
    let offset = time.rfind(['Z', '+', '-'])?;
    let (time, offset) = time.split_at(offset);
    let time = time.split('.').next()?;
    let is_offset = offset == "Z" || (offset.len() == 6 && offset.as_bytes().get(3) == Some(&b':'));
    if date.len() != 10 || time.len() != 8 || !is_offset || text.parse::<jiff::Timestamp>().is_err() {
        return None;
    }
    Some(format!("{date}T{time}{offset}"))
}

fn is_commit_id(text: &str) -> bool {
    (5..=40).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether Go's parser of URLs takes the text.
fn is_url(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let escapes_end = text.split('%').skip(1).all(|rest| {
        rest.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    });
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    let has_place = first.split_once(':').is_none_or(|(scheme, _)| is_scheme(scheme));
    !text.contains(|c: char| c.is_ascii_control() || c == ' ') && escapes_end && has_place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(message: &str) -> serde_json::Value {
        serde_json::to_value(read_references(message)).unwrap()
    }

    #[test]
    fn valid_trailers_become_a_reference_and_leave_the_body() {
        let trailers = "Signed-off-by: A <a@example.com>\n\
             Argocd-reference-commit-sha: abc\n\
             Argocd-reference-commit-sha: 0123abc\n\
             Argocd-reference-commit-author: Code Writer <code@example.com>\n\
             Argocd-reference-commit-date: 2026-01-15T10:30:00+01:00\n\
             Argocd-reference-commit-subject: fix: a bug\n\
             Argocd-reference-commit-body: \"line 1\\nline 2\"\n\
             Argocd-reference-commit-repourl: https://git.example.com/code.git\n\
             Argocd-reference-commit-color: red\n";
        let message = format!("subject\n\nSome text.\n\n{trailers}");
        assert_eq!(
            reference(&message),
            serde_json::json!([{"commit": {"author": "Code Writer <code@example.com>", "date": "2026-01-15T10:30:00+01:00",
                "subject": "fix: a bug", "body": "line 1\nline 2", "sha": "0123abc",
                "repoURL": "https://git.example.com/code.git"}}])
        );
        let body = without_references(message.split_once("\n\n").unwrap().1);
        assert_eq!(
            body,
            "Some text.\n\nSigned-off-by: A <a@example.com>\nArgocd-reference-commit-sha: abc\n\
             Argocd-reference-commit-color: red\n"
        );
    }

    #[test]
    fn the_last_valid_trailer_of_a_key_counts() {
        let message = "s\n\nArgocd-reference-commit-sha: aaaaa\nArgocd-reference-commit-sha: bbbbb\nArgocd-reference-commit-sha: X";
        assert_eq!(reference(message), serde_json::json!([{"commit": {"sha": "bbbbb"}}]));
        assert_eq!(reference("s\n\nArgocd-reference-commit-sha: X"), serde_json::json!([]));
        assert_eq!(reference("Argocd-reference-commit-sha: aaaaa is the subject"), serde_json::json!([]));
    }

    #[test]
    fn values_are_checked() {
        for (author, valid) in [
            ("A <a@b.c>", true),
            ("a@b.c", true),
            ("\"A B\" <a@b>", true),
            ("A", false),
            ("A <a>", false),
            ("<a@b", false),
        ] {
            assert_eq!(parse_author(author).is_some(), valid, "{author}");
        }
        for (date, valid) in [
            ("2026-01-15T10:30:00Z", true),
            ("2026-01-15T10:30:00.5+02:00", true),
            ("2026-01-15", false),
            ("2026-13-15T10:30:00Z", false),
            ("2026-01-15 10:30:00Z", false),
        ] {
            assert_eq!(parse_date(date).is_some(), valid, "{date}");
        }
        for (url, valid) in [
            ("https://example.com/a%20b", true),
            ("relative/path", true),
            ("git@example.com:a/b", false),
            ("https://example.com/%zz", false),
            ("https://exa mple.com", false),
        ] {
            assert_eq!(is_url(url), valid, "{url}");
        }
    }
}
