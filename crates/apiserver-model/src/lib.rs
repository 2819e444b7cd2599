//! The write path of a Kubernetes API server as pure functions: server-side apply, patches, defaults, strategies,
//! validation.
//!
//! ```text
//!              apply ───► merged, pruned, owners ─┐
//! request                 (fields, typed, managed) ├─► complete ────► strategy ──► stored object
//!              patch ───► update: owners only ────┘   (normalize,   (reset fields, generation,
//!              (patches)                               defaults)     validated, or unchanged)
//! ```
//!
//! - [`ResourceKind`] has the names and the schema of a kind: [`ResourceKind::find_builtin`], or
//!   [`ResourceKind::from_definition`] from a `CustomResourceDefinition`. Its [`schema`] says which lists are merged and how.
//! - [`merge_applied`] is server-side apply: it merges what is applied into the live object, removes fields
//!   that the manager applied before and no other manager owns, and refuses on conflicts.
//! - [`update_managers`] tracks field ownership after any other write; [`patches`] computes such writes.
//! - [`complete_object`] writes the object as the server does and fills in defaults.
//! - [`strategy::prepare_for_create`] and [`strategy::prepare_for_update`] prepare the object for storing. The latter
//!   returns the live object if nothing has changed.
//! - [`apply_object`] does all of it: it returns the object after an apply.
//! - [`fields::FieldSet`] is the arithmetic of `managedFields`; [`typed`] merges, compares and removes
//!   by a schema.
//! - [`lists`] reads the answers to lists.
//!
//! Known to differ: a real server raises the generation of a `NetworkPolicy` whenever empty lists are sent
//! for it, and lets a Job's labels follow its template when it is replaced; `validation` has the rules that objects in a
//! repository are likely to break.
//!
//! Nothing here reads a clock or random numbers: the time is a parameter ([`WriteOptions::now`]), and the caller sets
//! uids, resource versions and addresses of Services.
//!
//! ```
//! use federate_apiserver_model::{ResourceKind, WriteOptions, apply_object};
//! use serde_json::json;
//!
//! let kind = ResourceKind::find_builtin("v1", "ConfigMap").unwrap();
//! let now = "2026-01-01T00:00:00Z";
//! let write = WriteOptions { kind, manager: "me", subresource: None, force: false, now };
//! let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
//! let live = apply_object(None, &object, &write).unwrap();
//! assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:k": {}}}));
//!
//! let other = WriteOptions { manager: "other", ..write };
//! let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "w"}});
//! let refused = apply_object(Some(&live), &object, &other).unwrap_err();
//! assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"me\": .data.k");
//! ```

mod apply;
mod completion;
pub mod cron;
mod custom;
mod defaults;
mod definition;
mod extraction;
mod failure;
pub mod fields;
mod kinds;
pub mod lint;
pub mod lists;
pub mod managed_fields;
pub mod normalization;
mod openapi;
mod ownership_transfer;
pub mod patches;
pub mod schema;
pub mod served_versions;
pub mod services;
pub mod strategy;
#[cfg(test)]
mod tests;
pub mod typed;
mod validation;
pub mod values;
mod versions;

use serde_json::Value;

pub use apply::{WriteOptions, merge_applied, update_managers};
pub use completion::complete_object;
pub use custom::CustomResource;
pub use defaults::encode_string_data;
pub use extraction::{applied_fields, extract_applied, previewed_fields};
pub use failure::{ApiError, StatusCause, shorten_message};
pub use kinds::ResourceKind;
pub use ownership_transfer::{TransferScope, field_set, transfer_ownership};
pub use validation::invalid_name;
pub use versions::{Conversion, convert_object};

/// Applies an object, and returns the object that is stored: the live object itself if the apply changes nothing. A new
/// object has no uid and no resource version.
pub fn apply_object(
    live: Option<&Value>,
    object: &Value,
    write: &WriteOptions<'_>,
) -> Result<Value, ApiError> {
    let merged = merge_applied(live, object, write)?;
    match live {
        Some(live) => strategy::prepare_for_update(live, merged, write),
        None => strategy::prepare_for_create(merged, write),
    }
}
