//! Creates commits: author, committer, message, and a signature if git is configured to sign.

use git2::{ObjectType, Oid, Repository};

use super::Error;
use federate_source::git::program::{self, GitCommand};

/// The author or committer of a commit as git writes it: `Name <address> seconds zone`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    author: String,
    committer: String,
    /// Whether git's `commit.gpgSign` is on.
    signs: bool,
}

/// The identity of a role, `AUTHOR` or `COMMITTER`, by git's own rules.
fn read_ident(repository: &Repository, role: &str) -> Result<String, Error> {
    let variable = format!("GIT_{role}_IDENT");
    let configured = GitCommand::new(repository, "var").override_config("user.useConfigOnly", "true");
    let ident = match configured.arg(&variable).run() {
        Ok(ident) => ident,
        // No identity is configured, as on most build machines.
        Err(_) => GitCommand::new(repository, "var")
            .env(&format!("GIT_{role}_NAME"), "federate")
            .env(&format!("GIT_{role}_EMAIL"), "federate@localhost")
            .arg(&variable)
            .run()?,
    };
    Ok(ident.trim_end().to_owned())
}

impl Identity {
    /// The identity by git's own rules: its environment and configuration, or `federate` if neither names
    /// one. `author` (`Name <address>`) replaces the author.
    pub fn read_identity(repository: &Repository, author: Option<&str>) -> Result<Self, Error> {
        let committer = read_ident(repository, "COMMITTER")?;
        let author = match author {
            Some(author) => {
                let when = committer.rsplit_once("> ").map_or("", |(_, when)| when);
                format!("{author} {when}")
            }
            None => read_ident(repository, "AUTHOR")?,
        };
        let signs =
            GitCommand::new(repository, "config").arg("--type=bool").arg("--get").arg("commit.gpgSign");
        let signs = match signs.run() {
            Ok(output) => output.trim() == "true",
            // Signing is not configured.
            Err(program::Error::Failed { code: Some(1), .. }) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { author, committer, signs })
    }

    /// The same for a commit that is not signed.
    pub(super) fn without_signature(&self) -> Self {
        Self { signs: false, ..self.clone() }
    }

    /// Whether the text is `Name <address>` and contains nothing that would break a commit.
    pub fn is_name_and_address(text: &str) -> bool {
        let parts = text.strip_suffix('>').and_then(|text| text.split_once(" <"));
        parts.is_some_and(|(name, address)| {
            [name, address]
                .iter()
                .all(|part| !part.trim().is_empty() && !part.contains(['<', '>', '\n', '\0']))
        })
    }
}

/// The content of a commit.
#[derive(Clone, Debug)]
pub struct CommitContent<'c> {
    /// The root tree.
    pub tree: Oid,
    /// The parent.
    pub parent: Option<Oid>,
    /// The author and committer.
    pub identity: &'c Identity,
    /// The message with its trailers.
    pub message: &'c str,
}

/// Creates the commit, signed if git's `commit.gpgSign` is set. Moves no branch.
pub fn create_commit(repository: &Repository, commit: &CommitContent<'_>) -> Result<Oid, Error> {
    if commit.identity.signs {
        return create_signed_commit(repository, commit);
    }
    let mut text = format!("tree {}\n", commit.tree);
    if let Some(parent) = commit.parent {
        text.push_str(&format!("parent {parent}\n"));
    }
    let Identity { author, committer, .. } = commit.identity;
    let message = commit.message.replace('\0', "");
    text.push_str(&format!("author {author}\ncommitter {committer}\n\n{}\n", message.trim_end()));
    Ok(repository.odb()?.write(ObjectType::Commit, text.as_bytes())?)
}

/// Has git create the commit, because git knows the keys.
fn create_signed_commit(repository: &Repository, commit: &CommitContent<'_>) -> Result<Oid, Error> {
    let mut git = GitCommand::new(repository, "commit-tree").arg("-S").arg(commit.tree.to_string());
    if let Some(parent) = commit.parent {
        git = git.arg("-p").arg(parent.to_string());
    }
    for (role, who) in [("AUTHOR", &commit.identity.author), ("COMMITTER", &commit.identity.committer)] {
        let (name, rest) = who.split_once(" <").unwrap_or((who, ""));
        let (address, when) = rest.split_once("> ").unwrap_or((rest, ""));
        git = git
            .env(&format!("GIT_{role}_NAME"), name)
            .env(&format!("GIT_{role}_EMAIL"), address)
            .env(&format!("GIT_{role}_DATE"), when);
    }
    let output = git.with_input(commit.message.replace('\0', "").trim_end().to_owned() + "\n").run()?;
    Ok(Oid::from_str(output.trim())?)
}
