//! Clients for HTTP servers that an untrusted source names: the addresses that they may connect to, and connections that check each
//! address before they use it.
//!
//! [`AddressPolicy`] decides. What runs in another program, such as `git`, is given the addresses that were checked
//! ([`AddressPolicy::resolve_host`]); a client of this process checks what a name leads to whenever it connects
//! ([`build_client`]), so that a name whose addresses change leads nowhere else.

mod address_policy;
mod client;
mod connector;

pub use address_policy::{AddressError, AddressPolicy, LocalAddress, classify_address};
pub use client::{ClientError, build_client, find_refusal};
