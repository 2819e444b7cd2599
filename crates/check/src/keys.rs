//! Labels and annotations of templates with a key that is nearly one that a control plane reads.

use federate_dialect::Dialects;
use federate_kubernetes::schema::find_similar;
use federate_kubernetes::{Finding, Object, pointer};
use federate_repo::Repo;

/// The findings.
pub(super) fn find_unread_keys(repo: &Repo, dialects: Dialects) -> Vec<Finding> {
    let templates = repo.templates.iter().map(|template| &template.object);
    templates
        .flat_map(|object| dialects.iter().flat_map(|d| check_object(object, d.kinds().metadata_keys())))
        .collect()
}

fn check_object(object: &Object, read: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    let domains: Vec<&str> = read.iter().filter_map(|key| Some(key.split_once('/')?.0)).collect();
    for field in ["labels", "annotations"] {
        let map = object.value_at(&["metadata", field]).and_then(serde_json::Value::as_object);
        for key in map.into_iter().flatten().map(|(key, _)| key.as_str()).filter(|key| !read.contains(key)) {
            let own = key.split_once('/').is_some_and(|(domain, _)| domains.contains(&domain));
            let Some(near) = own.then(|| find_similar(key, read)).flatten() else { continue };
            let message = format!("no control plane reads `{key}`");
            let finding = Finding::warning("unknown-key", object, message);
            let pointer = format!("/metadata/{field}/{}", pointer::escape(key));
            found.push(finding.with_pointer(pointer).with_help(format!("did you mean `{near}`?")));
        }
    }
    found
}
