//! Which git repositories that objects of Flux and Argo CD name are the one that the repo is.
//!
//! The files of a repo do not say where it is cloned from, and remotes differ from clone to clone. The objects do say it: what builds
//! the file in which it is written reads this repo, as the Kustomization of Flux's bootstrap and an Application of Applications do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use federate_file_tree::is_within;
use federate_kubernetes::Object;
use federate_kubernetes::object::{field_text, pointer_text};

use crate::argocd::application::{describes_source as is_argo_source, list_sources};
use crate::flux::{describes_source as is_flux_source, read_local_path};

/// What a repository is for a repo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepositoryRole {
    /// It is this one.
    Own,
    /// It is another one.
    Remote,
    /// Objects name several, and nothing says which of them is this one.
    Unknown,
}

/// The addresses of the git repository that the repo is.
#[derive(Debug, Default)]
pub struct OwnRepository {
    /// The addresses that are known to be those of this repo, in one form.
    own: BTreeSet<String>,
    /// All that objects name, in one form, in which there are no credentials.
    named: BTreeSet<String>,
    /// Those whose root an object builds that is written in this repo: any repository may be built from its root.
    at_root: BTreeSet<String>,
    /// Whether an object names a repository of which the repo has no object, as Flux's bootstrap may leave it.
    has_unwritten: bool,
    /// Those that were taken for this repo although that is not known.
    assumed: Mutex<BTreeSet<String>>,
}

impl OwnRepository {
    /// Finds the addresses by which objects of a repo name it. `configured` are addresses that a person has named.
    pub fn find<'o>(objects: impl Iterator<Item = &'o Object> + Clone, configured: &[String]) -> Self {
        let mut found =
            Self { own: configured.iter().map(|one| normalize_address(one)).collect(), ..Self::default() };
        let argo: Vec<&Object> = objects.clone().filter(|object| is_argo_source(object)).collect();
        // Of Flux: the address of each repository by namespace and name, and the repositories that are this one.
        let mut repositories = BTreeMap::new();
        let mut selves = BTreeSet::new();
        let mut referred = BTreeSet::new();
        let mut built_at_root = BTreeSet::new();
        for object in objects {
            let namespace = object.id.namespace.as_deref().unwrap_or("default");
            match (object.id.group(), object.id.kind.as_str()) {
                ("source.toolkit.fluxcd.io", "GitRepository") => {
                    let address = pointer_text(&object.body, "/spec/url");
                    found.add_named(address);
                    repositories.insert((namespace, object.id.name.as_str()), address);
                }
                ("fluxcd.controlplane.io", "FluxInstance") => {
                    let sync = object.body.pointer("/spec/sync").unwrap_or(&Value::Null);
                    if matches!(field_text(sync, "kind"), "" | "GitRepository") {
                        found.add_own(field_text(sync, "url"));
                    }
                }
                _ if is_flux_source(object) => {
                    let at = if object.id.kind == "HelmRelease" {
                        "/spec/chart/spec/sourceRef"
                    } else {
                        "/spec/sourceRef"
                    };
                    let source = object.body.pointer(at).unwrap_or(&Value::Null);
                    if field_text(source, "kind") != "GitRepository" {
                        continue;
                    }
                    let named = Some(field_text(source, "namespace")).filter(|named| !named.is_empty());
                    let key = (named.unwrap_or(namespace), field_text(source, "name"));
                    referred.insert(key);
                    if object.id.kind == "Kustomization" {
                        match read_local_path(pointer_text(&object.body, "/spec/path"), at) {
                            Ok(path) if path.is_empty() => drop(built_at_root.insert(key)),
                            Ok(path) if is_within(&object.origin.file, &path) => drop(selves.insert(key)),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        found.at_root.extend(
            built_at_root
                .iter()
                .filter_map(|key| repositories.get(key))
                .map(|address| normalize_address(address)),
        );
        for address in selves.iter().filter_map(|key| repositories.get(key)) {
            found.add_own(address);
        }
        found.has_unwritten = referred.iter().any(|key| !repositories.contains_key(key));
        let files: BTreeSet<&str> = argo.iter().map(|object| &*object.origin.file).collect();
        for object in &argo {
            found.add_application(object, &files);
        }
        if let (true, 1) = (found.own.is_empty(), found.at_root.len()) {
            found.own.clone_from(&found.at_root);
        }
        found
    }

    /// Adds what an Application or a set names. `files` are those with Applications and sets.
    fn add_application(&mut self, object: &Object, files: &BTreeSet<&str>) {
        let at = if object.id.kind == "Application" { "/spec" } else { "/spec/template/spec" };
        let spec = object.body.pointer(at).unwrap_or(&Value::Null);
        for (pointer, source) in list_sources(spec, at) {
            let (address, path) = (field_text(source, "repoURL"), field_text(source, "path"));
            if !field_text(source, "chart").is_empty() || address.contains("{{") {
                continue;
            }
            self.add_named(address);
            if path.is_empty() || path.contains("{{") {
                continue;
            }
            match read_local_path(path, &pointer) {
                Ok(path) if path.is_empty() => drop(self.at_root.insert(normalize_address(address))),
                // What builds other Applications that are written here reads this repo.
                Ok(path) if contains_any(&path, files) => self.add_own(address),
                _ => {}
            }
        }
        let mut open: Vec<&Value> = object.body.pointer("/spec/generators").into_iter().collect();
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(map) => {
                    open.extend(["matrix", "merge", "generators"].iter().filter_map(|key| map.get(*key)));
                    let git = map.get("git").map_or("", |git| field_text(git, "repoURL"));
                    if !git.contains("{{") {
                        self.add_named(git);
                    }
                }
                _ => {}
            }
        }
    }

    fn add_named(&mut self, address: &str) {
        if !address.is_empty() {
            self.named.insert(normalize_address(address));
        }
    }

    fn add_own(&mut self, address: &str) {
        if !address.is_empty() {
            self.add_named(address);
            self.own.insert(normalize_address(address));
        }
    }

    /// What the repository at an address is. Without an address, it is this one.
    fn find_role(&self, address: &str) -> RepositoryRole {
        if address.is_empty() || self.own.contains(&normalize_address(address)) {
            return RepositoryRole::Own;
        }
        match (self.own.is_empty(), self.named.len()) {
            (false, _) => RepositoryRole::Remote,
            (true, 0 | 1) if !self.has_unwritten => RepositoryRole::Own,
            (true, _) => RepositoryRole::Unknown,
        }
    }

    /// Whether a folder is one of another repository. `exists` says whether this repo has a folder at its path, which decides where
    /// nothing says which repository this one is.
    pub(crate) fn is_remote(&self, address: &str, exists: impl FnOnce() -> bool) -> bool {
        match self.find_role(address) {
            RepositoryRole::Own => false,
            RepositoryRole::Remote => true,
            RepositoryRole::Unknown if exists() => {
                let mut assumed = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
                assumed.insert(normalize_address(address));
                false
            }
            RepositoryRole::Unknown => true,
        }
    }

    /// The addresses that were taken for this repo although that is not known, in one form and without credentials.
    pub fn take_assumed(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.assumed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a folder contains one of these files.
fn contains_any(folder: &str, files: &BTreeSet<&str>) -> bool {
    let below = format!("{folder}/");
    let mut first = files.range::<&str, _>(below.as_str()..);
    files.contains(folder) || first.next().is_some_and(|file| file.starts_with(&below))
}

/// An address without what differs between the ways to reach one repository: scheme, credentials, the usual port, case, and `.git`.
fn normalize_address(address: &str) -> String {
    let (rest, has_scheme) = address.split_once("://").map_or((address, false), |(_, rest)| (rest, true));
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, below) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
    let (host, path) = match authority.split_once(':') {
        Some((host, "22" | "80" | "443")) if has_scheme => (host.to_owned(), below.to_owned()),
        // As `git@host:owner/name`.
        Some((host, path)) if !has_scheme => (host.to_owned(), format!("{path}{below}")),
        _ => (authority.to_owned(), below.to_owned()),
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    format!("{host}/{path}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Flux's bootstrap may be outside of the repo, and a repository of a tenant the only one that is written.
    #[test]
    fn the_only_address_is_this_repo_unless_another_one_is_referred_to() {
        let repository = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "team", "namespace": "apps"}, "spec": {"url": "https://git.example.com/team"}});
        let kustomization = |source: &str| {
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": {"name": source, "namespace": "apps"},
                "spec": {"path": "./other", "sourceRef": {"kind": "GitRepository", "name": source}}})
        };
        for (sources, role) in
            [(vec!["team"], RepositoryRole::Own), (vec!["team", "flux-system"], RepositoryRole::Unknown)]
        {
            let bodies = sources.into_iter().map(kustomization).chain([repository.clone()]);
            let objects: Vec<Object> = bodies.map(|body| Object::from_manifest(body, "a/b.yaml")).collect();
            let found = OwnRepository::find(objects.iter(), &[]);
            assert_eq!(found.find_role("https://git.example.com/team"), role);
        }
    }

    /// A tenant's repository may be built from its root, as any may; this one is that of the bootstrap.
    #[test]
    fn what_is_built_from_a_root_is_this_repo_only_if_nothing_else_is() {
        let body = |kind: &str, name: &str, spec: serde_json::Value| {
            let group = if kind == "GitRepository" { "source" } else { "kustomize" };
            json!({"apiVersion": format!("{group}.toolkit.fluxcd.io/v1"), "kind": kind,
                "metadata": {"name": name, "namespace": "n"}, "spec": spec})
        };
        let pair = |name: &str, path: &str| {
            let reference = json!({"kind": "GitRepository", "name": name});
            [
                body(
                    "GitRepository",
                    name,
                    json!({"url": format!("https://user:secret@git.example.com/{name}")}),
                ),
                body("Kustomization", name, json!({"path": path, "sourceRef": reference})),
            ]
        };
        let find = |bodies: Vec<serde_json::Value>| {
            let objects: Vec<Object> =
                bodies.into_iter().map(|body| Object::from_manifest(body, "clusters/eu/a.yaml")).collect();
            OwnRepository::find(objects.iter(), &[])
        };
        let both = find([pair("fleet", "./clusters/eu"), pair("tenant", "./")].concat());
        assert_eq!(both.find_role("https://git.example.com/fleet"), RepositoryRole::Own);
        assert_eq!(both.find_role("https://git.example.com/tenant"), RepositoryRole::Remote);
        let only = find(pair("fleet", "./").to_vec());
        assert_eq!(only.find_role("https://git.example.com/fleet"), RepositoryRole::Own);
        let several = find([pair("a", "./"), pair("b", "./")].concat());
        assert!(!several.is_remote("https://user:secret@git.example.com/a", || true));
        assert_eq!(several.take_assumed(), ["git.example.com/a".to_owned()].into());
    }

    #[test]
    fn ways_to_reach_one_repository_are_one_address() {
        for address in [
            "https://git.example.com/shop/deploy",
            "https://git.example.com/shop/deploy.git/",
            "https://user@Git.Example.com:443/shop/deploy.git",
            "ssh://git@git.example.com:22/shop/deploy",
            "git@git.example.com:shop/deploy.git",
            "git.example.com/shop/deploy",
            "user:secret@git.example.com/Shop/deploy",
        ] {
            assert_eq!(normalize_address(address), "git.example.com/shop/deploy", "{address}");
        }
        assert_ne!(normalize_address("https://h/a/b"), normalize_address("https://h/a/c"));
        assert_ne!(normalize_address("https://h:8443/a"), normalize_address("https://h/a"));
        assert_eq!(normalize_address("x"), "x/");
    }
}
