//! What matters about a diff: which objects run nowhere, do not fit, are deleted, move or restart. Tables, comments and JSON
//! count by these rules.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::destinations::count_destinations;
use super::{format_setting_count, placement_word};
use crate::escape::escape_prose;
use crate::table::{count_with_verb, format_count};
use federate_engine::capacity::CapacityChanges;
use federate_engine::change::{
    ClusterShare, ObjectChangeKind, PlacementChange, PlacementChangeKind, RenderingChanges,
};
use federate_kubernetes::{ClusterName, ObjectRef};

/// What matters about a diff.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeVerdict {
    /// One sentence, the worst first.
    pub sentence: String,
    /// How many objects have each flag, and what they amount to.
    pub counts: VerdictCounts,
    /// The objects with their flags, sorted by object.
    pub objects: Vec<ObjectVerdict>,
}

/// The numbers of a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerdictCounts {
    /// The objects of the repo that are on no cluster, because of the change.
    pub runs_nowhere: usize,
    /// The objects of the repo whose policy does not select them any more.
    pub loses_policy: usize,
    /// The objects for which there is not enough room.
    pub does_not_fit: usize,
    /// The manifests that are deleted, one per object and cluster.
    pub deleted_manifests: usize,
    /// The clusters from which manifests are deleted.
    pub deleted_from_clusters: usize,
    /// The objects that move between clusters.
    pub moves: usize,
    /// The replicas that clusters gain and others lose.
    pub moved_replicas: i64,
    /// The workloads whose pods restart.
    pub restarts: usize,
    /// Their pods, as far as their number is known.
    pub restarted_pods: i64,
    /// The objects whose replicas change.
    pub scaled: usize,
    /// The objects that are new on clusters.
    pub added: usize,
    /// The objects of which fields change, besides replicas.
    pub fields: usize,
    /// The settings that change and act on more than what is rendered.
    pub settings: usize,
}

/// An object with what happens to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectVerdict {
    /// The object.
    pub object: ObjectRef,
    /// What happens to it, the worst first.
    pub flags: BTreeSet<VerdictFlag>,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum VerdictFlag {
    /// It is in the repo, and on no cluster.
    RunsNowhere,
    /// Its policy does not select it any more.
    LosesPolicy,
    /// There is not enough room for it.
    DoesNotFit,
    /// Clusters lose it.
    Deleted,
    /// It moves between clusters.
    Moves,
    /// Its pods restart.
    Restarts,
    /// Its replicas change.
    Scaled,
    /// It is new on clusters.
    Added,
    /// Fields of it change.
    Fields,
}

/// The words for a flag, which all reports use.
pub(crate) struct FlagTerms {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// A sign for it.
    pub(crate) sign: &'static str,
    /// What happens to one object, and to several.
    pub(crate) words: [&'static str; 2],
    /// What a number of such objects is called.
    pub(crate) label: &'static str,
}

impl VerdictFlag {
    /// The words for it.
    pub(crate) const fn terms(self) -> FlagTerms {
        let (name, sign, words, label) = match self {
            Self::RunsNowhere => ("runsNowhere", "✕", ["runs nowhere", "run nowhere"], "Run nowhere"),
            Self::LosesPolicy => {
                ("losesPolicy", "§", ["loses its policy", "lose their policy"], "Lose their policy")
            }
            Self::DoesNotFit => ("doesNotFit", "!", ["does not fit", "do not fit"], "Do not fit"),
            Self::Deleted => ("deleted", "−", ["is deleted", "are deleted"], "Deleted"),
            Self::Moves => ("moves", "⇄", ["moves", "move"], "Move"),
            Self::Restarts => ("restarts", "↻", ["restarts", "restart"], "Restart"),
            Self::Scaled => ("scaled", "↕", ["is scaled", "are scaled"], "Scaled"),
            Self::Added => ("added", "+", ["is new on clusters", "are new on clusters"], "New"),
            Self::Fields => ("fields", "≠", ["changes in fields", "change in fields"], "Fields"),
        };
        FlagTerms { name, sign, words, label }
    }
}

impl ChangeVerdict {
    /// Judges changes, given the free resources of clusters as far as they are known.
    pub(super) fn new(changes: &RenderingChanges, capacity: &CapacityChanges) -> Self {
        let mut flags: BTreeMap<&ObjectRef, BTreeSet<VerdictFlag>> = BTreeMap::new();
        let mut counts = VerdictCounts::default();
        let full: BTreeSet<&str> = capacity
            .iter()
            .filter(|(_, resources)| {
                resources.values().any(federate_engine::capacity::ResourceChange::is_exceeded)
            })
            .map(|(cluster, _)| cluster.as_str())
            .collect();
        let mut moved: BTreeSet<&ObjectRef> = BTreeSet::new();
        for change in &changes.placements {
            if is_moved(change) {
                moved.insert(&change.object);
            }
            let flags = flags.entry(&change.object).or_default();
            flags.extend(placement_flags(change));
            let mut gaining =
                change.clusters.iter().filter(|shift| count_replicas(shift.to) > count_replicas(shift.from));
            if gaining.any(|shift| full.contains(&*shift.name)) {
                flags.insert(VerdictFlag::DoesNotFit);
            }
            counts.moved_replicas += change.moved_replicas();
        }
        let mut losing: BTreeSet<&ClusterName> = BTreeSet::new();
        for change in &changes.objects {
            let flags = flags.entry(&change.object).or_default();
            match change.kind {
                ObjectChangeKind::Removed => {
                    flags.insert(VerdictFlag::Deleted);
                    counts.deleted_manifests += change.clusters.len();
                    losing.extend(&change.clusters);
                }
                // What moves has new manifests, and is not new.
                ObjectChangeKind::Added if moved.contains(&change.object) => {}
                ObjectChangeKind::Added => {
                    flags.insert(VerdictFlag::Added);
                }
                ObjectChangeKind::Changed => {
                    if change.paths.is_empty()
                        || change.paths.iter().any(|path| change.replicas_at.as_ref() != Some(&path.path))
                    {
                        flags.insert(VerdictFlag::Fields);
                    }
                }
            }
            if change.restarts_pods {
                flags.insert(VerdictFlag::Restarts);
                counts.restarted_pods += change.pods.unwrap_or(0);
            }
        }
        for object in &changes.unmatched.added {
            flags.entry(object).or_default().insert(VerdictFlag::RunsNowhere);
        }
        for lost in &changes.lost_policies {
            let flags = flags.entry(&lost.object).or_default();
            flags.remove(&VerdictFlag::DoesNotFit);
            flags.insert(VerdictFlag::LosesPolicy);
        }
        counts.settings = changes.settings.len();
        counts.deleted_from_clusters = losing.len();
        flags.retain(|_, flags| !flags.is_empty());
        for flag in flags.values().flatten() {
            counts.count_object(*flag);
        }
        let objects = flags
            .into_iter()
            .map(|(object, flags)| ObjectVerdict { object: object.clone(), flags })
            .collect();
        let sentence = join_sentence(&counts.format_parts(count_destinations(changes)));
        Self { sentence, counts, objects }
    }

    /// Adds a flag to an object; the sentence stays as it is.
    pub(crate) fn add_object(&mut self, object: &ObjectRef, flag: VerdictFlag) {
        self.counts.count_object(flag);
        match self.objects.binary_search_by(|one| one.object.cmp(object)) {
            Ok(at) => {
                self.objects.get_mut(at).map(|one| one.flags.insert(flag));
            }
            Err(at) => {
                let flags = BTreeSet::from([flag]);
                self.objects.insert(at, ObjectVerdict { object: object.clone(), flags });
            }
        }
    }

    /// The worst of it in at most `most` characters, with the name of an object if it is the only one of its kind; `None` if nothing
    /// changes in any cluster.
    pub(super) fn format_title(&self, changes: &RenderingChanges, most: usize) -> Option<String> {
        let mut parts = self.counts.format_parts(count_destinations(changes)).into_iter();
        let worst = self.objects.iter().filter_map(|one| one.flags.first()).min();
        let named = worst.filter(|flag| **flag <= VerdictFlag::DoesNotFit).and_then(|flag| {
            let mut objects = self.with_flag(*flag);
            let (object, None) = (objects.next()?, objects.next()) else { return None };
            let named = format!("{} {}", escape_prose(&object.to_string()), flag.terms().words[0]);
            (named.chars().count() <= most).then_some(named)
        });
        let first = parts.next()?;
        let mut title = named.unwrap_or(first);
        for part in parts {
            if title.chars().count() + part.chars().count() + 2 > most {
                break;
            }
            title.push_str(", ");
            title.push_str(&part);
        }
        Some(title)
    }

    /// The objects with a flag.
    pub(crate) fn with_flag(&self, flag: VerdictFlag) -> impl Iterator<Item = &ObjectRef> {
        self.objects.iter().filter(move |one| one.flags.contains(&flag)).map(|one| &one.object)
    }
}

/// Whether an object that ran before runs elsewhere now, or with other replicas.
fn is_moved(change: &PlacementChange) -> bool {
    match change.kind {
        PlacementChangeKind::Moved => placement_word(change) == "moved" || !change.replicas.is_same(),
        PlacementChangeKind::Scaled => true,
        _ => false,
    }
}

/// What a change of a placement does to its object.
fn placement_flags(change: &PlacementChange) -> Option<VerdictFlag> {
    let is_unschedulable = change.unschedulable.to.is_some() && !change.unschedulable.is_same();
    match change.kind {
        _ if change.runs_nowhere => Some(VerdictFlag::RunsNowhere),
        _ if is_unschedulable => Some(VerdictFlag::DoesNotFit),
        PlacementChangeKind::Appeared => Some(VerdictFlag::Added),
        PlacementChangeKind::Moved | PlacementChangeKind::Scaled if placement_word(change) == "moved" => {
            Some(VerdictFlag::Moves)
        }
        PlacementChangeKind::Scaled => Some(VerdictFlag::Scaled),
        PlacementChangeKind::Moved if !change.replicas.is_same() => Some(VerdictFlag::Scaled),
        _ => None,
    }
}

/// The replicas of a share; 0 without one.
pub(super) fn count_replicas(share: Option<ClusterShare>) -> i64 {
    share.and_then(|share| share.replicas).unwrap_or(0)
}

/// A number of objects with what happens to them; `None` if there are none.
fn count_objects(number: usize, flag: VerdictFlag) -> Option<String> {
    (number > 0).then(|| count_with_verb(number, "object", flag.terms().words))
}

impl VerdictCounts {
    /// Counts an object with a flag. Of deletions, manifests are counted instead.
    fn count_object(&mut self, flag: VerdictFlag) {
        *match flag {
            VerdictFlag::RunsNowhere => &mut self.runs_nowhere,
            VerdictFlag::LosesPolicy => &mut self.loses_policy,
            VerdictFlag::DoesNotFit => &mut self.does_not_fit,
            VerdictFlag::Moves => &mut self.moves,
            VerdictFlag::Restarts => &mut self.restarts,
            VerdictFlag::Scaled => &mut self.scaled,
            VerdictFlag::Added => &mut self.added,
            VerdictFlag::Fields => &mut self.fields,
            VerdictFlag::Deleted => return,
        } += 1;
    }

    /// The numbers that matter, the worst first, with those of destinations.
    fn format_parts(&self, destinations: Option<String>) -> Vec<String> {
        let deleted = (self.deleted_manifests > 0).then(|| {
            format!(
                "{} deleted from {}",
                count_with_verb(self.deleted_manifests, "manifest", ["is", "are"]),
                format_count(self.deleted_from_clusters, "cluster")
            )
        });
        let pods = usize::try_from(self.restarted_pods).unwrap_or(0);
        let restarts = (self.restarts > 0).then(|| match pods {
            0 => format!("the pods of {} restart", format_count(self.restarts, "workload")),
            pods => {
                let verb = if pods == 1 { "restarts" } else { "restart" };
                let workloads = format_count(self.restarts, "workload");
                format!("{} of {workloads} {verb}", format_count(pods, "pod"))
            }
        });
        let parts = [
            count_objects(self.runs_nowhere, VerdictFlag::RunsNowhere),
            count_objects(self.loses_policy, VerdictFlag::LosesPolicy),
            count_objects(self.does_not_fit, VerdictFlag::DoesNotFit),
            (self.settings > 0).then(|| format_setting_count(self.settings)),
            destinations,
            deleted,
            count_objects(self.moves, VerdictFlag::Moves),
            restarts,
            count_objects(self.scaled, VerdictFlag::Scaled),
            count_objects(self.added, VerdictFlag::Added),
            count_objects(self.fields, VerdictFlag::Fields),
        ];
        parts.into_iter().flatten().collect()
    }
}

fn join_sentence(parts: &[String]) -> String {
    match parts.split_last() {
        None => "Nothing changes in any cluster.".to_owned(),
        Some((last, [])) => capitalize_first(&format!("{last}.")),
        Some((last, first)) => capitalize_first(&format!("{} and {last}.", first.join(", "))),
    }
}

fn capitalize_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().into_iter().flat_map(char::to_uppercase).chain(characters).collect()
}
