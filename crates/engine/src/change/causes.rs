//! The edits of a repo that cause the changes in its clusters.
//!
//! Each document that differs between two revisions is an edit. A change is attributed to the edits of the documents that decide
//! about its object: its template, the override rules that changed its manifest, its policies, its clusters, the objects that
//! it follows. What remains is attributed to the edits of other objects of dialects and of the configuration file.
//!
//! This is a relation between documents, not a proof: of two edits of the documents that decide about an object, both are its
//! causes. Fields tell them apart as far as they can: a template causes a change of a manifest where both change in the same
//! field, and an override where it wrote the field.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::objects::{ObjectChange, ObjectChangeKind};
use super::placements::PlacementChange;
use super::{DigestKey, PathChange, RenderingChanges, diff_paths, find_pointer, secret};
use crate::{Engine, Manifest};
use federate_dialect::{OverrideChange, Placement, Plan};
use federate_kubernetes::{ClusterName, Object, ObjectRef, Origin};
use federate_repo::{Locator, Repo, Role};

/// A document of the repo that differs, with what its edit changes in clusters.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeCause {
    /// The object that the document defines; left out for the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// What the document is to its dialect.
    pub role: CauseRole,
    /// Whether the document is new, differs, or is gone.
    pub kind: ObjectChangeKind,
    /// The path below the repo's root: on the later side, or on the earlier one if the document is gone.
    pub file: String,
    /// The line, from 1, of the first field that differs, or of the document.
    pub line: u32,
    /// The fields that differ; empty for a document that is new or gone.
    pub fields: Vec<ChangedField>,
    /// How many objects it places otherwise: on other clusters, or with other replicas.
    pub moves: usize,
    /// How many manifests it adds, changes or removes, one per object and cluster.
    pub manifests: usize,
}

impl ChangeCause {
    /// Whether nothing in any cluster changes because of the edit.
    pub fn is_without_effect(&self) -> bool {
        self.moves == 0 && self.manifests == 0
    }
}

/// What a document is to its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CauseRole {
    /// A policy that selects the clusters of templates.
    Policy,
    /// An override policy.
    Override,
    /// A cluster of the inventory.
    Cluster,
    /// Another object of a dialect, such as a scheduling profile.
    Other,
    /// The configuration file.
    Configuration,
    /// An object that contains a template with its placement and overrides.
    Bundle,
    /// An object that is placed on clusters.
    Template,
}

/// A field of a document that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedField {
    /// The path and the values.
    #[serde(flatten)]
    pub change: PathChange,
    /// The line, from 1, on the later side: that of the field, or of what held it.
    pub line: u32,
}

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
    let mut causes = find_edits(from.engine.repo, to.engine.repo, key);
    if causes.is_empty() {
        return;
    }
    let attribution = Attribution::new(&causes, &changes.placements, [from, to]);
    let of_placements: Vec<BTreeSet<usize>> =
        changes.placements.iter().map(|change| attribution.of_placement(&change.object)).collect();
    let of_objects: Vec<BTreeSet<usize>> = attribution.of_objects(&changes.objects, [from, to]);
    for (change, edits) in changes.placements.iter().zip(&of_placements) {
        for at in edits.iter().filter(|_| change.is_move()) {
            let Some(cause) = causes.get_mut(*at) else { continue };
            // That the row of a policy differs is no effect of the policy.
            let is_own_row = cause.role == CauseRole::Policy && cause.object.as_ref() == Some(&change.object);
            if !is_own_row {
                cause.moves += 1;
            }
        }
    }
    for (change, edits) in changes.objects.iter().zip(&of_objects) {
        for at in edits {
            if let Some(cause) = causes.get_mut(*at) {
                cause.manifests += change.clusters.len();
            }
        }
    }
    // Those with the most effects come first.
    let mut order: Vec<usize> = (0..causes.len()).collect();
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
    for (change, edits) in changes.placements.iter_mut().zip(&of_placements) {
        change.caused_by = renumber(edits, &number);
    }
    for (change, edits) in changes.objects.iter_mut().zip(&of_objects) {
        change.caused_by = renumber(edits, &number);
    }
    changes.causes = order.iter().filter_map(|at| causes.get(*at).cloned()).collect();
}

/// A document of one side.
#[derive(Clone, Copy)]
struct Document<'r> {
    role: CauseRole,
    object: &'r Object,
    /// The bodies for each cluster, of a template with several.
    per_cluster: Option<&'r BTreeMap<ClusterName, Arc<Object>>>,
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
        Self {
            object,
            role: document.role,
            kind,
            file: origin.file.to_string(),
            line,
            fields,
            moves: 0,
            manifests: 0,
        }
    }
}

/// The bodies of a document that differ: those for the first cluster for which they do.
fn differing_bodies<'r>(from: Document<'r>, to: Document<'r>) -> Option<[&'r Value; 2]> {
    if from.object.body != to.object.body {
        return Some([&from.object.body, &to.object.body]);
    }
    let (from, to) = (from.per_cluster?, to.per_cluster?);
    to.iter().find_map(|(name, new)| {
        let old = from.get(name).filter(|old| old.body != new.body)?;
        Some([&old.body, &new.body])
    })
}

/// The fields of a document that differ, with their lines.
fn changed_fields(
    [from, to]: [&Value; 2],
    origin: &Origin,
    key: &DigestKey,
    locator: &mut Locator<'_>,
) -> Vec<ChangedField> {
    let (mut old, mut new) = (from.clone(), to.clone());
    secret::hide_secret_values(&mut [&mut old, &mut new], key);
    let changes = diff_paths(&old, &new);
    changes
        .into_iter()
        .map(|change| {
            let line = locator.locate_value(origin, &find_pointer(&change.path, to)).line;
            ChangedField { change, line }
        })
        .collect()
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
    let (role, file) = (CauseRole::Configuration, file.to_owned());
    Some(ChangeCause { object: None, role, kind, file, line, fields, moves: 0, manifests: 0 })
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
            let planes = side.engine.planes.iter();
            for template in planes.flat_map(|(_, plane)| plane.advice().carried_templates()) {
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
    fn of_placement(&self, object: &'a ObjectRef) -> BTreeSet<usize> {
        let mut causes = BTreeSet::new();
        self.collect_causes(object, false, &mut HashSet::new(), &mut causes);
        if causes.is_empty() {
            causes.extend(self.template_of(object));
        }
        if causes.is_empty() {
            causes.extend(self.of_roles(&[CauseRole::Cluster]));
        }
        if causes.is_empty() {
            causes.extend(self.of_roles(&[CauseRole::Other, CauseRole::Configuration]));
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

    fn of_roles(&self, roles: &[CauseRole]) -> impl Iterator<Item = usize> {
        let numbered = self.edits.iter().enumerate();
        numbered.filter(|(_, edit)| roles.contains(&edit.role)).map(|(at, _)| at)
    }

    /// The edits that cause each change of manifests. Changes of one object are adjacent.
    fn of_objects(
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
                self.of_placement(object)
            } else {
                Default::default()
            };
            let overrides = manifests.each_ref().map(|of_object| {
                let of_object = of_object.get(object).map(Vec::as_slice).unwrap_or_default();
                AppliedOverrides::new(of_object)
            });
            causes.extend(changes.iter().map(|change| self.of_object(change, &placement, &overrides)));
        }
        causes
    }

    /// The edits that cause a change of manifests. `placement` are those of the change of the object's placement.
    fn of_object(
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
            causes.extend(self.of_roles(&[CauseRole::Other, CauseRole::Configuration]));
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
