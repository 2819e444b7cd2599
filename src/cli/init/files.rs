//! The text of the files that `federate init` writes.

use serde_json::{Value, json};

/// The workflow of the documentation.
const WORKFLOW: &str = include_str!("../../../docs/ci/github.yml");

/// `federate.yaml` with the clusters.
pub(super) fn config(clusters: &[String]) -> String {
    let clusters: Vec<Value> =
        clusters.iter().map(|name| json!({"name": name, "labels": {}, "region": ""})).collect();
    yaml(&[json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Config", "clusters": clusters})])
}

/// The workflow for a folder of the repository, whose default branch this is.
pub(super) fn workflow(folder: &str, branch: &str) -> String {
    let [folder, branch] = [folder, branch].map(|text| yaml(&[text.into()]).trim_end().to_owned());
    let text = WORKFLOW.replace("paths: deploy", &format!("paths: {folder}"));
    text.replace("branches: [main]", &format!("branches: [{branch}]"))
}

/// Objects as YAML documents.
pub(super) fn yaml(objects: &[Value]) -> String {
    let mut text = String::new();
    for (at, object) in objects.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "---\n" });
        federate_yaml::write(object, &mut text);
    }
    text
}
