//! The text of the files that `federate init` writes.

use serde_json::{Map, Value, json};

use super::sources::ProposedSources;
use federate_repo::config::ConfiguredCluster;

/// The workflow of the documentation for GitHub.
const GITHUB_WORKFLOW: &str = include_str!("../../../docs/ci/github.yml");

/// The pipeline of the documentation for GitLab.
const GITLAB_PIPELINE: &str = include_str!("../../../docs/ci/gitlab-ci.yml");

/// `federate.yaml` with the clusters and sources. `places_all`: whether every object goes to every cluster.
pub(super) fn format_config(
    clusters: &[ConfiguredCluster],
    proposed: &ProposedSources<'_>,
    places_all: bool,
) -> String {
    let (sources, paths) = (proposed.entries(), proposed.paths());
    let mut config = json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Config"});
    if !clusters.is_empty() {
        config["clusters"] = clusters.iter().map(cluster_to_json).collect();
    }
    if !paths.is_empty() {
        config["paths"] = paths.into();
    }
    if places_all {
        config["unplaced"] = "everywhere".into();
    }
    if let (true, [cluster]) = (proposed.uses_own_cluster(), clusters) {
        config["argocd"] = json!({"cluster": cluster.name});
    }
    if !sources.is_empty() {
        config["sources"] = sources.into();
    }
    format_yaml(&[config])
}

fn cluster_to_json(cluster: &ConfiguredCluster) -> Value {
    let labels: Map<String, Value> =
        cluster.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let mut value = json!({"name": cluster.name, "labels": labels, "region": cluster.region});
    if !cluster.provider.is_empty() {
        value["provider"] = json!(cluster.provider);
    }
    if !cluster.zones.is_empty() {
        value["zones"] = json!(cluster.zones);
    }
    value
}

/// GitHub's workflow for a folder of the repository, with the branch that it publishes.
pub(super) fn github_workflow(folder: &str, branch: &str) -> String {
    let [folder, branch] = [folder, branch].map(|text| format_yaml(&[text.into()]).trim_end().to_owned());
    let text = GITHUB_WORKFLOW.replace("paths: deploy", &format!("paths: {folder}"));
    text.replace("branches: [main]", &format!("branches: [{branch}]"))
}

/// GitLab's pipeline for a folder of the repository. As an included file, it has the stages that every pipeline has.
pub(super) fn gitlab_pipeline(folder: &str, included: bool) -> String {
    let folder = shell_word(folder);
    let mut text = GITLAB_PIPELINE.to_owned();
    for (command, rest) in [("check", " "), ("diff", " "), ("commit", " "), ("--arg folder", " ")] {
        text = text.replace(&format!("{command} deploy{rest}"), &format!("{command} {folder}{rest}"));
    }
    if included {
        text = text.replace("stages: [review, deploy]\n\n", "").replace("stage: review", "stage: test");
    }
    text
}

/// A word of a shell.
fn shell_word(text: &str) -> String {
    if text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/')) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Objects as YAML documents.
pub(super) fn format_yaml(objects: &[Value]) -> String {
    let mut text = String::new();
    for (at, object) in objects.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "---\n" });
        federate_yaml::write_document(object, &mut text);
    }
    text
}
