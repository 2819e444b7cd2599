//! Chooses the file for a new object: a file of its own, in the folder with similar objects.
//!
//! Similar objects have the same kind and namespace; if there are none, the same namespace. Of several folders, the
//! one with the most similar objects is chosen, and of those the first by name. Without similar objects, the folder
//! has the name of the namespace, or `_cluster` for a cluster-scoped object.

use std::collections::{BTreeMap, BTreeSet};

use federate_kubernetes::{Object, ObjectRef};
use federate_repo::{Repo, Role};

/// The folder of cluster-scoped objects, if the repo has no similar objects.
const CLUSTER_SCOPED_FOLDER: &str = "_cluster";

/// The objects of a repo, and the files that exist or were chosen.
pub(super) struct RepoLayout<'r> {
    objects: Vec<&'r Object>,
    /// Whether a file exists, whatever it contains.
    exists: &'r dyn Fn(&str) -> bool,
    /// The files that were chosen.
    chosen: BTreeSet<String>,
}

/// Whether two identities are equal except for the version.
fn is_same_object(a: &ObjectRef, b: &ObjectRef) -> bool {
    (a.group(), &a.kind, &a.namespace, &a.name) == (b.group(), &b.kind, &b.namespace, &b.name)
}

impl<'r> RepoLayout<'r> {
    pub(super) fn new(repo: &'r Repo, exists: &'r dyn Fn(&str) -> bool) -> Self {
        let templates = repo.templates.iter().map(|template| &template.object);
        let bundles = repo.claimed.iter().filter(|c| c.role == Role::Bundle).map(|c| &c.object);
        Self { objects: templates.chain(bundles).collect(), exists, chosen: BTreeSet::new() }
    }

    /// Returns the object of the repo with this identity, in any version.
    pub(super) fn find_object(&self, id: &ObjectRef) -> Option<&'r Object> {
        self.objects.iter().find(|object| is_same_object(&object.id, id)).copied()
    }

    /// Chooses a file for a new object. `Err` is the path of the file that exists already.
    pub(super) fn choose_file(&mut self, id: &ObjectRef) -> Result<String, String> {
        let folder = self.choose_folder(id);
        let folder = if folder.is_empty() { folder } else { folder + "/" };
        let kind = id.kind.to_lowercase();
        let plain = format!("{folder}{kind}_{}.yaml", id.name);
        let precise = format!("{folder}{kind}.{}_{}.yaml", id.group(), id.name);
        let other = Some(precise).filter(|_| !id.group().is_empty());
        let chosen = [Some(plain.clone()), other]
            .into_iter()
            .flatten()
            .find(|path| !self.chosen.contains(path) && !(self.exists)(path))
            .ok_or(plain)?;
        self.chosen.insert(chosen.clone());
        Ok(chosen)
    }

    fn choose_folder(&self, id: &ObjectRef) -> String {
        let in_namespace = self.objects.iter().filter(|object| object.id.namespace == id.namespace);
        let of_kind = in_namespace
            .clone()
            .filter(|object| (object.id.group(), &object.id.kind) == (id.group(), &id.kind));
        most_common_folder(of_kind)
            // Cluster-scoped objects of different kinds are not similar.
            .or_else(|| most_common_folder(in_namespace.filter(|_| id.namespace.is_some())))
            .unwrap_or_else(|| id.namespace.clone().unwrap_or_else(|| CLUSTER_SCOPED_FOLDER.to_owned()))
    }
}

/// Returns the folder that contains the most of some objects.
fn most_common_folder<'o>(objects: impl Iterator<Item = &'o &'o Object>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects {
        let folder = object.origin.file.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder).or_default() += 1;
    }
    // `max_by_key` returns the last maximum, which is the first by name in reverse order.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(folder, _)| folder.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use federate_repo::{Config, RepoFile, load_bytes};

    fn id(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
        ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    fn repo(files: &[(&str, &str)]) -> Repo {
        let file = |(path, text): &(&str, &str)| RepoFile {
            path: (*path).into(),
            bytes: Arc::from(text.as_bytes()),
        };
        load_bytes(files.iter().map(file).collect(), Config::default(), &federate_dialects::DIALECTS)
            .into_repo(&[])
    }

    fn object(kind: &str, namespace: &str, name: &str) -> String {
        format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
    }

    #[test]
    fn new_objects_go_to_the_folder_of_similar_ones() {
        let (a, b, c) = (
            object("Service", "shop", "a"),
            object("ConfigMap", "shop", "b"),
            object("ConfigMap", "shop", "c"),
        );
        let repo = repo(&[
            ("z/svc.yaml", &a),
            ("y/b.yaml", &(b + &c)),
            ("root.yaml", &object("Service", "top", "a")),
        ]);
        let place = |id: &ObjectRef| RepoLayout::new(&repo, &|_| false).choose_file(id).unwrap();
        assert_eq!(place(&id("v1", "Service", Some("shop"), "n")), "z/service_n.yaml");
        assert_eq!(
            place(&id("apps/v1", "Deployment", Some("shop"), "n")),
            "y/deployment_n.yaml",
            "most of shop"
        );
        assert_eq!(place(&id("v1", "Service", Some("top"), "n")), "service_n.yaml");
        assert_eq!(place(&id("v1", "Service", Some("new"), "n")), "new/service_n.yaml");
        assert_eq!(place(&id("v1", "Namespace", None, "new")), "_cluster/namespace_new.yaml");
    }

    #[test]
    fn no_file_is_chosen_twice() {
        let repo = Repo::default();
        let exists = |path: &str| path == "shop/service_a.yaml" || path.starts_with("shop/secret");
        let mut places = RepoLayout::new(&repo, &exists);
        assert_eq!(
            places.choose_file(&id("v1", "Service", Some("shop"), "a")),
            Err("shop/service_a.yaml".to_owned())
        );
        let knative = id("serving.knative.dev/v1", "Service", Some("shop"), "a");
        assert_eq!(places.choose_file(&knative), Ok("shop/service.serving.knative.dev_a.yaml".to_owned()));
        assert!(places.choose_file(&knative).is_err());
    }

    #[test]
    fn an_object_is_known_in_any_version() {
        let text = "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: shop}\n";
        let repo = repo(&[("a.yaml", text)]);
        let places = RepoLayout::new(&repo, &|_| false);
        let hpa = |name: &str| id("autoscaling/v2", "HorizontalPodAutoscaler", Some("shop"), name);
        assert!(places.find_object(&hpa("a")).is_some() && places.find_object(&hpa("b")).is_none());
    }
}
