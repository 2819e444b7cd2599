//! Submodules of a source: which repositories they are in, and that nothing else is fetched with the source's credentials.
//!
//! A submodule is a commit in another repository, which the commit of the source names by its hash; so a signature of the
//! source covers it. Its objects are fetched into the same cache. Its address must be on the server of the source, because
//! credentials are sent there.
//!
//! Facts: gitmodules(5); git-submodule(1) (relative addresses); gitglossary(7) ("gitlink").

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::{Oid, Repository, Tree};

use crate::source::{Error, FETCH_LIMITS, SourceRemote};

/// Where the commits of submodules are, in the cache.
const SUBMODULE_REFS: &str = "refs/federate/modules";
/// How large `.gitmodules` may be.
const MAX_GITMODULES_BYTES: usize = 64 << 10;
/// How many submodules there may be, with those of submodules.
const MAX_SUBMODULES: usize = 32;
/// How deep they may be nested.
const MAX_DEPTH: usize = 4;
/// The mode of a submodule in a tree.
const GITLINK_MODE: i32 = 0o160_000;

/// A repository whose submodules are to be fetched.
struct OpenRepository {
    address: String,
    commit: Oid,
    /// The folder that is read, from its root.
    folder: String,
    depth: usize,
}

impl SourceRemote<'_> {
    /// Fetches the submodules below the folder of a commit. Returns their commits.
    pub(crate) fn fetch_submodules(
        &self,
        repository: &Repository,
        commit: Oid,
        folder: &str,
    ) -> Result<BTreeSet<Oid>, Error> {
        let mut commits = BTreeSet::new();
        let first =
            OpenRepository { address: self.address.to_owned(), commit, folder: folder.to_owned(), depth: 0 };
        let mut open = vec![first];
        while let Some(next) = open.pop() {
            for (path, address) in list_submodules(repository, &next)? {
                let Some(commit) = find_gitlink(repository, next.commit, &path) else { continue };
                let address = resolve_address(&next.address, &address)
                    .map_err(|why| Error::Submodule { path: path.clone(), why })?;
                if next.depth == MAX_DEPTH || (!commits.contains(&commit) && commits.len() == MAX_SUBMODULES)
                {
                    let why = format!(
                        "more than {MAX_SUBMODULES} submodules, or {MAX_DEPTH} in each other, are not read"
                    );
                    return Err(Error::Submodule { path, why });
                }
                self.fetch_submodule(repository, &address, commit)?;
                commits.insert(commit);
                open.push(OpenRepository { address, commit, folder: String::new(), depth: next.depth + 1 });
            }
        }
        Ok(commits)
    }

    fn fetch_submodule(&self, repository: &Repository, address: &str, commit: Oid) -> Result<(), Error> {
        let name = format!("{SUBMODULE_REFS}/{commit}");
        // Git moves a reference when everything that it leads to is there.
        if repository.find_reference(&name).is_ok() {
            return Ok(());
        }
        self.check_size()?;
        let git = self.git_command(repository, "fetch").with_limits(FETCH_LIMITS);
        let git = git.arg("--depth=1").arg("--no-tags").arg("--no-write-fetch-head");
        git.arg("--").arg(address).arg(format!("+{commit}:{name}")).run()?;
        Ok(())
    }
}

/// The submodules below the folder of a repository: their paths, and their addresses as they are written.
fn list_submodules(
    repository: &Repository,
    open: &OpenRepository,
) -> Result<BTreeMap<String, String>, Error> {
    let Some(tree) = find_tree(repository, open.commit) else { return Ok(BTreeMap::new()) };
    let Ok(entry) = tree.get_path(Path::new(".gitmodules")) else { return Ok(BTreeMap::new()) };
    let (size, _) = repository
        .odb()
        .and_then(|odb| odb.read_header(entry.id()))
        .map_err(|error| unreadable_gitmodules(error.message()))?;
    if size > MAX_GITMODULES_BYTES {
        return Err(unreadable_gitmodules("the file is too large"));
    }
    let blob = repository.find_blob(entry.id()).map_err(|error| unreadable_gitmodules(error.message()))?;
    let text =
        std::str::from_utf8(blob.content()).map_err(|_| unreadable_gitmodules("the file is not UTF-8"))?;
    let mut modules = parse_gitmodules(text);
    modules.retain(|path, _| {
        open.folder.is_empty()
            || path.strip_prefix(&open.folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    Ok(modules)
}

fn unreadable_gitmodules(why: &str) -> Error {
    Error::Submodule { path: ".gitmodules".to_owned(), why: why.to_owned() }
}

fn find_tree(repository: &Repository, commit: Oid) -> Option<Tree<'_>> {
    repository.find_commit(commit).ok()?.tree().ok()
}

/// The commit of a submodule, if there is one at a path.
fn find_gitlink(repository: &Repository, commit: Oid, path: &str) -> Option<Oid> {
    let entry = find_tree(repository, commit)?.get_path(Path::new(path)).ok()?;
    (entry.filemode() == GITLINK_MODE).then(|| entry.id())
}

/// The paths and addresses in `.gitmodules`. Everything else in it is ignored.
fn parse_gitmodules(text: &str) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    let (mut path, mut address) = (None, None);
    for line in text.lines().map(str::trim).chain(["["]) {
        if line.starts_with('[') {
            if let (Some(path), Some(address)) = (path.take(), address.take()) {
                modules.insert(path, address);
            }
            (path, address) = (None, None);
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches('"').to_owned();
        match key.trim() {
            "path" => path = Some(value.trim_matches('/').to_owned()),
            "url" => address = Some(value),
            _ => {}
        }
    }
    modules
}

/// The address of a submodule of the repository at `base`.
fn resolve_address(base: &str, written: &str) -> Result<String, String> {
    let (server, path) = split_address(base).ok_or(
        "submodules are read from servers only: name the source by https or ssh, or move what they hold into it",
    )?;
    let path = match written.strip_prefix("./").or(written.starts_with("../").then_some(written)) {
        Some(relative) => {
            let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
            for part in relative.split('/').filter(|part| !part.is_empty() && *part != ".") {
                match part {
                    ".." => drop(parts.pop().ok_or("its address leads above the server's root")?),
                    part => parts.push(part),
                }
            }
            let slash = if path.starts_with('/') { "/" } else { "" };
            format!("{slash}{}", parts.join("/"))
        }
        None => match split_address(written) {
            Some((other, path)) if is_same_server(server, other) => path.to_owned(),
            _ => {
                return Err("its address is not on the server of the source, to which alone the source's \
                            credentials are sent: write it relative to the source (`../other.git`), or give it a \
                            Sync of its own"
                    .to_owned());
            }
        },
    };
    if path.trim_matches('/').is_empty()
        || !path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-~+".contains(c))
        || path.split('/').any(|part| part.starts_with('-') || part == "..")
    {
        return Err("its address is not a plain path on the server of the source".to_owned());
    }
    Ok(format!("{server}{path}"))
}

/// The server of an address, with all that leads to it, and the path on it.
fn split_address(address: &str) -> Option<(&str, &str)> {
    if let Some((scheme, rest)) = address.split_once("://") {
        if !matches!(scheme, "https" | "http" | "ssh") {
            return None;
        }
        let path = rest.find('/')?;
        let server = scheme.len() + "://".len() + path;
        return address.split_at_checked(server);
    }
    // `user@host:path`
    let colon = address.find(':')?;
    let (host, _) = address.split_at_checked(colon)?;
    if host.contains('/') {
        return None;
    }
    address.split_at_checked(colon + 1)
}

/// Whether two servers are the same, whatever credentials the first is named with.
fn is_same_server(server: &str, other: &str) -> bool {
    match server.split_once("://") {
        Some((scheme, rest)) if scheme != "ssh" => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}").eq_ignore_ascii_case(other)
        }
        _ => server.eq_ignore_ascii_case(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_on_the_server_of_the_source() {
        let https = |written: &str| resolve_address("https://t:s@example.com/a/b.git", written).ok();
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(https("../c.git"), found("https://t:s@example.com/a/c.git"));
        assert_eq!(https("../../c.git"), found("https://t:s@example.com/c.git"));
        assert_eq!(https("./c"), found("https://t:s@example.com/a/b.git/c"));
        assert_eq!(https("https://example.com/d/c.git"), found("https://t:s@example.com/d/c.git"));
        for hostile in [
            "../../../c.git",
            "https://example.org/c.git",
            "http://example.com/c.git",
            "https://example.com.evil.org/c.git",
            "https://example.com:8443/c.git",
            "https://u@example.com/c.git",
            "https://example.com@evil.org/c.git",
            "ext::sh -c true",
            "file:///etc",
            "/etc",
            "git@example.com:c.git",
            "../-u",
            "../c.git?x",
            "../c d",
            "",
        ] {
            assert_eq!(https(hostile), None, "{hostile}");
        }
        let ssh = |written: &str| resolve_address("git@example.com:a/b.git", written).ok();
        assert_eq!(ssh("../c.git"), found("git@example.com:a/c.git"));
        assert_eq!(ssh("git@example.com:d/c.git"), found("git@example.com:d/c.git"));
        assert_eq!(ssh("root@example.com:d/c.git"), None);
        assert!(resolve_address("/srv/a.git", "../b.git").is_err(), "a path is not a server");
    }

    #[test]
    fn only_paths_and_addresses_are_read() {
        let text = "[submodule \"a\"]\n\tpath = modules/a\n\turl = ../a.git\n\tupdate = !touch x\n[core]\n\tx = y\n\
                    [submodule \"b\"]\n\tpath = b\n";
        assert_eq!(parse_gitmodules(text), BTreeMap::from([("modules/a".to_owned(), "../a.git".to_owned())]));
    }
}
