//! What the clusters of a placement are sent: what it selects, envelopes opened, sanitised, overridden.
//!
//! Facts: one object that cannot be rendered for a cluster keeps everything of the placement from it; an
//! envelope that holds what it must not, from all. Clusters that receive the same stand together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::envelope::{self, Wrapped};
use super::overrides::{Changed, Changes, Failure, Override, Overrides};
use super::selection::Selected;
use super::selection::sanitise::sanitised;
use super::version::{Behaviour, EnvelopeOverrides};
use federate_dialect::{OverrideChange, Rendered, Variant, Withheld};
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, finding};
use federate_repo::Template;

/// The word for an object that an override drops.
const DELETED: &str = "Deleted";

/// Something to send.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    /// What it is.
    pub id: ObjectRef,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Plain(&'a Template),
    Wrapped(Wrapped<'a>),
    /// What an envelope holds that is overridden as a whole, before it is opened.
    Held {
        envelope: &'a Object,
        key: &'a str,
    },
}

impl Item<'_> {
    /// Whether it is another thing in each cluster even without overrides.
    fn differs_by_cluster(&self) -> bool {
        matches!(self.source, Source::Plain(Template { per_cluster: Some(_), .. }))
    }

    /// The manifest before overrides.
    fn body(&self, cluster: &str) -> Value {
        match &self.source {
            Source::Plain(template) => sanitised(&template.for_cluster(cluster).body),
            // Nothing of an envelope's content has been through the hub's API server.
            Source::Wrapped(wrapped) => wrapped.body.clone(),
            Source::Held { envelope, .. } => envelope.body.clone(),
        }
    }

    /// The object that is overridden.
    fn overridden(&self) -> &ObjectRef {
        match &self.source {
            Source::Plain(_) | Source::Wrapped(_) => &self.id,
            Source::Held { envelope, .. } => &envelope.id,
        }
    }

    /// What is sent, after overrides; `None` where they leave nothing of it.
    fn sent(&self, overridden: Value) -> Option<Value> {
        let Source::Held { key, .. } = &self.source else { return Some(overridden) };
        let Value::Object(mut envelope) = overridden else { return None };
        envelope.get_mut("data")?.as_object_mut()?.shift_remove(*key)
    }
}

/// What a selection is sent as: the plain objects in order, then what each envelope holds.
pub(crate) fn items<'a>(
    selected: &[Selected<'a>],
    behaviour: &Behaviour,
) -> Result<Vec<Item<'a>>, (&'a Object, envelope::Failure)> {
    let (mut items, mut wrapped) = (Vec::new(), Vec::new());
    for one in selected {
        match *one {
            Selected::Plain(template) => {
                items.push(Item { id: template.object.id.clone(), source: Source::Plain(template) });
            }
            Selected::Envelope(object) => {
                let held = envelope::open(object).map_err(|failure| (object, failure))?;
                let item = |one: Wrapped<'a>| {
                    let id = one.id.clone();
                    let source = match behaviour.envelope_overrides {
                        EnvelopeOverrides::Content => Source::Wrapped(one),
                        EnvelopeOverrides::Envelope => Source::Held { envelope: object, key: one.key },
                    };
                    Item { id, source }
                };
                wrapped.extend(held.into_iter().map(item));
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
pub(crate) struct Sending<'a> {
    items: Vec<Item<'a>>,
    /// For each item which of `classes` it has.
    of_item: Vec<usize>,
    /// The clusters by what the same overrides do in them.
    classes: Vec<Vec<Class<'a>>>,
    failed: BTreeMap<ClusterName, Failed>,
}

/// Clusters in which overrides do the same.
#[derive(Debug)]
struct Class<'a> {
    clusters: Vec<ClusterName>,
    changes: Changes<'a>,
}

impl<'a> Sending<'a> {
    /// What `placement` sends of `items` to its `clusters`, which are sorted by name.
    pub(crate) fn new(
        overrides: &Overrides<'a>,
        placement: &ObjectRef,
        items: Vec<Item<'a>>,
        clusters: &[&Cluster],
    ) -> Self {
        let mut known: BTreeMap<Vec<&ObjectRef>, usize> = BTreeMap::new();
        let (mut classes, mut of_item) = (Vec::new(), Vec::with_capacity(items.len()));
        for item in &items {
            let all = overrides.of(placement, item.overridden());
            let key = all.iter().map(|one| &one.object.id).collect();
            of_item.push(*known.entry(key).or_insert_with(|| {
                classes.push(classified(&all, clusters));
                classes.len() - 1
            }));
        }
        let mut sending = Self { items, of_item, classes, failed: BTreeMap::new() };
        for index in 0..sending.items.len() {
            for (cluster, failed) in sending.failures(index) {
                sending.failed.entry(cluster).or_insert(failed);
            }
        }
        sending
    }

    /// What the clusters are sent of the item number `index`.
    pub(crate) fn variants(&self, index: usize) -> Vec<Variant> {
        let mut variants = self.withheld(index);
        for (item, class, clusters) in self.rendered(index) {
            let fine: Vec<ClusterName> =
                clusters.into_iter().filter(|name| !self.failed.contains_key(name)).collect();
            let Some(first) = fine.first() else { continue };
            let rendered = match class.changes.apply(item.body(first)) {
                Ok(Changed { body: Some(body), changes }) => rendered(item, body, changes),
                // What fails is not among these clusters.
                Ok(_) | Err(_) => Err(Withheld { status: DELETED, finding: None }),
            };
            variants.push(Variant { clusters: fine.into(), rendered });
        }
        variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
        variants
    }

    /// What one cluster is sent of the item number `index`; `None` where it is for other clusters.
    pub(crate) fn variant(&self, index: usize, cluster: &ClusterName) -> Option<Result<Rendered, Withheld>> {
        if let Some(status) = self.failure(cluster) {
            return Some(Err(Withheld { status, finding: None }));
        }
        let mut all = self.rendered(index).into_iter();
        let (item, class, _) = all.find(|(_, _, clusters)| clusters.contains(cluster))?;
        Some(match class.changes.apply(item.body(cluster)) {
            Ok(Changed { body: Some(body), changes }) => rendered(item, body, changes),
            Ok(_) | Err(_) => Err(Withheld { status: DELETED, finding: None }),
        })
    }

    /// Why a cluster is sent nothing at all, if so: the control plane's word for it.
    pub(crate) fn failure(&self, cluster: &str) -> Option<&'static str> {
        self.failed.get(cluster).map(|failed| failed.reason)
    }

    /// The clusters that are sent the same of an item.
    fn rendered(&self, index: usize) -> Vec<(&Item<'a>, &Class<'a>, Vec<ClusterName>)> {
        let classes = self.of_item.get(index).and_then(|at| self.classes.get(*at));
        let (Some(item), Some(classes)) = (self.items.get(index), classes) else { return Vec::new() };
        let mut rendered = Vec::new();
        for class in classes {
            if item.differs_by_cluster() {
                rendered.extend(class.clusters.iter().map(|name| (item, class, vec![name.clone()])));
            } else {
                rendered.push((item, class, class.clusters.clone()));
            }
        }
        rendered
    }

    /// The clusters for which an item cannot be rendered.
    fn failures(&self, index: usize) -> Vec<(ClusterName, Failed)> {
        let mut failures = Vec::new();
        for (item, class, clusters) in self.rendered(index) {
            let Some(first) = clusters.first().filter(|_| !class.changes.is_empty()) else { continue };
            let Err(failure) = class.changes.apply(item.body(first)) else { continue };
            let failed = Failed {
                item: index,
                reason: failure.why.name(),
                finding: unrendered(item, &failure, &clusters),
            };
            failures.extend(clusters.into_iter().map(|name| (name, failed.clone())));
        }
        failures
    }

    /// The clusters that are sent nothing, by reason; the item at fault tells why.
    fn withheld(&self, index: usize) -> Vec<Variant> {
        let mut groups: BTreeMap<(usize, &str), (Vec<ClusterName>, &Failed)> = BTreeMap::new();
        for (cluster, failed) in &self.failed {
            let group = groups.entry((failed.item, &failed.finding.message));
            group.or_insert((Vec::new(), failed)).0.push(cluster.clone());
        }
        let variant = |(clusters, failed): (Vec<ClusterName>, &Failed)| {
            let finding = (failed.item == index).then(|| failed.finding.clone());
            Variant { clusters: clusters.into(), rendered: Err(Withheld { status: failed.reason, finding }) }
        };
        groups.into_values().map(variant).collect()
    }
}

fn rendered(item: &Item<'_>, body: Value, changes: Vec<OverrideChange>) -> Result<Rendered, Withheld> {
    match item.sent(body) {
        Some(body) => Ok(Rendered { body, changes }),
        None => Err(Withheld { status: DELETED, finding: None }),
    }
}

/// Clusters by what overrides do in them.
fn classified<'a>(overrides: &[&Override<'a>], clusters: &[&Cluster]) -> Vec<Class<'a>> {
    let mut classes: BTreeMap<Vec<String>, Class<'a>> = BTreeMap::new();
    for cluster in clusters {
        let changes = Changes::new(overrides, cluster);
        let class = classes.entry(changes.key());
        class.or_insert_with(|| Class { clusters: Vec::new(), changes }).clusters.push(cluster.name.clone());
    }
    classes.into_values().collect()
}

fn unrendered(item: &Item<'_>, failure: &Failure<'_>, clusters: &[ClusterName]) -> Finding {
    let names: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    let shown = finding::list(&names, 3);
    let Failure { over, pointer, why } = failure;
    let message = format!("{} cannot be rendered for {shown}: {} fails: {why}", item.id, over.id);
    let mut finding = Finding::error("override-failed", over, message)
        .at(pointer)
        .help("until this is mended, these clusters are sent nothing of the whole placement");
    finding.object = Some(item.id.clone());
    finding
}

#[cfg(test)]
mod tests;
