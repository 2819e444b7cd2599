//! What a Kubernetes API server makes of the objects that are sent to it, as pure functions.
//!
//! ```text
//!              apply ───► merged, pruned, owners ─┐
//! what is sent            (fields, typed, managed) ├─► complete ──► settle ──► what is stored
//!              patch ───► update: owners only ────┘   (canonical,  (kept, generation,
//!              (patches)                               defaults)    validated, or unchanged)
//! ```
//!
//! - [`Kind`] says what is known of a kind: [`Kind::builtin`], or [`Kind::customs`] from a
//!   `CustomResourceDefinition`. Its [`schema`] says which lists are merged and how.
//! - [`apply()`] is server-side apply: it merges what is applied into the live object, takes out what
//!   the manager applied before and nobody else owns, and refuses on conflicts.
//! - [`update()`] notes who owns what after any other write; [`patches`] computes such writes.
//! - [`complete()`] writes the object as the server does and fills in defaults.
//! - [`strategy::create`] and [`strategy::update`] decide what is stored. The latter answers with the live
//!   object where nothing changed.
//! - [`applied`] is all of it at once: the object as it will stand after an apply.
//! - [`fields::FieldSet`] is the arithmetic of `managedFields`; [`typed`] merges, compares and removes
//!   by a schema.
//!
//! Known to differ: a real server raises the generation of a `NetworkPolicy` whenever empty lists are sent
//! for it, and lets a job's labels follow its template when it is replaced; of what it refuses, `validate`
//! knows what objects out of a repository run into.
//!
//! Nothing here reads a clock or rolls dice: the time is a parameter ([`Write::now`]), and uids,
//! resource versions and addresses of Services are the caller's to set.
//!
//! ```
//! use federate_apiserver::{Kind, Write, applied};
//! use serde_json::json;
//!
//! let kind = Kind::builtin("v1", "ConfigMap").unwrap();
//! let write = Write { kind: &kind, manager: "me", subresource: None, force: false, now: "2026-01-01T00:00:00Z" };
//! let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
//! let live = applied(None, &object, &write).unwrap();
//! assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:k": {}}}));
//!
//! let other = Write { manager: "other", ..write };
//! let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "w"}});
//! let refused = applied(Some(&live), &object, &other).unwrap_err();
//! assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"me\": .data.k");
//! ```

mod apply;
mod complete;
mod custom;
mod defaults;
mod defined;
mod extract_applied;
mod failure;
pub mod fields;
mod kinds;
pub mod managed;
pub mod normalize;
pub mod patches;
pub mod schema;
pub mod services;
pub mod strategy;
#[cfg(test)]
mod tests;
pub mod typed;
mod validate;

use serde_json::Value;

pub use apply::{Write, apply, update};
pub use complete::complete;
pub use custom::Custom;
pub use defaults::encode_string_data;
pub use extract_applied::{extract_applied, part};
pub use failure::{Cause, Failure};
pub use kinds::Kind;
pub use validate::invalid_name;

/// The object as it will stand after an apply; the live object itself where the apply changes nothing.
/// A new one has the identity that it was given: no uid, no resource version.
pub fn applied(live: Option<&Value>, object: &Value, write: &Write<'_>) -> Result<Value, Failure> {
    let merged = apply(live, object, write)?;
    match live {
        Some(live) => strategy::update(live, merged, write),
        None => strategy::create(merged, write),
    }
}
