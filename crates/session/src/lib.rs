//! The application layer, which runs the engine over the dialects that it is given.
//!
//! A [`Session`] is an opened repo with everything derived from it: inventory, plan, manifests, findings,
//! explanations. Each is computed once, on first use. [`RevisionComparison`] compares two sessions. The command line,
//! the tests and the benchmarks use these types, and so should programs that use federate as a library.
//!
//! ```
//! use federate_dialects::DIALECTS;
//! use federate_session::{Session, SessionOptions};
//! use federate_source::WorkTree;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::fs::write(folder.path().join("web.yaml"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}")?;
//! # let path = folder.path();
//! let tree = WorkTree::open(path).map_err(|finding| finding.message)?;
//! let session = Session::open(&tree, SessionOptions::new(DIALECTS));
//! for placement in &session.plan().placements {
//!     println!("{}: {} clusters", placement.object, placement.clusters.len());
//! }
//! # assert_eq!(session.plan().unmatched.len(), 1);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "live")]
pub mod artifacts;
mod attempts;
mod candidates;
mod check;
mod cluster_states;
mod clusters;
pub mod commit;
mod comparison;
mod decryption;
mod excluding_tree;
mod explanation;
mod facts;
mod kind_name;
mod known_kinds;
mod layouts;
pub mod left_out;
mod limited_tree;
#[cfg(feature = "live")]
mod member_contexts;
#[cfg(feature = "live")]
mod member_status;
mod outages;
mod policy_mismatches;
pub mod provenance;
#[cfg(feature = "live")]
pub mod push;
mod reconciler;
mod release;
mod secrets;
mod session;
mod source_proposals;
mod source_review;
mod whatif;

pub use cluster_states::share_cluster_states;
pub use commit::{CommitOutcome, CommitRequest, CommittedSession};
pub use comparison::{FindingChanges, RenderedState, RevisionComparison};
pub use explanation::{NamedObject, NotFound};
#[cfg(feature = "live")]
pub use federate_live::ServerOptions;
pub use layouts::{DoubtfulCluster, ToolLayout};
#[cfg(feature = "live")]
pub use member_contexts::RepoContexts;
#[cfg(feature = "live")]
pub use member_status::set_status;
pub use outages::UnreachableClusters;
pub use provenance::Provenance;
#[cfg(feature = "live")]
pub use reconciler::servers::Surveyed;
pub use reconciler::{AwaitingObjects, Purpose, ReconcileOptions, Reconciler};
pub use session::{Destination, Session, SessionOptions, UpdateScope};
pub use source_proposals::SourceProposal;
pub use whatif::{ScenarioOutcome, ScenarioRunner, UnitOutcome};
