//! A migration: the edits of the repo's files, and what became of each object.

use std::sync::Arc;

use federate_kubernetes::{ObjectRef, Origin};

use crate::Reason;

/// What a repo is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Karmada.
    Karmada,
    /// KubeFleet, and Azure Kubernetes Fleet Manager.
    KubeFleet,
    /// KubeAdmiral.
    KubeAdmiral,
    /// No control plane: overlays per cluster.
    Plain,
}

impl Target {
    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Karmada => "Karmada",
            Self::KubeFleet => "KubeFleet",
            Self::KubeAdmiral => "KubeAdmiral",
            Self::Plain => "no control plane",
        }
    }
}

/// How rules are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Rules as rules.
    #[default]
    Idiomatic,
    /// Each object exactly as it is placed now.
    Freeze,
}

/// A repo for another control plane, as edits of the old one.
#[derive(Clone, Debug, Default)]
pub struct Migration {
    /// At most one per path, sorted by path.
    pub edits: Vec<FileEdit>,
    /// Every object that the old or the new side places, sorted by its old name.
    pub objects: Vec<MigratedObject>,
    /// What concerns the repo as a whole, such as the registration of clusters.
    pub unequal: Vec<UnequalRule>,
}

/// A file that is written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    /// The path below the repo's root, with `/`.
    pub path: Arc<str>,
    /// The new content; `None` if the file is deleted.
    pub content: Option<Arc<[u8]>>,
}

/// An object on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratedObject {
    /// As members have it by the old control plane. Both sides have the same name, except where a control plane renames.
    pub old: ObjectRef,
    /// As members have it by the new control plane; `None` if the new side cannot place it.
    pub new: Option<ObjectRef>,
    /// The rules about it that the new control plane does not have; empty if all of them have an equal.
    pub unequal: Vec<UnequalRule>,
}

/// A rule that the new control plane does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnequalRule {
    /// The reason, out of the closed list.
    pub reason: Reason,
    /// What is unequal here, with the values: `minReplicas: 2 of cluster a`.
    pub detail: String,
    /// The rule's file and line, if it stands in one.
    pub origin: Option<Origin>,
    /// The field of the object there, as a JSON pointer.
    pub pointer: String,
}
