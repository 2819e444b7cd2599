//! What the clusters of a placement are sent: what it selects, envelopes opened, sanitised, overridden.
//!
//! Facts: one object that cannot be rendered for a cluster keeps everything of the placement from it; an
//! envelope that holds what it must not, from all. Clusters that receive the same stand together.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::envelope::{self, Wrapped};
use super::overrides::{Changed, Changes, Overrides};
use super::selection::Selected;
use super::selection::sanitise::sanitised;
use crate::dialect::{Rendered, Variant, Withheld};
use crate::k8s::{Cluster, ClusterName, Finding, Object, ObjectRef, finding};
use crate::repo::Template;

/// The word for an object that an override drops.
const DELETED: &str = "Deleted";

/// Something to send.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// What it is.
    pub id: ObjectRef,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Plain(&'a Template),
    Wrapped(&'a Object, Wrapped<'a>),
}

impl<'a> Item<'a> {
    /// The object of the repo that it is, or that it is wrapped in.
    pub fn written_in(&self) -> &'a Object {
        match &self.source {
            Source::Plain(template) => &template.object,
            Source::Wrapped(envelope, _) => envelope,
        }
    }

    /// What tells clusters apart that are sent different things even without overrides.
    fn own(&self, cluster: &Cluster) -> ClusterName {
        match &self.source {
            Source::Plain(Template { per_cluster: Some(_), .. }) => cluster.name.clone(),
            _ => ClusterName::from(""),
        }
    }

    /// The manifest before overrides.
    fn body(&self, cluster: &str) -> Value {
        match &self.source {
            Source::Plain(template) => sanitised(&template.for_cluster(cluster).body),
            // Nothing of an envelope's content has been through the hub's API server.
            Source::Wrapped(_, wrapped) => wrapped.body.clone(),
        }
    }
}

/// What a selection is sent as: the plain objects in order, then what each envelope holds.
pub fn items<'a>(selected: &[Selected<'a>]) -> Result<Vec<Item<'a>>, (&'a Object, envelope::Failure)> {
    let (mut items, mut wrapped) = (Vec::new(), Vec::new());
    for one in selected {
        match *one {
            Selected::Plain(template) => {
                items.push(Item { id: template.object.id.clone(), source: Source::Plain(template) });
            }
            Selected::Envelope(object) => {
                let held = envelope::open(object).map_err(|failure| (object, failure))?;
                let held = held.into_iter();
                wrapped.extend(
                    held.map(|one| Item { id: one.id.clone(), source: Source::Wrapped(object, one) }),
                );
            }
        }
    }
    items.append(&mut wrapped);
    Ok(items)
}

/// Why a cluster is sent nothing of a placement.
#[derive(Clone, Debug)]
struct Failed {
    /// The item at fault.
    item: usize,
    reason: &'static str,
    finding: Finding,
}

/// What a placement sends to its clusters.
#[derive(Debug)]
pub struct Sending<'a> {
    items: Vec<Item<'a>>,
    overrides: Arc<Overrides<'a>>,
    /// The overrides of each item, by number.
    applying: Vec<Vec<usize>>,
    failed: BTreeMap<ClusterName, Failed>,
}

/// Clusters for which an item is the same.
struct Class<'s, 'a, 'c> {
    clusters: Vec<&'c Cluster>,
    changes: Changes<'s, 'a>,
}

impl<'a> Sending<'a> {
    /// What `placement` sends of `items` to any of `clusters`.
    pub fn new(
        overrides: &Arc<Overrides<'a>>,
        placement: &ObjectRef,
        items: Vec<Item<'a>>,
        clusters: &[&Cluster],
    ) -> Self {
        let applying = items.iter().map(|item| overrides.of(placement, &item.id)).collect();
        let mut sending = Self { items, overrides: Arc::clone(overrides), applying, failed: BTreeMap::new() };
        for index in 0..sending.items.len() {
            if sending.applying.get(index).is_some_and(|all| !all.is_empty()) {
                let failed = sending.failures(index, clusters);
                for (cluster, failed) in failed {
                    sending.failed.entry(cluster).or_insert(failed);
                }
            }
        }
        sending
    }

    /// What it sends, in order.
    pub fn items(&self) -> &[Item<'a>] {
        &self.items
    }

    /// What `clusters` are sent of the item number `index`.
    pub fn variants(&self, index: usize, clusters: &[&Cluster]) -> Vec<Variant> {
        let Some(item) = self.items.get(index) else { return Vec::new() };
        let mut variants = Vec::new();
        let (failed, fine): (Vec<&Cluster>, Vec<&Cluster>) =
            clusters.iter().partition(|cluster| self.failed.contains_key(&cluster.name));
        for class in self.classes(index, &fine) {
            let Some(first) = class.clusters.first() else { continue };
            let clusters = class.clusters.iter().map(|c| c.name.clone()).collect();
            let rendered = match class.changes.apply(item.body(&first.name)) {
                Ok(Changed { body: Some(body), changes }) => Ok(Rendered { body, changes }),
                // What fails is not among these clusters.
                Ok(_) | Err(_) => Err(Withheld { status: DELETED, finding: None }),
            };
            variants.push(Variant { clusters, rendered });
        }
        variants.extend(self.withheld(index, &failed));
        variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
        variants
    }

    /// Why a cluster is sent nothing at all, if so: the control plane's word for it.
    pub fn failure(&self, cluster: &str) -> Option<&'static str> {
        self.failed.get(cluster).map(|failed| failed.reason)
    }

    /// The clusters, by what overrides do to the item there.
    fn classes<'c>(&self, index: usize, clusters: &[&'c Cluster]) -> Vec<Class<'_, 'a, 'c>> {
        let (Some(item), Some(applying)) = (self.items.get(index), self.applying.get(index)) else {
            return Vec::new();
        };
        let overrides = self.overrides.get(applying);
        let mut classes: BTreeMap<(ClusterName, Vec<String>), Class<'_, 'a, 'c>> = BTreeMap::new();
        for cluster in clusters {
            let changes = Changes::new(&overrides, cluster);
            let class = classes.entry((item.own(cluster), changes.key()));
            class.or_insert_with(|| Class { clusters: Vec::new(), changes }).clusters.push(cluster);
        }
        classes.into_values().collect()
    }

    /// The clusters for which an item cannot be rendered.
    fn failures(&self, index: usize, clusters: &[&Cluster]) -> Vec<(ClusterName, Failed)> {
        let Some(item) = self.items.get(index) else { return Vec::new() };
        let mut failures = Vec::new();
        for class in self.classes(index, clusters) {
            let Some(first) = class.clusters.first() else { continue };
            let Err(failure) = class.changes.apply(item.body(&first.name)) else { continue };
            let names: Vec<&str> = class.clusters.iter().map(|c| c.name.as_ref()).collect();
            let message = format!(
                "{} cannot be rendered for {}: {} fails: {}",
                item.id,
                finding::list(&names, 3),
                failure.over.id,
                failure.why,
            );
            let mut finding = Finding::error("override-failed", failure.over, message)
                .at(&failure.pointer)
                .help("until this is mended, these clusters are sent nothing of the whole placement");
            finding.object = Some(item.id.clone());
            let failed = |finding| Failed { item: index, reason: failure.why.name(), finding };
            failures.extend(class.clusters.iter().map(|c| (c.name.clone(), failed(finding.clone()))));
        }
        failures
    }

    /// The clusters that are sent nothing, by reason; the item at fault tells why.
    fn withheld(&self, index: usize, clusters: &[&Cluster]) -> Vec<Variant> {
        let mut groups: BTreeMap<(usize, &str), (Vec<ClusterName>, &Failed)> = BTreeMap::new();
        for cluster in clusters {
            let Some(failed) = self.failed.get(&cluster.name) else { continue };
            let group = groups.entry((failed.item, &failed.finding.message));
            group.or_insert((Vec::new(), failed)).0.push(cluster.name.clone());
        }
        let variant = |(clusters, failed): (Vec<ClusterName>, &Failed)| {
            let finding = (failed.item == index).then(|| failed.finding.clone());
            Variant { clusters, rendered: Err(Withheld { status: failed.reason, finding }) }
        };
        groups.into_values().map(variant).collect()
    }
}
