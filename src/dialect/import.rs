//! Taking objects in: what a control plane needs of an object that ran before it came.
//!
//! Some mark the object itself, which then stays the text that a person wrote, with a few edits; others
//! wrap it in an object of their own.

use serde_json::Value;

use crate::k8s::{Finding, Object};

/// Takes an object in, or says why it cannot be.
pub type Importer = fn(&Object, &Import) -> Result<Imported, Vec<Finding>>;

/// How objects are to be taken in.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The policy that is to place them.
    pub policy: Option<PolicyName>,
    /// The clusters that may hand over what already runs in them; empty for all.
    pub clusters: Vec<String>,
    /// Whether types are to be enabled, instead of objects federated.
    pub enable: bool,
}

/// A policy by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyName {
    /// One that stands where the object does: in its namespace, or for the cluster as a whole.
    Beside(String),
    /// One for the cluster as a whole.
    OfCluster(String),
}

/// What becomes of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Imported {
    /// The same object with these changes. Each has an effect.
    Edits(Vec<Edit>),
    /// Other objects, which hold it.
    Objects(Vec<Value>),
}

/// A change to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// Which value, as a JSON pointer.
    pub pointer: String,
    /// What it becomes; `None` removes it.
    pub value: Option<Value>,
}
