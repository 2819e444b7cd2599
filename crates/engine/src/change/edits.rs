//! The edits of a repo: the documents and files that differ between two revisions, with their fields.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::objects::ObjectChangeKind;
use super::{DigestKey, PathChange, diff_paths, find_pointer, secret};
use federate_kubernetes::{ClusterName, ObjectRef, Origin};
use federate_repo::Locator;

/// A document of the repo that differs, with what its edit changes in clusters.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeCause {
    /// The object that the document defines; left out for the configuration file, and for values and other files that a source
    /// is built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// What the document is to its dialect.
    pub role: CauseRole,
    /// Whether the document is new, differs, or is gone.
    pub kind: ObjectChangeKind,
    /// The path below the repo's root: on the later side, or on the earlier one if the document is gone.
    pub file: String,
    /// The line, from 1, of the first field that differs, or of the document; 0 if it is not known.
    pub line: u32,
    /// The fields that differ. Of a document that is new or gone, only those of values are here; of a file that is not a document,
    /// such as a template of a chart, there are none.
    pub fields: Vec<ChangedField>,
    /// The folders or packaged charts of the sources that are built from the file, sorted; only for the role `source`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The clusters for which these sources are built from it, sorted; left out if it is all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterName>,
    /// How many objects it places otherwise: on other clusters, or with other replicas.
    pub moves: usize,
    /// How many manifests it adds, changes or removes, one per object and cluster.
    pub manifests: usize,
    /// How many objects have these manifests.
    pub changed_objects: usize,
    /// How many clusters have these manifests.
    pub changed_clusters: usize,
}

impl ChangeCause {
    /// The edit of a file in which no field is known to differ.
    pub(super) fn in_file(role: CauseRole, file: &str) -> Self {
        Self {
            object: None,
            role,
            kind: ObjectChangeKind::Changed,
            file: file.to_owned(),
            line: 1,
            fields: Vec::new(),
            sources: Vec::new(),
            clusters: Vec::new(),
            moves: 0,
            manifests: 0,
            changed_objects: 0,
            changed_clusters: 0,
        }
    }

    /// Whether nothing in any cluster changes because of the edit.
    pub fn is_without_effect(&self) -> bool {
        self.moves == 0 && self.manifests == 0
    }
}

/// What a document is to its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CauseRole {
    /// Something that programs build objects from: values, a patch, an overlay, a template of a chart.
    Source,
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

/// The fields of a document that differ, with their lines.
pub(super) fn changed_fields(
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
