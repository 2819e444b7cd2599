//! The `*.j2` files whose objects must change, or that the new side does not render: each is replaced by a file with its objects as
//! the first cluster gets them. What other clusters get instead is found by comparing manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::import::apply_edits;
use federate_kubernetes::{ObjectRef, Origin};
use federate_repo::Template;

use super::RepoConversion;
use crate::intent::{RepoIntent, TemplateIntent, TemplateSource, unequal_rule};
use crate::repo_text::{RepoText, is_template_file};
use crate::{Reason, Target};

impl RepoConversion<'_> {
    /// Lets all objects of the `*.j2` files be written anew that have a `chosen` one. `folder` is that of files at the root.
    pub(super) fn replace_template_files(
        &self,
        intent: &mut RepoIntent,
        text: &RepoText<'_>,
        chosen: &BTreeSet<ObjectRef>,
        folder: &str,
    ) {
        let mut files: BTreeMap<&Arc<str>, Vec<&Template>> = BTreeMap::new();
        for own in &self.repo().templates {
            let file = &own.object.origin.file;
            if own.per_cluster.is_some() && is_template_file(file) {
                files.entry(file).or_default().push(own);
            }
        }
        files.retain(|_, objects| objects.iter().any(|own| chosen.contains(&own.object.id)));
        let known: BTreeMap<ObjectRef, usize> =
            intent.templates.iter().enumerate().map(|(at, template)| (template.old.clone(), at)).collect();
        let mut taken: BTreeSet<Arc<str>> = BTreeSet::new();
        for (file, objects) in files {
            let written = name_written_file(file, folder, |path| text.has_file(path) || taken.contains(path));
            taken.insert(written.clone());
            for own in objects {
                let id = &own.object.id;
                let source = TemplateSource::Rendered {
                    origin: own.object.origin.clone(),
                    file: written.clone(),
                    body: own.object.body.clone(),
                };
                match known.get(id).and_then(|at| intent.templates.get_mut(*at)) {
                    Some(template) => template.source = source,
                    None => intent.templates.push(TemplateIntent::unchanged(id.clone(), id.clone(), source)),
                }
                if self.target != Target::Plain && differs_between_clusters(own) {
                    let detail = "what its template makes for each cluster of today is written";
                    intent.add_unequal(
                        id,
                        unequal_rule(Reason::Overrides, detail, Some(&own.object.origin), ""),
                    );
                }
            }
        }
    }

    /// Writes objects in place of the `*.j2` files that made them.
    pub(super) fn write_rendered(intent: &RepoIntent, text: &mut RepoText<'_>) {
        let mut rendered: BTreeMap<&Origin, (&Arc<str>, &TemplateIntent)> = BTreeMap::new();
        for template in &intent.templates {
            if let TemplateSource::Rendered { origin, file, .. } = &template.source {
                rendered.insert(origin, (file, template));
            }
        }
        for (origin, (file, template)) in rendered {
            let TemplateSource::Rendered { body, .. } = &template.source else { continue };
            let mut body = body.clone();
            apply_edits(&template.edits, &mut body);
            text.remove_file(&origin.file);
            text.add_document(file, &body);
        }
    }
}

/// Whether clusters get different objects of a template.
fn differs_between_clusters(own: &Template) -> bool {
    own.per_cluster.iter().flatten().any(|(_, variant)| variant.body != own.object.body)
}

/// The path of the file that is written in place of a `*.j2` file.
fn name_written_file(file: &str, folder: &str, is_taken: impl Fn(&str) -> bool) -> Arc<str> {
    let path = file.strip_suffix(".j2").unwrap_or(file);
    let (stem, extension) = match path.rsplit_once('.') {
        Some((stem, extension @ ("yaml" | "yml"))) => (stem, extension),
        Some((stem, "json")) => (stem, "yaml"),
        _ => (path, "yaml"),
    };
    let stem = super::plain::move_below_root(&stem.into(), folder);
    let numbered = (2..).map(|number: u32| format!("{stem}-{number}.{extension}"));
    let mut names = std::iter::once(format!("{stem}.{extension}")).chain(numbered);
    let is_free = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        // What moves from the root must not stand there either.
        !is_taken(path) && (folder.is_empty() || file.contains('/') || !is_taken(name))
    };
    names.find(is_free).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_file_is_replaced_by_a_file_with_a_free_name() {
        let taken = ["a/web.yaml", "objects/top.yaml", "root.yaml"];
        for (file, folder, expected) in [
            ("a/web.yaml.j2", "", "a/web-2.yaml"),
            ("a/api.yml.j2", "objects", "a/api.yml"),
            ("a/config.j2", "", "a/config.yaml"),
            ("a/config.json.j2", "", "a/config.yaml"),
            ("top.yaml.j2", "", "top.yaml"),
            ("top.yaml.j2", "objects", "objects/top-2.yaml"),
            ("root.yaml.j2", "objects", "objects/root-2.yaml"),
        ] {
            let written = name_written_file(file, folder, |path| taken.contains(&path));
            assert_eq!(&*written, expected, "{file} {folder}");
        }
    }
}
