//! Formats results: findings with the quoted line, plans as tables, explanations, diffs. Everything here
//! returns text; only the command line prints.

pub mod actions;
pub mod capacity;
pub mod diff;
pub mod drift;
pub mod explanation;
pub mod findings;
pub mod kept;
pub mod plan;
mod quote;
pub mod table;
pub mod whatif;
