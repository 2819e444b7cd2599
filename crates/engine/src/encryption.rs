//! Templates that SOPS encrypted: they are copied as they are written, and nothing may change them, because their MAC
//! covers every value.

use std::sync::Arc;

use serde_json::Value;

use federate_dialect::{ManifestVariant, NotSent, OverrideChange, RenderedManifest};
use federate_kubernetes::sops::is_encrypted;
use federate_kubernetes::{Finding, Object, ObjectRef};
use federate_repo::Repo;

/// The status of an encrypted object that is not sent because it would be changed.
const CHANGED: &str = "Encrypted";

/// The template of an object, if SOPS encrypted it.
pub(crate) fn find_encrypted<'r>(repo: &'r Repo, id: &ObjectRef) -> Option<&'r Object> {
    let template = &repo.find_template(id)?.object;
    is_encrypted(&template.body).then_some(template)
}

/// Replaces the variants of an encrypted object that differ from its template in what the MAC covers by the reason.
pub(crate) fn refuse_changes(
    repo: &Repo,
    template: &Object,
    variants: Vec<ManifestVariant>,
) -> Vec<ManifestVariant> {
    variants
        .into_iter()
        .map(|variant| {
            let finding =
                variant.rendered.as_ref().ok().and_then(|rendered| find_change(repo, template, rendered));
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

/// The text of the document of an object, as it is written; `None` for an item of a list or the output of a template.
pub(crate) fn source_text(repo: &Repo, object: &Object) -> Option<Arc<str>> {
    let origin = &object.origin;
    if origin.item.is_some() || origin.file.ends_with(".j2") || origin.line == 0 {
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
    Some(document.into())
}

/// Whether a line begins a document.
fn is_separator(line: &str) -> bool {
    line == "---" || line.starts_with("--- ")
}

#[cfg(test)]
mod tests {
    use federate_kubernetes::Origin;

    use super::*;

    #[test]
    fn a_document_is_copied_as_it_is_written() {
        let text = "# first\n---\nkind: A  # one\nx: |\n  y\n---\nkind: B\n";
        let texts = [(Arc::from("a.yaml"), Arc::from(text.as_bytes()))].into();
        let repo = Repo { texts, ..Repo::default() };
        let at = |line: u32| {
            let mut object = Object::from_manifest(Value::Null, "a.yaml");
            object.origin = Origin { line, ..object.origin };
            source_text(&repo, &object).map(|text| text.to_string())
        };
        assert_eq!(at(3).as_deref(), Some("kind: A  # one\nx: |\n  y\n"));
        assert_eq!(at(7).as_deref(), Some("kind: B\n"));
        assert_eq!(at(0), None);
    }
}
