//! Templates that SOPS encrypted: they are copied as they are written, unless a build has changed them, and no override may change
//! them, because their MAC covers every value.

use std::sync::Arc;

use serde_json::Value;

use federate_dialect::{ManifestVariant, NotSent, OverrideChange, RenderedManifest};
use federate_kubernetes::sops::{CiphertextForm, find_ciphertext, is_encrypted};
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_repo::{Repo, Template};

/// The status of an encrypted object that is not sent because it would be changed.
const CHANGED: &str = "Encrypted";

/// The template of an object, if SOPS encrypted it.
pub(crate) fn find_encrypted<'r>(repo: &'r Repo, id: &ObjectRef) -> Option<&'r Template> {
    let template = repo.find_template(id)?;
    template.bodies().any(|object| is_encrypted(&object.body)).then_some(template)
}

/// Replaces the variants of an object with ciphertext that nothing could decrypt by the reason.
pub(crate) fn refuse_undecryptable(
    repo: &Repo,
    id: &ObjectRef,
    variants: Vec<ManifestVariant>,
) -> Vec<ManifestVariant> {
    let holds_values =
        |rendered: &RenderedManifest| find_ciphertext(&rendered.body) == Some(CiphertextForm::Values);
    variants
        .into_iter()
        .map(|variant| match repo.find_template(id) {
            Some(template) if variant.rendered.as_ref().is_ok_and(holds_values) => {
                let finding = report_undecryptable(repo, &template.object);
                let withheld = NotSent { status: CHANGED, finding: Some(finding) };
                ManifestVariant { rendered: Err(withheld), ..variant }
            }
            _ => variant,
        })
        .collect()
}

/// The error about an object with ciphertext that no reader of it could decrypt.
pub fn report_undecryptable(repo: &Repo, object: &Object) -> Finding {
    let message = format!(
        "{} has values that SOPS encrypted, and not the keys for them: no reader of the rendered files could decrypt it",
        object.id
    );
    let finding = Finding::error("sops-changed", object, message).with_help(
        "let clusters receive it decrypted (`federate apply --decrypt sops`), or keep the values in a Secret of its own file that SOPS \
         encrypted, or below `files` of a `secretGenerator`, which Flux decrypts",
    );
    Finding { origin: repo.encrypted_inputs.locate_object(object).or(finding.origin), ..finding }
}

/// Replaces the variants of an encrypted object that differ from its template in what the MAC covers by the reason.
pub(crate) fn refuse_changes(
    repo: &Repo,
    template: &Template,
    variants: Vec<ManifestVariant>,
) -> Vec<ManifestVariant> {
    variants
        .into_iter()
        .map(|variant| {
            let cluster = variant.clusters.first();
            let object = cluster.map_or(&template.object, |cluster| template.for_cluster(cluster));
            let finding =
                variant.rendered.as_ref().ok().and_then(|rendered| find_change(repo, object, rendered));
            match finding {
                None => variant,
                Some(finding) => {
                    let withheld = NotSent { status: CHANGED, finding: Some(finding) };
                    ManifestVariant { rendered: Err(withheld), ..variant }
                }
            }
        })
        .collect()
}

fn find_change(repo: &Repo, template: &Object, rendered: &RenderedManifest) -> Option<Finding> {
    let help = "set the value in the file before it is encrypted (`sops edit`), or keep this value in an object of its \
                own";
    let id = &template.id;
    if let Some(OverrideChange { policy, paths, .. }) =
        rendered.changes.iter().find(|change| !change.paths.is_empty())
    {
        let path = paths.first().map_or("", String::as_str);
        let message = format!(
            "{policy} changes `{path}` of {id}, which SOPS encrypted: its MAC covers every value, so that nothing could \
             decrypt the result"
        );
        let claimed = repo.claimed.iter().find(|claimed| claimed.object.id == *policy);
        let object = claimed.map_or(template, |claimed| &claimed.object);
        return Some(Finding::error("sops-changed", object, message).with_help(help));
    }
    let field = changed_field(&template.body, &rendered.body)?;
    let message = format!(
        "placing {id} changes its field `{field}`, but SOPS encrypted it: its MAC covers every value, so that nothing could \
         decrypt the result"
    );
    Some(Finding::error("sops-changed", template, message).with_help(help))
}

/// The first field besides the metadata that differs.
fn changed_field<'v>(written: &'v Value, rendered: &'v Value) -> Option<&'v str> {
    let (written, rendered) = (written.as_object()?, rendered.as_object()?);
    let keys = written.keys().chain(rendered.keys());
    let mut covered = keys.filter(|key| !matches!(key.as_str(), "metadata" | "status"));
    covered.find(|key| written.get(*key) != rendered.get(*key)).map(String::as_str)
}

/// Whether an encrypted object is rendered as the text of its file.
pub fn is_copied(repo: &Repo, object: &Object) -> bool {
    source_text(repo, object).is_some()
}

/// The text of the document of an object, as it is written; `None` for an item of a list, the output of a template, and what a build
/// has changed.
pub(crate) fn source_text(repo: &Repo, object: &Object) -> Option<Arc<str>> {
    let origin = &object.origin;
    let is_document = origin.is_written() && origin.item.is_none() && origin.line > 0;
    if !is_document || origin.file.ends_with(".j2") || !is_encrypted(&object.body) {
        return None;
    }
    let text = std::str::from_utf8(repo.texts.get(&origin.file)?).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.lines().collect();
    let at = usize::try_from(origin.line).ok()?.checked_sub(1)?;
    let before = lines.get(..at)?.iter().rposition(|line| is_separator(line));
    let start = before.map_or(0, |line| line + 1);
    let after = lines.get(at..)?.iter().skip(1).position(|line| is_separator(line));
    let end = after.map_or(lines.len(), |number| at + 1 + number);
    let mut document = lines.get(start..end)?.join("\n");
    document.push('\n');
    is_same(&document, &object.body).then(|| document.into())
}

/// Whether a text says what an object is, which has a namespace in any case.
fn is_same(text: &str, body: &Value) -> bool {
    let Some(document) = federate_yaml::read_stream(text.as_bytes()).documents.pop() else { return false };
    let mut written = document.value;
    if let Some(metadata) = written.get_mut("metadata").and_then(Value::as_object_mut)
        && metadata.get("namespace").is_none_or(|namespace| namespace == "" || namespace.is_null())
        && body.pointer("/metadata/namespace").is_some_and(|namespace| namespace == "default")
    {
        metadata.insert("namespace".to_owned(), "default".into());
    }
    written == *body
}

/// Whether a line begins a document.
fn is_separator(line: &str) -> bool {
    line == "---" || line.starts_with("--- ")
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::Origin;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_copied_as_it_is_written() {
        let text = "# first\n---\nkind: A  # one\nx: |\n  y\nsops: {}\n---\nkind: B\nsops: {}\n";
        let texts = [(Arc::from("a.yaml"), Arc::from(text.as_bytes()))].into();
        let repo = Repo { texts, ..Repo::default() };
        let at = |line: u32, document: u32, body: Value| {
            let mut object = Object::from_manifest(body, "a.yaml");
            object.origin = Origin { line, document, ..object.origin };
            source_text(&repo, &object).map(|text| text.to_string())
        };
        let [a, b] = [json!({"kind": "A", "x": "y\n", "sops": {}}), json!({"kind": "B", "sops": {}})];
        assert_eq!(at(3, 1, a.clone()).as_deref(), Some("kind: A  # one\nx: |\n  y\nsops: {}\n"));
        assert_eq!(at(8, 2, b).as_deref(), Some("kind: B\nsops: {}\n"));
        assert_eq!(at(0, 1, a.clone()), None);
        assert_eq!(at(3, u32::MAX, a), None, "built");
        assert_eq!(at(3, 1, json!({"kind": "A", "x": "z", "sops": {}})), None, "changed");
    }
}
