//! Types of Kubernetes that all dialects share: objects and their identity, clusters, selectors, taints,
//! quantities, image references, pod requests, findings.
//!
//! This crate decides nothing; the dialects do.

// The macro `crd!` names this crate, here as elsewhere.
extern crate self as federate_kubernetes;

pub mod cluster;
pub mod condition;
pub mod connection;
pub mod display_text;
pub mod ecosystem;
pub mod finding;
pub mod formatted_quantity;
pub mod hex;
pub mod hooks;
pub mod image;
pub mod kinds;
pub mod live_objects;
pub mod names;
pub mod object;
pub mod patch;
pub mod pods;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod sops;
pub mod unfilled;
pub mod work;

pub use cluster::{Apis, Capacity, Cluster, ClusterName, Liveness, NodeShape, NotReady, Taint};
pub use condition::Condition;
pub use connection::{Connection, ConnectionError};
pub use federate_yaml::pointer;
pub use finding::{Finding, Severity};
pub use live_objects::LiveObjects;
pub use object::{Labels, Object, ObjectRef, Origin, UnversionedRef};
