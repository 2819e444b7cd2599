//! Talks to OCI registries: blobs, manifests and tags of a repository, with the credentials that docker has for its host.
//!
//! Answers of registries are not trusted: bodies are limited, digests are checked, credentials are sent to no other host, and
//! without TLS only a registry on this machine is asked.
//!
//! Facts: the OCI distribution specification, and the token authentication of docker's registry.

mod address;
mod authorization;
mod client;
mod credentials;
mod signature;
mod transport;

pub use address::{ArtifactAddress, InvalidAddress, is_tag};
pub use client::{FetchedManifest, Registry};
pub use credentials::{Credentials, LoginError, find_credentials, parse_docker_config};
pub use signature::{SignatureError, sign_artifact};
pub use transport::{Error, RegistryOptions};
