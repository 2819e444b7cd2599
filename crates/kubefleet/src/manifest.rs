//! The manifests for the clusters of a placement: the selected objects, envelopes opened, sanitised,
//! overridden.
//!
//! Facts: if one object cannot be rendered for a cluster, the cluster receives nothing of the placement. If an
//! envelope is invalid, no cluster does. Clusters that receive the same are rendered once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::envelope::{self, EnvelopedObject};
use super::overrides::{FailedOverride, KubeFleetOverride, OverriddenObject, OverrideChanges, Overrides};
use super::selection::SelectedObject;
use super::selection::sanitization::sanitize_manifest;
use super::version::{EnvelopeOverrides, KubeFleetBehaviour};
use federate_dialect::{ManifestVariant, NotSent, OverrideChange, RenderedManifest};
use federate_kubernetes::{Cluster, ClusterName, Finding, Object, ObjectRef, finding, work};
use federate_repo::Template;

/// The status of an object that an override deletes.
const DELETED: &str = "Deleted";

/// An object that is sent.
#[derive(Clone, Debug)]
pub(crate) struct SentObject<'a> {
    /// Its id.
    pub id: ObjectRef,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Plain(&'a Template),
    Own(&'a Object),
    Wrapped(EnvelopedObject<'a>),
    /// An object in an envelope that is overridden as a whole, before it is opened.
    Held {
        envelope: &'a Object,
        key: &'a str,
    },
}

impl SentObject<'_> {
    /// Whether it differs by cluster even without overrides.
    pub(crate) fn differs_by_cluster(&self) -> bool {
        matches!(self.source, Source::Plain(Template { per_cluster: Some(_), .. }))
    }

    /// The manifest before overrides.
    pub(crate) fn render_body(&self, cluster: &str) -> Value {
        work::charge_copy(match &self.source {
            Source::Plain(template) => &template.object.body,
            Source::Own(object) | Source::Held { envelope: object, .. } => &object.body,
            Source::Wrapped(wrapped) => wrapped.body,
        });
        match &self.source {
            Source::Plain(template) => sanitize_manifest(&template.for_cluster(cluster).body),
            Source::Own(object) => sanitize_manifest(&object.body),
            // The hub's API server has not changed the content of an envelope.
            Source::Wrapped(wrapped) => wrapped.body.clone(),
            Source::Held { envelope, .. } => envelope.body.clone(),
        }
    }

    /// The object that is overridden.
    pub(crate) fn override_target(&self) -> &ObjectRef {
        match &self.source {
            Source::Plain(_) | Source::Own(_) | Source::Wrapped(_) => &self.id,
            Source::Held { envelope, .. } => &envelope.id,
        }
    }

    /// The manifest after overrides; `None` where they delete it.
    fn extract_manifest(&self, overridden: Value) -> Option<Value> {
        let Source::Held { key, .. } = &self.source else { return Some(overridden) };
        let Value::Object(mut envelope) = overridden else { return None };
        envelope.get_mut("data")?.as_object_mut()?.shift_remove(*key)
    }
}

/// What is wrong with an envelope.
pub(crate) struct EnvelopeFailure<'a> {
    pub envelope: &'a Object,
    pub failure: envelope::EnvelopeError,
}

/// What a selection sends.
pub(crate) struct SentObjects<'a> {
    /// The objects that are sent.
    pub items: Vec<SentObject<'a>>,
    /// Objects in envelopes that members refuse.
    pub refused: Vec<EnvelopeFailure<'a>>,
}

/// The objects that are sent for a selection: the plain objects in order, then those in each envelope.
pub(crate) fn collect_objects<'a>(
    selected: &[SelectedObject<'a>],
    behaviour: &KubeFleetBehaviour,
) -> Result<SentObjects<'a>, EnvelopeFailure<'a>> {
    let (mut items, mut wrapped, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for one in selected {
        match *one {
            SelectedObject::Plain(template) => {
                items.push(SentObject { id: template.object.id.clone(), source: Source::Plain(template) });
            }
            SelectedObject::Own(object) => {
                items.push(SentObject { id: object.id.clone(), source: Source::Own(object) });
            }
            SelectedObject::Envelope(object) => {
                let content = envelope::open_envelope(object)
                    .map_err(|failure| EnvelopeFailure { envelope: object, failure })?;
                let failures = content.refused.into_iter();
                refused.extend(failures.map(|failure| EnvelopeFailure { envelope: object, failure }));
                for one in content.objects {
                    let id = one.id.clone();
                    let source = match behaviour.envelope_overrides {
                        EnvelopeOverrides::Content => Source::Wrapped(one),
                        EnvelopeOverrides::Envelope => Source::Held { envelope: object, key: one.key },
                    };
                    wrapped.push(SentObject { id, source });
                }
            }
        }
    }
    items.append(&mut wrapped);
    Ok(SentObjects { items, refused })
}

/// Why a cluster receives nothing of a placement.
#[derive(Clone, Debug)]
struct RenderFailure {
    /// The item at fault.
    item: usize,
    reason: &'static str,
    finding: Finding,
}

/// The objects that a placement sends to its clusters.
#[derive(Debug)]
pub(crate) struct PlacementManifests<'a> {
    items: Arc<[SentObject<'a>]>,
    /// For each item which of `classes` it has.
    of_item: Vec<usize>,
    /// The clusters, grouped by the effect of the same overrides.
    classes: Vec<Vec<ClusterClass<'a>>>,
    failed: BTreeMap<ClusterName, RenderFailure>,
}

/// Clusters in which overrides have the same effect.
#[derive(Debug)]
struct ClusterClass<'a> {
    clusters: Vec<ClusterName>,
    changes: OverrideChanges<'a>,
}

impl<'a> PlacementManifests<'a> {
    /// Computes what `placement` sends of `items` to its `clusters`, which are sorted by name.
    pub(crate) fn new(
        overrides: &Overrides<'a>,
        placement: &ObjectRef,
        items: Arc<[SentObject<'a>]>,
        clusters: &[&Cluster],
    ) -> Self {
        let mut known: BTreeMap<Vec<&ObjectRef>, usize> = BTreeMap::new();
        let (mut classes, mut of_item) = (Vec::new(), Vec::with_capacity(items.len()));
        work::charge_steps(items.len() as u64);
        for item in &*items {
            let all = overrides.overrides_for(placement, item.override_target());
            let key = all.iter().map(|one| &one.object.id).collect();
            of_item.push(*known.entry(key).or_insert_with(|| {
                classes.push(group_clusters(&all, clusters));
                classes.len() - 1
            }));
        }
        let mut sending = Self { items, of_item, classes, failed: BTreeMap::new() };
        for index in 0..sending.items.len() {
            for (cluster, failed) in sending.find_failures(index) {
                sending.failed.entry(cluster).or_insert(failed);
            }
        }
        sending
    }

    /// The variants of the item at `index`.
    pub(crate) fn render_item(&self, index: usize) -> Vec<ManifestVariant> {
        let mut variants = self.withheld_variants(index);
        for (item, class, clusters) in self.clusters_by_variant(index) {
            let fine: Vec<ClusterName> =
                clusters.into_iter().filter(|name| !self.failed.contains_key(name)).collect();
            let Some(first) = fine.first() else { continue };
            let rendered = match class.changes.apply_to(item.render_body(first)) {
                Ok(OverriddenObject { body: Some(body), changes }) => render_object(item, body, changes),
                // Clusters for which overrides fail were left out above.
                Ok(_) | Err(_) => Err(NotSent { status: DELETED, finding: None }),
            };
            variants.push(ManifestVariant { clusters: fine.into(), rendered });
        }
        variants.sort_by(|a, b| a.clusters.cmp(&b.clusters));
        variants
    }

    /// The manifest of the item at `index` for one cluster; `None` for other clusters.
    pub(crate) fn render_variant(
        &self,
        index: usize,
        cluster: &ClusterName,
    ) -> Option<Result<RenderedManifest, NotSent>> {
        if let Some(status) = self.failure_reason(cluster) {
            return Some(Err(NotSent { status, finding: None }));
        }
        let mut all = self.clusters_by_variant(index).into_iter();
        let (item, class, _) = all.find(|(_, _, clusters)| clusters.contains(cluster))?;
        Some(match class.changes.apply_to(item.render_body(cluster)) {
            Ok(OverriddenObject { body: Some(body), changes }) => render_object(item, body, changes),
            Ok(_) | Err(_) => Err(NotSent { status: DELETED, finding: None }),
        })
    }

    /// The status of a cluster that receives nothing at all.
    pub(crate) fn failure_reason(&self, cluster: &str) -> Option<&'static str> {
        self.failed.get(cluster).map(|failed| failed.reason)
    }

    /// The groups of clusters that receive the same of an item.
    fn clusters_by_variant(
        &self,
        index: usize,
    ) -> Vec<(&SentObject<'a>, &ClusterClass<'a>, Vec<ClusterName>)> {
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
    fn find_failures(&self, index: usize) -> Vec<(ClusterName, RenderFailure)> {
        let mut failures = Vec::new();
        for (item, class, clusters) in self.clusters_by_variant(index) {
            let Some(first) = clusters.first().filter(|_| !class.changes.is_empty()) else { continue };
            let Err(failure) = class.changes.apply_to(item.render_body(first)) else { continue };
            let failed = RenderFailure {
                item: index,
                reason: failure.why.name(),
                finding: override_failed_finding(item, &failure, &clusters),
            };
            failures.extend(clusters.into_iter().map(|name| (name, failed.clone())));
        }
        failures
    }

    /// The clusters that receive nothing, by reason. The finding goes to the item at fault.
    fn withheld_variants(&self, index: usize) -> Vec<ManifestVariant> {
        let mut groups: BTreeMap<(usize, &str), (Vec<ClusterName>, &RenderFailure)> = BTreeMap::new();
        for (cluster, failed) in &self.failed {
            let group = groups.entry((failed.item, &failed.finding.message));
            group.or_insert((Vec::new(), failed)).0.push(cluster.clone());
        }
        let variants = groups.into_values().map(|(clusters, failed)| {
            let finding = (failed.item == index).then(|| failed.finding.clone());
            ManifestVariant {
                clusters: clusters.into(),
                rendered: Err(NotSent { status: failed.reason, finding }),
            }
        });
        variants.collect()
    }
}

fn render_object(
    item: &SentObject<'_>,
    body: Value,
    changes: Vec<OverrideChange>,
) -> Result<RenderedManifest, NotSent> {
    match item.extract_manifest(body) {
        Some(body) => Ok(RenderedManifest { body, changes }),
        None => Err(NotSent { status: DELETED, finding: None }),
    }
}

/// Groups clusters by the effect of overrides.
fn group_clusters<'a>(overrides: &[&KubeFleetOverride<'a>], clusters: &[&Cluster]) -> Vec<ClusterClass<'a>> {
    let mut classes: BTreeMap<Vec<String>, ClusterClass<'a>> = BTreeMap::new();
    for cluster in clusters {
        let changes = OverrideChanges::new(overrides, cluster);
        let class = classes.entry(changes.grouping_key());
        class
            .or_insert_with(|| ClusterClass { clusters: Vec::new(), changes })
            .clusters
            .push(cluster.name.clone());
    }
    classes.into_values().collect()
}

fn override_failed_finding(
    item: &SentObject<'_>,
    failure: &FailedOverride<'_>,
    clusters: &[ClusterName],
) -> Finding {
    let names: Vec<&str> = clusters.iter().map(AsRef::as_ref).collect();
    let shown = finding::join_names(&names, 3);
    let FailedOverride { over, pointer, why } = failure;
    let message = format!("{} cannot be rendered for {shown}: {} fails: {why}", item.id, over.id);
    let mut finding = Finding::error("override-failed", over, message)
        .with_pointer(pointer)
        .with_help("until this is fixed, these clusters receive nothing of the placement");
    finding.object = Some(item.id.clone());
    finding
}

#[cfg(test)]
mod tests;
