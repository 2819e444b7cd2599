//! Objects of one cluster, as somebody asks for them: by kind and name, or all of some kinds.
//!
//! Secrets are read only where each is asked for by name: what is read here goes into files.

use std::collections::BTreeSet;

use super::Error;
use super::call::Call;
use super::discover;
use super::kinds::path_of;
use super::read::{List, object, objects};
use super::target::{self, Access};
use federate_apiserver::Kind;
use federate_kubernetes::{ClusterName, Object, ObjectRef};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportScope {
    /// One object.
    One {
        /// Its kind, as a person names it.
        kind: String,
        /// Its name.
        name: String,
    },
    /// All objects of a kind.
    All {
        /// The kind, as a person names it.
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

/// Where it is asked for.
#[derive(Clone, Debug, Default)]
pub struct ImportSource {
    /// The context of the kubeconfig.
    pub context: String,
    /// The namespace; without it that of the context.
    pub namespace: Option<String>,
    /// All namespaces.
    pub everywhere: bool,
    /// Which objects of a kind.
    pub selector: Option<String>,
}

/// An object that was found.
#[derive(Clone, Debug)]
pub struct FoundObject {
    /// The object. Its origin is the context.
    pub object: Object,
    /// Its kind.
    pub kind: Kind,
    /// Whether it was asked for by name.
    pub named: bool,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// Each object once, in the order in which they were asked for, those of a kind by name.
    pub found: Vec<FoundObject>,
    /// What was asked for by name and is not there.
    pub absent: Vec<ObjectRef>,
}

/// Reads objects of a cluster.
pub fn fetch(access: &Access, place: &ImportSource, asked: &[ImportScope]) -> Result<Fetched, Error> {
    let ways = access.read(1)?;
    let contexts = ways.contexts();
    if !contexts.contains(&place.context.as_str()) {
        let known = federate_kubernetes::finding::list(&contexts, 10);
        return Err(Error::Access(format!("the kubeconfig has no context of that name; it has: {known}")));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::Access(e.to_string()))?;
    runtime.block_on(super::within(access.timeout, async {
        let client = target::to(&ways, &place.context).await?;
        let cluster: ClusterName = place.context.as_str().into();
        let namespace = place.namespace.clone().unwrap_or_else(|| client.namespace());
        let names: Vec<&str> = asked.iter().map(ImportScope::kind).collect();
        let kinds = discover::kinds(&client, &names).await?;
        let mut fetched = Fetched::default();
        let mut seen = BTreeSet::new();
        for (asked, kind) in asked.iter().zip(kinds) {
            let of_namespace = || (kind.namespaced && !place.everywhere).then(|| namespace.clone());
            let (mut all, named) = match asked {
                ImportScope::One { name, .. } => {
                    let id = ObjectRef {
                        api_version: kind.api_version(),
                        kind: kind.kind.clone(),
                        namespace: of_namespace(),
                        name: name.clone(),
                    };
                    let Some(body) = client.find(&Call::get(path_of(&kind, &id))).await? else {
                        fetched.absent.push(id);
                        continue;
                    };
                    (vec![object(&kind, body, &cluster)], true)
                }
                ImportScope::All { .. } if kind.is("Secret") => return Err(unnamed_secrets()),
                ImportScope::All { .. } => {
                    let list = List {
                        kind: kind.clone(),
                        namespace: of_namespace(),
                        selector: place.selector.clone(),
                    };
                    (objects(&client, std::iter::once(list), &cluster).await?, false)
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

/// Nobody should find out afterwards that values of Secrets lie in git.
fn unnamed_secrets() -> Error {
    Error::Access(
        "Secrets are taken in by name only (secret/NAME), because their values will lie in the repo in clear"
            .to_owned(),
    )
}
