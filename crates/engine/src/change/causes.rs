//! The edits of a repo that cause the changes in its clusters.
//!
//! Each document that differs between two revisions is an edit. A change is attributed to the edits of the documents that decide
//! about its object: its template, the override rules that changed its manifest, its policies, its clusters, the objects that
//! it follows. What remains is attributed to the edits of other objects of dialects and of the configuration file.
//!
//! This is a relation between documents, not a proof: of two edits of the documents that decide about an object, both are its
//! causes. Fields tell them apart as far as they can: a template causes a change of a manifest where both change in the same
//! field, and an override where it wrote the field. Where a template is built by a program, the edits of what it is built from stand
//! in place of it ([`SourceEdits`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::edits::{CauseRole, ChangeCause, ChangedField, changed_fields};
use super::objects::{ObjectChange, ObjectChangeKind, say_encrypted};
use super::placements::PlacementChange;
use super::source_edits::SourceEdits;
use super::source_values::SecretTexts;
use super::{DigestKey, RenderingChanges};
use crate::{Engine, Manifest};
use federate_dialect::{OverrideChange, Placement, Plan};
use federate_kubernetes::{ClusterName, Object, ObjectRef, Origin, work};
use federate_repo::{Locator, Repo, Role};

/// One side of a comparison, with what decides about it.
#[derive(Clone, Copy)]
pub struct RevisionSide<'a> {
    /// The repo and its control planes.
    pub engine: &'a Engine<'a>,
    /// The plan.
    pub plan: &'a Plan,
    /// The manifests that the clusters have.
    pub manifests: &'a [Manifest],
}

/// Adds the edits of the repo to changes, and to each change the numbers of the edits that cause it. `key` is the key of the
/// digests that replace the values of Secrets.
pub fn find_causes(
    changes: &mut RenderingChanges,
    from: &RevisionSide<'_>,
    to: &RevisionSide<'_>,
    key: &DigestKey,
) {
    let repos = [from.engine.repo, to.engine.repo];
    let mut edits = find_edits(repos[0], repos[1], key);
    let sources = SourceEdits::find(repos, to.engine.clusters, &edits, key);
    if sources.has_configuration {
        edits.retain_mut(leave_out_sources);
    }
    if edits.is_empty() && sources.edits.is_empty() {
        return;
    }
    let attribution = Attribution::new(&edits, &changes.placements, [from, to]);
    let of_placements: Vec<BTreeSet<usize>> =
        changes.placements.iter().map(|change| attribution.explain_placement(&change.object)).collect();
    let of_objects: Vec<BTreeSet<usize>> = attribution.explain_objects(&changes.objects, [from, to]);
    let mut caused = CausedChanges { edits, sources, of_placements, of_objects };
    caused.relate_sources(changes);
    caused.count_effects(changes);
    caused.hide_values(changes, repos, key);
    caused.number_changes(changes);
}

/// Takes the fields of sources out of the edit of the configuration file, as they are edits of their own. Returns whether anything
/// is left of it.
fn leave_out_sources(edit: &mut ChangeCause) -> bool {
    if edit.role != CauseRole::Configuration || edit.fields.is_empty() {
        return true;
    }
    edit.fields.retain(|field| !field.change.path.starts_with("/sources"));
    edit.line = edit.fields.first().map_or(edit.line, |field| field.line);
    !edit.fields.is_empty()
}

/// The edits with the changes that they cause, by their numbers. Those of sources come after the others.
struct CausedChanges<'r> {
    edits: Vec<ChangeCause>,
    sources: SourceEdits<'r>,
    of_placements: Vec<BTreeSet<usize>>,
    of_objects: Vec<BTreeSet<usize>>,
}

impl CausedChanges<'_> {
    /// Puts the edits of sources in place of what they build.
    fn relate_sources(&mut self, changes: &RenderingChanges) {
        if self.sources.edits.is_empty() {
            return;
        }
        let mut of_placements = std::mem::take(&mut self.of_placements);
        for edits in &mut of_placements {
            self.replace_built(edits, None);
        }
        let mut of_objects = std::mem::take(&mut self.of_objects);
        for (change, edits) in changes.objects.iter().zip(&mut of_objects) {
            self.replace_built(edits, Some(change));
        }
        (self.of_placements, self.of_objects) = (of_placements, of_objects);
    }

    /// Replaces edits of templates that are built by the edits of their sources, and adds these to edits of policies that are built.
    fn replace_built(&self, edits: &mut BTreeSet<usize>, change: Option<&ObjectChange>) {
        let built: Vec<usize> = edits.iter().copied().filter(|at| self.is_built(*at)).collect();
        for at in built {
            let Some(edit) = self.edits.get(at) else { continue };
            let Some(object) = &edit.object else { continue };
            let clusters =
                change.filter(|change| change.object == *object).map(|change| change.clusters.as_slice());
            let related = self.sources.list_related(object, clusters);
            if edit.role == CauseRole::Template && !related.is_empty() {
                edits.remove(&at);
            }
            edits.extend(related.into_iter().map(|related| self.edits.len() + related));
        }
    }

    /// Whether an edit is that of an object that is built. A policy whose own document differs is none.
    fn is_built(&self, at: usize) -> bool {
        let Some(edit) = self.edits.get(at) else { return false };
        let is_built = edit.object.as_ref().is_some_and(|object| self.sources.is_built(object));
        is_built && (edit.role == CauseRole::Template || !self.sources.is_changed_file(&edit.file))
    }

    fn edit_mut(&mut self, at: usize) -> Option<&mut ChangeCause> {
        match at.checked_sub(self.edits.len()) {
            Some(source) => self.sources.edits.get_mut(source),
            None => self.edits.get_mut(at),
        }
    }

    /// Those of the clusters of a change that an edit concerns.
    fn concerned_clusters<'c>(&self, at: usize, change: &'c ObjectChange) -> Vec<&'c str> {
        match at.checked_sub(self.edits.len()) {
            Some(source) => {
                self.sources.concerned_clusters(source, &change.clusters).map(AsRef::as_ref).collect()
            }
            None => change.clusters.iter().map(AsRef::as_ref).collect(),
        }
    }

    /// Counts what each edit changes.
    fn count_effects(&mut self, changes: &RenderingChanges) {
        let of_placements = std::mem::take(&mut self.of_placements);
        for (change, edits) in changes.placements.iter().zip(&of_placements) {
            for at in edits.iter().filter(|_| change.is_move()) {
                let Some(cause) = self.edit_mut(*at) else { continue };
                // That the row of a policy differs is no effect of the policy.
                let is_own_row =
                    cause.role == CauseRole::Policy && cause.object.as_ref() == Some(&change.object);
                if !is_own_row {
                    cause.moves += 1;
                }
            }
        }
        self.of_placements = of_placements;
        let mut reached: BTreeMap<usize, EditReach<'_>> = BTreeMap::new();
        for (change, edits) in changes.objects.iter().zip(&self.of_objects) {
            for at in edits {
                let clusters = self.concerned_clusters(*at, change);
                work::charge_items(clusters.len());
                reached.entry(*at).or_default().add_change(change, &clusters);
            }
        }
        for (at, reach) in reached {
            if let Some(cause) = self.edit_mut(at) {
                cause.manifests += reach.manifests;
                cause.changed_objects = reach.objects;
                cause.changed_clusters = reach.clusters.len();
            }
        }
    }

    /// Hides values of sources that are secret in the clusters.
    fn hide_values(&mut self, changes: &RenderingChanges, repos: [&Repo; 2], key: &DigestKey) {
        if self.sources.edits.iter().all(|edit| edit.fields.is_empty()) {
            return;
        }
        let mut caused: HashMap<usize, Vec<&ObjectChange>> = HashMap::new();
        for (change, edits) in changes.objects.iter().zip(&self.of_objects) {
            for source in edits.iter().filter_map(|at| at.checked_sub(self.edits.len())) {
                caused.entry(source).or_default().push(change);
            }
        }
        let mut secrets = SecretTexts::collect(repos);
        for (at, edit) in self.sources.edits.iter_mut().enumerate() {
            let caused = caused.get(&at).into_iter().flatten();
            secrets.hide_values(edit, caused.flat_map(|change| &change.paths), key);
            edit.fields.iter_mut().for_each(|field| say_encrypted(&mut field.change));
        }
    }

    /// Sorts the edits, those with the most effects first, and numbers the causes of changes accordingly. Edits of what was built
    /// by sources that differ are left out: the edits of these stand for them.
    fn number_changes(self, changes: &mut RenderingChanges) {
        let shown: Vec<bool> = (0..self.edits.len() + self.sources.edits.len())
            .map(|at| {
                let template = self.edits.get(at).filter(|edit| edit.role == CauseRole::Template);
                let object = template.and_then(|edit| edit.object.as_ref());
                object.is_none_or(|object| !self.sources.has_edits(object))
            })
            .collect();
        let causes: Vec<ChangeCause> = self.edits.into_iter().chain(self.sources.edits).collect();
        let mut order: Vec<usize> = (0..causes.len()).filter(|at| shown[*at]).collect();
        order.sort_by_key(|at| {
            let rank = causes.get(*at).map(|cause| {
                (cause.is_without_effect(), cause.role, std::cmp::Reverse((cause.moves, cause.manifests)))
            });
            (rank, *at)
        });
        let mut number = vec![0; causes.len()];
        for (new, old) in order.iter().enumerate() {
            number[*old] = new;
        }
        for (change, edits) in changes.placements.iter_mut().zip(&self.of_placements) {
            change.caused_by = renumber(edits, &number);
        }
        for (change, edits) in changes.objects.iter_mut().zip(&self.of_objects) {
            change.caused_by = renumber(edits, &number);
        }
        changes.causes = order.iter().filter_map(|at| causes.get(*at).cloned()).collect();
    }
}

/// What an edit changes, as far as it is counted. Changes of one object are adjacent.
#[derive(Default)]
struct EditReach<'c> {
    manifests: usize,
    objects: usize,
    last_object: Option<&'c ObjectRef>,
    clusters: HashSet<&'c str>,
}

impl<'c> EditReach<'c> {
    fn add_change(&mut self, change: &'c ObjectChange, clusters: &[&'c str]) {
        self.manifests += clusters.len();
        self.clusters.extend(clusters);
        if self.last_object != Some(&change.object) {
            self.objects += 1;
            self.last_object = Some(&change.object);
        }
    }
}

/// A document of one side.
#[derive(Clone, Copy)]
struct Document<'r> {
    role: CauseRole,
    object: &'r Object,
    /// The bodies for each cluster, of a template with several.
    per_cluster: Option<&'r BTreeMap<ClusterName, Arc<Object>>>,
}

impl<'r> Document<'r> {
    /// The body for a cluster.
    fn body_for(self, cluster: &ClusterName) -> &'r Value {
        self.per_cluster.and_then(|bodies| bodies.get(cluster)).map_or(&self.object.body, |own| &own.body)
    }
}

/// The documents of a repo that decide about clusters.
fn deciding_documents(repo: &Repo) -> impl Iterator<Item = Document<'_>> {
    let claimed = repo.claimed.iter().filter_map(|claimed| {
        let role = match claimed.role {
            Role::Placement => CauseRole::Policy,
            Role::Override => CauseRole::Override,
            Role::Inventory => CauseRole::Cluster,
            Role::Bundle => CauseRole::Bundle,
            Role::Other => CauseRole::Other,
            Role::ControlPlane => return None,
        };
        Some(Document { role, object: &claimed.object, per_cluster: None })
    });
    let templates = repo.templates.iter().map(|template| Document {
        role: CauseRole::Template,
        object: &template.object,
        per_cluster: template.per_cluster.as_ref(),
    });
    claimed.chain(templates)
}

/// The documents that differ, in the order of their objects.
fn find_edits(from: &Repo, to: &Repo, key: &DigestKey) -> Vec<ChangeCause> {
    let mut sides: BTreeMap<&ObjectRef, [Option<Document<'_>>; 2]> = BTreeMap::new();
    for (side, repo) in [from, to].into_iter().enumerate() {
        for document in deciding_documents(repo) {
            sides.entry(&document.object.id).or_default()[side] = Some(document);
        }
    }
    let mut locator = Locator::new(to);
    let mut edits: Vec<ChangeCause> = sides
        .into_values()
        .filter_map(|sides| match sides {
            [Some(from), Some(to)] => {
                let bodies = differing_bodies(from, to)?;
                let fields = changed_fields(bodies, &to.object.origin, key, &mut locator);
                Some(ChangeCause::new(to, ObjectChangeKind::Changed, fields))
            }
            [None, Some(to)] => Some(ChangeCause::new(to, ObjectChangeKind::Added, Vec::new())),
            [Some(from), None] => Some(ChangeCause::new(from, ObjectChangeKind::Removed, Vec::new())),
            [None, None] => None,
        })
        .collect();
    edits.extend(configuration_edit(from, to, key, &mut locator));
    edits
}

impl ChangeCause {
    fn new(document: Document<'_>, kind: ObjectChangeKind, fields: Vec<ChangedField>) -> Self {
        let Object { id, origin, .. } = document.object;
        let object = Some(id.clone());
        let line = fields.first().map_or(origin.line, |field| field.line);
        Self { object, kind, line, fields, ..Self::in_file(document.role, &origin.file) }
    }
}

/// The bodies of a document that differ: those for the first cluster for which they do.
fn differing_bodies<'r>(from: Document<'r>, to: Document<'r>) -> Option<[&'r Value; 2]> {
    if from.object.body != to.object.body {
        return Some([&from.object.body, &to.object.body]);
    }
    let names = [from, to].map(|side| side.per_cluster.into_iter().flat_map(BTreeMap::keys));
    names.into_iter().flatten().find_map(|name| {
        let bodies = [from, to].map(|side| side.body_for(name));
        (bodies[0] != bodies[1]).then_some(bodies)
    })
}

/// The new numbers of some edits.
fn renumber(edits: &BTreeSet<usize>, number: &[usize]) -> Vec<usize> {
    let renumbered: BTreeSet<usize> = edits.iter().map(|old| number[*old]).collect();
    renumbered.into_iter().collect()
}

/// The edit of the configuration file.
fn configuration_edit(
    from: &Repo,
    to: &Repo,
    key: &DigestKey,
    locator: &mut Locator<'_>,
) -> Option<ChangeCause> {
    let [old, new] = [from, to].map(|repo| {
        let text = repo.texts.get(repo.config_path())?;
        federate_yaml::read_stream(text).documents.pop().map(|document| document.value)
    });
    let kind = match (&old, &new) {
        (None, None) => return None,
        (None, _) => ObjectChangeKind::Added,
        (_, None) => ObjectChangeKind::Removed,
        (old, new) if old == new => return None,
        _ => ObjectChangeKind::Changed,
    };
    let file = if new.is_some() { to.config_path() } else { from.config_path() };
    let origin = Origin { file: file.into(), document: 0, item: None, line: 1 };
    let fields = match (&old, &new) {
        (Some(old), Some(new)) => changed_fields([old, new], &origin, key, locator),
        _ => Vec::new(),
    };
    let line = fields.first().map_or(1, |field| field.line);
    Some(ChangeCause { kind, line, fields, ..ChangeCause::in_file(CauseRole::Configuration, file) })
}

/// Finds the edits that cause a change, by their numbers.
struct Attribution<'a> {
    edits: &'a [ChangeCause],
    by_object: HashMap<&'a ObjectRef, usize>,
    /// The edits of objects that contain a template, by the object in the clusters.
    by_carrier: HashMap<ObjectRef, usize>,
    by_cluster: HashMap<&'a str, usize>,
    placements: HashMap<&'a ObjectRef, &'a PlacementChange>,
    /// The rows of both plans.
    rows: [HashMap<&'a ObjectRef, &'a Placement>; 2],
    sides: [&'a RevisionSide<'a>; 2],
}

impl<'a> Attribution<'a> {
    fn new(
        edits: &'a [ChangeCause],
        placements: &'a [PlacementChange],
        sides: [&'a RevisionSide<'a>; 2],
    ) -> Self {
        let numbered = edits.iter().enumerate();
        let by_object: HashMap<&ObjectRef, usize> =
            numbered.filter_map(|(at, edit)| Some((edit.object.as_ref()?, at))).collect();
        let mut by_carrier = HashMap::new();
        let mut by_cluster = HashMap::new();
        for side in sides {
            let planners = side.engine.planners.iter();
            for template in planners.flat_map(|(_, planner)| planner.advice().carried_templates()) {
                if let Some(at) = by_object.get(&template.carrier) {
                    by_carrier.insert(template.object, *at);
                }
            }
            let configured = edits.iter().position(is_about_clusters);
            for cluster in side.engine.clusters {
                let is_configured = *cluster.origin.file == *side.engine.repo.config_path();
                let at = if is_configured { configured } else { by_object.get(&cluster.id).copied() };
                if let Some(at) = at {
                    by_cluster.insert(cluster.name.as_ref(), at);
                }
            }
        }
        Self {
            edits,
            by_object,
            by_carrier,
            by_cluster,
            placements: placements.iter().map(|change| (&change.object, change)).collect(),
            rows: sides.map(|side| side.plan.placements.iter().map(|row| (&row.object, row)).collect()),
            sides,
        }
    }

    fn edit_at(&self, at: usize) -> Option<&'a ChangeCause> {
        self.edits.get(at)
    }

    /// The edits that cause the change of a placement.
    fn explain_placement(&self, object: &'a ObjectRef) -> BTreeSet<usize> {
        let mut causes = BTreeSet::new();
        self.collect_causes(object, false, &mut HashSet::new(), &mut causes);
        if causes.is_empty() {
            causes.extend(self.template_of(object));
        }
        if causes.is_empty() {
            causes.extend(self.find_roles(&[CauseRole::Cluster]));
        }
        if causes.is_empty() {
            causes.extend(self.find_roles(&[CauseRole::Other, CauseRole::Configuration]));
        }
        causes
    }

    /// Adds the edits that cause the change of a placement, as far as the documents that decide about it tell. `is_followed`
    /// says whether another object follows this one, because the template refers to it.
    fn collect_causes(
        &self,
        object: &'a ObjectRef,
        is_followed: bool,
        visited: &mut HashSet<&'a ObjectRef>,
        causes: &mut BTreeSet<usize>,
    ) {
        if !visited.insert(object) {
            return;
        }
        // A template that is new or gone is reason enough.
        let template = self.template_of(object);
        if let Some(whole) =
            template.filter(|at| self.edit_at(*at).is_some_and(|edit| edit.kind != ObjectChangeKind::Changed))
        {
            causes.insert(whole);
            return;
        }
        let change = self.placements.get(object).copied();
        let rows: Vec<&'a Placement> =
            self.rows.iter().filter_map(|rows| rows.get(object).copied()).collect();
        causes.extend(self.policies_of(&rows));
        let other_policy = change.is_some_and(|change| !change.policy.is_same());
        causes.extend(template.filter(|at| {
            is_followed
                || other_policy
                || self.edit_at(*at).is_some_and(|edit| {
                    edit.fields.is_empty()
                        || edit.fields.iter().any(|field| decides_placement(&field.change.path))
                })
        }));
        for shift in change.iter().flat_map(|change| &change.clusters) {
            let of_cluster = self.by_cluster.get(shift.name.as_ref()).copied();
            causes.extend(of_cluster.filter(|at| self.edit_at(*at).is_some_and(is_more_than_status)));
        }
        for leader in rows.iter().flat_map(|row| &row.required_by) {
            let moves = self.placements.contains_key(leader);
            self.collect_causes(leader, !moves, visited, causes);
        }
    }

    /// The edit of the document with the template of an object.
    fn template_of(&self, object: &ObjectRef) -> Option<usize> {
        self.by_object.get(object).or_else(|| self.by_carrier.get(object)).copied()
    }

    /// The edits of the policies that send the objects of rows.
    fn policies_of(&self, rows: &[&Placement]) -> BTreeSet<usize> {
        let mut edits = BTreeSet::new();
        for row in rows {
            edits.extend(row.policy.as_ref().and_then(|policy| self.by_object.get(policy)));
            let dialect = self.sides.iter().find_map(|side| side.engine.dialects.get(&row.dialect));
            let senders = dialect.map(|dialect| dialect.policies_of(row)).unwrap_or_default();
            edits.extend(senders.iter().filter_map(|sender| self.by_object.get(&sender.policy)));
        }
        edits
    }

    fn find_roles(&self, roles: &[CauseRole]) -> impl Iterator<Item = usize> {
        let numbered = self.edits.iter().enumerate();
        numbered.filter(|(_, edit)| roles.contains(&edit.role)).map(|(at, _)| at)
    }

    /// The edits that cause each change of manifests. Changes of one object are adjacent.
    fn explain_objects(
        &self,
        changes: &'a [ObjectChange],
        sides: [&'a RevisionSide<'a>; 2],
    ) -> Vec<BTreeSet<usize>> {
        let changed: HashSet<&ObjectRef> = changes.iter().map(|change| &change.object).collect();
        let manifests = sides.map(|side| {
            let mut of_object: HashMap<&ObjectRef, Vec<&Manifest>> = HashMap::new();
            for manifest in
                side.manifests.iter().filter(|one| changed.contains(&one.object) && !one.changes.is_empty())
            {
                of_object.entry(&manifest.object).or_default().push(manifest);
            }
            of_object
        });
        let mut causes = Vec::with_capacity(changes.len());
        for changes in changes.chunk_by(|a, b| a.object == b.object) {
            let Some(object) = changes.first().map(|change| &change.object) else { continue };
            let placement = if self.placements.contains_key(object) {
                self.explain_placement(object)
            } else {
                Default::default()
            };
            let overrides = manifests.each_ref().map(|of_object| {
                let of_object = of_object.get(object).map(Vec::as_slice).unwrap_or_default();
                AppliedOverrides::new(of_object)
            });
            causes.extend(changes.iter().map(|change| self.explain_object(change, &placement, &overrides)));
        }
        causes
    }

    /// The edits that cause a change of manifests. `placement` are those of the change of the object's placement.
    fn explain_object(
        &self,
        change: &'a ObjectChange,
        placement: &BTreeSet<usize>,
        overrides: &[AppliedOverrides<'_>; 2],
    ) -> BTreeSet<usize> {
        let mut causes = BTreeSet::new();
        if change.kind != ObjectChangeKind::Changed || change.replicas_at.is_some() {
            causes.extend(placement);
        }
        let fields: Vec<&str> = change
            .paths
            .iter()
            .map(|field| field.path.as_str())
            .filter(|path| change.replicas_at.as_deref() != Some(*path))
            .collect();
        if !fields.is_empty() {
            causes.extend(self.template_of(&change.object).filter(|at| self.writes_any(*at, &fields)));
            for cluster in &change.clusters {
                let applied = overrides.iter().flat_map(|applied| applied.in_cluster(cluster));
                let wrote = applied.filter(|one| is_any_related(&one.paths, &fields));
                causes.extend(wrote.filter_map(|one| self.by_object.get(&one.policy)));
            }
        }
        if causes.is_empty() {
            causes.extend(self.template_of(&change.object));
        }
        if causes.is_empty() {
            let rows: Vec<&Placement> =
                self.rows.iter().filter_map(|rows| rows.get(&change.object).copied()).collect();
            causes.extend(self.policies_of(&rows));
            causes.extend(placement);
        }
        if causes.is_empty() {
            causes.extend(self.find_roles(&[CauseRole::Other, CauseRole::Configuration]));
        }
        causes
    }

    /// Whether the edit of a template changes any of these fields of its manifest.
    fn writes_any(&self, at: usize, fields: &[&str]) -> bool {
        let Some(edit) = self.edit_at(at) else { return false };
        let changed: Vec<&str> = edit.fields.iter().map(|field| field.change.path.as_str()).collect();
        edit.role == CauseRole::Bundle || changed.is_empty() || is_any_related(&changed, fields)
    }
}

/// The override rules that changed the manifests of an object, by cluster.
struct AppliedOverrides<'m>(HashMap<&'m str, &'m [OverrideChange]>);

impl<'m> AppliedOverrides<'m> {
    fn new(manifests: &[&'m Manifest]) -> Self {
        Self(
            manifests
                .iter()
                .flat_map(|manifest| {
                    let Manifest { clusters, changes, .. } = *manifest;
                    clusters.iter().map(|name| (name.as_ref(), changes.as_slice()))
                })
                .collect(),
        )
    }

    fn in_cluster(&self, cluster: &str) -> &'m [OverrideChange] {
        self.0.get(cluster).copied().unwrap_or_default()
    }
}

/// Fields of templates by which control planes decide: labels and annotations, replicas, and what pods ask of nodes.
fn decides_placement(path: &str) -> bool {
    const FIELDS: [&str; 8] = [
        "/replicas",
        "/parallelism",
        "/completions",
        "/resources",
        "/nodeSelector",
        "/affinity",
        "/tolerations",
        "/placement",
    ];
    path.starts_with("/metadata") || FIELDS.iter().any(|field| path.contains(field))
}

/// Whether an edit is one of the clusters in the configuration file.
fn is_about_clusters(edit: &ChangeCause) -> bool {
    edit.role == CauseRole::Configuration
        && (edit.fields.is_empty()
            || edit.fields.iter().any(|field| field.change.path.starts_with("/clusters")))
}

/// Whether an edit of a cluster is about more than the status that its agent reports.
fn is_more_than_status(edit: &ChangeCause) -> bool {
    edit.fields.is_empty() || edit.fields.iter().any(|field| !field.change.path.starts_with("/status"))
}

/// Whether any of the written fields is, contains, or is within any of the changed ones. Items of lists count as equal: a
/// path names them by their keys, a pointer by their positions.
fn is_any_related(written: &[impl AsRef<str>], changed: &[&str]) -> bool {
    let changed: Vec<Vec<&str>> = changed.iter().map(|path| field_names(path)).collect();
    written.iter().any(|path| {
        let path = field_names(path.as_ref());
        changed.iter().any(|other| path.iter().zip(other).all(|(a, b)| a == b))
    })
}

/// The names of the fields in a path, without the items of lists.
fn field_names(path: &str) -> Vec<&str> {
    let names = path.split('/').map(|step| step.split('[').next().unwrap_or_default());
    names.filter(|name| !name.is_empty() && !name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}
