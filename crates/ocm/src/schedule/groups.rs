//! Decision groups, and the `PlacementDecision` objects that record them.
//!
//! Facts: declared groups take their clusters in order, each sorted by name and cut into pieces; the rest follows. Pieces
//! are numbered over all groups. A group is recorded in lists of at most 100 clusters.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use federate_kubernetes::{ClusterName, ObjectRef};

use crate::api::{GroupStrategy, PLACEMENT_VERSION};
use crate::fleet::Fleet;
use crate::selector::CompiledSelector;
use crate::state::{GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL};

/// The most clusters in one list of decisions.
const MAX_DECISIONS: usize = 100;

/// A group of selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionGroup {
    /// The name; empty for clusters of no declared group.
    pub name: String,
    /// Sorted by name.
    pub clusters: Vec<ClusterName>,
}

/// The groups of a placement.
pub(crate) struct Grouping {
    pub groups: Vec<DecisionGroup>,
    /// The hub's words for a mistake. The groups are those before it.
    pub mistake: Option<String>,
}

/// Groups the selected clusters, given by their indexes in the inventory.
pub(crate) fn group(fleet: &Fleet<'_>, strategy: &GroupStrategy, selected: Vec<usize>) -> Grouping {
    let mut rest: BTreeSet<usize> = selected.into_iter().collect();
    let mut groups = Vec::new();
    let failed = |groups, mistake| Grouping { groups, mistake: Some(mistake) };
    let size = match read_size(&strategy.size, rest.len()) {
        Ok(size) => size,
        Err(mistake) => return failed(groups, mistake),
    };
    for declared in &strategy.groups {
        let labels = CompiledSelector::compile(&declared.selector.labels);
        let claims = CompiledSelector::compile_requirements(&declared.selector.claims.match_expressions);
        let (labels, claims) = match (labels, claims) {
            (Ok(labels), Ok(claims)) => (labels, claims),
            (Err(mistake), _) | (_, Err(mistake)) => return failed(groups, mistake),
        };
        let is_in_group = |cluster: &usize| {
            let member = fleet.members.get(*cluster);
            member.is_some_and(|member| labels.matches(&member.labels) && claims.matches(member.claims()))
        };
        let taken: BTreeSet<usize> = rest.iter().copied().filter(is_in_group).collect();
        rest.retain(|cluster| !taken.contains(cluster));
        groups.extend(cut(fleet, &declared.name, taken, size));
    }
    groups.extend(cut(fleet, "", rest, size));
    if groups.is_empty() {
        groups.push(DecisionGroup::default());
    }
    Grouping { groups, mistake: None }
}

/// Cuts a group into pieces. Indexes of the inventory are in the order of names.
fn cut<'f>(
    fleet: &'f Fleet<'_>,
    name: &'f str,
    clusters: BTreeSet<usize>,
    size: usize,
) -> impl Iterator<Item = DecisionGroup> {
    let names: Vec<ClusterName> = clusters
        .into_iter()
        .filter_map(|cluster| Some(fleet.members.get(cluster)?.cluster.name.clone()))
        .collect();
    let pieces: Vec<DecisionGroup> = names
        .chunks(size.max(1))
        .map(|piece| DecisionGroup { name: name.to_owned(), clusters: piece.to_vec() })
        .collect();
    pieces.into_iter()
}

/// The largest size of a group, of so many clusters.
fn read_size(size: &Value, total: usize) -> Result<usize, String> {
    let number = match size {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
            let percent =
                percent.ok_or_else(|| format!("{text} invalid type: string is not a percentage"))?;
            let part = i128::from(percent) * i128::try_from(total).unwrap_or(i128::MAX >> 64);
            i64::try_from((part + 99).div_euclid(100)).unwrap_or(i64::MAX)
        }
        _ => 0,
    };
    Ok(usize::try_from(number).ok().filter(|number| (1..=total).contains(number)).unwrap_or(total))
}

/// A record of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRecord {
    /// The name of the `PlacementDecision`.
    pub name: String,
    /// The index of the group.
    pub group: usize,
    /// The name of the group.
    pub group_name: String,
    /// The clusters.
    pub clusters: Vec<ClusterName>,
}

/// The records of the groups of a placement.
pub(crate) fn record_decisions(placement: &str, groups: &[DecisionGroup]) -> Vec<DecisionRecord> {
    let mut records = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let lists: Vec<&[ClusterName]> = match group.clusters.as_slice() {
            [] => vec![&[]],
            clusters => clusters.chunks(MAX_DECISIONS).collect(),
        };
        for clusters in lists {
            records.push(DecisionRecord {
                name: format!("{placement}-decision-{}", records.len() + 1),
                group: index,
                group_name: group.name.clone(),
                clusters: clusters.to_vec(),
            });
        }
    }
    records
}

impl DecisionRecord {
    /// The `PlacementDecision` of a placement.
    pub(crate) fn manifest(&self, placement: &ObjectRef) -> Value {
        let decisions = self.clusters.iter().map(|name| json!({"clusterName": name, "reason": ""}));
        json!({
            "apiVersion": PLACEMENT_VERSION,
            "kind": "PlacementDecision",
            "metadata": {
                "name": self.name,
                "namespace": placement.namespace,
                "labels": {
                    GROUP_INDEX_LABEL: self.group.to_string(),
                    GROUP_NAME_LABEL: self.group_name,
                    PLACEMENT_LABEL: placement.name,
                },
            },
            "status": {"decisions": decisions.collect::<Vec<_>>()},
        })
    }
}
