//! The edits of what programs build objects from: values files and `set` of charts, patches, overlays, templates of charts.
//!
//! ```text
//! values/prod.yaml ──┐
//! charts/api/…     ──┼─► source charts/api ─► objects ─► manifests
//! federate.yaml    ──┘
//! ```
//!
//! What is built shows only the result of an edit, so the files that both revisions were built from are compared instead. A file
//! in which an object is written causes changes of that object; any other file causes changes of all objects of its sources, in the
//! clusters for which it was used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::edits::{CauseRole, ChangeCause, ChangedField};
use super::objects::ObjectChangeKind;
use super::{DigestKey, PathChange, diff_paths, find_pointer, secret};
use federate_kubernetes::{Cluster, ClusterName, Object, ObjectRef, Origin, work};
use federate_repo::build::InputFile;
use federate_repo::config::PerCluster;
use federate_repo::{Locator, Repo, SourceRecord};

/// The names of kustomizations.
const KUSTOMIZATION_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The field of a document that SOPS adds.
const SOPS_FIELD: &str = "/sops";

/// The field around values while they are compared, so that their own keys count as those of any other object.
const WRAPPER: &str = "values";

/// The edits of sources, with the objects whose changes they cause.
#[derive(Default)]
pub(super) struct SourceEdits<'r> {
    /// The edits.
    pub(super) edits: Vec<ChangeCause>,
    /// Whether there are edits of sources in the configuration file among them.
    pub(super) has_configuration: bool,
    /// The clusters for which each edit counts; `None` for all.
    scopes: Vec<Option<BTreeSet<&'r str>>>,
    groups: Vec<SourceGroup<'r>>,
    groups_of: HashMap<&'r ObjectRef, Vec<usize>>,
    /// The files in which objects are written, on both sides.
    origins: HashMap<&'r ObjectRef, BTreeSet<&'r str>>,
    changed_files: BTreeSet<&'r str>,
}

/// A source as both revisions have it, with the numbers of its edits.
#[derive(Default)]
struct SourceGroup<'r> {
    path: &'r str,
    general: Vec<usize>,
    by_cluster: HashMap<&'r str, Vec<usize>>,
    by_file: HashMap<&'r str, Vec<usize>>,
}

impl SourceGroup<'_> {
    fn has_edits(&self) -> bool {
        !(self.general.is_empty() && self.by_cluster.is_empty() && self.by_file.is_empty())
    }
}

/// By what a source is the same one in another revision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SourceKey<'r> {
    described_by: Option<&'r ObjectRef>,
    is_chart: bool,
    path: &'r str,
    release: Option<&'r str>,
}

impl<'r> SourceKey<'r> {
    fn new(record: &'r SourceRecord) -> Self {
        Self {
            described_by: record.described_by.as_ref(),
            is_chart: record.is_chart,
            path: record.unversioned_path(),
            release: record.release.as_deref(),
        }
    }
}

impl<'r> SourceEdits<'r> {
    /// Compares the sources of two repos. `own` are the edits of documents that decide by themselves; they are not repeated.
    /// `clusters` are those of the later repo.
    pub(super) fn find(
        repos: [&'r Repo; 2],
        clusters: &'r [Cluster],
        own: &[ChangeCause],
        key: &DigestKey,
    ) -> Self {
        let mut pairs: BTreeMap<SourceKey<'r>, [Vec<&'r SourceRecord>; 2]> = BTreeMap::new();
        for (side, repo) in repos.into_iter().enumerate() {
            for record in &repo.sources {
                pairs.entry(SourceKey::new(record)).or_default()[side].push(record);
            }
        }
        let mut comparison = SourceComparison {
            repos,
            clusters,
            key,
            locator: Locator::new(repos[1]),
            configurations: repos.map(read_configuration),
            describing: BTreeMap::new(),
            files: BTreeMap::new(),
            found: Self::default(),
        };
        if pairs.is_empty() {
            return comparison.found;
        }
        comparison.index_objects(&pairs);
        comparison.compare_describing();
        for sides in pairs.values() {
            comparison.compare_source(sides);
        }
        comparison.compare_files(own);
        let mut found = comparison.found;
        for edit in &mut found.edits {
            edit.sources.sort();
            edit.sources.dedup();
        }
        found
    }

    /// Whether an object is built, on either side.
    pub(super) fn is_built(&self, object: &ObjectRef) -> bool {
        self.groups_of.contains_key(object)
    }

    /// Whether an object is built by a source that differs.
    pub(super) fn has_edits(&self, object: &ObjectRef) -> bool {
        let mut groups = self.groups_of.get(object).into_iter().flatten();
        groups.any(|at| self.groups.get(*at).is_some_and(SourceGroup::has_edits))
    }

    /// Whether a file that sources are built from differs.
    pub(super) fn is_changed_file(&self, file: &str) -> bool {
        self.changed_files.contains(file)
    }

    /// The edits that cause a change of an object in some clusters, or in any.
    pub(super) fn list_related(
        &self,
        object: &ObjectRef,
        clusters: Option<&[ClusterName]>,
    ) -> BTreeSet<usize> {
        let mut related = BTreeSet::new();
        let groups = self.groups_of.get(object).into_iter().flatten();
        for group in groups.clone().filter_map(|at| self.groups.get(*at)) {
            let written = self.origins.get(object).into_iter().flatten();
            related.extend(written.filter_map(|file| group.by_file.get(file)).flatten());
            related.extend(&group.general);
            match clusters {
                Some(clusters) => {
                    work::charge_items(clusters.len());
                    let scoped = clusters.iter().filter_map(|name| group.by_cluster.get(name.as_ref()));
                    related.extend(scoped.flatten());
                }
                None => related.extend(group.by_cluster.values().flatten()),
            }
        }
        if related.is_empty() {
            // Another object may have been the source of a replacement.
            for group in groups.filter_map(|at| self.groups.get(*at)) {
                related.extend(group.by_file.values().flatten());
                related.extend(group.by_cluster.values().flatten());
            }
        }
        work::charge_steps(related.len() as u64);
        related
    }

    /// Those of some clusters that an edit concerns.
    pub(super) fn concerned_clusters<'c>(
        &self,
        edit: usize,
        clusters: &'c [ClusterName],
    ) -> impl Iterator<Item = &'c ClusterName> {
        let scope = self.scopes.get(edit).and_then(Option::as_ref);
        clusters.iter().filter(move |name| scope.is_none_or(|scope| scope.contains(name.as_ref())))
    }

    /// Adds an edit that counts for some clusters, or for all.
    fn add_edit(&mut self, mut edit: ChangeCause, scope: Option<BTreeSet<&'r str>>) -> usize {
        edit.clusters = scope.iter().flatten().map(|name| (*name).into()).collect();
        self.edits.push(edit);
        self.scopes.push(scope);
        self.edits.len() - 1
    }

    /// Lets an edit cause changes of all objects of a source.
    fn link_source(&mut self, group: usize, edit: usize) {
        let Some(source) = self.groups.get_mut(group) else { return };
        match self.scopes.get(edit).and_then(Option::as_ref) {
            Some(scope) => {
                for cluster in scope {
                    source.by_cluster.entry(cluster).or_default().push(edit);
                }
            }
            None => source.general.push(edit),
        }
        if let Some(edit) = self.edits.get_mut(edit) {
            edit.sources.push(source.path.to_owned());
        }
    }

    /// Lets an edit cause changes of the objects of a source that are written in a file.
    fn link_file(&mut self, group: usize, file: &'r str, edit: usize) {
        let Some(source) = self.groups.get_mut(group) else { return };
        source.by_file.entry(file).or_default().push(edit);
        if let Some(edit) = self.edits.get_mut(edit) {
            edit.sources.push(source.path.to_owned());
        }
    }
}

/// A file that differs, with the sources and clusters that it is used for.
#[derive(Default)]
struct FileUse<'r> {
    groups: Vec<usize>,
    is_everywhere: bool,
    clusters: BTreeSet<&'r str>,
    /// Whether each side uses it.
    sides: [bool; 2],
}

struct SourceComparison<'r, 'k> {
    repos: [&'r Repo; 2],
    clusters: &'r [Cluster],
    key: &'k DigestKey,
    locator: Locator<'r>,
    /// The documents of the configuration files.
    configurations: [Option<Value>; 2],
    /// The edits of objects that describe sources.
    describing: BTreeMap<&'r ObjectRef, usize>,
    /// The files that differ.
    files: BTreeMap<&'r str, FileUse<'r>>,
    found: SourceEdits<'r>,
}

impl<'r> SourceComparison<'r, '_> {
    /// Notes of each object the sources that build it, and the files in which it is written.
    fn index_objects(&mut self, pairs: &BTreeMap<SourceKey<'r>, [Vec<&'r SourceRecord>; 2]>) {
        for (group, sides) in pairs.values().enumerate() {
            for object in sides.iter().flatten().flat_map(|record| &record.objects) {
                let groups = self.found.groups_of.entry(object).or_default();
                if groups.last() != Some(&group) {
                    groups.push(group);
                }
            }
        }
        for repo in self.repos {
            let claimed = repo.claimed.iter().map(|claimed| &claimed.object);
            let objects = repo.templates.iter().map(|template| &template.object).chain(claimed);
            for object in objects.filter(|object| self.found.groups_of.contains_key(&object.id)) {
                self.found.origins.entry(&object.id).or_default().insert(&object.origin.file);
            }
        }
    }

    /// Compares the objects of Flux and Argo CD that describe sources.
    fn compare_describing(&mut self) {
        let mut sides: BTreeMap<&'r ObjectRef, [Option<&'r Object>; 2]> = BTreeMap::new();
        for (side, repo) in self.repos.into_iter().enumerate() {
            for object in &repo.describing {
                sides.entry(&object.id).or_default()[side] = Some(object);
            }
        }
        for (id, sides) in sides {
            let (kind, object) = match sides {
                [Some(from), Some(to)] if from.body == to.body => continue,
                [Some(_), Some(to)] => (ObjectChangeKind::Changed, to),
                [None, Some(to)] => (ObjectChangeKind::Added, to),
                [Some(from), None] => (ObjectChangeKind::Removed, from),
                [None, None] => continue,
            };
            let bodies = sides.map(|object| object.map(|object| &object.body));
            let fields = self.locate_fields(bodies, true, &object.origin, "");
            let edit = new_edit(kind, &object.origin.file, object.origin.line, fields);
            let edit = self.found.add_edit(ChangeCause { object: Some(id.clone()), ..edit }, None);
            self.describing.insert(id, edit);
        }
    }

    /// Compares what a source was built from.
    fn compare_source(&mut self, sides: &[Vec<&'r SourceRecord>; 2]) {
        let [before, after] = sides;
        let Some(record) = after.first().or(before.first()) else { return };
        let group = self.found.groups.len();
        self.found.groups.push(SourceGroup { path: &record.path, ..SourceGroup::default() });
        let described = record.described_by.as_ref().and_then(|id| self.describing.get(id)).copied();
        if let Some(edit) = described {
            self.found.link_source(group, edit);
        }
        match (before.first(), after.first()) {
            (None, Some(added)) => self.add_whole_source(group, added, ObjectChangeKind::Added, 1),
            (Some(removed), None) => self.add_whole_source(group, removed, ObjectChangeKind::Removed, 0),
            (Some(old), Some(new)) => {
                // What could not be built has no files to compare.
                if sides.iter().all(|side| side.iter().any(|record| !record.builds.is_empty())) {
                    self.compare_inputs(group, sides);
                }
                if let (Some(old), Some(new)) = (old.config_index, new.config_index) {
                    self.compare_settings(group, [old, new]);
                }
            }
            (None, None) => {}
        }
    }

    /// Adds a source that only one side has, unless the object that describes it tells that.
    fn add_whole_source(
        &mut self,
        group: usize,
        record: &'r SourceRecord,
        kind: ObjectChangeKind,
        side: usize,
    ) {
        if record.described_by.as_ref().is_some_and(|id| self.describing.contains_key(id)) {
            return;
        }
        let Some(repo) = self.repos.get(side) else { return };
        let (file, line) = match record.config_index {
            Some(index) => {
                self.found.has_configuration = true;
                let text = repo.texts.get(repo.config_path());
                let pointer = format!("/sources/{index}");
                let at = text.and_then(|text| federate_yaml::locate_nearest(text, 0, &pointer));
                (repo.config_path(), at.map_or(1, |at| at.line))
            }
            None => (find_kustomization(record).unwrap_or(&record.path), 1),
        };
        let edit = self.found.add_edit(new_edit(kind, file, line, Vec::new()), None);
        self.found.link_source(group, edit);
    }

    /// Finds the files of a source that differ.
    fn compare_inputs(&mut self, group: usize, sides: &[Vec<&'r SourceRecord>; 2]) {
        let files = sides.each_ref().map(|records| list_files(records));
        let [before, after] = &files;
        for (path, file) in before.iter().chain(after) {
            let is_same = match (before.get(path), after.get(path)) {
                (Some(old), Some(new)) => self.is_same_file(old, new),
                _ => false,
            };
            let is_generated =
                is_kustomization(path) && self.repos.iter().all(|repo| !repo.texts.contains_key(*path));
            if is_same || is_generated {
                continue;
            }
            let records = if after.contains_key(path) { &sides[1] } else { &sides[0] };
            let usage = self.files.entry(&file.path).or_default();
            if usage.groups.last() == Some(&group) {
                continue;
            }
            usage.groups.push(group);
            for (is_used, files) in usage.sides.iter_mut().zip(&files) {
                *is_used |= files.contains_key(path);
            }
            let builds = records.iter().flat_map(|record| &record.builds);
            let (using, others): (Vec<_>, Vec<_>) = builds
                .partition(|build| build.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok());
            work::charge_items(using.len() + others.len());
            if others.is_empty() || using.iter().any(|build| build.clusters.is_empty()) {
                usage.is_everywhere = true;
            }
            let names = using.iter().flat_map(|build| &build.clusters);
            usage.clusters.extend(names.map(|name| -> &'r str { name }));
            work::charge_steps(usage.clusters.len() as u64);
        }
    }

    /// Whether a file is the same on both sides. The digest of a kustomization is that of what the program was given.
    fn is_same_file(&self, old: &InputFile, new: &InputFile) -> bool {
        let [before, after] = self.repos.map(|repo| repo.texts.get(&*old.path));
        match (before, after) {
            (Some(before), Some(after)) => before == after,
            _ => old.digest == new.digest,
        }
    }

    /// Compares the settings of a source in the configuration file.
    fn compare_settings(&mut self, group: usize, [old, new]: [usize; 2]) {
        let [before, after] = &self.configurations;
        let (Some(before), Some(after)) =
            (source_settings(before.as_ref(), old), source_settings(after.as_ref(), new))
        else {
            return;
        };
        if before == after {
            return;
        }
        let repo = self.repos[1];
        let origin = Origin { file: repo.config_path().into(), document: 0, item: None, line: 1 };
        let fields =
            self.locate_fields([Some(&before), Some(&after)], false, &origin, &format!("/sources/{new}"));
        let mut by_entry: BTreeMap<Option<usize>, Vec<ChangedField>> = BTreeMap::new();
        for field in fields {
            by_entry.entry(per_cluster_entry(&field.change.path)).or_default().push(field);
        }
        for (entry, fields) in by_entry {
            let scope = entry.and_then(|entry| self.choose_clusters(new, entry));
            let line = fields.first().map_or(1, |field| field.line);
            let edit = new_edit(ObjectChangeKind::Changed, repo.config_path(), line, fields);
            let edit = self.found.add_edit(edit, scope);
            self.found.link_source(group, edit);
            self.found.has_configuration = true;
        }
    }

    /// The clusters that an item of `perCluster` is for; `None` for all.
    fn choose_clusters(&self, source: usize, entry: usize) -> Option<BTreeSet<&'r str>> {
        let repo = self.repos[1];
        let Some(PerCluster::Values(entries)) = &repo.config.sources.get(source)?.per_cluster else {
            return None;
        };
        let choice = &entries.get(entry)?.clusters;
        let chosen = self.clusters.iter().filter(|cluster| choice.includes_cluster(cluster));
        let chosen: BTreeSet<&str> = chosen.map(|cluster| -> &str { &cluster.name }).collect();
        (chosen.len() < self.clusters.len()).then_some(chosen)
    }

    /// Compares the files that differ, document by document where they are data.
    fn compare_files(&mut self, own: &[ChangeCause]) {
        let mut documents: HashMap<&str, Vec<&ObjectRef>> = HashMap::new();
        for edit in own.iter().filter(|edit| edit.role != CauseRole::Template) {
            documents.entry(&edit.file).or_default().extend(&edit.object);
        }
        let written: BTreeSet<&str> = self.found.origins.values().flatten().copied().collect();
        for (path, usage) in std::mem::take(&mut self.files) {
            self.found.changed_files.insert(path);
            let scope = (!usage.is_everywhere).then_some(usage.clusters);
            let known = documents.get(path).map(Vec::as_slice).unwrap_or_default();
            let kind = match usage.sides {
                [false, true] => ObjectChangeKind::Added,
                [true, false] => ObjectChangeKind::Removed,
                _ => ObjectChangeKind::Changed,
            };
            let edits = self.compare_file(path, kind, known);
            let edits: Vec<usize> =
                edits.into_iter().map(|edit| self.found.add_edit(edit, scope.clone())).collect();
            let is_written = written.contains(path) && !is_kustomization(path);
            for group in usage.groups {
                work::charge_steps(edits.len() as u64);
                for edit in &edits {
                    if is_written {
                        self.found.link_file(group, path, *edit);
                    } else {
                        self.found.link_source(group, *edit);
                    }
                }
            }
        }
    }

    /// The edits of a file: one for each document with an object, or one for the file.
    fn compare_file(
        &mut self,
        path: &'r str,
        kind: ObjectChangeKind,
        known: &[&ObjectRef],
    ) -> Vec<ChangeCause> {
        let texts = match (self.repos.map(|repo| repo.texts.get(path)), kind) {
            // A file that another source needs may be new to this one.
            ([_, text], ObjectChangeKind::Added) => [None, text],
            ([text, _], ObjectChangeKind::Removed) => [text, None],
            (texts, ObjectChangeKind::Changed) => texts,
        };
        let line = match texts {
            [Some(old), Some(new)] => first_difference(old, new),
            [None, None] => 0,
            _ => 1,
        };
        let whole = new_edit(kind, path, line, Vec::new());
        if !is_data(path) {
            return vec![whole];
        }
        let sides = texts.map(|text| text.map_or(Some(BTreeMap::new()), |text| read_documents(text)));
        let [Some(before), Some(after)] = &sides else { return vec![whole] };
        let keys: BTreeSet<&DocumentKey> = before.keys().chain(after.keys()).collect();
        let mut edits = Vec::new();
        for key in keys {
            let (old, new) = (before.get(key), after.get(key));
            let kind = match (old, new) {
                (Some(old), Some(new)) if old.value == new.value => continue,
                (Some(_), Some(_)) => ObjectChangeKind::Changed,
                (None, _) => ObjectChangeKind::Added,
                (_, None) => ObjectChangeKind::Removed,
            };
            let object = key.object.as_ref();
            let is_known = object.is_some_and(|object| {
                known.iter().any(|known| known.kind == object.kind && known.name.contains(&object.name))
            });
            if is_known {
                continue;
            }
            let document = new.or(old).map_or(0, |document| document.index);
            let origin = Origin { file: path.into(), document, item: None, line: 1 };
            let values = [old, new].map(|document| document.map(|document| &document.value));
            let fields = self.locate_fields(values, object.is_some(), &origin, "");
            let line = match kind {
                ObjectChangeKind::Removed => 1,
                _ => self.locator.locate_value(&origin, "").line,
            };
            edits.push(ChangeCause { object: object.cloned(), ..new_edit(kind, path, line, fields) });
        }
        edits
    }

    /// The fields that differ between two values, with their lines in a file. `prefix` leads to the later value. Of values that only
    /// one side has, these are the entries; of an object that only one side has, there are none.
    fn locate_fields(
        &mut self,
        sides: [Option<&Value>; 2],
        is_object: bool,
        origin: &Origin,
        prefix: &str,
    ) -> Vec<ChangedField> {
        if is_object && sides.iter().any(Option::is_none) {
            return Vec::new();
        }
        let empty = Value::Object(Map::new());
        if sides.iter().flatten().any(|side| !side.is_object()) && sides.iter().any(Option::is_none) {
            return Vec::new();
        }
        let [from, to] = sides.map(|side| side.unwrap_or(&empty));
        let changes = compare_values(from, to, is_object, self.key);
        changes
            .into_iter()
            .map(|change| {
                let pointer = format!("{prefix}{}", find_pointer(&change.path, to));
                let line = self.locator.locate_value(origin, &pointer).line;
                ChangedField { change, line }
            })
            .collect()
    }
}

/// An edit of a file that sources are built from.
fn new_edit(kind: ObjectChangeKind, file: &str, line: u32, fields: Vec<ChangedField>) -> ChangeCause {
    let line = fields.first().map_or(line, |field| field.line);
    ChangeCause { kind, line, fields, ..ChangeCause::in_file(CauseRole::Source, file) }
}

/// What differs between two values, without what is secret. The values of an object are hidden as those of any object.
fn compare_values(from: &Value, to: &Value, is_object: bool, key: &DigestKey) -> Vec<PathChange> {
    work::charge_value(from);
    work::charge_value(to);
    let [mut old, mut new] = [from, to].map(|side| {
        if is_object {
            side.clone()
        } else {
            Value::Object(Map::from_iter([(WRAPPER.to_owned(), side.clone())]))
        }
    });
    secret::hide_secret_values(&mut [&mut old, &mut new], key);
    if !is_object {
        [old, new] = [old, new].map(|side| side.get(WRAPPER).cloned().unwrap_or_default());
    }
    let mut changes = diff_paths(&old, &new);
    if changes.iter().any(|change| !change.path.starts_with(SOPS_FIELD)) {
        // The MAC of SOPS changes with every value.
        changes.retain(|change| change.path != SOPS_FIELD);
    }
    changes
}

/// A document of a file.
struct FileDocument {
    index: u32,
    value: Value,
}

/// By what a document is the same one in another revision: its object, or its position among the others.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DocumentKey {
    object: Option<ObjectRef>,
    position: usize,
}

/// The documents of a file; `None` if it is not valid YAML.
fn read_documents(text: &[u8]) -> Option<BTreeMap<DocumentKey, FileDocument>> {
    let stream = federate_yaml::read_stream(text);
    if !stream.errors.is_empty() {
        return None;
    }
    let mut seen: BTreeMap<Option<ObjectRef>, usize> = BTreeMap::new();
    let documents = stream.documents.into_iter().map(|document| {
        let object = identify_object(&document.value);
        let count = seen.entry(object.clone()).or_default();
        let position = *count;
        *count += 1;
        let value = FileDocument { index: document.index, value: document.value };
        (DocumentKey { object, position }, value)
    });
    Some(documents.collect())
}

/// The identity of an object; `None` for other documents.
fn identify_object(value: &Value) -> Option<ObjectRef> {
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        value.pointer(pointer)?.as_str()?;
    }
    Some(Object::from_manifest(value.clone(), "").id)
}

/// A source in the document of a configuration file.
fn source_settings(document: Option<&Value>, index: usize) -> Option<Value> {
    document?.get("sources")?.as_array()?.get(index).cloned()
}

fn read_configuration(repo: &Repo) -> Option<Value> {
    let text = repo.texts.get(repo.config_path())?;
    federate_yaml::read_stream(text).documents.pop().map(|document| document.value)
}

/// The files that sources were built from. Builds share their lists.
fn list_files<'r>(records: &[&'r SourceRecord]) -> BTreeMap<&'r str, &'r InputFile> {
    let builds = records.iter().flat_map(|record| &record.builds);
    let lists: BTreeMap<*const InputFile, &'r Arc<[InputFile]>> =
        builds.map(|build| (build.files.as_ptr(), &build.files)).collect();
    let files = lists.into_values().flat_map(|list| list.iter());
    files.map(|file| (file.path.as_str(), file)).collect()
}

/// The kustomization of a source without an entry in `sources`.
fn find_kustomization(record: &SourceRecord) -> Option<&str> {
    let files = record.builds.iter().flat_map(|build| build.files.iter()).map(|file| file.path.as_str());
    let mut own = files.filter(|file| is_kustomization(file));
    own.find(|file| file.rsplit_once('/').map_or("", |(folder, _)| folder) == record.path)
}

fn is_kustomization(path: &str) -> bool {
    KUSTOMIZATION_NAMES.contains(&path.rsplit('/').next().unwrap_or_default())
}

/// Whether a file is YAML or JSON, and not a template of a chart.
fn is_data(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_template = path.split('/').any(|part| part == "templates");
    !is_template && (matches!(extension, "yaml" | "yml" | "json") || is_kustomization(path))
}

/// The item of `perCluster` that a path below a source leads to.
fn per_cluster_entry(path: &str) -> Option<usize> {
    path.strip_prefix("/perCluster/")?.split('/').next()?.parse().ok()
}

/// The first line, from 1, that differs between two texts.
fn first_difference(old: &[u8], new: &[u8]) -> u32 {
    let (old, new) = (old.split(|byte| *byte == b'\n'), new.split(|byte| *byte == b'\n'));
    let same = old.zip(new).take_while(|(a, b)| a == b).count();
    u32::try_from(same + 1).unwrap_or(u32::MAX)
}
