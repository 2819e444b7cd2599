//! Writing plans as YAML.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{ClusterLists, clusters};
use federate_dialect::plan::{API_VERSION, CLUSTER_LISTS};
use federate_dialect::{PlacedClusters, Placement, Plan, SharedLists};

/// Lists shorter than this stand in every row: they are read more easily there.
const SHARED_FROM: usize = 8;

/// The key of the releases that decided.
pub(super) const VERSIONS: &str = "versions";

/// Rows that are in memory as text at a time.
const ROWS: usize = 2048;

/// How every plan begins.
pub(super) fn head() -> String {
    format!("apiVersion: {API_VERSION}\nkind: Plan\n")
}

/// Writes a plan as it is kept: sorted, one line a fact, so that merges stay local. Long lists of clusters
/// that several rows have are written once.
pub fn write(plan: &Plan) -> String {
    let mut text = String::new();
    let names = Names::new(&plan.placements);
    let Ok(()) = pieces(plan, &names, |piece| -> Result<(), std::convert::Infallible> {
        text.push_str(piece);
        Ok(())
    });
    text
}

/// Writes a plan with the clusters of every row in the row, for readers that want no more than the rows.
pub fn write_in_full(plan: &Plan, out: &mut impl io::Write) -> io::Result<()> {
    pieces(plan, &Names::default(), |piece| out.write_all(piece.as_bytes()))
}

/// Gives the text piece by piece.
fn pieces<E>(plan: &Plan, names: &Names, mut out: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    out(&head())?;
    if !plan.versions.is_empty() {
        let mut text = String::new();
        federate_yaml::write(&serde_json::json!({VERSIONS: plan.versions}), &mut text);
        out(&text)?;
    }
    list("placements", &plan.placements, |placement| row(placement, names), &mut out)?;
    list("unmatched", &plan.unmatched, item, &mut out)?;
    if !names.lists.is_empty() {
        out(&format!("{CLUSTER_LISTS}:\n"))?;
    }
    for (name, list) in &names.lists {
        out(&format!("  {name}:\n"))?;
        out(&clusters::lines(list).unwrap_or_default())?;
    }
    if !plan.shared.is_empty() {
        let mut text = String::new();
        federate_yaml::write(&serde_json::json!({"shared": plan.shared}), &mut text);
        out(&text)?;
    }
    Ok(())
}

/// One key with a list.
fn list<T: Sync, E>(
    key: &str,
    items: &[T],
    item: impl Fn(&T) -> String + Send + Sync,
    out: &mut impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    if items.is_empty() {
        return out(&format!("{key}: []\n"));
    }
    out(&format!("{key}:\n"))?;
    for items in items.chunks(ROWS) {
        let written: Vec<String> = items.par_iter().map(&item).collect();
        written.iter().try_for_each(|item| out(item))?;
    }
    Ok(())
}

/// One item of a list.
fn item<T: serde::Serialize>(item: &T) -> String {
    let value = serde_json::Value::Array(vec![serde_json::to_value(item).unwrap_or_default()]);
    let mut text = String::new();
    federate_yaml::write(&value, &mut text);
    text
}

/// A placement: its clusters are put in where an empty list of them stands.
fn row(placement: &Placement, names: &Names) -> String {
    let clusters = match names.of(&placement.clusters) {
        Some(name) => format!("  clusters: {name}\n"),
        None => match clusters::write(&placement.clusters) {
            Some(clusters) => clusters,
            None => return item(placement),
        },
    };
    let text = item(&Placement { clusters: PlacedClusters::default(), ..placement.clone() });
    match text.split_once("\n  clusters: []\n") {
        Some((before, after)) => format!("{before}\n{clusters}{after}"),
        None => item(placement),
    }
}

/// The lists that are written once.
#[derive(Default)]
struct Names {
    lists: ClusterLists,
    /// The name of each list, and of every other that is equal, by where it lies.
    by_place: BTreeMap<usize, String>,
}

impl Names {
    fn new(rows: &[Placement]) -> Self {
        let equal = SharedLists::default();
        let mut uses: BTreeMap<usize, (PlacedClusters, Vec<usize>, usize)> = BTreeMap::new();
        for clusters in rows.iter().map(|row| &row.clusters).filter(|list| list.len() >= SHARED_FROM) {
            let list = equal.share_placed(clusters);
            let (_, places, times) = uses.entry(place(&list)).or_insert((list, Vec::new(), 0));
            if places.last() != Some(&place(clusters)) {
                places.push(place(clusters));
            }
            *times += 1;
        }
        let mut names = Self::default();
        for (list, places, times) in uses.into_values() {
            let Some(lines) = clusters::lines(&list).filter(|_| times > 1) else { continue };
            let digest = Sha256::digest(lines);
            let digest =
                digest.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
            let name = format!("{}-clusters-{digest}", list.len());
            // Two lists of one name would be a collision of digests: the second stays in its rows.
            if let Entry::Vacant(entry) = names.lists.entry(name) {
                names.by_place.extend(places.into_iter().map(|place| (place, entry.key().clone())));
                entry.insert(list);
            }
        }
        names
    }

    fn of(&self, clusters: &PlacedClusters) -> Option<&str> {
        self.by_place.get(&place(clusters)).map(String::as_str)
    }
}

/// Where a list lies: lists at one place are one list.
fn place(clusters: &PlacedClusters) -> usize {
    clusters.as_ptr() as usize
}
