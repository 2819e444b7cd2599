//! Pushes the rendering of a session to a registry.
//!
//! Registries move tags one by one, and on no condition. The plans with the tags to move are read first, and their digests are
//! compared again before any tag moves, before those of the plan move, and afterwards: who has pushed meanwhile is not
//! overwritten, and the rendering starts over from their plan.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use federate_dialect::{HUB, Placement, Plan};
use federate_engine::deletions::{Deletions, ExcessiveDeletions, PruneLimit};
use federate_engine::{any_error, previous};
use federate_kubernetes::ObjectRef;
use federate_publish::OutputTree;
use federate_publish::artifact::{self, ArtifactTypes};
use federate_publish::paths::ObjectPath;
use federate_publish::tree::PathCollision;
use federate_registry::{ArtifactAddress, sign_artifact};

use crate::artifacts::{
    self, ArtifactForm, ArtifactOrigin, ArtifactStore, PublishedPlan, StoredArtifact, TaggedArtifact,
    plan_address,
};
use crate::attempts::{MAX_ATTEMPTS, wait_before_attempt};
use crate::left_out::{ClusterOutput, check_left_out};
use crate::{Destination, Session};

/// How many tags a message names.
const MAX_NAMED_TAGS: usize = 5;

/// A push that has not come to its end.
#[derive(Debug)]
pub struct FailedPush<E> {
    /// Why.
    pub error: Error<E>,
    /// The tags that have moved anyway.
    pub moved: MovedTags,
}

/// Tags that have moved, by address and tag.
#[derive(Debug, Default)]
pub struct MovedTags(BTreeMap<(String, String), TaggedArtifact>);

/// Why a push has not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The session could not be opened.
    #[error(transparent)]
    Open(E),
    /// The rendering cannot be laid out as files.
    #[error(transparent)]
    Layout(#[from] Box<PathCollision>),
    /// Artifacts cannot be read or pushed.
    #[error(transparent)]
    Artifacts(#[from] artifacts::Error),
    /// Another client pushed during every attempt.
    #[error("{0}; gave up after {MAX_ATTEMPTS} attempts")]
    GaveUp(artifacts::Error),
}

/// What to push, and under which names.
pub struct PushRequest<'p> {
    /// The registry.
    pub store: &'p ArtifactStore,
    /// The artifacts: `{cluster}` stands for the name of each cluster.
    pub address: &'p ArtifactAddress,
    /// The tags to set.
    pub tags: &'p [String],
    /// The tag of earlier artifacts: their plan is the previous plan, and those with the same content stay.
    pub earlier: Option<&'p str>,
    /// The plan that counts as that of earlier artifacts if the registry has none.
    pub fallback: Option<&'p Plan>,
    /// Whether artifacts of it were pushed.
    pub has_pushed_fallback: bool,
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
    /// Whether to skip objects with errors instead of pushing nothing.
    pub keep_going: bool,
    /// The largest share of the objects in artifacts, in total and of each cluster, that may be deleted.
    pub prune_limit: PruneLimit,
    /// Whether this process may still move tags: another one may lead by now.
    pub may_write: &'p dyn Fn() -> bool,
}

/// How artifacts are signed.
#[derive(Clone, Copy, Debug)]
pub struct SignatureRequest<'s> {
    /// The key; without one, an identity signs.
    pub key: Option<&'s str>,
    /// Whether the registry is reached without TLS.
    pub plain_http: bool,
}

/// A session that was rendered, and what became of it.
pub struct PushedSession {
    /// The session that was rendered.
    pub session: Session,
    /// What became of it.
    pub outcome: PushOutcome,
    /// The tags that have moved, also in attempts that others have overtaken.
    pub moved: MovedTags,
}

/// What became of a rendering. Unless it is [`Done`](Self::Done), no tag has moved but in attempts that others have overtaken.
#[derive(Debug)]
pub enum PushOutcome {
    /// The registry has it. The tags, by cluster; those of the plan last.
    Done(Vec<TaggedArtifact>),
    /// The repo has errors.
    Errors,
    /// More would be deleted from artifacts than the limit allows.
    Refused(ExcessiveDeletions),
}

/// An attempt that no push of another client has overtaken.
struct RenderedPush {
    session: Session,
    outcome: PushOutcome,
}

/// The plans in the registry, by tag.
struct PublishedPlans(BTreeMap<String, Arc<PublishedPlan>>);

impl PushRequest<'_> {
    /// Pushes what `open` renders from the previous plan. If another client pushes in the
    /// meantime, calls `retrying` and starts over.
    pub fn push_rendering<E>(
        &self,
        mut open: impl FnMut(Option<&Plan>) -> Result<Session, E>,
        mut retrying: impl FnMut(&artifacts::Error),
    ) -> Result<PushedSession, FailedPush<E>> {
        let mut moved = MovedTags::default();
        let mut attempt = 1;
        loop {
            match self.try_push(&mut open, &mut moved) {
                Ok(Ok(RenderedPush { session, outcome })) => {
                    let outcome = moved.note_changes(outcome);
                    return Ok(PushedSession { session, outcome, moved });
                }
                Ok(Err(error)) if attempt == MAX_ATTEMPTS => {
                    return Err(FailedPush { error: Error::GaveUp(error), moved });
                }
                Ok(Err(error)) => retrying(&error),
                Err(error) => return Err(FailedPush { error, moved }),
            }
            wait_before_attempt(attempt);
            attempt += 1;
        }
    }

    /// One attempt; the inner error says that another client has pushed in the meantime.
    fn try_push<E>(
        &self,
        open: &mut impl FnMut(Option<&Plan>) -> Result<Session, E>,
        moved: &mut MovedTags,
    ) -> Result<Result<RenderedPush, artifacts::Error>, Error<E>> {
        if !(self.may_write)() {
            return Err(artifacts::Error::Fenced.into());
        }
        let plans = self.read_plans()?;
        let session = open(self.find_previous(&plans)).map_err(Error::Open)?;
        if any_error(&session.findings_for(Destination::Files)) && !self.keep_going {
            return Ok(Ok(RenderedPush { session, outcome: PushOutcome::Errors }));
        }
        let limit = session.prune_limit(self.prune_limit);
        for before in self.replaced_plans(&plans) {
            check_left_out(session.plan(), before, self.clusters, ClusterOutput::Artifact)
                .map_err(artifacts::Error::from)?;
            let deletions = Deletions::compare_plans(before, session.plan());
            if let Some(excess) = deletions.check_limit(limit, |_| true) {
                return Ok(Ok(RenderedPush { session, outcome: PushOutcome::Refused(excess) }));
            }
        }
        let tree = self.lay_out(&session, self.find_pushed(&plans))?;
        let mut tagged = Vec::new();
        let pushed = self.push_tree(&session, &tree, &plans, &mut tagged);
        moved.add_changed(&tagged);
        Ok(pushed?.map(|()| RenderedPush { session, outcome: PushOutcome::Done(tagged) }))
    }

    /// The tags to set, and that of earlier artifacts.
    fn tags_to_read(&self) -> Vec<&str> {
        let mut tags: Vec<&str> = self.earlier.into_iter().collect();
        for tag in self.tags {
            if !tags.contains(&tag.as_str()) {
                tags.push(tag);
            }
        }
        tags
    }

    fn read_plans(&self) -> Result<PublishedPlans, artifacts::Error> {
        let address = plan_address(self.address)?;
        Ok(PublishedPlans(self.store.read_published_plans(&address, &self.tags_to_read())?))
    }

    /// The plans that the rendering comes after: the previous plan, and those whose tags are set. What they say of clusters is forgotten.
    fn replaced_plans<'r>(&'r self, plans: &'r PublishedPlans) -> impl Iterator<Item = &'r Plan> {
        let others = self.tags.iter().filter(|tag| self.earlier != Some(tag.as_str()));
        self.find_previous(plans).into_iter().chain(others.filter_map(|tag| plans.find_plan(tag)))
    }

    /// The previous plan.
    fn find_previous<'r>(&'r self, plans: &'r PublishedPlans) -> Option<&'r Plan> {
        self.earlier.and_then(|tag| plans.find_plan(tag)).or(self.fallback)
    }

    /// The plan whose artifacts were pushed.
    fn find_pushed<'r>(&'r self, plans: &'r PublishedPlans) -> Option<&'r Plan> {
        self.earlier
            .and_then(|tag| plans.find_plan(tag))
            .or(self.fallback.filter(|_| self.has_pushed_fallback))
    }

    /// The rendered tree. An object that its control plane withholds keeps the manifest of the earlier artifact, of the plan
    /// `pushed`.
    fn lay_out<E>(&self, session: &Session, pushed: Option<&Plan>) -> Result<OutputTree, Error<E>> {
        let (earlier, failed) = (EarlierArtifacts::new(self, pushed), RefCell::new(None));
        let manifests = session.render().with_retained(|object: &ObjectRef, cluster: &str| {
            earlier.read_manifest(object, cluster).unwrap_or_else(|error| {
                failed.borrow_mut().get_or_insert(error);
                None
            })
        });
        match failed.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(OutputTree::new(previous::serialize_plan(session.plan()), manifests)?),
        }
    }

    /// The clusters that receive objects now or did before, and the hub, if it receives some.
    fn select_clusters(&self, tree: &OutputTree, plan: &Plan, plans: &PublishedPlans) -> Vec<String> {
        let mut names: BTreeSet<&str> = plan.affected_clusters().into_iter().map(AsRef::as_ref).collect();
        for before in self.replaced_plans(plans) {
            names.extend(before.affected_clusters().into_iter().map(AsRef::<str>::as_ref));
        }
        let pushed: BTreeSet<&str> = self.clusters.iter().map(String::as_str).collect();
        names.retain(|name| pushed.is_empty() || pushed.contains(name));
        if artifact::count_objects(tree, HUB) > 0 {
            names.insert(HUB);
        }
        names.into_iter().map(str::to_owned).collect()
    }

    /// Brings the tree into the registry, and moves the tags. Those that are set are added to `tagged`.
    fn push_tree(
        &self,
        session: &Session,
        tree: &OutputTree,
        plans: &PublishedPlans,
        tagged: &mut Vec<TaggedArtifact>,
    ) -> Result<Result<(), artifacts::Error>, artifacts::Error> {
        let form = ArtifactForm {
            address: self.address,
            types: self.types,
            annotations: self.origin.to_annotations(tree.placements()),
            earlier_tags: self.tags_to_read(),
            always: self.always,
        };
        let clusters = self.select_clusters(tree, session.plan(), plans);
        let clusters = self.store.store_clusters(&form, tree, session.plan(), &clusters)?;
        let of_plan: Vec<StoredArtifact> = self.store.store_plan(&form, tree)?.into_iter().collect();
        if let Some(SignatureRequest { key, plain_http }) = self.signature {
            for artifact in clusters.iter().chain(&of_plan).filter(|artifact| artifact.is_new) {
                sign_artifact(&artifact.address, &artifact.digest, key, plain_http)?;
            }
        }
        let moves = clusters
            .iter()
            .chain(&of_plan)
            .any(|artifact| self.tags.iter().any(|tag| !artifact.has_tag(tag)));
        if let Err(error) = self.check_unmoved(plans)? {
            return Ok(Err(error));
        }
        self.store.tag_artifacts(&clusters, self.tags, self.may_write, tagged)?;
        if moves && let Err(error) = self.check_unmoved(plans)? {
            return Ok(Err(error));
        }
        self.store.tag_artifacts(&of_plan, self.tags, self.may_write, tagged)?;
        if moves && let Err(error) = self.check_tagged(&of_plan)? {
            return Ok(Err(error));
        }
        Ok(Ok(()))
    }

    /// Whether the tags of the plan name what was read.
    fn check_unmoved(
        &self,
        plans: &PublishedPlans,
    ) -> Result<Result<(), artifacts::Error>, artifacts::Error> {
        let address = plan_address(self.address)?;
        for tag in self.tags {
            if self.store.read_digest(&address, tag)?.as_deref() != plans.find_digest(tag) {
                return Ok(Err(artifacts::Error::Moved(format!("{address}:{tag}"))));
            }
        }
        Ok(Ok(()))
    }

    /// Whether the tags of the plan name what was pushed.
    fn check_tagged(
        &self,
        plan: &[StoredArtifact],
    ) -> Result<Result<(), artifacts::Error>, artifacts::Error> {
        for StoredArtifact { address, digest, .. } in plan {
            for tag in self.tags {
                if self.store.read_digest(address, tag)?.as_ref() != Some(digest) {
                    return Ok(Err(artifacts::Error::Moved(format!("{address}:{tag}"))));
                }
            }
        }
        Ok(Ok(()))
    }
}

impl PublishedPlans {
    fn find_published(&self, tag: &str) -> Option<&PublishedPlan> {
        self.0.get(tag).map(AsRef::as_ref)
    }

    fn find_plan(&self, tag: &str) -> Option<&Plan> {
        self.find_published(tag).map(|published| &published.plan)
    }

    fn find_digest(&self, tag: &str) -> Option<&str> {
        self.find_published(tag).map(|published| published.digest.as_str())
    }
}

/// The files of an artifact, by path.
type ArtifactFiles = BTreeMap<String, Arc<str>>;

/// The earlier artifacts of clusters. Each is read once.
struct EarlierArtifacts<'e> {
    request: &'e PushRequest<'e>,
    /// Their plan.
    plan: Option<&'e Plan>,
    /// The files by path, by cluster; `None` where the registry has no artifact.
    files: RefCell<BTreeMap<String, Option<ArtifactFiles>>>,
    /// The objects of the plan with what places them.
    placements: OnceCell<BTreeMap<&'e ObjectRef, Vec<&'e Placement>>>,
}

impl<'e> EarlierArtifacts<'e> {
    fn new(request: &'e PushRequest<'e>, plan: Option<&'e Plan>) -> Self {
        Self { request, plan, files: RefCell::default(), placements: OnceCell::new() }
    }

    /// The manifest of an object for a cluster, if there is one. An artifact that should have it and is gone is an error: without it,
    /// the next one would delete the object.
    fn read_manifest(&self, object: &ObjectRef, cluster: &str) -> Result<Option<Arc<str>>, artifacts::Error> {
        let Some(tag) = self.request.earlier else { return Ok(None) };
        let address = self.request.address.for_cluster(cluster)?;
        if !self.files.borrow().contains_key(cluster) {
            let files = self.request.store.read_files(&address, tag)?;
            let files =
                files.map(|files| files.into_iter().map(|(path, text)| (path, text.into())).collect());
            self.files.borrow_mut().insert(cluster.to_owned(), files);
        }
        let place = ObjectPath::from_object(object);
        match self.files.borrow().get(cluster) {
            Some(Some(files)) => Ok(files.get(&format!("{}/{}", place.namespace, place.file)).cloned()),
            _ if self.was_placed(object, cluster) => Err(artifacts::Error::EarlierGone {
                object: object.to_string(),
                cluster: cluster.to_owned(),
                artifact: format!("{address}:{tag}"),
            }),
            _ => Ok(None),
        }
    }

    /// Whether the plan has the object in the cluster.
    fn was_placed(&self, object: &ObjectRef, cluster: &str) -> bool {
        let placements = self.placements.get_or_init(|| {
            let mut by_object = BTreeMap::<_, Vec<_>>::new();
            for placement in self.plan.iter().flat_map(|plan| &plan.placements) {
                by_object.entry(&placement.object).or_default().push(placement);
            }
            by_object
        });
        placements.get(object).into_iter().flatten().any(|placement| placement.reaches_cluster(cluster))
    }
}

impl MovedTags {
    fn add_changed(&mut self, tagged: &[TaggedArtifact]) {
        for row in tagged.iter().filter(|row| row.changed) {
            self.0.insert((row.url.clone(), row.tag.clone()), row.clone());
        }
    }

    /// The outcome, with the tags noted that earlier attempts moved.
    fn note_changes(&self, mut outcome: PushOutcome) -> PushOutcome {
        if let PushOutcome::Done(tagged) = &mut outcome {
            for tagged in tagged {
                tagged.changed |= self.0.contains_key(&(tagged.url.clone(), tagged.tag.clone()));
            }
        }
        outcome
    }

    /// The tags.
    pub fn to_rows(&self) -> Vec<TaggedArtifact> {
        self.0.values().cloned().collect()
    }

    /// Whether nothing has moved.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What has moved although the push has not come to its end; `None` if nothing has.
    pub fn describe_rest(&self) -> Option<String> {
        let names: Vec<String> =
            self.0.keys().take(MAX_NAMED_TAGS).map(|(url, tag)| format!("{url}:{tag}")).collect();
        let more = self.0.len().saturating_sub(MAX_NAMED_TAGS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let all =
            format!("tags have moved anyway, and the next push puts them right: {}{more}", names.join(", "));
        Some(all).filter(|_| !self.is_empty())
    }
}
