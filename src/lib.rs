//! `federate` renders per-cluster Kubernetes manifests offline, by running the scheduler of a
//! multi-cluster control plane itself.
//!
//! Data flows one way:
//!
//! ```text
//! repo (files) -> load -> plan (placement, replicas) -> manifest (revise, override) -> publish
//!                           ^ previous plan, the scheduler's only memory
//! ```
//!
//! Modules lie on floors; a module uses only those below it (`tests/floors.rs` enforces it):
//! [`cli`] · [`report`] · [`publish`], `live` · [`actions`] · [`change`] · [`engine`] · [`dialect`] ·
//! [`k8s`], [`repo`], [`server`] · [`yaml`],
//! [`patch`]. Everything between `repo::source` and `publish` is a pure function of bytes.

pub mod actions;
pub mod change;
pub mod cli;
pub mod dialect;
pub mod engine;
pub mod k8s;
#[cfg(feature = "live")]
pub mod live;
pub mod patch;
pub mod publish;
pub mod repo;
pub mod report;
pub mod server;
pub mod yaml;
