//! The manifests for the clusters of a placement: the selected objects, envelopes opened, sanitised,
//! overridden.
//!
//! Facts: if one object cannot be rendered for a cluster, the cluster receives nothing of the placement. If an
//! envelope is invalid, no cluster does. Clusters that receive the same are rendered once.

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

/// The status of an object that an override deletes.
const DELETED: &str = "Deleted";

/// An object that is sent.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    /// Its id.
    pub id: ObjectRef,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Plain(&'a Template),
    Own(&'a Object),
    Wrapped(Wrapped<'a>),
    /// An object in an envelope that is overridden as a whole, before it is opened.
    Held {
        envelope: &'a Object,
        key: &'a str,
    },
}

impl Item<'_> {
    /// Whether it differs by cluster even without overrides.
    pub(crate) fn differs_by_cluster(&self) -> bool {
        matches!(self.source, Source::Plain(Template { per_cluster: Some(_), .. }))
    }

    /// The manifest before overrides.
    pub(crate) fn body(&self, cluster: &str) -> Value {
        match &self.source {
            Source::Plain(template) => sanitised(&template.for_cluster(cluster).body),
            Source::Own(object) => sanitised(&object.body),
            // The hub's API server has not changed the content of an envelope.
            Source::Wrapped(wrapped) => wrapped.body.clone(),
            Source::Held { envelope, .. } => envelope.body.clone(),
        }
    }

    /// The object that is overridden.
    pub(crate) fn overridden(&self) -> &ObjectRef {
        match &self.source {
            Source::Plain(_) | Source::Own(_) | Source::Wrapped(_) => &self.id,
            Source::Held { envelope, .. } => &envelope.id,
        }
    }

    /// The manifest after overrides; `None` where they delete it.
    fn sent(&self, overridden: Value) -> Option<Value> {
        let Source::Held { key, .. } = &self.source else { return Some(overridden) };
        let Value::Object(mut envelope) = overridden else { return None };
        envelope.get_mut("data")?.as_object_mut()?.shift_remove(*key)
    }
}

/// What is wrong with an envelope.
pub(crate) struct EnvelopeFailure<'a> {
    pub envelope: &'a Object,
    pub failure: envelope::Failure,
}

/// What a selection sends.
pub(crate) struct Items<'a> {
    /// The objects that are sent.
    pub items: Vec<Item<'a>>,
    /// Objects in envelopes that members refuse.
    pub refused: Vec<EnvelopeFailure<'a>>,
}

/// The objects that are sent for a selection: the plain objects in order, then those in each envelope.
pub(crate) fn items<'a>(
    selected: &[Selected<'a>],
    behaviour: &Behaviour,
) -> Result<Items<'a>, EnvelopeFailure<'a>> {
    let (mut items, mut wrapped, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for one in selected {
        match *one {
            Selected::Plain(template) => {
                items.push(Item { id: template.object.id.clone(), source: Source::Plain(template) });
            }
            Selected::Own(object) => {
                items.push(Item { id: object.id.clone(), source: Source::Own(object) });
            }
            Selected::Envelope(object) => {
                let failed = |failure| EnvelopeFailure { envelope: object, failure };
                let content = envelope::open(object).map_err(failed)?;
                refused.extend(content.refused.into_iter().map(failed));
                let item = |one: Wrapped<'a>| {
                    let id = one.id.clone();
                    let source = match behaviour.envelope_overrides {
                        EnvelopeOverrides::Content => Source::Wrapped(one),
                        EnvelopeOverrides::Envelope => Source::Held { envelope: object, key: one.key },
                    };
                    Item { id, source }
                };
                wrapped.extend(content.objects.into_iter().map(item));
            }
        }
    }
    items.append(&mut wrapped);
    Ok(Items { items, refused })
}

/// Why a cluster receives nothing of a placement.
#[derive(Clone, Debug)]
struct Failed {
    /// The item at fault.
    item: usize,
    reason: &'static str,
    finding: Finding,
}

/// The objects that a placement sends to its clusters.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    items: Vec<Item<'a>>,
    /// For each item which of `classes` it has.
    of_item: Vec<usize>,
    /// The clusters, grouped by the effect of the same overrides.
    classes: Vec<Vec<Class<'a>>>,
    failed: BTreeMap<ClusterName, Failed>,
}

/// Clusters in which overrides have the same effect.
#[derive(Debug)]
struct Class<'a> {
    clusters: Vec<ClusterName>,
    changes: Changes<'a>,
}

impl<'a> Sending<'a> {
    /// Computes what `placement` sends of `items` to its `clusters`, which are sorted by name.
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

    /// The variants of the item at `index`.
    pub(crate) fn variants(&self, index: usize) -> Vec<Variant> {
        let mut variants = self.withheld(index);
        for (item, class, clusters) in self.rendered(index) {
            let fine: Vec<ClusterName> =
                clusters.into_iter().filter(|name| !self.failed.contains_key(name)).collect();
            let Some(first) = fine.first() else { continue };
            let rendered = match class.changes.apply(item.body(first)) {
                Ok(Changed { body: Some(body), changes }) => rendered(item, body, changes),
                // Clusters for which overrides fail were left out above.
                Ok(_) | Err(_) => Err(Withheld { status: DELETED, finding: None }),
            };
            variants.push(Variant { clusters: fine.into(), rendered });
        }
        variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
        variants
    }

    /// The manifest of the item at `index` for one cluster; `None` for other clusters.
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

    /// The status of a cluster that receives nothing at all.
    pub(crate) fn failure(&self, cluster: &str) -> Option<&'static str> {
        self.failed.get(cluster).map(|failed| failed.reason)
    }

    /// The groups of clusters that receive the same of an item.
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

    /// The clusters that receive nothing, by reason. The finding goes to the item at fault.
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

/// Groups clusters by the effect of overrides.
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
        .help("until this is fixed, these clusters receive nothing of the placement");
    finding.object = Some(item.id.clone());
    finding
}

#[cfg(test)]
mod tests;
