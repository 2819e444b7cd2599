//! Which files belong to a tool that builds objects from them, so that they are not templates as they lie there.
//!
//! A folder with a kustomization owns the files below it, down to the next kustomization, and the files that it lists
//! elsewhere. A Helm chart owns everything below it, kustomizations included. Policies and inventory in these files are read
//! anyway. What the build seems to give is kept ([`BuildRoot`]), to tell whether a policy would place it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_kubernetes::{Object, ObjectRef};

use crate::ClaimedObject;
use crate::build::BuildError;
use crate::engine_syntax::TemplateEngine;
use crate::sources::Builds;
use federate_file_tree::RepoFile;
use federate_file_tree::is_within;

mod chart;
mod kustomization;

use chart::Chart;
use kustomization::{Kustomization, KustomizationResource};

/// The file that identifies a Helm chart.
const CHART_FILE_NAME: &str = "Chart.yaml";

/// The most objects that all builds of a repo are followed for: a few kustomizations that list each other several times
/// stand for any number of objects.
const MAX_OBJECTS: usize = 100_000;

/// What builds objects from files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuildTool {
    /// kustomize.
    Kustomize,
    /// Helm.
    Helm,
    /// The engine of templates that are no YAML.
    Template(TemplateEngine),
}

/// Files that a tool builds together, and what the build seems to give.
#[derive(Clone, Debug)]
pub struct BuildRoot {
    /// The tool.
    pub tool: BuildTool,
    /// The file that the tool starts from.
    pub file: Arc<str>,
    /// The folder of that file; empty for the repo's root.
    pub folder: String,
    /// The name of the chart; empty for other tools.
    pub name: String,
    /// The files, for templates without a folder of their own.
    pub files: Vec<Arc<str>>,
    /// The line in the file, from 1, that shows the tool; 0 for the whole file.
    pub line: u32,
    /// The objects that the build seems to give, as far as that is known without the tool.
    pub objects: Vec<Object>,
    /// Objects in the folder that the build does not take.
    pub unlisted: Vec<Object>,
    /// Objects in it that contain a template with its placement.
    pub bundles: Vec<ClaimedObject>,
    /// Why the objects are not all known, if they are not.
    pub unknown: Option<&'static str>,
    /// Policies and clusters that the build changes, although they are read as they are written.
    pub changed: Vec<ObjectRef>,
    /// Policies and clusters that cannot be read, because they are in templates.
    pub unread: Vec<ObjectRef>,
    /// Whether the tool has built it: what is left in it is not part of the build.
    pub is_built: bool,
    /// Why the tool could not build it, if it was tried.
    pub failure: Option<BuildError>,
    /// The folders of all kustomizations that build the same objects; none if it is the only one.
    pub alternatives: Vec<String>,
}

impl BuildRoot {
    pub(crate) fn new(tool: BuildTool, file: Arc<str>) -> Self {
        let folder = folder_of(&file).to_owned();
        Self {
            tool,
            file,
            folder,
            name: String::new(),
            files: Vec::new(),
            line: 0,
            objects: Vec::new(),
            unlisted: Vec::new(),
            bundles: Vec::new(),
            unknown: None,
            changed: Vec::new(),
            unread: Vec::new(),
            is_built: false,
            failure: None,
            alternatives: Vec::new(),
        }
    }

    /// Whether there is nothing in it that could have been placed, nor anything that the build changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.unlisted.is_empty()
            && self.bundles.is_empty()
            && self.unknown.is_none()
            && self.changed.is_empty()
            && self.unread.is_empty()
    }
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// For its objects.
    Plain,
    /// For the policies and clusters in it; the rest is the tool's.
    Owned,
    /// For what its text seems to define: it is a template of Helm.
    ChartTemplate,
    /// Not at all: it is an input of the tool, such as a patch or values.
    Input,
}

/// The kustomizations and charts of a repo, with the files that they own.
#[derive(Clone, Debug, Default)]
pub struct Ownership {
    charts: Vec<Chart>,
    /// The index of each chart by its folder.
    chart_folders: BTreeMap<String, usize>,
    kustomizations: Vec<Kustomization>,
    /// The index of each kustomization by its folder.
    kustomization_folders: BTreeMap<String, usize>,
    /// The files and folders that kustomizations list as resources, each with the first kustomization.
    resources: BTreeMap<String, usize>,
    /// The files that kustomizations use in other ways.
    inputs: BTreeSet<String>,
}

impl Ownership {
    /// Finds the kustomizations and charts among files, which are sorted by path.
    pub(crate) fn from_files(files: &[RepoFile]) -> Self {
        let mut ownership = Self::default();
        for file in files.iter().filter(|file| name_of(&file.path) == CHART_FILE_NAME) {
            if ownership.chart_of(&file.path).is_none()
                && let Some(chart) = Chart::parse(file)
            {
                let index = ownership.charts.len();
                ownership.chart_folders.insert(chart.folder.clone(), index);
                ownership.charts.push(chart);
            }
        }
        // A chart in a folder above may come later in the order of paths.
        let nested: Vec<String> =
            ownership.chart_folders.keys().filter(|folder| ownership.chart_above(folder)).cloned().collect();
        for folder in nested {
            ownership.chart_folders.remove(&folder);
        }
        for file in files.iter().filter(|file| kustomization::is_name(name_of(&file.path))) {
            if ownership.chart_of(&file.path).is_some() {
                continue;
            }
            let kustomization = Kustomization::parse(file);
            // Of several in one folder, kustomize accepts none; the first one stands for them.
            let index = ownership.kustomizations.len();
            if !ownership.kustomization_folders.contains_key(&kustomization.folder) {
                ownership.kustomization_folders.insert(kustomization.folder.clone(), index);
                ownership.kustomizations.push(kustomization);
            }
        }
        ownership.note_missing(files);
        for (index, kustomization) in ownership.kustomizations.iter().enumerate() {
            for path in &kustomization.resources {
                ownership.resources.entry(path.clone()).or_insert(index);
            }
            ownership.inputs.extend(kustomization.inputs.iter().cloned());
        }
        ownership
    }

    /// Notes which kustomizations list files that are not there.
    fn note_missing(&mut self, files: &[RepoFile]) {
        for kustomization in &mut self.kustomizations {
            if !kustomization.resources.iter().all(|path| has_path(files, path)) {
                kustomization.unknown = kustomization.unknown.or(Some("it lists what is not in the repo"));
            }
        }
    }

    /// The folders of the kustomizations that no other one refers to, without components.
    pub(crate) fn list_roots(&self) -> Vec<&str> {
        let referred: BTreeSet<usize> = self
            .kustomizations
            .iter()
            .flat_map(|kustomization| self.child_kustomizations(kustomization))
            .collect();
        let all = self.kustomizations.iter().enumerate();
        all.filter(|(index, one)| !referred.contains(index) && !one.is_component)
            .map(|(_, one)| one.folder.as_str())
            .collect()
    }

    /// Whether nothing is owned.
    pub(crate) fn is_empty(&self) -> bool {
        self.charts.is_empty() && self.kustomizations.is_empty()
    }

    /// Whether a change of the file may change what is owned, or what builds give.
    pub(crate) fn concerns_file(&self, path: &str) -> bool {
        let name = name_of(path);
        name == CHART_FILE_NAME || kustomization::is_name(name) || self.file_use(path) != FileUse::Plain
    }

    /// How a file is read.
    pub(crate) fn file_use(&self, path: &str) -> FileUse {
        if self.is_empty() {
            return FileUse::Plain;
        }
        if let Some(chart) = self.chart_of(path).and_then(|index| self.charts.get(index)) {
            return if chart.is_template(path) { FileUse::ChartTemplate } else { FileUse::Owned };
        }
        if self.inputs.contains(path) && !self.resources.contains_key(path) {
            return FileUse::Input;
        }
        match self.kustomization_of(path) {
            Some(_) => FileUse::Owned,
            None => FileUse::Plain,
        }
    }

    /// The index of the chart that owns a file.
    fn chart_of(&self, path: &str) -> Option<usize> {
        folders_above(path).find_map(|folder| self.chart_folders.get(folder)).copied()
    }

    /// The name of the chart that owns a file.
    pub(crate) fn chart_name(&self, path: &str) -> Option<&str> {
        self.charts.get(self.chart_of(path)?).map(|chart| chart.name.as_str())
    }

    /// Whether a folder is below that of a chart.
    fn chart_above(&self, folder: &str) -> bool {
        !folder.is_empty() && folders_above(folder).any(|above| self.chart_folders.contains_key(above))
    }

    /// The index of the kustomization that owns a file: the nearest one above it, or one that lists it or its folder.
    fn kustomization_of(&self, path: &str) -> Option<usize> {
        let above = folders_above(path).find_map(|folder| self.kustomization_folders.get(folder));
        above
            .or_else(|| {
                let folders = folders_above(path).filter(|folder| !folder.is_empty());
                std::iter::once(path).chain(folders).find_map(|listed| self.resources.get(listed))
            })
            .copied()
    }

    /// The builds, with what they seem to give. `owned` are the objects in owned files that could have been templates, and
    /// `read` those that are read anyway.
    pub(crate) fn build_roots(&self, owned: OwnedObjects) -> Vec<BuildRoot> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut roots = self.build_charts(&owned);
        roots.extend(self.build_kustomizations(owned));
        roots.retain(|root| !root.is_empty());
        roots.sort_by(|a, b| a.file.cmp(&b.file));
        roots
    }

    fn build_charts(&self, owned: &OwnedObjects) -> Vec<BuildRoot> {
        let mut roots: BTreeMap<usize, BuildRoot> = BTreeMap::new();
        for (index, chart) in self.charts.iter().enumerate() {
            if self.chart_folders.get(&chart.folder) == Some(&index) && !chart.is_library {
                let root = BuildRoot::new(BuildTool::Helm, chart.file.clone());
                roots.insert(index, BuildRoot { name: chart.name.clone(), ..root });
            }
        }
        for object in &owned.objects {
            if let Some(root) = self.chart_of(&object.origin.file).and_then(|index| roots.get_mut(&index)) {
                root.objects.push(object.clone());
            }
        }
        for bundle in &owned.bundles {
            if let Some(root) =
                self.chart_of(&bundle.object.origin.file).and_then(|index| roots.get_mut(&index))
            {
                root.bundles.push(bundle.clone());
            }
        }
        for object in &owned.unread {
            if let Some(root) = self.chart_of(&object.origin.file).and_then(|index| roots.get_mut(&index)) {
                root.unread.push(object.id.clone());
            }
        }
        roots.into_values().collect()
    }

    fn build_kustomizations(&self, owned: OwnedObjects) -> Vec<BuildRoot> {
        let mut by_file: BTreeMap<Arc<str>, Vec<Object>> = BTreeMap::new();
        for object in owned.objects.into_iter().filter(|object| self.chart_of(&object.origin.file).is_none())
        {
            by_file.entry(object.origin.file.clone()).or_default().push(object);
        }
        let mut built = self.evaluate_kustomizations(&by_file);
        let root_of = self.roots_by_kustomization();
        let mut roots: BTreeMap<usize, BuildRoot> = BTreeMap::new();
        for (index, kustomization) in self.kustomizations.iter().enumerate() {
            if root_of.get(&index) == Some(&index) {
                let Built { objects, unknown } = built.remove(&index).unwrap_or_else(|| Built {
                    objects: Vec::new(),
                    unknown: Some("its kustomizations refer to each other in a circle"),
                });
                let root = BuildRoot::new(BuildTool::Kustomize, kustomization.file.clone());
                roots.insert(index, BuildRoot { objects, unknown, ..root });
            }
        }
        for (file, objects) in by_file {
            let listed = std::iter::once(&*file).chain(folders_above(&file)).find(|path| {
                self.resources.contains_key(*path) && !self.kustomization_folders.contains_key(*path)
            });
            if listed.is_none()
                && let Some(index) = self.kustomization_of(&file)
                && let Some(root) = root_of.get(&index).and_then(|root| roots.get_mut(root))
            {
                root.unlisted.extend(objects);
            }
        }
        for bundle in owned.bundles {
            if let Some(index) = self.kustomization_of(&bundle.object.origin.file)
                && let Some(root) = root_of.get(&index).and_then(|root| roots.get_mut(root))
            {
                root.bundles.push(bundle);
            }
        }
        let changed = self.changed_kustomizations();
        for object in owned.read {
            let listed_by = self.resources.get(&*object.origin.file);
            if listed_by.is_some_and(|index| changed.contains(index))
                && let Some(index) = self.kustomization_of(&object.origin.file)
                && let Some(root) = root_of.get(&index).and_then(|root| roots.get_mut(root))
            {
                root.changed.push(object.id);
            }
        }
        roots.into_values().collect()
    }

    /// What each kustomization gives, those that it refers to first. Those that refer to each other in a circle give
    /// nothing.
    fn evaluate_kustomizations(&self, by_file: &BTreeMap<Arc<str>, Vec<Object>>) -> BTreeMap<usize, Built> {
        let mut waiting: BTreeMap<usize, usize> = BTreeMap::new();
        let mut parents: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, kustomization) in self.kustomizations.iter().enumerate() {
            let children: BTreeSet<usize> = self.child_kustomizations(kustomization).collect();
            waiting.insert(index, children.len());
            for child in children {
                parents.entry(child).or_default().push(index);
            }
        }
        let mut ready: Vec<usize> =
            waiting.iter().filter(|(_, count)| **count == 0).map(|(index, _)| *index).collect();
        let mut built: BTreeMap<usize, Built> = BTreeMap::new();
        let mut budget = MAX_OBJECTS;
        while let Some(index) = ready.pop() {
            let Some(kustomization) = self.kustomizations.get(index) else { continue };
            let one = self.build_one(kustomization, by_file, &built, &mut budget);
            built.insert(index, one);
            for parent in parents.get(&index).into_iter().flatten() {
                if let Some(count) = waiting.get_mut(parent) {
                    *count -= 1;
                    if *count == 0 {
                        ready.push(*parent);
                    }
                }
            }
        }
        built
    }

    fn build_one(
        &self,
        kustomization: &Kustomization,
        by_file: &BTreeMap<Arc<str>, Vec<Object>>,
        built: &BTreeMap<usize, Built>,
        budget: &mut usize,
    ) -> Built {
        let mut all = Built { objects: Vec::new(), unknown: kustomization.unknown };
        // What it lists, in the order of its resources, before objects that are listed twice are left out.
        let mut listed: Vec<&Object> = Vec::new();
        for path in &kustomization.resources {
            match self.classify_resource(path) {
                KustomizationResource::Kustomization(child) => {
                    if let Some(child) = built.get(&child) {
                        all.unknown = all.unknown.or(child.unknown);
                        listed.extend(&child.objects);
                    }
                }
                KustomizationResource::Path => {
                    if let Some(objects) = by_file.get(path.as_str()) {
                        listed.extend(objects);
                        continue;
                    }
                    // A folder without a kustomization.
                    let below = format!("{path}/");
                    let files = by_file.range(Arc::from(below.as_str())..);
                    let files = files.take_while(|(file, _)| file.starts_with(&below));
                    listed.extend(files.flat_map(|(_, objects)| objects));
                }
            }
        }
        listed.extend(&kustomization.generated);
        let mut known: BTreeSet<&ObjectRef> = BTreeSet::new();
        for object in listed.into_iter().filter(|object| known.insert(&object.id)) {
            match budget.checked_sub(1) {
                Some(rest) => {
                    *budget = rest;
                    all.objects.push(object.clone());
                }
                None => all.unknown = Some("its kustomizations list more objects than federate follows"),
            }
        }
        for object in &mut all.objects {
            kustomization.transform_object(object);
        }
        all
    }

    /// The kustomizations whose objects are changed, by themselves or by one that refers to them.
    fn changed_kustomizations(&self) -> BTreeSet<usize> {
        let mut changed = BTreeSet::new();
        let all = self.kustomizations.iter().enumerate();
        let mut next: Vec<usize> =
            all.filter(|(_, one)| one.changes_objects).map(|(index, _)| index).collect();
        while let Some(index) = next.pop() {
            if changed.insert(index) {
                next.extend(
                    self.kustomizations.get(index).into_iter().flat_map(|one| self.child_kustomizations(one)),
                );
            }
        }
        changed
    }

    fn classify_resource(&self, path: &str) -> KustomizationResource {
        self.kustomization_folders
            .get(path)
            .map_or(KustomizationResource::Path, |index| KustomizationResource::Kustomization(*index))
    }

    /// The kustomizations that one refers to.
    fn child_kustomizations<'k>(
        &'k self,
        kustomization: &'k Kustomization,
    ) -> impl Iterator<Item = usize> + 'k {
        let folders = kustomization.resources.iter();
        folders.filter_map(|path| self.kustomization_folders.get(path).copied())
    }

    /// The first root that leads to each kustomization. What no root leads to is a root itself.
    fn roots_by_kustomization(&self) -> BTreeMap<usize, usize> {
        let referred: BTreeSet<usize> = self
            .kustomizations
            .iter()
            .flat_map(|kustomization| self.child_kustomizations(kustomization))
            .collect();
        let mut root_of: BTreeMap<usize, usize> = BTreeMap::new();
        let all = 0..self.kustomizations.len();
        let first = all.clone().filter(|index| !referred.contains(index));
        for root in first.chain(all) {
            let mut next = vec![root];
            while let Some(index) = next.pop() {
                if root_of.contains_key(&index) {
                    continue;
                }
                root_of.insert(index, root);
                next.extend(
                    self.kustomizations.get(index).into_iter().flat_map(|one| self.child_kustomizations(one)),
                );
            }
        }
        root_of
    }
}

/// Takes what was built out of the roots, and notes why the others were not built.
pub(crate) fn record_builds(roots: &mut Vec<BuildRoot>, builds: &Builds) {
    for root in roots.iter_mut().filter(|root| root.tool != BuildTool::Helm) {
        match builds.find_source(&root.folder).map(|source| &source.result) {
            Some(Err(error)) => root.failure = Some(error.clone()),
            None if !builds.inputs.contains(&*root.file) => {}
            _ => {
                root.is_built = true;
                root.unknown = None;
                root.objects.clear();
                root.bundles.clear();
                root.changed.clear();
                root.unread.clear();
            }
        }
    }
    // What `federate.yaml` names is reported there.
    roots.retain(|root| {
        !root.is_empty()
            && (root.tool != BuildTool::Helm
                || !builds.find_source(&root.folder).is_some_and(|source| source.is_chart))
    });
    for ambiguous in &builds.ambiguous {
        let Some(first) = ambiguous.folders.first() else { continue };
        let known = roots.iter().find(|root| root.folder == *first).map(|root| root.file.clone());
        let file = known.unwrap_or_else(|| builds.find_kustomization(first).into());
        let mut root = BuildRoot::new(BuildTool::Kustomize, file);
        root.objects.clone_from(&ambiguous.objects);
        root.alternatives.clone_from(&ambiguous.folders);
        roots.push(root);
    }
}

/// The objects in the files that tools own.
#[derive(Default)]
pub(crate) struct OwnedObjects {
    /// Those that could have been templates.
    pub(crate) objects: Vec<Object>,
    /// Those that contain a template with its placement.
    pub(crate) bundles: Vec<ClaimedObject>,
    /// Policies and clusters, which are read anyway.
    pub(crate) read: Vec<Object>,
    /// Policies and clusters in templates, which cannot be read.
    pub(crate) unread: Vec<Object>,
}

/// Whether a path is a file or a folder of these files, which are sorted by path.
fn has_path(files: &[RepoFile], path: &str) -> bool {
    let at = files.partition_point(|file| &*file.path < path);
    // Names such as `a-b` lie between `a` and `a/b`.
    let below = files.partition_point(|file| *file.path < *format!("{path}/"));
    path.is_empty()
        || files.get(at).is_some_and(|file| *file.path == *path)
        || files.get(below).is_some_and(|file| is_within(&file.path, path))
}

/// The objects that a kustomization builds.
struct Built {
    objects: Vec<Object>,
    unknown: Option<&'static str>,
}

/// The name of a file.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The folder of a file; empty for the root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The folders that contain a file, nearest first; the last one is the root.
fn folders_above(path: &str) -> impl Iterator<Item = &str> {
    path.rmatch_indices('/').map(|(at, _)| &path[..at]).chain([""])
}

#[cfg(test)]
mod tests;
