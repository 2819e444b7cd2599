//! The artifacts that an `ArtifactGenerator` of Flux makes of a repository: which folder of the repo a path in an artifact is.
//!
//! Facts: the API `source.extensions.fluxcd.io/v1beta1`. An artifact has copies of files, `@ALIAS/GLOB` of a source to a path
//! below `@artifact/`; a glob that ends in `/**` copies what is in the folder, and a folder is copied with its own name into a path that
//! ends in `/`. An `ExternalArtifact` has the name of the artifact and the namespace of its generator.

use std::collections::BTreeMap;

use federate_file_tree::{join_path, normalize_path};
use federate_kubernetes::Object;
use federate_kubernetes::object::field_text;
use serde_json::Value;

/// The prefix of paths in an artifact.
const ARTIFACT_PREFIX: &str = "@artifact/";

/// What an artifact is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Artifact {
    /// Parts of this folder of the repo, at the same paths.
    Folder(String),
    /// Something else, with the reason why its paths are not known.
    Unknown(String),
}

/// The artifacts of generators, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Artifacts(BTreeMap<(String, String), Artifact>);

impl Artifacts {
    /// The artifacts of the generators among objects.
    pub(super) fn from_objects<'o>(objects: impl Iterator<Item = &'o Object>) -> Self {
        let mut artifacts = Self::default();
        objects.for_each(|object| artifacts.add_object(object));
        artifacts
    }

    /// Adds the artifacts of an object, if it is a generator.
    fn add_object(&mut self, object: &Object) {
        if object.id.group() != "source.extensions.fluxcd.io" || object.id.kind != "ArtifactGenerator" {
            return;
        }
        let spec = object.body.get("spec").unwrap_or(&Value::Null);
        let namespace = object.id.namespace.as_deref().unwrap_or("default");
        let listed = |key| spec.get(key).and_then(Value::as_array).into_iter().flatten();
        let kinds: BTreeMap<&str, &str> = listed("sources")
            .map(|source| (field_text(source, "alias"), field_text(source, "kind")))
            .collect();
        for artifact in listed("artifacts") {
            let read = read_artifact(artifact, &kinds).unwrap_or_else(Artifact::Unknown);
            self.0.insert((namespace.to_owned(), field_text(artifact, "name").to_owned()), read);
        }
    }

    /// The folder of the repo that a path in an artifact is. The error is the end of a sentence about it.
    pub(super) fn resolve_path(&self, namespace: &str, name: &str, path: &str) -> Result<String, String> {
        match self.0.get(&(namespace.to_owned(), name.to_owned())) {
            // Another program makes it, of what is at the same paths as far as is known.
            None => Ok(path.to_owned()),
            Some(Artifact::Unknown(why)) => {
                Err(format!("the folder of the artifact {namespace}/{name} is not known: {why}"))
            }
            Some(Artifact::Folder(folder)) => Ok(join_path(folder, path)),
        }
    }
}

/// Finds the folder of which an artifact has parts: that is known if all copies keep their distance from it.
fn read_artifact(artifact: &Value, kinds: &BTreeMap<&str, &str>) -> Result<Artifact, String> {
    let mut base: Option<String> = None;
    for copy in artifact.get("copy").and_then(Value::as_array).into_iter().flatten() {
        let (from, to) = (field_text(copy, "from"), field_text(copy, "to"));
        let (alias, source) = from
            .strip_prefix('@')
            .and_then(|from| from.split_once('/'))
            .ok_or_else(|| format!("`{from}` does not begin with the alias of a source"))?;
        match kinds.get(alias) {
            Some(&"GitRepository") => {}
            Some(kind) => {
                return Err(format!("it has parts of a {kind}, and only what is in the repo is built"));
            }
            None => return Err(format!("no source has the alias `{alias}`")),
        }
        let to = to
            .strip_prefix(ARTIFACT_PREFIX)
            .ok_or_else(|| format!("`{to}` is not below `{ARTIFACT_PREFIX}`"))?;
        let (source, target) = match source.strip_suffix("/**") {
            Some(folder) => (folder.to_owned(), to.to_owned()),
            None if source == "**" => (String::new(), to.to_owned()),
            None if source.contains(['*', '?', '[', '{']) => {
                return Err(format!("the glob `{from}` copies files from different folders to one"));
            }
            None if to.is_empty() || to.ends_with('/') => {
                (source.to_owned(), format!("{to}{}", source.rsplit('/').next().unwrap_or(source)))
            }
            None => (source.to_owned(), to.to_owned()),
        };
        let [source, target] = [source, target].map(|path| normalize_path(&path));
        let (Ok(source), Ok(target)) = (source, target) else {
            return Err(format!("`{from}` or the path that it is copied to leads out of its tree"));
        };
        let own = strip_below(&source, &target)
            .ok_or_else(|| format!("`{from}` is copied to another path than that of the repo"))?;
        match &base {
            Some(base) if base != own => {
                return Err("its parts are not as far from each other as in the repo".to_owned());
            }
            _ => base = Some(own.to_owned()),
        }
    }
    base.map(Artifact::Folder).ok_or_else(|| "it copies nothing".to_owned())
}

/// The path above `below` at the end of a path.
fn strip_below<'p>(path: &'p str, below: &str) -> Option<&'p str> {
    if below.is_empty() {
        return Some(path);
    }
    let above = path.strip_suffix(below)?;
    if above.is_empty() { Some(above) } else { above.strip_suffix('/') }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_artifact_is_a_part_of_a_folder_if_it_keeps_its_paths() {
        let folder = |path: &str| Ok(Artifact::Folder(path.to_owned()));
        let err = |why: &str| Err(why.to_owned());
        for (copies, expected) in [
            (
                vec![("@repo/apps/base/**", "@artifact/base/"), ("@repo/apps/prod/**", "@artifact/prod/")],
                folder("apps"),
            ),
            (vec![("@repo/infra/**", "@artifact/")], folder("infra")),
            (vec![("@repo/**", "@artifact/")], folder("")),
            (vec![("@repo/apps/web", "@artifact/")], folder("apps")),
            (vec![("@repo/apps/web", "@artifact/web")], folder("apps")),
            (
                vec![("@repo/apps/web", "@artifact/other/")],
                err("`@repo/apps/web` is copied to another path than that of the repo"),
            ),
            (
                vec![("@repo/a/x/**", "@artifact/x/"), ("@repo/b/y/**", "@artifact/y/")],
                err("its parts are not as far from each other as in the repo"),
            ),
            (
                vec![("@repo/webapp/**", "@artifact/app/")],
                err("`@repo/webapp/**` is copied to another path than that of the repo"),
            ),
            (
                vec![("@chart/**", "@artifact/")],
                err("it has parts of a OCIRepository, and only what is in the repo is built"),
            ),
            (vec![("@other/**", "@artifact/")], err("no source has the alias `other`")),
            (
                vec![("@repo/../x/**", "@artifact/")],
                err("`@repo/../x/**` or the path that it is copied to leads out of its tree"),
            ),
            (vec![], err("it copies nothing")),
        ] {
            let copies: Vec<Value> =
                copies.iter().map(|(from, to)| json!({"from": from, "to": to})).collect();
            let kinds = [("repo", "GitRepository"), ("chart", "OCIRepository")].into();
            assert_eq!(read_artifact(&json!({"name": "a", "copy": copies}), &kinds), expected, "{copies:?}");
        }
    }
}
