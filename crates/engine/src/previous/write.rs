//! Writes plans as YAML.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, Write};

use federate_kubernetes::hex::to_hex;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{ClusterLists, clusters};
use federate_dialect::plan::{API_VERSION, CLUSTER_LISTS};
use federate_dialect::{PlacedClusters, Placement, Plan, SharedLists};

/// The shortest cluster list that rows share by name. Shorter lists are written in every row, where they are easier
/// to read.
const MIN_SHARED_CLUSTERS: usize = 8;

/// The key of the releases of the control planes.
pub(super) const VERSIONS_KEY: &str = "versions";

/// The number of rows that are held in memory as text at a time.
const ROWS_PER_CHUNK: usize = 2048;

/// The first lines of every plan.
pub(super) fn plan_header() -> String {
    format!("apiVersion: {API_VERSION}\nkind: Plan\n")
}

/// A plan as YAML, for storage: sorted, with one value per line, so that merges stay local. Long cluster lists that
/// several rows share are written once.
pub fn serialize_plan(plan: &Plan) -> String {
    let mut text = String::new();
    let names = ListNames::new(&plan.placements);
    let Ok(()) = write_chunks(plan, &names, |chunk| -> Result<(), std::convert::Infallible> {
        text.push_str(chunk);
        Ok(())
    });
    text
}

/// Writes a plan with the full cluster list in every row, for readers that do not resolve named lists.
pub fn write_plan_in_full(plan: &Plan, out: &mut dyn io::Write) -> io::Result<()> {
    write_chunks(plan, &ListNames::default(), |chunk| out.write_all(chunk.as_bytes()))
}

/// Writes a plan as indented JSON.
pub fn write_plan_json(plan: &Plan, out: &mut dyn io::Write) -> io::Result<()> {
    // Each quote and comma is a write.
    let mut buffer = io::BufWriter::new(out);
    serde_json::to_writer_pretty(&mut buffer, plan).map_err(io::Error::from)?;
    buffer.write_all(b"\n")?;
    buffer.flush()
}

/// Passes the text to `out`, chunk by chunk.
fn write_chunks<E>(
    plan: &Plan,
    names: &ListNames,
    mut out: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    out(&plan_header())?;
    if !plan.versions.is_empty() {
        let mut text = String::new();
        federate_yaml::write_document(&serde_json::json!({VERSIONS_KEY: plan.versions}), &mut text);
        out(&text)?;
    }
    write_list("placements", &plan.placements, |placement| write_row(placement, names), &mut out)?;
    write_list("unmatched", &plan.unmatched, write_item, &mut out)?;
    if !names.lists.is_empty() {
        out(&format!("{CLUSTER_LISTS}:\n"))?;
    }
    for (name, list) in &names.lists {
        out(&format!("  {name}:\n"))?;
        out(&clusters::write_lines(list).unwrap_or_default())?;
    }
    if !plan.shared.is_empty() {
        let mut text = String::new();
        federate_yaml::write_document(&serde_json::json!({"shared": plan.shared}), &mut text);
        out(&text)?;
    }
    Ok(())
}

/// Writes one key with a list.
fn write_list<T: Sync, E>(
    key: &str,
    items: &[T],
    item: impl Fn(&T) -> String + Send + Sync,
    out: &mut impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    if items.is_empty() {
        return out(&format!("{key}: []\n"));
    }
    out(&format!("{key}:\n"))?;
    for items in items.chunks(ROWS_PER_CHUNK) {
        let written: Vec<String> = items.par_iter().map(&item).collect();
        written.iter().try_for_each(|item| out(item))?;
    }
    Ok(())
}

/// Returns the text of one item of a list.
fn write_item<T: serde::Serialize>(item: &T) -> String {
    let value = serde_json::Value::Array(vec![serde_json::to_value(item).unwrap_or_default()]);
    let mut text = String::new();
    federate_yaml::write_document(&value, &mut text);
    text
}

/// Returns the text of a placement. Its clusters replace the empty list in the text of the other fields.
fn write_row(placement: &Placement, names: &ListNames) -> String {
    let clusters = match names.name_of(&placement.clusters) {
        Some(name) => format!("  clusters: {name}\n"),
        None => match clusters::write_clusters(&placement.clusters) {
            Some(clusters) => clusters,
            None => return write_item(placement),
        },
    };
    let text = write_item(&Placement { clusters: PlacedClusters::default(), ..placement.clone() });
    match text.split_once("\n  clusters: []\n") {
        Some((before, after)) => format!("{before}\n{clusters}{after}"),
        None => write_item(placement),
    }
}

/// The cluster lists that are written once, with their names.
#[derive(Default)]
struct ListNames {
    lists: ClusterLists,
    /// The name of each list and of its equal copies, by address.
    by_address: BTreeMap<usize, String>,
}

impl ListNames {
    fn new(rows: &[Placement]) -> Self {
        let equal = SharedLists::default();
        let mut uses: BTreeMap<usize, (PlacedClusters, Vec<usize>, usize)> = BTreeMap::new();
        for clusters in rows.iter().map(|row| &row.clusters).filter(|list| list.len() >= MIN_SHARED_CLUSTERS)
        {
            let list = equal.share_placed(clusters);
            let (_, addresses, count) = uses.entry(list_address(&list)).or_insert((list, Vec::new(), 0));
            if addresses.last() != Some(&list_address(clusters)) {
                addresses.push(list_address(clusters));
            }
            *count += 1;
        }
        let mut names = Self::default();
        for (list, addresses, count) in uses.into_values() {
            let Some(lines) = clusters::write_lines(&list).filter(|_| count > 1) else { continue };
            let digest = to_hex(&Sha256::digest(lines)[..8]);
            let name = format!("{}-clusters-{digest}", list.len());
            // If the digests of two lists collide, the second list is written in its rows.
            if let Entry::Vacant(entry) = names.lists.entry(name) {
                names.by_address.extend(addresses.into_iter().map(|address| (address, entry.key().clone())));
                entry.insert(list);
            }
        }
        names
    }

    fn name_of(&self, clusters: &PlacedClusters) -> Option<&str> {
        self.by_address.get(&list_address(clusters)).map(String::as_str)
    }
}

/// The address of a list. Shared lists have the same address.
fn list_address(clusters: &PlacedClusters) -> usize {
    clusters.as_ptr() as usize
}
