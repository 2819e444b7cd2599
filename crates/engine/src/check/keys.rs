//! Labels and annotations of templates with a key that is nearly one that a control plane reads.

use federate_dialect::Dialects;
use federate_kubernetes::schema::similar;
use federate_kubernetes::{Finding, Object, pointer};
use federate_repo::Repo;

/// The findings.
pub(super) fn unread(repo: &Repo, dialects: Dialects) -> Vec<Finding> {
    let templates = repo.templates.iter().map(|template| &template.object);
    templates.flat_map(|object| dialects.iter().flat_map(|d| of(object, d.metadata_keys()))).collect()
}

fn of(object: &Object, read: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    let domains: Vec<&str> = read.iter().filter_map(|key| Some(key.split_once('/')?.0)).collect();
    for field in ["labels", "annotations"] {
        let map = object.at(&["metadata", field]).and_then(serde_json::Value::as_object);
        for key in map.into_iter().flatten().map(|(key, _)| key.as_str()).filter(|key| !read.contains(key)) {
            let own = key.split_once('/').is_some_and(|(domain, _)| domains.contains(&domain));
            let Some(near) = own.then(|| similar(key, read)).flatten() else { continue };
            let message = format!("no control plane reads `{key}`");
            let finding = Finding::warning("unknown-key", object, message);
            let pointer = format!("/metadata/{field}/{}", pointer::escape(key));
            found.push(finding.at(pointer).help(format!("did you mean `{near}`?")));
        }
    }
    found
}
