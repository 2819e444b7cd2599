//! From the intents of a repo to one that no control plane reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::import::{ImportEdit, apply_edits};
use federate_kubernetes::{ClusterName, ObjectRef, Origin, sops};
use serde_json::Value;

use super::RepoConversion;
use super::operations::take_common;
use crate::Migration;
use crate::difference;
use crate::error::{MigrationError, MigrationProblem};
use crate::intent::{
    ClusterOperations, OverrideIntent, RepoIntent, TemplateIntent, TemplateSource, group_operations,
};
use crate::placed::find_placed;
use crate::rendering::SentVariants;
use crate::repo_text::RepoText;
use crate::write::plain::{self, PlacedInFile};

/// The folder of objects that stand at the root of a repo without a control plane.
const ROOT_FOLDER: &str = "objects";

impl RepoConversion<'_> {
    /// The migration of a repo to one that no control plane reads.
    pub(crate) fn convert_to_plain(&self, mut intent: RepoIntent) -> Result<Migration, MigrationError> {
        let mut text = RepoText::new(self.repo());
        self.remove_marks(&mut intent);
        let mut problems = self.find_obstacles(&intent, &mut text);
        problems.extend(self.find_builds(&intent, &mut text));
        if !problems.is_empty() {
            return Err(MigrationError::Problems(problems));
        }
        problems.extend(self.align_with_templates(&mut intent));
        let placed = self.list_placed_files(&intent);
        let clusters: Vec<ClusterName> =
            self.session.clusters().iter().map(|cluster| cluster.name.clone()).collect();
        let folder = find_free_name("overlays", |name| text.has_folder(name));
        let rest = find_free_name("base", |name| clusters.iter().any(|cluster| cluster.as_ref() == name));
        let overrides = &intent.overrides;
        let input = plain::OverlayInput {
            objects: &placed,
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
        self.write_plain_config(&plain::write_settings(&folder, &rest), &mut text);
        self.remove_policies(&intent, &mut text);
        for placed in placed.iter().filter(|placed| placed.file.starts_with(ROOT_FOLDER)) {
            let from: Arc<str> = placed.file.trim_start_matches(ROOT_FOLDER).trim_start_matches('/').into();
            if self.repo().texts.contains_key(&from) && !from.contains('/') {
                text.move_file(&from, placed.file.clone());
            }
        }
        let edits = text.into_edits().map_err(MigrationError::Problems)?;
        let objects = self.list_objects(&intent, &BTreeSet::new());
        Ok(Migration { edits, objects, unequal: intent.unequal_of_repo })
    }

    /// The objects that overlays cannot use, because they are built already.
    fn find_builds(&self, intent: &RepoIntent, text: &mut RepoText<'_>) -> Vec<MigrationProblem> {
        let own = intent.templates.iter().filter(|template| !template.source.is_embedded());
        let own = own.filter_map(|template| self.repo().find_template(&template.old));
        own.filter_map(|own| text.find_obstacle(&own.object.id, &own.object.origin)).collect()
    }

    /// Finds what differs from the objects as they are written: in all clusters alike, which edits them, or in some.
    fn align_with_templates(&self, intent: &mut RepoIntent) -> Vec<MigrationProblem> {
        let dialects = self.session.dialects();
        let old = SentVariants::from_rendering(self.session.render(), dialects);
        let (mut problems, mut overrides) = (Vec::new(), Vec::new());
        let known_texts = self.known_texts();
        for template in &mut intent.templates {
            let mut body = match &template.source {
                TemplateSource::Embedded { body, .. } => body.clone(),
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
    fn list_placed_files(&self, intent: &RepoIntent) -> Vec<PlacedInFile> {
        let placed = find_placed(self.session, &self.sources);
        let embedded: BTreeMap<&ObjectRef, &TemplateIntent> = intent
            .templates
            .iter()
            .filter(|template| template.source.is_embedded())
            .map(|template| (&template.id, template))
            .collect();
        let clusters_of = |old: &ObjectRef| placed.get(old).map(|placed| placed.clusters.clone());
        let own = self.repo().templates.iter().map(|template| &template.object);
        let own = own.filter(|object| !embedded.contains_key(&object.id)).map(|object| PlacedInFile {
            object: object.id.clone(),
            file: move_below_root(&object.origin.file),
            clusters: clusters_of(&object.id).unwrap_or_default(),
        });
        let cut = embedded.values().filter_map(|template| match &template.source {
            TemplateSource::Embedded { origin, .. } => Some(PlacedInFile {
                object: template.id.clone(),
                file: move_below_root(&origin.file),
                clusters: clusters_of(&template.old).unwrap_or_default(),
            }),
            TemplateSource::Own => None,
        });
        let mut all: Vec<PlacedInFile> = own.chain(cut).collect();
        let used: BTreeSet<Arc<str>> =
            all.iter().filter(|one| !one.clusters.is_empty()).map(|one| one.file.clone()).collect();
        all.retain(|one| used.contains(&one.file));
        all
    }

    /// Writes the settings of a repo that no control plane reads.
    fn write_plain_config(&self, sources: &Value, text: &mut RepoText<'_>) {
        let file: Arc<str> = self.repo().config_path().into();
        let known = text.first_document(&file).cloned().unwrap_or_default();
        let mut edits = Vec::new();
        if known.get("dialects").is_some() {
            edits.push(ImportEdit { pointer: "/dialects".to_owned(), value: None });
        }
        for (key, added) in [
            ("clusters", self.left_clusters().map(|cluster| cluster.value).collect::<Value>()),
            ("sources", sources.clone()),
        ] {
            let mut all = known.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
            all.extend(added.as_array().into_iter().flatten().cloned());
            if !all.is_empty() {
                edits.push(ImportEdit { pointer: format!("/{key}"), value: Some(all.into()) });
            }
        }
        edits.push(ImportEdit { pointer: "/unplaced".to_owned(), value: Some("everywhere".into()) });
        if text.has_file(&file) {
            let origin = Origin { file, document: 0, item: None, line: 0 };
            text.edit_object(&origin, &edits);
        } else {
            let mut value = serde_json::json!({});
            apply_edits(&edits, &mut value);
            text.add_document(&file, &value);
        }
    }
}

/// A file, or its place in a folder if it stands at the root.
fn move_below_root(file: &Arc<str>) -> Arc<str> {
    if file.contains('/') { file.clone() } else { format!("{ROOT_FOLDER}/{file}").into() }
}

/// The first name that is not taken: the wanted one, or that with a number.
fn find_free_name(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number: u32| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}
