//! A repo: the files of a folder or revision, read, split into objects, and sorted into cluster
//! inventory, objects of a dialect, and templates.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::k8s::{ClusterName, Finding, Object, ObjectRef, Origin};
use crate::yaml::Position;

pub mod config;

pub use config::Config;

/// What an object is to a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Describes a member cluster.
    Inventory,
    /// Decides which clusters templates go to.
    Placement,
    /// Changes manifests for some clusters.
    Override,
    /// Anything else a dialect reads.
    Other,
}

/// An object that a dialect claims.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The dialect's name.
    pub dialect: &'static str,
    /// What it is to that dialect.
    pub role: Role,
    /// The object.
    pub object: Object,
}

/// An object to be placed on clusters.
#[derive(Clone, Debug)]
pub struct Template {
    /// The object; of a `*.j2` file its rendering for the first cluster by name: what decides
    /// placement is the same for every cluster.
    pub object: Object,
    /// The body for each cluster, when it was written as a `*.j2` template.
    pub per_cluster: Option<BTreeMap<ClusterName, Arc<Object>>>,
}

impl Template {
    /// The object as it is before overrides, for one cluster.
    pub fn for_cluster(&self, cluster: &str) -> &Object {
        self.per_cluster.as_ref().and_then(|bodies| bodies.get(cluster)).map_or(&self.object, |o| o)
    }
}

/// A loaded repo. Every list is sorted by identity.
#[derive(Clone, Debug, Default)]
pub struct Repo {
    /// `federate.yaml`, or its defaults.
    pub config: Config,
    /// Everything a dialect claims: inventory, policies, overrides.
    pub claimed: Vec<Claimed>,
    /// What is to be placed.
    pub templates: Vec<Template>,
    /// What was found wrong while reading.
    pub findings: Vec<Finding>,
    /// The text of each file, for error messages that show the line.
    pub texts: BTreeMap<Arc<str>, Arc<[u8]>>,
}

impl Repo {
    /// The template of that identity.
    pub fn template(&self, id: &ObjectRef) -> Option<&Template> {
        let index = self.templates.binary_search_by(|t| t.object.id.cmp(id)).ok()?;
        self.templates.get(index)
    }

    /// The objects that `dialect` claims in `role`.
    pub fn claimed(&self, dialect: &'static str, role: Role) -> impl Iterator<Item = &Object> {
        self.claimed.iter().filter(move |c| c.dialect == dialect && c.role == role).map(|c| &c.object)
    }

    /// Where the value at `pointer` inside an object stands in its file: the closest parent that
    /// exists, or the object's first line.
    pub fn locate(&self, origin: &Origin, pointer: &str) -> Position {
        let prefix = origin.item.map_or_else(String::new, |item| format!("/items/{item}"));
        let mut pointer = pointer;
        while let Some(text) = self.texts.get(&origin.file) {
            if let Some(at) = crate::yaml::locate(text, origin.document, &format!("{prefix}{pointer}")) {
                return at;
            }
            match pointer.rfind('/') {
                Some(end) => pointer = &pointer[..end],
                None => break,
            }
        }
        Position { line: origin.line, column: 1 }
    }
}
