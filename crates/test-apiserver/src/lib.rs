//! Kubernetes API servers in this process, for tests, benchmarks and demonstrations.
//!
//! A [`TestCluster`] is a server without sockets: it answers one [`ApiRequest`] at a time. [`Fleet`] serves several of
//! them over HTTPS on loopback and writes a kubeconfig for them. `federate_apiserver_model` has the write path; this crate
//! adds storage, reading, watching, authorization, discovery, and faults on demand.
//!
//! There is no controller manager, and nothing changes without a request, unless [`TestCluster::with_controllers`] adds
//! the controllers of namespaces and Deployments.

#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    unreachable_pub,
    reason = "support of tests, no one of which uses all of it"
)]

mod auth;
mod certificates;
mod cluster;
mod controllers;
mod decoding;
mod deletion;
mod deployments;
mod discovery;
mod faults;
mod http;
mod net;

mod patch;
mod read;
mod selector;
mod store;
mod subresource;
mod table;
mod watch;
mod webhooks;
mod write;

pub use auth::ApiUser;
pub use certificates::CertificateError;
pub use cluster::{RequestCounts, TestCluster};
pub use faults::{FaultKind, InjectedFault};
pub use http::{ApiRequest, Body, ClientCredentials, Response};
pub use net::{Fleet, FleetError, HeldCluster};
pub use store::{StoreEvent as WriteEvent, StoreKey};
