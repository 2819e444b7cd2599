//! How results are shown: findings with the line to blame, plans as tables, explanations. Everything
//! here returns text; only the command line prints.

pub mod actions;
pub mod diff;
pub mod explanation;
pub mod findings;
mod quote;
pub mod table;
pub mod whatif;
