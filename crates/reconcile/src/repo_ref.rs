//! The repo that the objects of an `ApplySet` come from, as its parent records it: so that no other repo uses the
//! same set and deletes objects that it does not render, and so that everyone sees which commit runs in a cluster.

use federate_kubernetes::hex::to_hex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use federate_apiserver_model::values::text_below;

const REPOSITORY_ANNOTATION: &str = "federate.dev/repository";
const PATH_ANNOTATION: &str = "federate.dev/path";
const REVISION_ANNOTATION: &str = "federate.dev/revision";

/// The number of characters of a repository's name in the name of its `ApplySet`.
const MAX_NAME_CHARS: usize = 30;

/// A repo, the same for all its clones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepoRef {
    /// The repository: the address of its remote, without scheme and user, such as `example.com/shop/deploy`.
    pub repository: String,
    /// The folder in it; empty for the root.
    pub path: String,
    /// The commit, with `-dirty` where files differ from it; `None` where there is none yet.
    pub revision: Option<String>,
}

impl RepoRef {
    /// The repo at the address of a git remote, in any notation.
    pub fn from_url(url: &str, path: &str, revision: Option<String>) -> Self {
        let (host, rest) = match url.split_once("://") {
            Some((_, address)) => address.split_once('/').unwrap_or((address, "")),
            None if url.starts_with('/') => ("", url),
            // `git@example.com:shop/deploy` means `ssh://git@example.com/shop/deploy`.
            None => url.split_once(':').unwrap_or(("", url)),
        };
        // The part before the host may be credentials.
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_lowercase();
        let rest = rest.trim_matches('/');
        let repository = format!("{host}/{}", rest.strip_suffix(".git").unwrap_or(rest));
        Self { repository, path: path.trim_matches('/').to_owned(), revision }
    }

    /// The part of the repo that is read where only these paths of it are: it manages other objects than the whole, and
    /// than other parts.
    #[must_use]
    pub fn narrowed_to(self, paths: &[String]) -> Self {
        let mut paths: Vec<&str> = paths.iter().map(String::as_str).filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        if paths.is_empty() {
            return self;
        }
        let within = if self.path.is_empty() { String::new() } else { format!("{}/", self.path) };
        Self { path: format!("{within}{{{}}}", paths.join(",")), ..self }
    }

    /// Reads it from a parent; `None` where the parent names no repo.
    pub fn from_parent(parent: &Value) -> Option<Self> {
        let annotations = parent.pointer("/metadata/annotations")?;
        Some(Self {
            repository: annotations.get(REPOSITORY_ANNOTATION)?.as_str()?.to_owned(),
            path: text_below(annotations, PATH_ANNOTATION).to_owned(),
            revision: annotations.get(REVISION_ANNOTATION).and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// Whether both are the same folder of the same repository, in any revision.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.repository, &self.path) == (&other.repository, &other.path)
    }

    /// Writes it into the annotations of a parent.
    pub(super) fn write_annotations(&self, annotations: &mut Map<String, Value>) {
        annotations.insert(REPOSITORY_ANNOTATION.to_owned(), self.repository.clone().into());
        annotations.insert(PATH_ANNOTATION.to_owned(), self.path.clone().into());
        if let Some(revision) = &self.revision {
            annotations.insert(REVISION_ANNOTATION.to_owned(), revision.clone().into());
        }
    }

    /// The default name of the `ApplySet`: readable, and unique to each folder of each repository.
    pub fn set_name(&self) -> String {
        let digest = Sha256::digest(format!("{}\n{}", self.repository, self.path));
        let digest = to_hex(&digest[..4]);
        let last = self.repository.rsplit('/').next().unwrap_or_default();
        let chars = last.chars().take(MAX_NAME_CHARS).map(|c| c.to_ascii_lowercase());
        let name: String = chars.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let name = name.trim_matches('-');
        if name.is_empty() { format!("federate-{digest}") } else { format!("federate-{name}-{digest}") }
    }
}

impl std::fmt::Display for RepoRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}", self.repository),
            path => write!(f, "{}, folder {path}", self.repository),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_repo_differ() {
        let part = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            RepoRef::from_url("https://example.com/a", "fleet", None).narrowed_to(&paths)
        };
        assert_eq!(part(&["shared", "dev"]).path, "fleet/{dev,shared}");
        assert_eq!(part(&["dev", "shared", "dev"]), part(&["shared", "dev"]));
        assert_ne!(part(&["shared", "dev"]).set_name(), part(&["shared", "prod"]).set_name());
        assert_eq!(part(&[]).path, "fleet");
        assert_eq!(part(&[""]).path, "fleet");
    }

    #[test]
    fn one_repository_has_one_address() {
        for url in [
            "https://user:secret@Example.com/shop/deploy.git",
            "ssh://git@example.com/shop/deploy",
            "git@example.com:shop/deploy.git",
            "https://example.com/shop/deploy/",
        ] {
            assert_eq!(RepoRef::from_url(url, "/prod/", None).repository, "example.com/shop/deploy", "{url}");
        }
        assert_eq!(RepoRef::from_url("/srv/git/deploy.git", "", None).repository, "/srv/git/deploy");
        assert_eq!(
            RepoRef::from_url("https://example.com:8443/a", "", None).repository,
            "example.com:8443/a"
        );
    }

    #[test]
    fn each_folder_has_a_set_of_its_own() {
        let of = |url: &str, path: &str| RepoRef::from_url(url, path, None).set_name();
        let name = of("https://example.com/shop/Deploy_It", "prod");
        assert!(name.starts_with("federate-deploy-it-") && name.len() == 27, "{name}");
        assert_ne!(name, of("https://example.com/shop/Deploy_It", "test"));
        assert_ne!(name, of("https://example.com/other/Deploy_It", "prod"));
    }
}
