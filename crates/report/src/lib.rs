//! Formats results: findings with the quoted line, plans as tables, explanations, diffs. Everything here
//! returns text; only the command line prints.

mod action_groups;
pub mod actions;
pub mod annotations;
pub mod capacity;
pub mod cluster_names;
pub mod clusters;
pub mod control_plane_objects;
pub mod decisions;
pub mod diff;
pub mod drift;
pub mod escape;
pub mod explanation;
mod finding_groups;
pub mod findings;
pub mod page;
pub mod plan;
mod quote;
pub mod size_budget;
pub mod table;
pub mod whatif;
