//! Files of tools that build objects from the manifests around them. federate reads the manifests, and not what these
//! files do to them.

use std::sync::Arc;

use federate_kubernetes::{Finding, Severity};

use crate::ownership::name_of;
use federate_file_tree::RepoFile;

/// A tool, with the files that it starts from.
struct Tool {
    name: &'static str,
    files: &'static [&'static str],
    /// A key that such a file has; empty if the name of the file says enough.
    key: &'static str,
    command: &'static str,
}

const TOOLS: [Tool; 3] = [
    Tool { name: "Rancher Fleet", files: &["fleet.yaml", "fleet.yml"], key: "", command: "fleet apply -o" },
    Tool {
        name: "kluctl",
        files: &["helm-chart.yaml", "helm-chart.yml"],
        key: "helmChart",
        command: "kluctl render",
    },
    Tool {
        name: "helmfile",
        files: &["helmfile.yaml", "helmfile.yml"],
        key: "releases",
        command: "helmfile template",
    },
];

/// One finding for each tool that the files, which are sorted by path, show.
pub(crate) fn report_tools(files: &[RepoFile]) -> Vec<Finding> {
    TOOLS.iter().filter_map(|tool| report_tool(tool, files)).collect()
}

fn report_tool(tool: &Tool, files: &[RepoFile]) -> Option<Finding> {
    let paths: Vec<&Arc<str>> = files
        .iter()
        .filter(|file| tool.files.contains(&name_of(&file.path)) && has_key(file, tool.key))
        .map(|file| &file.path)
        .collect();
    let first = paths.first()?;
    let others = match paths.len() - 1 {
        0 => String::new(),
        1 => " and another file".to_owned(),
        more => format!(" and {more} more files"),
    };
    let message = format!(
        "federate does not run {}: the manifests beside this file{others} are read as they are written, without what it \
         does to them",
        tool.name
    );
    let help = format!(
        "commit its output (`{}`) and list the folders in .federateignore, or only the files that are not manifests",
        tool.command
    );
    Some(Finding::in_file(Severity::Warning, "other-tool", first, None, message).with_help(help))
}

/// Whether a `*.j2` file lies where Ansible has its templates: below a folder of its name, of playbooks, or of a role.
pub(crate) fn is_of_ansible(path: &str) -> bool {
    let folders: Vec<&str> = path.split('/').rev().skip(1).collect();
    folders.iter().any(|name| matches!(*name, "ansible" | "playbooks"))
        || folders.windows(3).any(|names| matches!(names, ["templates", _, "roles"]))
}

/// The finding about templates of Ansible, which are sorted by path.
pub(crate) fn report_ansible(files: &[RepoFile]) -> Option<Finding> {
    let first = files.first()?;
    let message = match files.len() - 1 {
        0 => "this file is a template of Ansible, which federate does not run, so it is not read".to_owned(),
        more => format!(
            "this file and {more} more are templates of Ansible, which federate does not run, so they are not read"
        ),
    };
    let folder = first.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let help = format!("list `{folder}/` in .federateignore");
    Some(Finding::in_file(Severity::Warning, "other-tool", &first.path, None, message).with_help(help))
}

fn has_key(file: &RepoFile, key: &str) -> bool {
    let documents = federate_yaml::read_stream(&file.bytes).documents;
    match key {
        "" => !documents.iter().any(|document| {
            document.value.get("apiVersion").is_some() && document.value.get("kind").is_some()
        }),
        key => documents.iter().any(|document| document.value.get(key).is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_ansible;

    #[test]
    fn ansible_is_known_by_its_folders() {
        for (path, expected) in [
            ("ansible/x.yaml.j2", true),
            ("infra/ansible/templates/x.yaml.j2", true),
            ("roles/k3s/templates/x.yaml.j2", true),
            ("playbooks/a/x.yaml.j2", true),
            ("roles/x.yaml.j2", false),
            ("apps/templates/x.yaml.j2", false),
            ("ansible.yaml.j2", false),
        ] {
            assert_eq!(is_of_ansible(path), expected, "{path}");
        }
    }
}
