//! The application layer, which runs the engine over the dialects that it is given.
//!
//! A [`Session`] is an opened repo with everything derived from it: inventory, plan, manifests, findings,
//! explanations. Each is computed once, on first use. [`Comparison`] compares two sessions. The command line,
//! the tests and the benchmarks use these types, and so should programs that use federate as a library.
//!
//! ```
//! use federate_control_planes::DIALECTS;
//! use federate_session::{Options, Session};
//! use federate_source::WorkTree;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::fs::write(folder.path().join("web.yaml"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}")?;
//! # let path = folder.path();
//! let tree = WorkTree::open(path).map_err(|finding| finding.message)?;
//! let session = Session::open(&tree, Options::new(DIALECTS));
//! for placement in &session.plan().placements {
//!     println!("{}: {} clusters", placement.object, placement.clusters.len());
//! }
//! # assert_eq!(session.plan().unmatched.len(), 1);
//! # Ok(())
//! # }
//! ```

mod check;
pub mod commit;
mod comparison;
mod explain;
mod facts;
mod keeps_out;
mod kind_name;
mod known_kinds;
mod lost;
#[cfg(feature = "live")]
mod members;
pub mod provenance;
mod reconcile;
mod release;
mod replicas;
mod secrets;
mod session;
mod whatif;
mod without;

pub use commit::{Commit, CommitOutcome, Committed};
pub use comparison::{Comparison, RenderedState};
pub use explain::{Named, NotFound};
pub use lost::Lost;
#[cfg(feature = "live")]
pub use members::set_status;
pub use provenance::Provenance;
pub use reconcile::{AwaitingObjects, Purpose, ReconcileOptions, Reconciler};
#[cfg(feature = "live")]
pub use reconcile::{RunOutput, RunRecord, ServerOptions, Surveyed};
pub use session::{Options, Session, Update};
pub use whatif::{Outcome, UnitOutcome, WhatIf};
