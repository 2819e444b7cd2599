//! From the intents of a repo to one that no control plane reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::import::{ImportEdit, apply_edits};
use federate_kubernetes::patch::{JsonPatchOperation, apply_operation};
use federate_kubernetes::{ClusterName, Object, ObjectRef, Origin, sops};
use federate_repo::Template;
use federate_repo::config::UnplacedTemplates;
use serde_json::Value;

use super::operations::{pair_variants, take_common};
use super::{IDENTITY_POINTERS, RepoConversion};
use crate::difference;
use crate::error::{MigrationError, MigrationProblem};
use crate::intent::{
    ClusterOperations, OverrideIntent, RepoIntent, TemplateIntent, TemplateSource, group_operations,
    unequal_rule,
};
use crate::placed::find_placed;
use crate::rendering::{MigratedRepo, SentVariants};
use crate::repo_text::{RepoText, is_template_file};
use crate::write::plain::{self, PlacedInFile};
use crate::{Migration, Reason};

/// The folder of objects that stand at the root of a repo without a control plane.
const ROOT_FOLDER: &str = "objects";

impl RepoConversion<'_> {
    /// The migration of a repo to one that no control plane reads.
    pub(crate) fn convert_to_plain(&self, mut intent: RepoIntent) -> Result<Migration, MigrationError> {
        let mut text = RepoText::new(self.repo());
        self.remove_marks(&mut intent);
        let root = find_free_name(ROOT_FOLDER, |name| text.has_folder(name));
        let placed = find_placed(self.session, &self.sources).into_iter();
        let placed = placed.filter(|(_, placed)| !placed.clusters.is_empty());
        let mut replaced: BTreeSet<ObjectRef> = placed.map(|(object, _)| object.clone()).collect();
        replaced.extend(self.find_edited(&intent));
        self.replace_template_files(&mut intent, &text, &replaced, &root);
        let mut problems = self.find_obstacles(&self.find_edited(&intent), &mut text);
        problems.extend(self.find_builds(&mut text));
        if !problems.is_empty() {
            return Err(MigrationError::Problems(problems));
        }
        problems.extend(self.align_with_templates(&mut intent));
        let placed = self.list_placed_files(&intent, &root);
        self.note_unsent(&mut intent, &placed.objects);
        problems.extend(self.find_mixed_files(&placed.unused));
        let clusters: Vec<ClusterName> =
            self.session.clusters().iter().map(|cluster| cluster.name.clone()).collect();
        let folder = find_free_name("overlays", |name| text.has_folder(name));
        let rest = find_free_name("base", |name| clusters.iter().any(|cluster| cluster.as_ref() == name));
        let overrides = &intent.overrides;
        let input = plain::OverlayInput {
            objects: &placed.objects,
            overrides,
            clusters: &clusters,
            folder: &folder,
            rest: &rest,
        };
        let Some(files) = plain::write_overlays(&input) else {
            problems.push(MigrationProblem {
                object: None,
                origin: None,
                message: "the overlays of all clusters would have too many patches".to_owned(),
                help: "put objects that go to the same clusters into a folder of their own".to_owned(),
            });
            return Err(MigrationError::Problems(problems));
        };
        for file in &files {
            if self.repo().texts.contains_key(&file.path) {
                problems.push(MigrationProblem {
                    object: None,
                    origin: Some(Origin { file: file.path.clone(), document: 0, item: None, line: 0 }),
                    message: "the repo has a kustomization in a folder with objects that are placed"
                        .to_owned(),
                    help: "migrate the output of the kustomization: `federate render` writes it".to_owned(),
                });
            }
            text.add_document(&file.path, &file.value);
        }
        if !problems.is_empty() {
            return Err(MigrationError::Problems(problems));
        }
        self.write_templates(&intent, &mut text);
        self.write_plain_config(&plain::write_settings(&folder, &rest), &placed.unused, &mut text);
        self.remove_policies(&intent, &mut text);
        for from in placed.used.iter().filter(|file| !file.contains('/')) {
            text.move_file(from, move_below_root(from, &root));
        }
        let edits = text.into_edits().map_err(MigrationError::Problems)?;
        let objects = self.list_objects(&intent, &BTreeSet::new());
        Ok(Migration { edits, objects, unequal: intent.unequal_of_repo })
    }

    /// The objects that overlays cannot use, because they are built already: one of each file. What is built and goes nowhere would
    /// go everywhere.
    fn find_builds(&self, text: &mut RepoText<'_>) -> Vec<MigrationProblem> {
        let own = self.repo().templates.iter().map(|template| &template.object);
        let own = own.filter(|object| !is_template_file(&object.origin.file));
        let first: BTreeMap<&Arc<str>, MigrationProblem> = own
            .rev()
            .filter_map(|object| Some((&object.origin.file, text.find_obstacle(&object.id, &object.origin)?)))
            .collect();
        first.into_values().collect()
    }

    /// Files that are excluded, although objects in them stay that place nothing.
    fn find_mixed_files(&self, unused: &BTreeSet<Arc<str>>) -> Vec<MigrationProblem> {
        let claimed = self.repo().claimed.iter().filter(|claimed| !self.sources.contains(claimed.dialect));
        let kept =
            claimed.map(|claimed| &claimed.object).filter(|object| unused.contains(&object.origin.file));
        let problem = |object: &Object| MigrationProblem {
            object: Some(object.id.clone()),
            origin: Some(object.origin.clone()),
            message: format!("{} is in a file with objects that are placed nowhere", object.id),
            help: "move it to a file of its own".to_owned(),
        };
        kept.map(problem).collect()
    }

    /// Finds what differs from the objects as they are written: in all clusters alike, which edits them, or in some.
    fn align_with_templates(&self, intent: &mut RepoIntent) -> Vec<MigrationProblem> {
        let dialects = self.session.dialects();
        let old = SentVariants::from_rendering(self.session.render(), dialects);
        let (mut problems, mut overrides) = (Vec::new(), Vec::new());
        let known_texts = self.known_texts();
        for template in &mut intent.templates {
            let mut body = match &template.source {
                TemplateSource::Embedded { body, .. } | TemplateSource::Rendered { body, .. } => body.clone(),
                TemplateSource::Own => match self.repo().find_template(&template.old) {
                    Some(own) if !sops::is_encrypted(&own.object.body) => own.object.body.clone(),
                    _ => continue,
                },
            };
            apply_edits(&template.edits, &mut body);
            crate::remove_bookkeeping(dialects, &mut body);
            let mut changes: Vec<ClusterOperations> = old
                .find_variants(&template.old)
                .iter()
                .map(|variant| ClusterOperations {
                    clusters: variant.clusters.to_vec(),
                    operations: difference::compute_exact_patch(&body, &variant.body),
                })
                .collect();
            if changes.is_empty() {
                continue;
            }
            template.edits.extend(difference::to_edits(take_common(&mut changes, |_| true)));
            problems.extend(self.find_new_secrets(template, &changes, &known_texts));
            let rules = group_operations(changes);
            if !rules.is_empty() {
                overrides.push(OverrideIntent::from_rules(template.id.clone(), rules));
            }
        }
        intent.overrides = overrides;
        problems
    }

    /// Every object in a file of the new side, with its clusters. Files at the root move to a folder, because overlays cannot
    /// be within what they use.
    fn list_placed_files(&self, intent: &RepoIntent, root: &str) -> PlacedFiles {
        let placed = find_placed(self.session, &self.sources);
        let written: BTreeMap<&ObjectRef, &TemplateIntent> = intent
            .templates
            .iter()
            .filter(|template| !template.source.is_own())
            .map(|template| (&template.id, template))
            .collect();
        let clusters_of =
            |old: &ObjectRef| placed.get(old).map(|placed| placed.clusters.clone()).unwrap_or_default();
        let own = self.repo().templates.iter().map(|template| &template.object);
        let own = own.filter(|object| !written.contains_key(&object.id)).map(|object| PlacedInFile {
            object: object.id.clone(),
            file: object.origin.file.clone(),
            clusters: clusters_of(&object.id),
        });
        let anew = written.values().filter_map(|template| {
            let (file, _) = template.source.find_written()?;
            Some(PlacedInFile {
                object: template.id.clone(),
                file: file.clone(),
                clusters: clusters_of(&template.old),
            })
        });
        let mut objects: Vec<PlacedInFile> = own.chain(anew).collect();
        let files: BTreeSet<Arc<str>> = objects.iter().map(|one| one.file.clone()).collect();
        let used: BTreeSet<Arc<str>> =
            objects.iter().filter(|one| !one.clusters.is_empty()).map(|one| one.file.clone()).collect();
        objects.retain(|one| used.contains(&one.file));
        for one in &mut objects {
            one.file = move_below_root(&one.file, root);
        }
        PlacedFiles { objects, unused: files.difference(&used).cloned().collect(), used }
    }

    /// Writes the settings of a repo that no control plane reads. Files whose objects go nowhere are excluded: what nothing places
    /// would go everywhere.
    fn write_plain_config(&self, sources: &Value, unused: &BTreeSet<Arc<str>>, text: &mut RepoText<'_>) {
        let mut edits = Vec::new();
        if !self.repo().config.dialects.is_empty() {
            edits.push(ImportEdit { pointer: "/dialects".to_owned(), value: None });
        }
        let mut excluded = self.read_config_list(text, "exclude");
        excluded.extend(unused.iter().map(|file| Value::from(exclude_file(file))));
        let known = self.read_config_list(text, "clusters");
        let clusters = self.join_clusters(&known, self.left_clusters().map(|left| left.value).collect());
        let mut built = self.read_config_list(text, "sources");
        built.extend(sources.as_array().into_iter().flatten().cloned());
        for (key, all) in [("exclude", excluded), ("clusters", clusters), ("sources", built)] {
            if !all.is_empty() {
                edits.push(ImportEdit { pointer: format!("/{key}"), value: Some(all.into()) });
            }
        }
        edits.push(ImportEdit { pointer: "/unplaced".to_owned(), value: Some("everywhere".into()) });
        self.edit_config(&edits, text);
    }

    /// Notes what a repo without a control plane does not send: objects, and fields that render leaves out for all of them.
    fn note_unsent(&self, intent: &mut RepoIntent, objects: &[PlacedInFile]) {
        let simulated = self.simulate_overlays(intent, objects);
        let dialects = self.session.dialects();
        let old = SentVariants::from_rendering(self.session.render(), dialects);
        let new = SentVariants::from_rendering(&simulated.rendering, dialects);
        let rows = simulated.rendering.plan.placements.iter();
        let reached: BTreeMap<&ObjectRef, BTreeSet<&ClusterName>> =
            rows.map(|row| (&row.object, row.clusters.iter().map(|placed| &placed.name).collect())).collect();
        let placed = find_placed(self.session, &self.sources);
        let mut rules = Vec::new();
        for template in &intent.templates {
            let Some(placed) = placed.get(&template.old).filter(|placed| !placed.clusters.is_empty()) else {
                continue;
            };
            let origin = self.repo().find_template(&template.old).map(|own| &own.object.origin);
            let mut add = |reason: Reason, detail: String| {
                rules.push((template.old.clone(), unequal_rule(reason, detail, origin, "")));
            };
            match reached.get(&template.id) {
                None => {
                    let detail = "no control plane is taken to send it to members";
                    add(Reason::NeverPropagated, detail.to_owned());
                }
                Some(reached) if placed.clusters.iter().any(|name| !reached.contains(name)) => {
                    add(Reason::Readiness, "nothing is sent to clusters that are deleted".to_owned());
                }
                Some(_) => {}
            }
            let pairs = pair_variants(old.find_variants(&template.old), new.find_variants(&template.id));
            let changes = pairs.into_iter().flat_map(|pair| pair.into_operations(true).operations);
            let pointers: BTreeSet<String> = changes.map(|operation| operation.pointer).collect();
            for pointer in pointers.iter().filter(|pointer| !IDENTITY_POINTERS.contains(&pointer.as_str())) {
                add(Reason::Overrides, format!("{pointer} cannot be sent as it is now"));
            }
        }
        for (old, rule) in rules {
            intent.add_unequal(&old, rule);
        }
    }

    /// The new side in memory, with what overlays build.
    fn simulate_overlays(&self, intent: &RepoIntent, objects: &[PlacedInFile]) -> MigratedRepo {
        let templates: BTreeMap<&ObjectRef, &TemplateIntent> =
            intent.templates.iter().map(|template| (&template.id, template)).collect();
        let patches = plain::collect_patches(&intent.overrides);
        let placed = objects.iter().filter(|one| !one.clusters.is_empty()).filter_map(|one| {
            let template = *templates.get(&one.object)?;
            let own = self.repo().find_template(&template.old);
            let mut object = match template.source.find_written() {
                Some((_, body)) => Object::from_manifest(body.clone(), one.file.clone()),
                None => own?.object.clone(),
            };
            object.id = one.object.clone();
            apply_edits(&template.edits, &mut object.body);
            let base = Arc::new(object);
            let own = patches.get(&one.object);
            let variant = |cluster: &ClusterName| {
                let operations = own.and_then(|own| own.get(cluster)).copied().unwrap_or_default();
                let mut variant = base.clone();
                for operation in operations {
                    let (name, path) = (operation.action.name(), operation.pointer.as_str());
                    let patch = JsonPatchOperation { name, path, value: operation.action.value() };
                    // What fails is reported where the overlay is built.
                    drop(apply_operation(&mut Arc::make_mut(&mut variant).body, patch));
                }
                (cluster.clone(), variant)
            };
            let per_cluster = Some(one.clusters.iter().map(variant).collect());
            Some(Template { per_cluster, ..Template::new(Object::clone(&base)) })
        });
        let placed = placed.collect();
        let left = self.repo().claimed.iter().filter(|claimed| !self.sources.contains(claimed.dialect));
        let claimed = left.cloned().collect();
        let mut repo = self.repo().clone();
        repo.config.unplaced = UnplacedTemplates::Everywhere;
        repo.config.dialects.clear();
        let known: BTreeSet<&str> = self.left_clusters().map(|left| left.cluster.name.as_ref()).collect();
        repo.config.clusters.retain(|cluster| !known.contains(cluster.name.as_str()));
        let clusters = self.left_clusters().filter_map(|left| serde_json::from_value(left.value).ok());
        repo.config.clusters.extend(clusters);
        MigratedRepo::new(self.session, repo, placed, claimed, self.engine_settings())
    }
}

/// The objects in the files that overlays use, and all files with objects.
struct PlacedFiles {
    objects: Vec<PlacedInFile>,
    /// Where files with objects that go somewhere are now.
    used: BTreeSet<Arc<str>>,
    /// Files whose objects go nowhere.
    unused: BTreeSet<Arc<str>>,
}

/// A file, or its place in a folder if it stands at the root.
pub(super) fn move_below_root(file: &Arc<str>, folder: &str) -> Arc<str> {
    if file.contains('/') || folder.is_empty() { file.clone() } else { format!("{folder}/{file}").into() }
}

/// The pattern that excludes a file.
fn exclude_file(file: &str) -> String {
    let mut pattern = "/".to_owned();
    for c in file.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// The first name that is not taken: the wanted one, or that with a number.
fn find_free_name(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number: u32| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::exclude_file;

    #[test]
    fn patterns_exclude_one_file() {
        assert_eq!(exclude_file("apps/a[1].yaml"), "/apps/a\\[1\\].yaml");
    }
}
