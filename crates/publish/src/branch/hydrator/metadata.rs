//! `hydrator.metadata` and `README.md`. Keys, their order, and that empty ones are left out are those of Argo CD's source
//! hydrator.

use serde::Serialize;

use super::DryCommit;
use super::trailers::CommitReference;
use crate::branch::Error;

/// The content of `hydrator.metadata`, at the root or in the folder of a cluster.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'m> {
    #[serde(rename = "repoURL", skip_serializing_if = "str::is_empty")]
    repo_url: &'m str,
    dry_sha: &'m str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    author: &'m str,
    #[serde(skip_serializing_if = "str::is_empty")]
    date: &'m str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subject: &'m str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'m str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    references: &'m [CommitReference],
}

/// The metadata at the root: the rendered commit.
pub(super) fn format_root(source: &DryCommit) -> Result<String, Error> {
    format_metadata(&Metadata {
        repo_url: &source.repository,
        dry_sha: &source.id,
        author: &source.author,
        date: &source.date,
        subject: &source.subject,
        body: &source.body,
        references: &source.references,
        ..Metadata::default()
    })
}

/// The metadata of a cluster: how its manifests were rendered.
pub(super) fn format_cluster(source: &DryCommit, cluster: &str) -> Result<String, Error> {
    let commands = vec![render_command(source, cluster)];
    format_metadata(&Metadata {
        repo_url: &source.repository,
        dry_sha: &source.id,
        commands,
        ..Metadata::default()
    })
}

fn format_metadata(metadata: &Metadata<'_>) -> Result<String, Error> {
    let mut text = serde_json::to_string_pretty(metadata).map_err(std::io::Error::from)?;
    text.push('\n');
    Ok(text)
}

/// The description of a cluster's folder.
pub(super) fn format_readme(source: &DryCommit, cluster: &str) -> String {
    let clone = match source.repository.as_str() {
        "" => String::new(),
        repository => format!("git clone {}\n# change to the folder of the clone\n", quote_word(repository)),
    };
    let command = render_command(source, cluster);
    format!(
        "# Rendered manifests\n\nfederate writes this folder: changes here are lost. These commands show what it would \
         contain if objects were placed for the first time:\n\n```shell\n{clone}git checkout {}\n{command}\n```\n\n\
         The decisions for all clusters are in the file placements.yaml of the branch.\n",
        source.id
    )
}

/// The command that renders a cluster's manifests.
fn render_command(source: &DryCommit, cluster: &str) -> String {
    let folder = if source.folder.is_empty() { "." } else { &source.folder };
    format!("federate render {} --cluster {} --out rendered", quote_word(folder), quote_word(cluster))
}

/// A word as a shell reads it, in which nothing ends a block of Markdown.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=~".contains(c);
    let shown: String = word.chars().filter(|c| !c.is_control() && *c != '`').collect();
    if shown.chars().all(is_plain) { shown } else { format!("'{}'", shown.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_keys_are_left_out_and_nothing_is_escaped() {
        let source =
            DryCommit { id: "a".repeat(40), subject: "a <b> & \"c\"".to_owned(), ..DryCommit::default() };
        let text = format_root(&source).unwrap();
        assert_eq!(
            text,
            format!("{{\n  \"drySha\": \"{}\",\n  \"subject\": \"a <b> & \\\"c\\\"\"\n}}\n", "a".repeat(40))
        );
    }

    #[test]
    fn no_text_of_the_repo_leaves_its_block() {
        let repository = "https://example.com/a\n```\n$(b)'c".to_owned();
        let source = DryCommit { id: "a".repeat(40), repository, ..DryCommit::default() };
        let text = format_readme(&source, "m1");
        assert!(text.contains("git clone 'https://example.com/a$(b)'\\''c'\n"), "{text}");
        assert_eq!(text.matches("```").count(), 2);
    }
}
