//! The command as a user runs it: arguments in, streams and exit code out, real folders in between.

mod sandbox;

mod check;
mod explain;
mod plan;
mod render;
