//! Reads Sync objects, and finds those that contradict each other.

use std::collections::BTreeMap;
use std::path::Path;

use federate_sync_api::{Meta, Metadata, Sync};
use serde_json::Value;

use crate::read::{Loaded, wrong};
use crate::source::Address;

/// An invalid Sync object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invalid {
    /// Its name and namespace.
    pub(crate) metadata: Metadata,
    /// Its generation.
    pub(crate) generation: i64,
    /// The error, with the field.
    pub(crate) message: String,
}

/// Reads an object, which may not name objects of other namespaces if it must stay `within` its own. `None` if it has
/// no name.
pub(crate) fn loaded(object: &Value, within: bool) -> Option<Result<Loaded, Invalid>> {
    let metadata: Metadata = Metadata::of(&object["metadata"])?;
    let generation = Meta::of(&object["metadata"]).generation;
    Some(read(object, within).map_err(|message| Invalid { metadata, generation, message }))
}

fn read(object: &Value, within: bool) -> Result<Loaded, String> {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    let said = |pointer: &str, message: &str| {
        format!("{}: {message}", pointer.trim_start_matches('/').replace('/', "."))
    };
    let sync = Sync::read(object).map_err(|(pointer, message)| said(&pointer, &message))?;
    if let Some((pointer, message)) = wrong(&sync).into_iter().next() {
        return Err(said(pointer, &message));
    }
    let own = |name: &String| *name == sync.metadata.namespace;
    let other = sync.spec.depends_on.iter().filter_map(|on| on.namespace.as_ref()).find(|name| !own(name));
    if let Some(other) = other.filter(|_| within) {
        return Err(format!(
            "spec.dependsOn: the namespace `{other}` is another one, which --no-cross-namespace-refs refuses"
        ));
    }
    if !is_remote(&sync.spec.source.url) {
        // The files of the pod hold data of other tenants.
        return Err("spec.source.url: it must be an address of https or ssh, not a path".to_owned());
    }
    let address = Address::of(&sync.spec.source, Path::new("/"))
        .map_err(|message| said("/spec/source/url", &message))?;
    if sync.spec.commit.as_ref().is_some_and(|commit| commit.push == Some(false)) {
        return Err("spec.commit.push: a branch that is not pushed would only be in the cache".to_owned());
    }
    Ok(Loaded { sync, address })
}

/// Whether an address leads out of the pod.
fn is_remote(url: &str) -> bool {
    match url.split_once("://") {
        Some((scheme, _)) => ["https", "http", "ssh"].contains(&scheme),
        None => url.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/')),
    }
}

/// Removes the Syncs that name the same `ApplySet` or folder of a branch as an older one: each would undo what the
/// other does.
pub(crate) fn clashes(syncs: &mut Vec<Loaded>) -> Vec<Invalid> {
    let age = |loaded: &Loaded| {
        let created = loaded.sync.meta.as_ref().map(|meta| meta.created.clone());
        (created, loaded.sync.metadata.clone())
    };
    syncs.sort_by_key(age);
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    syncs.retain(|loaded| {
        let sync = &loaded.sync;
        let name = sync.metadata.full_name();
        let apply_set = sync.spec.apply.as_ref().map(|_| sync.apply_set());
        let apply_set = apply_set.map(|(namespace, name)| format!("the ApplySet {namespace}/{name}"));
        let commit = sync.spec.commit.as_ref();
        let branch =
            commit.map(|c| format!("folder `{}` of branch {} of {}", c.path, c.branch, loaded.address));
        let wants: Vec<String> = apply_set.into_iter().chain(branch).collect();
        let clash = wants.iter().find_map(|want| Some((want, taken.get(want)?)));
        if let Some((want, other)) = clash {
            let message = format!("{other} has {want}, too: {name} would undo what it does; name another");
            let generation = sync.meta.as_ref().map_or(1, |meta| meta.generation);
            found.push(Invalid { metadata: sync.metadata.clone(), generation, message });
            return false;
        }
        taken.extend(wants.into_iter().map(|want| (want, name.clone())));
        true
    });
    found
}
