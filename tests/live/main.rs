//! `federate apply` against API servers over HTTPS on loopback: what it asks them, what it leaves there,
//! and what it makes of servers that misbehave.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]
#![cfg(feature = "live")]

mod real;
mod sandbox;
#[path = "../support/mod.rs"]
mod support;

mod adoption;
mod apply;
mod reach;
mod trouble;
mod waiting;
