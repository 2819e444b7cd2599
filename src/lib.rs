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
//! This package is the command line ([`cli`]); the layers below it are crates of their own, named in
//! `docs/architecture.md`. Everything between reading files and writing them is a pure function of bytes.

pub mod cli;
