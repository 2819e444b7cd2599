//! Pushes a rendering to a registry: an artifact per cluster, and one with the plan, which is the memory of the next run.
//!
//! Nothing is pushed that the registry has. Tags move last, when everything that they name is there and signed: first those of
//! the clusters, then that of the plan.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Runtime;

use federate_dialect::{HUB, Plan};
use federate_engine::previous;
use federate_kubernetes::ObjectRef;
use federate_publish::OutputTree;
use federate_publish::artifact::{
    self, ArtifactLayer, ArtifactManifest, ArtifactTypes, BlobReference, EMPTY_CONFIG, LayerError,
};
use federate_publish::paths::{ObjectPath, PLACEMENTS};
use federate_registry::{
    ArtifactAddress, FetchedManifest, InvalidAddress, Registry, SignatureError, sign_artifact,
};
use federate_source::git::{self, GitLocation};

use crate::provenance::Provenance;

/// What stands in the address of the plan's artifact for the name of a cluster.
const PLAN: &str = "plan";

/// How many artifacts are pushed at a time.
const MAX_PARALLEL_ARTIFACTS: usize = 8;

/// The largest layer that is read, in bytes, packed and unpacked.
const MAX_PACKED_BYTES: usize = 256 << 20;
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The characters of a commit's id in a tag.
const SHORT_ID_CHARS: usize = 7;

/// Why artifacts could not be read or pushed. No tag has moved, unless the registry failed while they moved.
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
    /// Clusters receive nothing any more, and are not among those that are pushed.
    #[error(
        "{0} would receive nothing any more, but --cluster leaves what was pushed for it as it is: push without --cluster, or name \
         it, too"
    )]
    LeftOut(String),
    /// Signing failed.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// An artifact cannot be packed.
    #[error("cannot pack an artifact: {0}")]
    Pack(#[from] std::io::Error),
    /// The artifact is not what federate pushes.
    #[error("{address} is not an artifact with a plan: {why}")]
    NotAPlan {
        /// The artifact.
        address: String,
        /// What is wrong.
        why: String,
    },
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
    /// The files of clusters that were read, by cluster.
    files: RefCell<BTreeMap<String, BTreeMap<String, Arc<str>>>>,
}

/// What to push, and under which names.
pub struct PushRequest<'p> {
    /// The artifacts: `{cluster}` stands for the name of each cluster.
    pub address: &'p ArtifactAddress,
    /// The tags to set.
    pub tags: &'p [String],
    /// The tag of earlier artifacts, which stay if their content is the same.
    pub earlier: Option<&'p str>,
    /// The clusters to push; empty for all.
    pub clusters: &'p [String],
    /// The media types.
    pub types: ArtifactTypes,
    /// Whether artifacts are pushed although earlier ones have the same content.
    pub always: bool,
    /// How the artifacts are signed, if at all.
    pub signature: Option<SignatureRequest<'p>>,
    /// Where they come from.
    pub origin: &'p ArtifactOrigin,
}

/// How artifacts are signed.
#[derive(Clone, Copy, Debug)]
pub struct SignatureRequest<'s> {
    /// The key; without one, an identity signs.
    pub key: Option<&'s str>,
    /// Whether the registry is reached without TLS.
    pub plain_http: bool,
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
    /// The deletions because of which nothing was pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<&'r federate_engine::deletions::ExcessiveDeletions>,
}

/// An artifact whose manifest the registry has.
struct StoredArtifact {
    cluster: Option<String>,
    address: ArtifactAddress,
    digest: String,
    manifest: Vec<u8>,
    /// Whether the manifest was pushed now.
    is_new: bool,
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
        let oid = git2::Oid::from_str(id).ok();
        let created = oid.and_then(|oid| repository.find_commit(oid).ok());
        let created = created.and_then(|commit| Timestamp::from_second(commit.time().seconds()).ok());
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

    /// The tag that names the commit; `None` without one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The annotations of an artifact.
    fn to_annotations(&self, plan: &str) -> BTreeMap<String, String> {
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

impl ArtifactStore {
    /// The artifacts of a registry. Nothing is read yet.
    pub fn new(registry: Registry) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { registry, runtime, files: RefCell::default() })
    }

    /// The plan beside the artifacts of clusters; `None` if the registry has none with the tag.
    pub fn read_plan_beside(&self, address: &ArtifactAddress, tag: &str) -> Result<Option<Plan>, Error> {
        self.read_plan(&plan_address(address)?, tag)
    }

    /// The plan in an artifact; `None` if the registry does not have it.
    pub fn read_plan(&self, address: &ArtifactAddress, tag: &str) -> Result<Option<Plan>, Error> {
        let Some(files) = self.runtime.block_on(self.read_files(address, tag))? else { return Ok(None) };
        let not_a_plan = |why: String| Error::NotAPlan { address: format!("{address}:{tag}"), why };
        let text = files.get(PLACEMENTS).ok_or_else(|| not_a_plan(format!("it has no {PLACEMENTS}")))?;
        previous::read_own(text.as_bytes()).map(Some).map_err(|error| not_a_plan(error.to_string()))
    }

    /// The manifest of an object in the artifact of a cluster, if there is one.
    pub fn read_manifest(
        &self,
        address: &ArtifactAddress,
        tag: &str,
        object: &ObjectRef,
        cluster: &str,
    ) -> Result<Option<Arc<str>>, Error> {
        let place = ObjectPath::from_object(object);
        let path = format!("{}/{}", place.namespace, place.file);
        if let Some(files) = self.files.borrow().get(cluster) {
            return Ok(files.get(&path).cloned());
        }
        let files = self.runtime.block_on(self.read_files(&address.for_cluster(cluster)?, tag))?;
        let files = files.unwrap_or_default().into_iter().map(|(path, text)| (path, text.into()));
        let files: BTreeMap<String, Arc<str>> = files.collect();
        let found = files.get(&path).cloned();
        self.files.borrow_mut().insert(cluster.to_owned(), files);
        Ok(found)
    }

    async fn read_files(
        &self,
        address: &ArtifactAddress,
        tag: &str,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        let repository = address.repository();
        let Some(manifest) = self.registry.fetch_manifest(repository, tag).await? else { return Ok(None) };
        let manifest = ArtifactManifest::parse(&manifest.bytes);
        let layer = manifest.as_ref().and_then(ArtifactManifest::layer);
        let layer = layer.ok_or_else(|| Error::NotAPlan {
            address: format!("{address}:{tag}"),
            why: "its manifest does not name a single layer".to_owned(),
        })?;
        let bytes = self.registry.fetch_blob(repository, &layer.digest, MAX_PACKED_BYTES).await?;
        let files = artifact::unpack_layer(&bytes, MAX_UNPACKED_BYTES);
        files.map(Some).map_err(|why| Error::Layer { address: format!("{address}:{tag}"), why })
    }

    /// Pushes a rendering. `before` is the plan that `earlier` names, whose clusters may receive nothing any more.
    pub fn push_rendering(
        &self,
        request: &PushRequest<'_>,
        tree: &OutputTree,
        plan: &Plan,
        before: &Plan,
    ) -> Result<Vec<TaggedArtifact>, Error> {
        request.check_left_out(plan, before)?;
        let annotations = request.origin.to_annotations(&previous::write_plan(plan));
        let clusters = request.select_clusters(tree, plan, before);
        let plan_at = plan_address(request.address)?;
        let mut stored = Vec::new();
        for clusters in clusters.chunks(MAX_PARALLEL_ARTIFACTS) {
            let layers: Vec<ArtifactLayer> = clusters
                .par_iter()
                .map(|cluster| artifact::pack_cluster(tree, cluster))
                .collect::<Result<_, _>>()?;
            let stores = clusters.iter().zip(layers).map(|(cluster, layer)| {
                let is_empty = artifact::count_objects(tree, cluster) == 0;
                self.store_artifact(request, Some(cluster), &plan_at, layer, is_empty, &annotations)
            });
            stored.extend(self.runtime.block_on(try_join_all(stores))?.into_iter().flatten());
        }
        let layer = artifact::pack_plan(tree)?;
        let of_plan = self.store_artifact(request, None, &plan_at, layer, false, &annotations);
        stored.extend(self.runtime.block_on(of_plan)?);
        if let Some(SignatureRequest { key, plain_http }) = request.signature {
            for artifact in stored.iter().filter(|artifact| artifact.is_new) {
                sign_artifact(&artifact.address, &artifact.digest, key, plain_http)?;
            }
        }
        let mut tagged = Vec::new();
        for artifacts in stored.chunks(MAX_PARALLEL_ARTIFACTS) {
            let (clusters, plan): (Vec<_>, Vec<_>) =
                artifacts.iter().partition(|artifact| artifact.cluster.is_some());
            for artifacts in [clusters, plan] {
                let tags = artifacts.into_iter().map(|artifact| self.set_tags(artifact, request.tags));
                tagged.extend(self.runtime.block_on(try_join_all(tags))?.into_iter().flatten());
            }
        }
        Ok(tagged)
    }

    /// Brings the manifest of a cluster, or of the plan, and what it names into the registry. Keeps the earlier one if it has
    /// the same content. `None` if there is nothing to push, and nothing was.
    async fn store_artifact(
        &self,
        request: &PushRequest<'_>,
        cluster: Option<&String>,
        plan_at: &ArtifactAddress,
        layer: ArtifactLayer,
        is_empty: bool,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Option<StoredArtifact>, Error> {
        let address = match cluster {
            Some(cluster) => request.address.for_cluster(cluster)?,
            None => plan_at.clone(),
        };
        if cluster.is_some() && address.repository() == plan_at.repository() {
            return Err(Error::ReservedName(address.to_string()));
        }
        let cluster = cluster.cloned();
        let repository = address.repository();
        let desired = ArtifactManifest::new(request.types, &layer, annotations.clone());
        let mut tagged = BTreeMap::new();
        let mut kept = None;
        for tag in request.earlier.into_iter().chain(request.tags.iter().map(String::as_str)) {
            if tagged.contains_key(tag) {
                continue;
            }
            let Some(FetchedManifest { digest, bytes }) =
                self.registry.fetch_manifest(repository, tag).await?
            else {
                continue;
            };
            let is_same =
                ArtifactManifest::parse(&bytes).is_some_and(|manifest| manifest.has_same_content(&desired));
            if is_same && !request.always && kept.is_none() {
                kept = Some((digest.clone(), bytes));
            }
            tagged.insert(tag.to_owned(), digest);
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

    async fn set_tags(
        &self,
        artifact: &StoredArtifact,
        tags: &[String],
    ) -> Result<Vec<TaggedArtifact>, Error> {
        let mut rows = Vec::new();
        for tag in tags {
            let changed = artifact.tagged.get(tag) != Some(&artifact.digest);
            if changed {
                self.registry.push_manifest(artifact.address.repository(), tag, &artifact.manifest).await?;
            }
            rows.push(TaggedArtifact {
                cluster: artifact.cluster.clone(),
                url: artifact.address.to_string(),
                tag: tag.clone(),
                digest: artifact.digest.clone(),
                changed,
            });
        }
        Ok(rows)
    }
}

impl PushRequest<'_> {
    /// Refuses a plan without a cluster whose artifact would stay as it is: no later push would know of it.
    fn check_left_out(&self, plan: &Plan, before: &Plan) -> Result<(), Error> {
        let receiving = plan.affected_clusters();
        let mut left_out = before.affected_clusters().into_iter().filter(|&name| {
            !receiving.contains(name)
                && !self.clusters.is_empty()
                && !self.clusters.iter().any(|one| **one == **name)
        });
        left_out.next().map_or(Ok(()), |name| Err(Error::LeftOut(name.to_string())))
    }

    /// The clusters that receive objects now or did before, and the hub, if it receives some.
    fn select_clusters(&self, tree: &OutputTree, plan: &Plan, before: &Plan) -> Vec<String> {
        let mut names: BTreeSet<&str> = plan.affected_clusters().into_iter().map(AsRef::as_ref).collect();
        names.extend(before.affected_clusters().into_iter().map(AsRef::<str>::as_ref));
        names.retain(|name| self.clusters.is_empty() || self.clusters.iter().any(|cluster| cluster == name));
        if artifact::count_objects(tree, HUB) > 0 {
            names.insert(HUB);
        }
        names.into_iter().map(str::to_owned).collect()
    }
}

/// The address of the plan beside the artifacts of clusters.
fn plan_address(address: &ArtifactAddress) -> Result<ArtifactAddress, Error> {
    Ok(address.for_cluster(PLAN)?)
}
