//! The edits of the repo that cause changes, grouped: equal edits of many templates are one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::format_values;
use crate::table::format_count;
use federate_engine::change::{CauseRole, ChangeCause, ObjectChangeKind, PathChange, RenderingChanges};
use federate_kubernetes::ObjectRef;
use federate_repo::config::{SettingEffect, find_setting_effect};

/// How many edits of the same fields are shown one by one.
const MAX_SINGLE_EDITS: usize = 3;

/// Edits that are shown together.
pub(crate) struct EditGroup<'d> {
    /// The edits, those with the most effects first.
    pub(crate) causes: Vec<&'d ChangeCause>,
    /// How many objects they place otherwise.
    pub(crate) moves: usize,
    /// How many manifests they change.
    pub(crate) manifests: usize,
    /// Whether all of them change the fields to the same values.
    pub(crate) is_equal: bool,
}

/// The edits with effects.
pub(crate) struct EditGroups<'d> {
    pub(crate) groups: Vec<EditGroup<'d>>,
    /// The number of the group of each edit.
    group_of: Vec<usize>,
}

impl<'d> EditGroups<'d> {
    /// Groups the edits of templates that change the same fields, and those of policies that change them to the same values; other
    /// edits stand for themselves.
    pub(crate) fn new(causes: &'d [ChangeCause]) -> Self {
        let with_effect = causes.iter().filter(|cause| !cause.is_without_effect());
        let mut alike: BTreeMap<EditKey<'_>, usize> = BTreeMap::new();
        for cause in with_effect.clone() {
            *alike.entry(edit_key(cause)).or_default() += 1;
        }
        let mut places: BTreeMap<EditKey<'_>, usize> = BTreeMap::new();
        let mut groups: Vec<EditGroup<'_>> = Vec::new();
        let mut group_of = Vec::new();
        for cause in with_effect {
            let key = edit_key(cause);
            let is_folded =
                can_be_folded(cause) && alike.get(&key).is_some_and(|count| *count > MAX_SINGLE_EDITS);
            let next = groups.len();
            let at = if is_folded { *places.entry(key).or_insert(next) } else { next };
            group_of.push(at);
            match groups.get_mut(at) {
                Some(group) => group.add_cause(cause),
                None => groups.push(EditGroup::new(cause)),
            }
        }
        Self { groups, group_of }
    }

    /// The number of the group of an edit.
    pub(crate) fn find_group(&self, cause: usize) -> Option<usize> {
        self.group_of.get(cause).copied()
    }

    /// `edit 2`, for the changes that these edits cause; empty where there is only one edit.
    pub(crate) fn format_references(&self, caused_by: &[usize]) -> String {
        if self.groups.len() < 2 {
            return String::new();
        }
        let numbers: BTreeSet<usize> = caused_by.iter().filter_map(|at| self.find_group(*at)).collect();
        let shown: Vec<String> = numbers.iter().take(MAX_REFERENCES).map(|at| (at + 1).to_string()).collect();
        let more = if numbers.len() > MAX_REFERENCES { ", …" } else { "" };
        match shown.len() {
            0 => String::new(),
            1 => format!("edit {}", shown.join("")),
            _ => format!("edits {}{more}", shown.join(", ")),
        }
    }
}

/// The edits that one change refers to.
const MAX_REFERENCES: usize = 3;

/// The number of edits that change nothing in any cluster, and the first of them.
pub(super) fn without_effect(changes: &RenderingChanges) -> Vec<&ChangeCause> {
    let causes = changes.causes.iter().filter(|cause| cause.is_without_effect());
    causes.filter(|cause| changes.settings.is_empty() || !has_only_settings(cause)).collect()
}

/// Whether an edit of the configuration file is one of settings that act on more than what is rendered, which are shown by
/// themselves.
fn has_only_settings(edit: &ChangeCause) -> bool {
    let is_rendered = |effect| matches!(effect, Some(SettingEffect::Renderings | SettingEffect::Reports));
    edit.role == CauseRole::Configuration
        && !edit.fields.iter().any(|field| is_rendered(find_setting_effect(&field.change.path)))
}

/// What is equal in the edits of a group: the kind of the edited object, the fields, and their values where a reader wants to see
/// each.
type EditKey<'d> = (CauseRole, ObjectChangeKind, &'d str, Vec<(&'d str, String)>);

fn edit_key(cause: &ChangeCause) -> EditKey<'_> {
    let source = cause.sources.first().map_or("", String::as_str);
    let kind = cause.object.as_ref().map_or(source, |object| object.kind.as_str());
    let decides = matches!(cause.role, CauseRole::Policy | CauseRole::Override);
    let fields = cause.fields.iter().map(|field| {
        let PathChange { path, from, to } = &field.change;
        let values = if decides { json!([from, to]).to_string() } else { String::new() };
        (path.as_str(), values)
    });
    (cause.role, cause.kind, kind, fields.collect())
}

/// Whether the edit is one of those that a repo has many of.
fn can_be_folded(cause: &ChangeCause) -> bool {
    match cause.role {
        CauseRole::Template | CauseRole::Bundle | CauseRole::Cluster => true,
        // A reader wants to see each value.
        CauseRole::Source => cause.object.is_some() || cause.fields.is_empty(),
        // What is added or removed as a whole decides something else each time.
        CauseRole::Policy | CauseRole::Override => cause.kind == ObjectChangeKind::Changed,
        CauseRole::Other | CauseRole::Configuration => false,
    }
}

impl<'d> EditGroup<'d> {
    fn new(cause: &'d ChangeCause) -> Self {
        Self { causes: vec![cause], moves: cause.moves, manifests: cause.manifests, is_equal: true }
    }

    fn add_cause(&mut self, cause: &'d ChangeCause) {
        self.is_equal = self.is_equal
            && self.causes.first().is_some_and(|first| {
                first
                    .fields
                    .iter()
                    .map(|field| &field.change)
                    .eq(cause.fields.iter().map(|field| &field.change))
            });
        self.causes.push(cause);
        self.moves += cause.moves;
        self.manifests += cause.manifests;
    }

    /// The edited objects; empty for the configuration file.
    pub(crate) fn edited_objects(&self) -> Vec<&'d ObjectRef> {
        self.causes.iter().filter_map(|cause| cause.object.as_ref()).collect()
    }

    /// The first edit, which stands for all.
    pub(crate) fn first_cause(&self) -> Option<&'d ChangeCause> {
        self.causes.first().copied()
    }

    /// The changed fields with their values and lines. The values of edits that differ are shown where manifests are.
    pub(crate) fn edited_fields(&self) -> Vec<EditedField<'d>> {
        let fields = self.first_cause().map(|cause| cause.fields.as_slice()).unwrap_or_default();
        fields
            .iter()
            .map(|field| EditedField {
                path: self.format_path(&field.change.path),
                values: self.is_equal.then(|| format_values(&field.change)),
                line: field.line,
            })
            .collect()
    }

    /// The path of a field: in values, in the notation of Helm.
    fn format_path(&self, path: &'d str) -> Cow<'d, str> {
        let is_value =
            self.first_cause().is_some_and(|cause| cause.role == CauseRole::Source && cause.object.is_none());
        if is_value { dotted_path(path).into() } else { path.into() }
    }

    /// How many files are edited besides the first one, where they are no documents with objects.
    pub(crate) fn more_files(&self) -> usize {
        if self.edited_objects().is_empty() { self.causes.len() - 1 } else { 0 }
    }

    /// What they cause, in words.
    pub(crate) fn format_effect(&self) -> String {
        if let [cause] = self.causes.as_slice()
            && cause.role == CauseRole::Source
            && cause.manifests > 0
        {
            let moves = (cause.moves > 0).then(|| format!("{}, ", format_count(cause.moves, "placement")));
            return format!(
                "{}{} in {}",
                moves.unwrap_or_default(),
                format_count(cause.changed_objects, "object"),
                format_count(cause.changed_clusters, "cluster")
            );
        }
        let moves = (self.moves > 0).then(|| format_count(self.moves, "placement"));
        let manifests = (self.manifests > 0).then(|| format_count(self.manifests, "manifest"));
        moves.into_iter().chain(manifests).collect::<Vec<_>>().join(", ")
    }
}

/// A field that edits change.
pub(crate) struct EditedField<'d> {
    pub(crate) path: Cow<'d, str>,
    /// What it was and is; `None` if that differs between the edits.
    pub(crate) values: Option<(String, String)>,
    pub(crate) line: u32,
}

/// A path as Helm writes it for values: `image.tag`, with `\` before a dot in a key.
pub(super) fn dotted_path(path: &str) -> String {
    let mut out = String::new();
    let (mut in_brackets, mut in_quotes) = (false, false);
    let mut letters = path.strip_prefix('/').unwrap_or(path).chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if in_brackets => in_quotes = !in_quotes,
            '\\' if in_quotes => {
                out.push(letter);
                out.extend(letters.next());
                continue;
            }
            '[' if !in_quotes => in_brackets = true,
            ']' if !in_quotes => in_brackets = false,
            _ => {}
        }
        match letter {
            _ if in_brackets => out.push(letter),
            '/' => out.push('.'),
            '.' => out.push_str("\\."),
            '~' => match letters.next() {
                Some('0') => out.push('~'),
                Some('1') => out.push('/'),
                Some('2') => out.push('['),
                other => out.extend(std::iter::once('~').chain(other)),
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::dotted_path;

    #[test]
    fn paths_of_values_are_written_as_helm_writes_them() {
        for (path, dotted) in [
            ("/image/tag", "image.tag"),
            ("/env[name=LOG]/value", "env[name=LOG].value"),
            ("/list/0/a", "list.0.a"),
            ("/annotations/example.com~1a/b", "annotations.example\\.com/a.b"),
            ("/a[x=\"].y/z\"]/b", "a[x=\"].y/z\"].b"),
            ("", ""),
        ] {
            assert_eq!(dotted_path(path), dotted, "{path}");
        }
    }
}
