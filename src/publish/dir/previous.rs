//! The plan that a published folder holds.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;

use serde_json::Value;

use super::{Error, at};
use crate::dialect::{Plan, plan};
use crate::publish::paths::PLACEMENTS;

/// Reads the plan; `None` for an empty folder. A folder with anything but a plan is not federate's.
pub(super) fn read(root: BorrowedFd<'_>, dir: &Path) -> Result<Option<Plan>, Error> {
    let entries = at::list(root).map_err(Error::io("list", dir))?;
    if entries.is_empty() {
        return Ok(None);
    }
    if !entries.iter().any(|entry| entry.name == PLACEMENTS && entry.kind == at::Kind::File) {
        let foreign = entries.iter().map(at::Entry::display).collect();
        return Err(Error::NotOwned { dir: dir.to_owned(), foreign, plan: false });
    }
    let bytes = contents(root).map_err(Error::io("read", dir.join(PLACEMENTS)))?;
    parse(&bytes).map(Some).map_err(|why| Error::NotAPlan { dir: dir.to_owned(), why })
}

fn contents(root: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::from(at::open_file(root, PLACEMENTS)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a plan that says of itself that it is one.
fn parse(bytes: &[u8]) -> Result<Plan, String> {
    // A plan kept as JSON, which is YAML too, need not go the slower way.
    if let Ok(value) = serde_json::from_slice(bytes) {
        return plan_of(value);
    }
    let stream = crate::yaml::read(bytes);
    if let Some(error) = stream.errors.first() {
        return Err(format!("line {}: {error}", error.at.line));
    }
    let mut documents = stream.documents.into_iter().map(|document| document.value);
    let (Some(value), None) = (documents.next(), documents.next()) else {
        return Err("it is not one YAML document".to_owned());
    };
    plan_of(value)
}

fn plan_of(value: Value) -> Result<Plan, String> {
    let says = |key: &str, what: &str| value.get(key).and_then(Value::as_str) == Some(what);
    if !says("apiVersion", plan::API_VERSION) || !says("kind", "Plan") {
        return Err(format!("it is not of apiVersion {}, kind Plan", plan::API_VERSION));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}
