//! What a commit says: where it comes from, and the trailers by which machines find that out.

use sha2::{Digest, Sha256};

use crate::cli::revision::Opened;
use federate_publish::Summary;
use federate_source::git::{self, Place};

/// Where the rendered tree comes from.
pub(super) struct Source {
    /// The commit, with `-dirty` where the work tree differs from it; `None` before the first one.
    commit: Option<String>,
    /// The first line of its message.
    subject: String,
}

impl Source {
    pub(super) fn of(opened: &Opened, place: &Place) -> Self {
        let none = Self { commit: None, subject: String::new() };
        let Ok(repository) = place.open() else { return none };
        let (id, dirty) = match opened {
            Opened::Revision(revision) => (Some(revision.commit()), false),
            Opened::WorkTree(_) => {
                // What cannot be told to be clean is not called so.
                (
                    place.resolve(&repository, "HEAD").ok().map(|head| head.commit),
                    git::is_modified(place).unwrap_or(true),
                )
            }
        };
        let Some(id) = id else { return none };
        let commit = repository.find_commit(id).ok();
        let subject = commit.and_then(|commit| Some(commit.summary().ok()??.to_owned()));
        let commit = Some(format!("{id}{}", if dirty { "-dirty" } else { "" }));
        Self { commit, subject: subject.unwrap_or_default() }
    }

    /// The message that is used unless another is given.
    pub(super) fn message(&self, summary: &Summary) -> String {
        let Some(commit) = &self.commit else { return format!("Render the work tree\n\n{summary}") };
        let (id, dirty) =
            commit.split_once('-').map_or((commit.as_str(), ""), |(id, _)| (id, ", with changes"));
        let short: String = id.chars().take(8).collect();
        let subject: String = self.subject.chars().filter(|c| !c.is_control()).take(60).collect();
        let subject = if subject.is_empty() { subject } else { format!(": {subject}") };
        format!("Render {short}{dirty}{subject}\n\n{summary}")
    }

    /// The trailers, a line each.
    pub(super) fn trailers(&self, plan: &str) -> String {
        let source = self.commit.as_ref().map_or_else(String::new, |id| format!("Federate-Source: {id}\n"));
        let digest = Sha256::digest(plan);
        let digest = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        let version = env!("CARGO_PKG_VERSION");
        format!("{source}Federate-Version: {version}\nFederate-Plan: sha256:{digest}\n")
    }
}

/// Adds trailers to a message: to those at its end, or as a paragraph of their own.
pub(super) fn with_trailers(message: &str, trailers: &str) -> String {
    let message = message.trim_end();
    let is_trailer = |line: &str| {
        let key = line.split_once(": ").map(|(key, _)| key);
        key.is_some_and(|key| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
    };
    let last = message.rsplit_once("\n\n").map(|(_, last)| last);
    let between = if last.is_some_and(|last| last.lines().all(is_trailer)) { "\n" } else { "\n\n" };
    format!("{message}{between}{trailers}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_join_those_that_are_there() {
        let with = |message: &str| with_trailers(message, "Federate-Version: 1\n");
        assert_eq!(with("Render"), "Render\n\nFederate-Version: 1\n");
        assert_eq!(with("fix: a\n\nBody: of\ntext"), "fix: a\n\nBody: of\ntext\n\nFederate-Version: 1\n");
        assert_eq!(with("a\n\nSigned-off-by: b\n"), "a\n\nSigned-off-by: b\nFederate-Version: 1\n");
        assert_eq!(with("fix: subject only"), "fix: subject only\n\nFederate-Version: 1\n");
    }
}
