//! The commit that was rendered, which hydrators call dry.

use git2::{Oid, Repository};
use jiff::Timestamp;

use super::trailers::{CommitReference, read_references, without_references};
use crate::branch::Error;

/// The commit that was rendered, as metadata describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryCommit {
    /// The full id.
    pub id: String,
    /// The address of its repository, without credentials; empty if it is not known.
    pub repository: String,
    /// The folder of the repository that was rendered; empty for its root.
    pub folder: String,
    /// `Name <address>`.
    pub(super) author: String,
    /// When it was authored, after RFC 3339.
    pub(super) date: String,
    /// The first paragraph of the message.
    pub(super) subject: String,
    /// The rest of the message, without the trailers that became references.
    pub(super) body: String,
    /// The commit to which its trailers refer.
    pub(super) references: Vec<CommitReference>,
}

impl DryCommit {
    /// Reads a commit. `address` is that of its repository, `folder` what is rendered of it.
    pub fn read_commit(repository: &Repository, id: Oid, address: &str, folder: &str) -> Result<Self, Error> {
        let commit = repository.find_commit(id)?;
        let message = String::from_utf8_lossy(commit.message_raw_bytes()).into_owned();
        let message = message.trim();
        let (subject, body) = message.split_once("\n\n").unwrap_or((message, ""));
        let author = commit.author();
        let name = String::from_utf8_lossy(author.name_bytes()).into_owned();
        let address_of_author = String::from_utf8_lossy(author.email_bytes()).into_owned();
        let date = Timestamp::from_second(author.when().seconds()).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Self {
            id: id.to_string(),
            repository: address.to_owned(),
            folder: folder.to_owned(),
            author: format!("{name} <{address_of_author}>"),
            date: date.to_string(),
            subject: subject.to_owned(),
            body: without_references(body),
            references: read_references(message),
        })
    }
}
