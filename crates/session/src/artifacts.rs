//! The artifacts of a rendering in a registry: one per cluster, and one with the plan, which is the previous plan of the next run.
//!
//! Nothing is pushed that the registry has. Tags move last, when everything that they name is there and signed: first those of
//! the clusters, then those of the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use git2::{Oid, Repository};
use jiff::Timestamp;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Runtime;

use federate_dialect::Plan;
use federate_engine::previous;
use federate_publish::OutputTree;
use federate_publish::artifact::{
    self, ArtifactLayer, ArtifactManifest, ArtifactTypes, BlobReference, EMPTY_CONFIG, LayerError,
};
use federate_publish::paths::PLACEMENTS;
use federate_registry::{ArtifactAddress, FetchedManifest, InvalidAddress, Registry, SignatureError};
use federate_source::git::{self, GitLocation};

use crate::left_out::LeftOutCluster;
use crate::provenance::Provenance;

/// What stands in the address of the plan's artifact for the name of a cluster.
const PLAN: &str = "plan";

/// How many artifacts are pushed at a time.
const MAX_PARALLEL_ARTIFACTS: usize = 8;

/// The largest layer of a cluster that is read.
const CLUSTER_LIMIT: LayerLimit = LayerLimit { packed: 256 << 20, unpacked: 1 << 30 };

/// The largest layer of a plan that is read. Several may be in memory at a time.
const PLAN_LIMIT: LayerLimit = LayerLimit { packed: 32 << 20, unpacked: 128 << 20 };

/// The characters of a commit's id in a tag.
const SHORT_ID_CHARS: usize = 7;

/// Why artifacts could not be read or pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The registry did not do what it was asked.
    #[error(transparent)]
    Registry(#[from] federate_registry::Error),
    /// An artifact cannot have this name.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// A cluster has the name of the plan's artifact.
    #[error(
        "the artifact of cluster `{PLAN}` would be that of the plan, {0}: a cluster of that name cannot be pushed; rename it, or \
         leave it out with --cluster"
    )]
    ReservedName(String),
    /// A cluster receives nothing any more, and is not among those that are pushed.
    #[error(transparent)]
    LeftOut(#[from] LeftOutCluster),
    /// Another client has pushed a plan since it was read.
    #[error("{0} moved in the meantime")]
    Moved(String),
    /// This process may not write any more.
    #[error("another process may lead: no further tag is moved")]
    Fenced,
    /// Signing failed.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// An artifact cannot be packed.
    #[error("cannot pack an artifact: {0}")]
    Pack(#[from] std::io::Error),
    /// An object is held back, so that what it was is to be kept, and the artifact that has it is gone.
    #[error(
        "{object} is held back in cluster `{cluster}` and keeps the manifest of {artifact}, which the registry does not have: push \
         that artifact again, or mend what holds the object back"
    )]
    EarlierGone {
        /// The object.
        object: String,
        /// The cluster.
        cluster: String,
        /// The earlier artifact.
        artifact: String,
    },
    /// The artifact has no plan.
    #[error("{address} is not an artifact with a plan: {why}")]
    NotAPlan {
        /// The artifact.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// The artifact is not what federate pushes.
    #[error(
        "{0} is not an artifact that federate has pushed: its manifest does not name a single layer; name another tag"
    )]
    NotOwned(String),
    /// The layer cannot be unpacked.
    #[error("cannot read {address}: {why}")]
    Layer {
        /// The artifact.
        address: String,
        /// What is wrong.
        why: LayerError,
    },
}

/// Where artifacts come from, as their annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactOrigin {
    /// When the source was committed.
    created: Option<String>,
    /// The address of its repository, without credentials.
    source: Option<String>,
    /// Branch and commit: `BRANCH@sha1:COMMIT`.
    revision: Option<String>,
    /// The short id of the commit, which is the default tag.
    tag: Option<String>,
}

/// The artifacts of a registry.
pub struct ArtifactStore {
    registry: Registry,
    runtime: Runtime,
}

/// How the artifacts of a push are made.
pub(crate) struct ArtifactForm<'f> {
    /// Where clusters and the plan have theirs.
    pub(crate) address: &'f ArtifactAddress,
    pub(crate) types: ArtifactTypes,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The tags of artifacts that stay if their content is the same.
    pub(crate) earlier_tags: Vec<&'f str>,
    /// Whether artifacts are pushed although earlier ones have the same content.
    pub(crate) always: bool,
}

/// The largest layer that is read, in bytes.
#[derive(Clone, Copy)]
struct LayerLimit {
    packed: usize,
    unpacked: u64,
}

/// A plan in a registry.
pub(crate) struct PublishedPlan {
    /// The digest of its manifest.
    pub(crate) digest: String,
    pub(crate) plan: Plan,
}

/// A tag of an artifact after a push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaggedArtifact {
    /// The cluster; `null` for the plan.
    pub cluster: Option<String>,
    /// The artifact: `oci://HOST/REPOSITORY`.
    pub url: String,
    /// The tag.
    pub tag: String,
    /// The digest of the manifest that it names.
    pub digest: String,
    /// Whether the tag was created or moved.
    pub changed: bool,
}

/// The result of `federate push -o json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushedArtifacts<'r> {
    /// `federate.dev/v1alpha1`
    pub api_version: &'static str,
    /// `PushResult`
    pub kind: &'static str,
    /// Whether any tag was created or moved.
    pub changed: bool,
    /// The tags, by cluster; those of the plan last.
    pub artifacts: &'r [TaggedArtifact],
    /// The deletions because of which no more was pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<&'r federate_engine::deletions::ExcessiveDeletions>,
}

/// An artifact whose manifest the registry has.
pub(crate) struct StoredArtifact {
    cluster: Option<String>,
    pub(crate) address: ArtifactAddress,
    pub(crate) digest: String,
    manifest: Vec<u8>,
    /// Whether the manifest was pushed now.
    pub(crate) is_new: bool,
    /// The digests that tags name so far.
    tagged: BTreeMap<String, String>,
}

impl ArtifactOrigin {
    /// The origin of what was rendered from `location`. `revision` is the revision that was read, without which it is the work
    /// tree.
    pub fn from_provenance(provenance: &Provenance, location: &GitLocation, revision: Option<&str>) -> Self {
        let (Some(commit), Some(id)) = (&provenance.commit, provenance.commit_id()) else {
            return Self::default();
        };
        let Ok(repository) = location.open_repository() else { return Self::default() };
        let oid = Oid::from_str(id).ok();
        let created = oid.and_then(|oid| find_commit_time(&repository, oid));
        let origin = repository.find_remote("origin").ok();
        let source = origin.as_ref().and_then(|remote| remote.url().ok()).filter(|url| !url.is_empty());
        let branch = match revision {
            Some(revision) => {
                repository.find_branch(revision, git2::BranchType::Local).ok().map(|_| revision.to_owned())
            }
            None => repository
                .head()
                .ok()
                .filter(git2::Reference::is_branch)
                .and_then(|head| Some(head.shorthand().ok()?.to_owned())),
        };
        let branch = branch.map_or_else(String::new, |branch| format!("{branch}@"));
        let dirty = commit.get(id.len()..).unwrap_or_default();
        Self {
            created: created.map(|created| created.to_string()),
            source: source.map(git::program::without_credentials),
            revision: Some(format!("{branch}sha1:{commit}")),
            tag: Some(format!("{}{dirty}", id.get(..SHORT_ID_CHARS).unwrap_or(id))),
        }
    }

    /// The origin of what was rendered from a commit. `source` is the address of its repository, without credentials, and
    /// `revision` how it is named: `BRANCH@sha1:COMMIT`.
    pub fn from_commit(location: &GitLocation, commit: Oid, source: &str, revision: &str) -> Self {
        let repository = location.open_repository().ok();
        let created = repository.and_then(|repository| find_commit_time(&repository, commit));
        let id = commit.to_string();
        Self {
            created: created.map(|created| created.to_string()),
            source: Some(source.to_owned()).filter(|source| !source.is_empty()),
            revision: Some(revision.to_owned()),
            tag: Some(id.get(..SHORT_ID_CHARS).unwrap_or(&id).to_owned()),
        }
    }

    /// The tag that names the commit; `None` without one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The annotations of an artifact.
    pub(crate) fn to_annotations(&self, plan: &str) -> BTreeMap<String, String> {
        // A reader without any date shows none of an artifact.
        let created = self.created.clone().unwrap_or_else(|| Timestamp::UNIX_EPOCH.to_string());
        let all = [
            ("org.opencontainers.image.created", Some(created)),
            ("org.opencontainers.image.source", self.source.clone()),
            ("org.opencontainers.image.revision", self.revision.clone()),
            ("dev.federate.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
            ("dev.federate.plan", Some(artifact::compute_digest(plan.as_bytes()))),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// When a commit was created.
fn find_commit_time(repository: &Repository, commit: Oid) -> Option<Timestamp> {
    Timestamp::from_second(repository.find_commit(commit).ok()?.time().seconds()).ok()
}

impl ArtifactStore {
    /// The artifacts of a registry. Nothing is read yet.
    pub fn new(registry: Registry) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { registry, runtime })
    }

    /// The plan in an artifact; `None` if the registry does not have it.
    pub fn read_plan(&self, address: &ArtifactAddress, tag: &str) -> Result<Option<Plan>, Error> {
        let manifest = self.runtime.block_on(self.registry.fetch_manifest(address.repository(), tag))?;
        manifest.map(|manifest| self.unpack_plan(address, tag, &manifest)).transpose()
    }

    /// The digest of the plan beside the artifacts of clusters; `None` if the registry has none with the tag.
    pub fn read_plan_digest(&self, address: &ArtifactAddress, tag: &str) -> Result<Option<String>, Error> {
        self.read_digest(&plan_address(address)?, tag)
    }

    /// The digest of an artifact; `None` if the registry does not have it.
    pub(crate) fn read_digest(&self, address: &ArtifactAddress, tag: &str) -> Result<Option<String>, Error> {
        let manifest = self.runtime.block_on(self.registry.fetch_manifest(address.repository(), tag))?;
        Ok(manifest.map(|manifest| manifest.digest))
    }

    /// The plans that the registry has, by tag. Each is read once.
    pub(crate) fn read_published_plans(
        &self,
        address: &ArtifactAddress,
        tags: &[&str],
    ) -> Result<BTreeMap<String, Arc<PublishedPlan>>, Error> {
        let (mut plans, mut by_digest) = (BTreeMap::new(), BTreeMap::<String, Arc<PublishedPlan>>::new());
        for tag in tags {
            let fetched = self.runtime.block_on(self.registry.fetch_manifest(address.repository(), tag))?;
            let Some(manifest) = fetched else { continue };
            let known = by_digest.get(&manifest.digest).cloned();
            let published = if let Some(published) = known {
                published
            } else {
                let plan = self.unpack_plan(address, tag, &manifest)?;
                Arc::new(PublishedPlan { digest: manifest.digest.clone(), plan })
            };
            by_digest.insert(manifest.digest, Arc::clone(&published));
            plans.insert((*tag).to_owned(), published);
        }
        Ok(plans)
    }

    fn unpack_plan(
        &self,
        address: &ArtifactAddress,
        tag: &str,
        manifest: &FetchedManifest,
    ) -> Result<Plan, Error> {
        let files = self.runtime.block_on(self.fetch_files(address, tag, manifest, PLAN_LIMIT))?;
        let not_a_plan = |why: String| Error::NotAPlan { address: format!("{address}:{tag}"), why };
        let text = files.get(PLACEMENTS).ok_or_else(|| not_a_plan(format!("it has no {PLACEMENTS}")))?;
        previous::read_own(text.as_bytes()).map_err(|error| not_a_plan(error.to_string()))
    }

    /// The files in an artifact, by path; `None` if the registry does not have it.
    pub(crate) fn read_files(
        &self,
        address: &ArtifactAddress,
        tag: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        let manifest = self.runtime.block_on(self.registry.fetch_manifest(address.repository(), tag))?;
        let Some(manifest) = manifest else { return Ok(None) };
        self.runtime.block_on(self.fetch_files(address, tag, &manifest, CLUSTER_LIMIT)).map(Some)
    }

    /// The files that a manifest names.
    async fn fetch_files(
        &self,
        address: &ArtifactAddress,
        tag: &str,
        manifest: &FetchedManifest,
        limit: LayerLimit,
    ) -> Result<BTreeMap<String, String>, Error> {
        let manifest = ArtifactManifest::parse(&manifest.bytes);
        let layer = manifest.as_ref().and_then(ArtifactManifest::layer);
        let layer = layer.ok_or_else(|| Error::NotOwned(format!("{address}:{tag}")))?;
        let bytes = self.registry.fetch_blob(address.repository(), &layer.digest, limit.packed).await?;
        let files = artifact::unpack_layer(&bytes, limit.unpacked);
        files.map_err(|why| Error::Layer { address: format!("{address}:{tag}"), why })
    }

    /// Brings the artifacts of clusters into the registry, without tags. A cluster that receives nothing and has no artifact gets
    /// none. One where everything is held back gets an empty one, which says so.
    pub(crate) fn store_clusters(
        &self,
        form: &ArtifactForm<'_>,
        tree: &OutputTree,
        plan: &Plan,
        clusters: &[String],
    ) -> Result<Vec<StoredArtifact>, Error> {
        let plan_at = plan_address(form.address)?;
        let placed: BTreeSet<&str> = plan.affected_clusters().into_iter().map(AsRef::as_ref).collect();
        let mut stored = Vec::new();
        for clusters in clusters.chunks(MAX_PARALLEL_ARTIFACTS) {
            let layers: Vec<ArtifactLayer> = clusters
                .par_iter()
                .map(|cluster| artifact::pack_cluster(tree, cluster))
                .collect::<Result<_, _>>()?;
            let mut stores = Vec::new();
            for (cluster, layer) in clusters.iter().zip(layers) {
                let address = form.address.for_cluster(cluster)?;
                if address.repository() == plan_at.repository() {
                    return Err(Error::ReservedName(address.to_string()));
                }
                let is_empty =
                    artifact::count_objects(tree, cluster) == 0 && !placed.contains(cluster.as_str());
                let desired = form.describe(&layer);
                stores.push(self.store_artifact(form, Some(cluster), address, layer, desired, is_empty));
            }
            stored.extend(self.runtime.block_on(try_join_all(stores))?.into_iter().flatten());
        }
        Ok(stored)
    }

    /// Brings the artifact of the plan into the registry, without tags.
    pub(crate) fn store_plan(
        &self,
        form: &ArtifactForm<'_>,
        tree: &OutputTree,
    ) -> Result<Option<StoredArtifact>, Error> {
        let (address, layer) = (plan_address(form.address)?, artifact::pack_plan(tree)?);
        let desired = form.describe(&layer).with_manifests(artifact::digest_manifests(tree));
        self.runtime.block_on(self.store_artifact(form, None, address, layer, desired, false))
    }

    /// Brings the manifest of a cluster, or of the plan, and what it names into the registry. Keeps the earlier one if it has
    /// the same content. `None` if there is nothing to push, and nothing was.
    async fn store_artifact(
        &self,
        form: &ArtifactForm<'_>,
        cluster: Option<&String>,
        address: ArtifactAddress,
        layer: ArtifactLayer,
        desired: ArtifactManifest,
        is_empty: bool,
    ) -> Result<Option<StoredArtifact>, Error> {
        let cluster = cluster.cloned();
        let repository = address.repository();
        let mut tagged = BTreeMap::new();
        let mut kept = None;
        for tag in &form.earlier_tags {
            let fetched = self.registry.fetch_manifest(repository, tag).await?;
            let Some(FetchedManifest { digest, bytes }) = fetched else { continue };
            let is_same =
                ArtifactManifest::parse(&bytes).is_some_and(|manifest| manifest.has_same_content(&desired));
            if is_same && !form.always && kept.is_none() {
                kept = Some((digest.clone(), bytes));
            }
            tagged.insert((*tag).to_owned(), digest);
        }
        if is_empty && tagged.is_empty() {
            return Ok(None);
        }
        if let Some((digest, manifest)) = kept {
            return Ok(Some(StoredArtifact { cluster, address, digest, manifest, is_new: false, tagged }));
        }
        self.store_blob(repository, desired.config(), Bytes::from_static(EMPTY_CONFIG)).await?;
        if let Some(reference) = desired.layer() {
            self.store_blob(repository, reference, Bytes::from(layer.bytes)).await?;
        }
        let manifest = desired.to_bytes().map_err(std::io::Error::from)?;
        let digest = artifact::compute_digest(&manifest);
        self.registry.push_manifest(repository, &digest, &manifest).await?;
        Ok(Some(StoredArtifact { cluster, address, digest, manifest, is_new: true, tagged }))
    }

    async fn store_blob(
        &self,
        repository: &str,
        reference: &BlobReference,
        bytes: Bytes,
    ) -> Result<(), Error> {
        if !self.registry.has_blob(repository, &reference.digest).await? {
            self.registry.push_blob(repository, &reference.digest, bytes).await?;
        }
        Ok(())
    }

    /// Sets the tags of artifacts as long as `may_write`, and adds those that are set to `tagged`, also if it fails.
    pub(crate) fn tag_artifacts(
        &self,
        artifacts: &[StoredArtifact],
        tags: &[String],
        may_write: &dyn Fn() -> bool,
        tagged: &mut Vec<TaggedArtifact>,
    ) -> Result<(), Error> {
        let rows =
            artifacts.iter().flat_map(|artifact| tags.iter().map(move |tag| self.set_tag(artifact, tag)));
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            if !may_write() {
                return Err(Error::Fenced);
            }
            let mut failed = None;
            for row in self.runtime.block_on(join_all(rows.by_ref().take(MAX_PARALLEL_ARTIFACTS))) {
                match row {
                    Ok(row) => tagged.push(row),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn set_tag(&self, artifact: &StoredArtifact, tag: &str) -> Result<TaggedArtifact, Error> {
        let changed = !artifact.has_tag(tag);
        if changed {
            self.registry.push_manifest(artifact.address.repository(), tag, &artifact.manifest).await?;
        }
        Ok(TaggedArtifact {
            cluster: artifact.cluster.clone(),
            url: artifact.address.to_string(),
            tag: tag.to_owned(),
            digest: artifact.digest.clone(),
            changed,
        })
    }
}

impl ArtifactForm<'_> {
    /// The manifest of a layer.
    fn describe(&self, layer: &ArtifactLayer) -> ArtifactManifest {
        ArtifactManifest::new(self.types, layer, self.annotations.clone())
    }
}

impl StoredArtifact {
    /// Whether a tag named it before.
    pub(crate) fn has_tag(&self, tag: &str) -> bool {
        self.tagged.get(tag) == Some(&self.digest)
    }
}

/// The address of the plan beside the artifacts of clusters.
pub fn plan_address(address: &ArtifactAddress) -> Result<ArtifactAddress, Error> {
    Ok(address.for_cluster(PLAN)?)
}
