//! Vendors the remote charts and bases of a repo: downloads them with `helm` and `git` into the folder `vendor`, and writes a lock file
//! that says what was downloaded, from where, and for which objects.
//!
//! ```text
//! objects ─► list_requests ─► Vendoring::compare ─► Vendoring::run
//!            what they name   what the lock lacks    download, place folders, write the lock
//! ```
//!
//! Builds read the copies ([`federate_gitops::vendored`]) and never the network. A chart has a folder for each version, with its
//! files unpacked: a review shows their lines, objects that move to a new version one after the other share both, and values files in
//! the chart can be read. The lock file is written after the folders, and folders without use are removed last, so that a run that is
//! killed leaves a lock file whose charts are all there.

mod base;
mod download;
mod folders;
mod request;
mod result;
mod vendoring;

pub use download::HelmClient;
pub use federate_gitops::vendored::VendorLock;
pub use request::{VendorRequest, list_requests};
pub use result::{VendorChange, VendorResult, VendoredSource};
pub use vendoring::{Error, UpdateChoice, Vendoring};
