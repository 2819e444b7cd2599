//! Reads objects of one cluster for `import`: by kind and name, or all objects of some kinds.
//!
//! Secrets are read by name only, because what is read here is written to files.

use std::collections::BTreeSet;

use super::Error;
use super::discovery;
use super::items::build_object;
use super::kinds::object_path;
use super::lists::{ListRequest, list_objects};
use super::request::RepeatableRequest;
use super::runtime::{CLUSTER_TIMEOUT, limit_time};
use super::target::{self, Access};
use federate_apiserver_model::ResourceKind;
use federate_kubernetes::{ClusterName, Object, ObjectRef};

/// The objects to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportScope {
    /// One object.
    One {
        /// Its kind, as a user names it.
        kind: String,
        /// Its name.
        name: String,
    },
    /// All objects of a kind.
    All {
        /// The kind, as a user names it.
        kind: String,
    },
}

impl ImportScope {
    fn kind(&self) -> &str {
        match self {
            Self::One { kind, .. } | Self::All { kind } => kind,
        }
    }
}

/// Where to read them.
#[derive(Clone, Debug, Default)]
pub struct ImportSource {
    /// The context of the kubeconfig.
    pub context: String,
    /// The namespace; without it that of the context.
    pub namespace: Option<String>,
    /// All namespaces.
    pub everywhere: bool,
    /// The label selector for objects of a kind.
    pub selector: Option<String>,
}

/// An object that was found.
#[derive(Clone, Debug)]
pub struct FoundObject {
    /// The object. Its origin is the context.
    pub object: Object,
    /// Its kind.
    pub kind: ResourceKind,
    /// Whether it was named.
    pub named: bool,
}

/// The objects that were found.
#[derive(Clone, Debug, Default)]
pub struct FetchedObjects {
    /// Each object once, in the order of the arguments, objects of a kind by name.
    pub found: Vec<FoundObject>,
    /// Named objects that do not exist.
    pub absent: Vec<ObjectRef>,
}

/// Reads objects of a cluster.
pub fn fetch_objects(
    access: &Access,
    place: &ImportSource,
    scopes: &[ImportScope],
) -> Result<FetchedObjects, Error> {
    let connections = access.open_connections(1)?;
    let contexts = connections.context_names();
    if !contexts.contains(&place.context.as_str()) {
        let known = federate_kubernetes::finding::join_names(&contexts, 10);
        return Err(Error::Access(format!("the kubeconfig has no context of that name; it has: {known}")));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::Access(e.to_string()))?;
    runtime.block_on(limit_time(access.timeout.or(Some(CLUSTER_TIMEOUT)), async {
        let client = target::connect_member(&connections, &place.context).await?;
        let cluster: ClusterName = place.context.as_str().into();
        let namespace = place.namespace.clone().unwrap_or_else(|| client.default_namespace());
        let names: Vec<&str> = scopes.iter().map(ImportScope::kind).collect();
        let kinds = discovery::resolve_kinds(&client, &names).await?;
        let mut fetched = FetchedObjects::default();
        let mut seen = BTreeSet::new();
        for (scope, kind) in scopes.iter().zip(kinds) {
            let namespace = (kind.namespaced && !place.everywhere).then(|| namespace.clone());
            let (mut all, named) = match scope {
                ImportScope::One { name, .. } => {
                    let id = ObjectRef {
                        api_version: kind.api_version(),
                        kind: kind.kind.clone(),
                        namespace,
                        name: name.clone(),
                    };
                    let Some(body) =
                        client.request_optional(&RepeatableRequest::get(object_path(&kind, &id))).await?
                    else {
                        fetched.absent.push(id);
                        continue;
                    };
                    (vec![build_object(&kind, body, &cluster)], true)
                }
                ImportScope::All { .. } if kind.is_builtin("Secret") => return Err(unnamed_secrets()),
                ImportScope::All { .. } => {
                    let list =
                        ListRequest { kind: kind.clone(), namespace, selector: place.selector.clone() };
                    (list_objects(&client, std::iter::once(list), &cluster).await?, false)
                }
            };
            all.retain(|object| seen.insert(object.id.clone()));
            all.sort_by(|a, b| a.id.cmp(&b.id));
            fetched.found.extend(all.into_iter().map(|object| FoundObject {
                object,
                kind: kind.clone(),
                named,
            }));
        }
        Ok(fetched)
    }))
}

/// Values of Secrets must not get into git by accident.
fn unnamed_secrets() -> Error {
    Error::Access(
        "Secrets are imported by name only (secret/NAME), because their values are written to the repo in clear text"
            .to_owned(),
    )
}
