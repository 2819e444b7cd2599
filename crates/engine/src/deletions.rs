//! The guard of deletions: one rule for every end that replaces earlier output or prunes clusters.
//!
//! A mistake of one letter in a policy can empty every cluster. A run therefore may delete at most a share of the
//! objects, in total and of each cluster, unless a higher limit confirms it. Deleting everything at once is the sign of
//! a mistake, however few objects there are, so that only a limit of 100 % confirms that. A Sync has nobody who could confirm at
//! once, and of a few objects, one is a large share already: nothing but deleting all of them counts there.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use federate_dialect::{Placement, Plan};
use federate_kubernetes::ObjectRef;

/// How many clusters a message lists.
const MAX_CLUSTERS: usize = 10;
/// How many objects of a cluster a message names.
const MAX_OBJECTS: usize = 5;

/// The most objects of a set of which a Sync may delete all but one.
const MAX_SMALL_SET: usize = 5;

/// The largest share of objects that a run may delete, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PruneLimit {
    percent: u8,
    /// Whether a share of a few objects is never too much.
    spares_small_sets: bool,
}

impl Default for PruneLimit {
    fn default() -> Self {
        Self::new(30)
    }
}

impl PruneLimit {
    /// A limit in percent. 100 confirms every deletion.
    pub const fn new(percent: u8) -> Self {
        Self { percent, spares_small_sets: false }
    }

    /// The same limit for a Sync: of up to five objects, all but one may go.
    #[must_use]
    pub const fn for_sync(self) -> Self {
        Self { spares_small_sets: true, ..self }
    }

    /// The limit in percent.
    pub const fn percent(self) -> u8 {
        self.percent
    }

    /// Whether this many deletions from a cluster are more than the limit.
    pub fn is_exceeded(self, deleted: usize, before: usize) -> bool {
        self.is_everything(deleted, before)
            || (!self.is_small_set(before) && self.is_share_exceeded(deleted, before))
    }

    /// Whether this many are more than the limit, however few there are.
    pub fn is_share_exceeded(self, deleted: usize, before: usize) -> bool {
        self.is_everything(deleted, before)
            || deleted.saturating_mul(100) > before.saturating_mul(usize::from(self.percent))
    }

    /// Whether all are deleted, and that is not confirmed.
    fn is_everything(self, deleted: usize, before: usize) -> bool {
        deleted > 0 && deleted == before && self.percent < 100
    }

    /// Whether a share of so few objects says nothing. A limit of 0 allows no deletion at all.
    fn is_small_set(self, before: usize) -> bool {
        self.spares_small_sets && self.percent > 0 && before <= MAX_SMALL_SET
    }
}

/// The objects that a run deletes from one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDeletions {
    /// The cluster.
    pub cluster: String,
    /// The deleted objects by name, sorted.
    pub deleted: Vec<String>,
    /// The number of objects before.
    pub before: usize,
    /// The number of objects after.
    pub after: usize,
}

impl ClusterDeletions {
    /// The entry of a cluster, which is made where it is missing.
    fn find_or_insert<'m, 'c>(entries: &'m mut BTreeMap<&'c str, Self>, cluster: &'c str) -> &'m mut Self {
        entries.entry(cluster).or_insert_with(|| Self {
            cluster: cluster.to_owned(),
            deleted: Vec::new(),
            before: 0,
            after: 0,
        })
    }

    /// Whether the cluster is left without objects.
    pub fn is_emptied(&self) -> bool {
        self.before > 0 && self.after == 0
    }

    /// Whether the cluster keeps none of its objects.
    fn loses_everything(&self) -> bool {
        self.before > 0 && self.deleted.len() == self.before
    }
}

/// The objects that a run deletes.
#[derive(Clone, Debug, Default)]
pub struct Deletions {
    clusters: Vec<ClusterDeletions>,
}

impl FromIterator<ClusterDeletions> for Deletions {
    fn from_iter<I: IntoIterator<Item = ClusterDeletions>>(clusters: I) -> Self {
        Self { clusters: clusters.into_iter().collect() }
    }
}

impl Deletions {
    /// The objects of an earlier plan that a later one no longer places, by cluster. The version of an object's API does
    /// not matter.
    pub fn compare_plans(earlier: &Plan, later: &Plan) -> Self {
        Self::compare_existing(earlier, later, |_, _| true)
    }

    /// The same of the objects that exist in a cluster.
    pub fn compare_existing(earlier: &Plan, later: &Plan, exists: impl Fn(&str, &ObjectRef) -> bool) -> Self {
        let [before, after] = [earlier, later].map(group_rows);
        let mut clusters: BTreeMap<&str, ClusterDeletions> = BTreeMap::new();
        for (object, rows) in &before {
            let kept = after.get(object).map_or(&[][..], Vec::as_slice);
            for cluster in list_clusters(rows, &exists) {
                let entry = ClusterDeletions::find_or_insert(&mut clusters, cluster);
                entry.before += 1;
                if !kept.iter().any(|row| row.clusters.contains_cluster(cluster)) {
                    entry.deleted.push(object.to_string());
                }
            }
        }
        // Clusters that only the later plan has count, too: what moves there is still rendered.
        for cluster in after.values().flat_map(|rows| list_clusters(rows, &|_, _| true)) {
            ClusterDeletions::find_or_insert(&mut clusters, cluster).after += 1;
        }
        clusters.into_values().collect()
    }

    /// The number of objects before.
    pub fn count_before(&self) -> usize {
        self.clusters.iter().map(|cluster| cluster.before).sum()
    }

    /// The clusters from which objects are deleted.
    pub fn losing_clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.iter().filter(|one| !one.deleted.is_empty()).map(|one| one.cluster.as_str())
    }

    /// What exceeds the limit, if anything does. `guards` says whether the loss of a cluster counts by itself.
    pub fn check_limit(self, limit: PruneLimit, guards: impl Fn(&str) -> bool) -> Option<ExcessiveDeletions> {
        let before = self.count_before();
        let deleted: usize = self.clusters.iter().map(|cluster| cluster.deleted.len()).sum();
        let in_total = limit.is_share_exceeded(deleted, before);
        // An object counts once for each of its clusters: where no cluster has more than a few, there are only a few.
        let is_small = self.clusters.iter().all(|cluster| limit.is_small_set(cluster.before));
        let too_many = limit.is_everything(deleted, before) || (in_total && !is_small);
        let is_empty = self.clusters.iter().all(|cluster| cluster.after == 0);
        let mut clusters = self.clusters;
        clusters.retain(|cluster| !cluster.deleted.is_empty());
        let exceeds = |cluster: &ClusterDeletions| {
            guards(&cluster.cluster) && limit.is_exceeded(cluster.deleted.len(), cluster.before)
        };
        if !too_many && !clusters.iter().any(exceeds) {
            return None;
        }
        // The worst come first: a list that is cut must not hide them.
        clusters.sort_by_key(|cluster| (!cluster.is_emptied(), !exceeds(cluster)));
        Some(ExcessiveDeletions { limit: limit.percent(), deleted, before, in_total, is_empty, clusters })
    }
}

/// An object, whatever its version.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnversionedObject<'p> {
    group: &'p str,
    kind: &'p str,
    namespace: Option<&'p str>,
    name: &'p str,
}

impl fmt::Display for UnversionedObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match self.namespace {
            Some(namespace) => write!(f, " {namespace}/{}", self.name),
            None => write!(f, " {}", self.name),
        }
    }
}

/// The rows of a plan by their objects: mostly one row each.
fn group_rows(plan: &Plan) -> BTreeMap<UnversionedObject<'_>, Vec<&Placement>> {
    let mut rows: BTreeMap<UnversionedObject<'_>, Vec<&Placement>> = BTreeMap::new();
    for row in &plan.placements {
        let ObjectRef { kind, namespace, name, .. } = &row.object;
        let group = row.object.group();
        let object = UnversionedObject { group, kind, namespace: namespace.as_deref(), name };
        rows.entry(object).or_default().push(row);
    }
    rows
}

/// The clusters of the rows of an object in which it exists, each once.
fn list_clusters<'p>(rows: &[&'p Placement], exists: &dyn Fn(&str, &ObjectRef) -> bool) -> Vec<&'p str> {
    let placed = rows.iter().flat_map(|row| row.clusters.iter().map(move |placed| (row, placed)));
    let existing = placed.filter(|(row, placed)| exists(&placed.name, &row.object));
    let mut clusters: Vec<&str> = existing.map(|(_, placed)| &*placed.name).collect();
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

/// More deletions than the limit allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExcessiveDeletions {
    /// The limit in percent.
    pub limit: u8,
    /// The number of deleted objects in all clusters.
    pub deleted: usize,
    /// The number of objects before in all clusters.
    pub before: usize,
    /// Whether the deletions in total exceed the limit, and not only those of a cluster.
    #[serde(skip)]
    in_total: bool,
    /// Whether nothing is left in any cluster.
    #[serde(skip)]
    is_empty: bool,
    /// The clusters that lose objects; those that lose everything, and those beyond the limit, come first.
    pub clusters: Vec<ClusterDeletions>,
}

impl ExcessiveDeletions {
    /// Whether a cluster, or everything, is left without objects.
    pub fn empties_a_cluster(&self) -> bool {
        self.clusters.first().is_some_and(ClusterDeletions::is_emptied)
    }

    /// The deleted objects, by cluster and name; long lists are cut.
    pub fn list_objects(&self) -> String {
        let mut text = String::new();
        for cluster in self.clusters.iter().take(MAX_CLUSTERS) {
            let (name, deleted) = (&cluster.cluster, cluster.deleted.len());
            text += &if cluster.loses_everything() {
                format!("  cluster {name} would lose {}:\n", all_of(deleted))
            } else {
                format!("  cluster {name} would lose {deleted} of its {} objects:\n", cluster.before)
            };
            for object in cluster.deleted.iter().take(MAX_OBJECTS) {
                text += &format!("    {object}\n");
            }
            if let Some(more) = deleted.checked_sub(MAX_OBJECTS).filter(|more| *more > 0) {
                text += &format!("    and {more} more\n");
            }
        }
        if let Some(more) = self.clusters.len().checked_sub(MAX_CLUSTERS).filter(|more| *more > 0) {
            text += &format!("  and {}\n", federate_kubernetes::finding::format_count(more, "more cluster"));
        }
        text
    }
}

/// The first sentence of a refusal: how much would go, and from where. One line, without the remedy, which depends on
/// the command.
impl fmt::Display for ExcessiveDeletions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, deleted, before, in_total, is_empty, clusters } = self;
        if *is_empty {
            let objects = if *before == 1 { "1 object was" } else { &format!("{before} objects were") };
            return write!(f, "nothing is rendered any more, but {objects}");
        }
        let emptied: Vec<&ClusterDeletions> = clusters.iter().filter(|one| one.loses_everything()).collect();
        let names: Vec<&str> = emptied.iter().map(|one| one.cluster.as_str()).collect();
        // The share of all objects is no reason where it is within the limit.
        if names.len() > 1 && !in_total {
            let listed = federate_kubernetes::finding::join_names(&names, MAX_CLUSTERS);
            let count = names.len();
            return write!(
                f,
                "{count} clusters would lose everything ({listed}): {deleted} of the {before} objects would go"
            );
        }
        match (clusters.first(), emptied.as_slice()) {
            (_, [one]) if !in_total => {
                write!(f, "cluster {} would lose {}", one.cluster, all_of(one.before))?;
            }
            (Some(one), []) if !in_total => {
                let (gone, all) = (one.deleted.len(), one.before);
                write!(f, "{gone} of the {all} objects of cluster {} would go", one.cluster)?;
            }
            _ => write!(f, "{deleted} of the {before} objects would go")?,
        }
        write!(f, ", and more than {limit} % at once may be a mistake")?;
        match names.as_slice() {
            [] => Ok(()),
            [_] if !in_total => Ok(()),
            [name] => write!(f, "; cluster {name} would lose everything"),
            names => {
                let names = federate_kubernetes::finding::join_names(names, MAX_CLUSTERS);
                write!(f, "; clusters {names} would lose everything")
            }
        }
    }
}

fn all_of(objects: usize) -> String {
    match objects {
        1 => "its only object".to_owned(),
        _ => format!("all of its {objects} objects"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A plan with so many objects in each cluster.
    fn plan(version: &str, counts: &[(&str, usize)]) -> Plan {
        let row = |name: &str, at: usize| {
            json!({"object": {"apiVersion": version, "kind": "Widget", "namespace": "a", "name": format!("{name}-{at}")},
                "clusters": [{"name": name}]})
        };
        let rows: Vec<_> = counts
            .iter()
            .flat_map(|(name, count)| (0..*count).map(|at| row(name, at)).collect::<Vec<_>>())
            .collect();
        serde_json::from_value(json!({"placements": rows})).unwrap()
    }

    fn refused(earlier: &[(&str, usize)], later: &[(&str, usize)], limit: u8) -> Option<String> {
        let deletions = Deletions::compare_plans(&plan("x.io/v1", earlier), &plan("x.io/v2", later));
        deletions.check_limit(PruneLimit::new(limit), |_| true).map(|excess| excess.to_string())
    }

    #[test]
    fn a_share_or_everything_is_too_much() {
        let limit = PruneLimit::default();
        for (deleted, before, exceeded, by_a_sync) in [
            (0, 0, false, false),
            (0, 9, false, false),
            (3, 10, false, false),
            (4, 10, true, true),
            (1, 1, true, true),
            (1, 3, true, false),
            (1, 4, false, false),
            (4, 5, true, false),
            (5, 5, true, true),
            (2, 6, true, true),
        ] {
            assert_eq!(limit.is_exceeded(deleted, before), exceeded, "{deleted} of {before}");
            assert_eq!(limit.for_sync().is_exceeded(deleted, before), by_a_sync, "{deleted} of {before}");
        }
        assert!(PruneLimit::new(99).is_exceeded(1, 1) && !PruneLimit::new(100).is_exceeded(1, 1));
        assert!(PruneLimit::new(0).is_exceeded(1, 1000) && PruneLimit::new(0).for_sync().is_exceeded(1, 3));
        assert!(limit.is_share_exceeded(1, 3) && !limit.is_share_exceeded(1, 4));
    }

    #[test]
    fn of_a_few_objects_of_a_sync_all_but_one_may_go() {
        let refused = |earlier: &[(&str, usize)], later: &[(&str, usize)]| {
            let deletions = Deletions::compare_plans(&plan("v1", earlier), &plan("v1", later));
            let excess = deletions.check_limit(PruneLimit::default().for_sync(), |_| true);
            excess.map(|excess| excess.to_string())
        };
        assert_eq!(refused(&[("m1", 5), ("m2", 3)], &[("m1", 1), ("m2", 1)]), None);
        let emptied = refused(&[("m1", 5), ("m2", 3)], &[("m1", 5)]).unwrap();
        assert!(emptied.ends_with("; cluster m2 would lose everything"), "{emptied}");
        let many = refused(&[("m1", 6), ("m2", 3)], &[("m1", 4), ("m2", 1)]).unwrap();
        assert!(many.starts_with("4 of the 9 objects would go"), "{many}");
    }

    #[test]
    fn the_message_names_the_clusters_that_lose_everything() {
        assert_eq!(refused(&[("m1", 10), ("m2", 10)], &[("m1", 7), ("m2", 7)], 30), None);
        for (earlier, later, message) in [
            (vec![("m1", 2), ("m2", 1)], vec![], "nothing is rendered any more, but 3 objects were"),
            (
                vec![("m1", 2), ("m2", 1)],
                vec![("m3", 3)],
                "3 of the 3 objects would go, and more than 30 % at once may be a mistake; clusters m1, m2 would lose everything",
            ),
            (
                vec![("m1", 10), ("m2", 1)],
                vec![("m1", 10)],
                "cluster m2 would lose its only object, and more than 30 % at once may be a mistake",
            ),
            (
                vec![("m1", 10), ("m2", 5)],
                vec![("m1", 10)],
                "5 of the 15 objects would go, and more than 30 % at once may be a mistake; cluster m2 would lose everything",
            ),
            (
                vec![("m1", 10), ("m2", 90)],
                vec![("m1", 6), ("m2", 90)],
                "4 of the 10 objects of cluster m1 would go, and more than 30 % at once may be a mistake",
            ),
            (
                vec![("m1", 8), ("m2", 1), ("m3", 1)],
                vec![("m1", 8)],
                "2 clusters would lose everything (m2, m3): 2 of the 10 objects would go",
            ),
            // A small share in total is not said to be a large one.
            (
                vec![("m1", 2), ("m2", 2), ("m3", 96)],
                vec![("m3", 96)],
                "2 clusters would lose everything (m1, m2): 4 of the 100 objects would go",
            ),
        ] {
            assert_eq!(refused(&earlier, &later, 30).as_deref(), Some(message));
        }
    }

    #[test]
    fn a_new_version_of_an_api_deletes_nothing() {
        assert_eq!(refused(&[("m1", 3)], &[("m1", 3)], 0), None);
    }

    #[test]
    fn long_lists_are_cut_after_the_worst() {
        let mut earlier: Vec<(String, usize)> = (10..30).map(|at| (format!("m{at}"), 8)).collect();
        let later = earlier[..19].to_vec();
        earlier[0].1 = 9;
        let borrow = |rows: &[(String, usize)]| {
            plan("v1", &rows.iter().map(|(n, c)| (n.as_str(), *c)).collect::<Vec<_>>())
        };
        let excess = Deletions::compare_plans(&borrow(&earlier), &borrow(&later));
        let excess = excess.check_limit(PruneLimit::default(), |_| true).unwrap();
        assert!(excess.empties_a_cluster());
        let list = excess.list_objects();
        assert!(
            list.starts_with("  cluster m29 would lose all of its 8 objects:\n    Widget a/m29-0\n"),
            "{list}"
        );
        assert!(list.contains("    and 3 more\n  cluster m10 would lose 1 of its 9 objects:\n"), "{list}");
    }
}
