//! The `KubeFleet` dialect: what a placement selects, what its clusters receive, and in which order it
//! is rolled out.

pub mod envelope;
pub mod health;
pub mod manifest;
pub mod overrides;
pub mod rollout;
pub mod selection;
pub mod waves;
