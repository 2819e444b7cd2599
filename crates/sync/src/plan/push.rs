//! The push of a rendering to a registry, and whether what was pushed is still there.

use federate_dialect::Plan;
use federate_publish::artifact::ArtifactTypes;
use federate_registry::{ArtifactAddress, Error as RegistryError, Registry, RegistryOptions};
use federate_session::artifacts::{self, ArtifactOrigin, ArtifactStore};
use federate_session::push::{self, FailedPush, MovedTags, PushOutcome, PushRequest, PushedSession};
use federate_session::{Destination, Session};
use federate_source::git::program::without_credentials;
use federate_sync_api::record::SyncRecord;
use federate_sync_api::status::{ArtifactStatus, SyncReason};
use federate_sync_api::{MediaTypes, PushSpec};

use crate::environment::CredentialsError;
use crate::outcome::ReconcileError;
use crate::plan::guard::{describe_excess, prune_limit};
use crate::plan::sessions::{Checkout, SourceState, SyncRuntime};
use crate::reconciliation::Reconciliation;

/// The registry of a Sync.
struct PushTarget {
    address: ArtifactAddress,
    store: ArtifactStore,
    /// What to do if the registry does not accept the credentials.
    remedy: String,
}

impl Reconciliation<'_> {
    /// Whether a tag of the plan names another one than was pushed with the revision that was accepted last, or a push since then has
    /// not come to its end. A reconciliation that only reads does not ask.
    pub(crate) fn is_artifact_overwritten(&self, record: &SyncRecord) -> Result<bool, ReconcileError> {
        let push = self.spec.push.as_ref().filter(|_| !self.reads_only);
        let Some((push, accepted)) = push.zip(record.accepted.as_ref()) else { return Ok(false) };
        self.env.counters.count_registry_operation("poll");
        let target = self.open_target(push)?;
        let mut moved = Vec::new();
        for tag in push.tags() {
            let digest = target.store.read_plan_digest(&target.address, &tag);
            let digest = digest.map_err(|error| target.explain_failure(&error))?;
            if digest != accepted.artifact {
                moved.push(tag);
            }
        }
        if accepted.artifact.is_some() && !moved.is_empty() {
            let tags = moved.join(", ");
            tracing::warn!(sync = self.name(), url = push.url, tags, "another client has moved tags");
        }
        Ok(accepted.artifact.is_none() || !moved.is_empty())
    }

    /// Pushes the rendering. The previous plan is that in the registry, or else that of the revision that was `accepted`;
    /// `has_pushed`
    /// says whether that was pushed before.
    pub(crate) fn push_rendering(
        &self,
        push: &PushSpec,
        runtime: &mut SyncRuntime,
        source_state: &SourceState,
        accepted: Option<&Plan>,
        has_pushed: bool,
    ) -> Result<(Session, ArtifactStatus), ReconcileError> {
        let target = self.open_target(push)?;
        let own = prune_limit(push.prune_limit);
        let limit = self.apply_limit().map_or(own, |limit| limit.min(own));
        let (origin, tags, checkout) = (self.find_origin(source_state), push.tags(), &source_state.checkout);
        let request = PushRequest {
            store: &target.store,
            address: &target.address,
            tags: &tags,
            earlier: Some(push.plan_tag()),
            fallback: accepted,
            has_pushed_fallback: has_pushed,
            clusters: &[],
            types: match push.media_types.unwrap_or_default() {
                MediaTypes::Oci => ArtifactTypes::Oci,
                MediaTypes::Flux => ArtifactTypes::Flux,
            },
            always: false,
            signature: None,
            origin: &origin,
            keep_going: false,
            prune_limit: limit,
            may_write: &|| self.env.services.is_leading(),
        };
        let mut attempts = 0;
        let pushed = request.push_rendering(
            |plan| {
                attempts += 1;
                // A reconciliation that others overtake again and again lets go of the Sync if it is asked to.
                if attempts > 1 && self.interrupt.is_some_and(|is_interrupted| is_interrupted()) {
                    return Err(ReconcileError::new(SyncReason::Progressing, "the push starts again later"));
                }
                self.render_session(runtime, checkout, plan, Some(limit), self.destination())
            },
            |error| tracing::info!(sync = self.name(), %error, "pushing again"),
        );
        let PushedSession { session, outcome, moved } = pushed.map_err(|FailedPush { error, moved }| {
            let stop = match error {
                push::Error::Open(stop) => stop,
                push::Error::Artifacts(error) => target.explain_failure(&error),
                error => ReconcileError::new(SyncReason::PushFailed, error.to_string()),
            };
            add_rest(stop, &moved)
        })?;
        let artifacts = match outcome {
            PushOutcome::Done(artifacts) => artifacts,
            PushOutcome::Errors => {
                let refusal = self.find_refusal(&session, None, None, Destination::Files);
                runtime.put_session(checkout, session);
                let unknown = || ReconcileError::new(SyncReason::BuildFailed, "the repo has errors");
                return Err(add_rest(refusal.unwrap_or_else(unknown), &moved));
            }
            PushOutcome::Refused(excess) => {
                // The next revision may differ only a little from this one.
                runtime.put_session(checkout, session);
                let stop = ReconcileError::new(SyncReason::PruneFailed, describe_excess(&excess));
                return Err(add_rest(stop, &moved));
            }
        };
        let moved = artifacts.iter().filter(|artifact| artifact.changed).count();
        if moved > 0 {
            self.env.counters.count_registry_operation("push");
            tracing::info!(sync = self.name(), url = push.url, tags = moved, "pushed");
        }
        let plan =
            artifacts.iter().find(|artifact| artifact.cluster.is_none() && artifact.tag == push.plan_tag());
        let plan = plan.ok_or_else(|| ReconcileError::new(SyncReason::PushFailed, "the plan has no tag"))?;
        let url = format!("{}:{}", plan.url, plan.tag);
        let artifact = ArtifactStatus { url, digest: plan.digest.clone() };
        Ok((session, artifact))
    }

    fn open_target(&self, push: &PushSpec) -> Result<PushTarget, ReconcileError> {
        let address = ArtifactAddress::parse(&push.url)
            .map_err(|error| ReconcileError::new(SyncReason::InvalidSpec, error.to_string()))?;
        let access = self.env.services.registry_access(self.valid_sync, &address).map_err(|error| {
            let reason = match error {
                CredentialsError::Unreadable { .. } => SyncReason::PushFailed,
                _ => SyncReason::AuthenticationFailed,
            };
            ReconcileError::new(reason, error.to_string())
        })?;
        let addresses = self.env.services.address_policy();
        let options = RegistryOptions { plain_http: push.insecure, proxy: access.proxy, addresses };
        let registry = Registry::new(&address, access.credentials, options).map_err(artifacts::Error::from);
        let store = registry.and_then(ArtifactStore::new);
        let store = store.map_err(|error| ReconcileError::new(SyncReason::PushFailed, error.to_string()))?;
        Ok(PushTarget { address, store, remedy: access.remedy })
    }

    /// Where the artifacts come from.
    fn find_origin(&self, source_state: &SourceState) -> ArtifactOrigin {
        match (&source_state.checkout, source_state.checkout.location()) {
            (Checkout::Revision(revision), Some(place)) => ArtifactOrigin::from_commit(
                place,
                revision.commit(),
                &without_credentials(&self.spec.source.url),
                &source_state.name,
            ),
            (Checkout::Folder(..), Some(place)) => {
                ArtifactOrigin::from_provenance(&source_state.checkout.read_provenance(place), place, None)
            }
            (_, None) => ArtifactOrigin::default(),
        }
    }
}

/// The failure, with the tags that have moved anyway.
fn add_rest(mut stop: ReconcileError, moved: &MovedTags) -> ReconcileError {
    stop.message.extend(moved.describe_rest().map(|said| format!("; {said}")));
    stop
}

impl PushTarget {
    /// The reason and the message of a failure.
    fn explain_failure(&self, error: &artifacts::Error) -> ReconcileError {
        match error {
            artifacts::Error::Registry(RegistryError::Unauthorized { host, what, said }) => {
                let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
                ReconcileError::new(
                    SyncReason::AuthenticationFailed,
                    format!("{host} does not let federate {what}{said}: {}", self.remedy),
                )
            }
            artifacts::Error::Fenced => ReconcileError::failed(error),
            error => ReconcileError::new(SyncReason::PushFailed, error.to_string()),
        }
    }
}
