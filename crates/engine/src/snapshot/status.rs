//! Combines the inventory of a repo with that of a snapshot: the spec comes from the repo, the status from the
//! snapshot.
//!
//! Taints are part of the spec, but control planes and administrators change them on the hub. If the repo states no
//! taints, those of the snapshot apply; if it states some, the snapshot only adds those with a key of the control
//! plane itself, such as `cluster.karmada.io/not-ready`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use federate_dialect::Dialects;
use federate_kubernetes::{Finding, ObjectRef};
use federate_repo::{ClaimedObject, Repo, Role};

use super::StoredSnapshot;
use super::recorded::add_recorded;

/// Gives the inventory objects of a repo the status that a snapshot contains, and the repo the further objects of the
/// snapshot. A repo without inventory objects gets those of the snapshot.
pub fn apply_status(dialects: Dialects, repo: &mut Repo, stored: &StoredSnapshot) -> Vec<Finding> {
    let seen: BTreeMap<Key<'_>, &ClaimedObject> =
        stored.clusters.iter().map(|claimed| (inventory_key(&claimed.object.id), claimed)).collect();
    if add_recorded(dialects, repo, &stored.recorded) {
        repo.texts.extend(stored.texts.iter().map(|(path, text)| (path.clone(), text.clone())));
    }
    let mut findings = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for claimed in repo.claimed.iter_mut().filter(|claimed| claimed.role == Role::Inventory) {
        known.insert(claimed.object.id.name.clone());
        match seen.get(&inventory_key(&claimed.object.id)) {
            Some(observed) => overlay_status(dialects, &mut claimed.object.body, &observed.object.body),
            None => findings.push(report_unseen(claimed, stored)),
        }
    }
    if known.is_empty() {
        repo.claimed.extend(stored.clusters.iter().cloned());
        repo.claimed.sort_by(|a, b| a.object.id.cmp(&b.object.id));
        repo.texts.extend(stored.texts.iter().map(|(path, text)| (path.clone(), text.clone())));
        return findings;
    }
    let gone = stored.clusters.iter().filter(|claimed| !known.contains(&claimed.object.id.name));
    findings.extend(gone.map(not_listed));
    findings
}

/// The identity of an inventory object in any version.
type Key<'o> = (&'o str, &'o str, &'o str);

fn inventory_key(id: &ObjectRef) -> Key<'_> {
    (id.group(), &id.kind, &id.name)
}

fn read_taints(body: &Value) -> Vec<Value> {
    body.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Whether a control plane sets a taint.
fn is_own_taint(dialects: Dialects, taint: &Value) -> bool {
    let domain = taint["key"].as_str().and_then(|key| key.split_once('/')).map(|(domain, _)| domain);
    domain.is_some_and(|domain| dialects.is_own_domain(domain))
}

/// Sets the status, the deletion and the taints of an inventory object to those observed.
fn overlay_status(dialects: Dialects, body: &mut Value, observed: &Value) {
    let stated = body.pointer("/spec/taints").is_some_and(|taints| !taints.is_null());
    let mut all = read_taints(body);
    for taint in read_taints(observed) {
        if (!stated || is_own_taint(dialects, &taint))
            && !all.iter().any(|t| (&t["key"], &t["effect"]) == (&taint["key"], &taint["effect"]))
        {
            all.push(taint);
        }
    }
    let Some(object) = body.as_object_mut() else { return };
    if !all.is_empty() {
        let spec = object.entry("spec").or_insert_with(|| json!({}));
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("taints".to_owned(), all.into());
        }
    }
    match observed.get("status") {
        Some(status) => drop(object.insert("status".to_owned(), status.clone())),
        None => drop(object.shift_remove("status")),
    }
    let deleted = observed.pointer("/metadata/deletionTimestamp").filter(|time| !time.is_null());
    if let (Some(time), Some(Value::Object(metadata))) = (deleted, object.get_mut("metadata")) {
        metadata.insert("deletionTimestamp".to_owned(), time.clone());
    }
}

fn report_unseen(claimed: &ClaimedObject, stored: &StoredSnapshot) -> Finding {
    let name = &claimed.object.id.name;
    let message = match stored.failed.get(name) {
        Some(why) => format!("the snapshot does not contain cluster {name}, which could not be read: {why}"),
        None => format!("the snapshot does not contain cluster {name}, so its status is that of the repo"),
    };
    Finding::warning("not-in-snapshot", &claimed.object, message)
        .with_help("take a new snapshot after the cluster has joined, with `federate snapshot`")
}

fn not_listed(claimed: &ClaimedObject) -> Finding {
    let name = &claimed.object.id.name;
    let message =
        format!("cluster {name} is in the snapshot but not in the repo, so nothing is placed there");
    let mut finding = Finding::warning("only-in-snapshot", &claimed.object, message)
        .with_help("add its inventory object to the repo, or take a new snapshot if the cluster has left");
    // The snapshot's files are not those of the repo: there is no line to show.
    finding.origin = None;
    finding
}
