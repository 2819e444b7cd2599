//! What the member's agent does about an object: it adopts, compares, applies or removes it, or leaves and
//! reports it.
//!
//! ```text
//! stamp ─► owner: taken over? ─► differences (view) ─► drifted? ─► applied: patch, or by the server
//! ```
//!
//! Facts: an object is the placement's own by an owner reference to its `AppliedWork`. Partial
//! comparison is a dry run of server-side apply, so the decision asks the member's API server.

use serde_json::Value;

use federate_apiserver_model::{ApiError, ResourceKind, patches};

pub(super) mod action;
mod differences;
mod owner;
mod patch;
mod server;
mod stamp;
mod strategy;
mod view;

pub use differences::PatchDetail;
pub use server::MemberServer;
pub(super) use stamp::{BOOKKEEPING, HASH_ANNOTATION};
pub use strategy::ApplyStrategy;
use strategy::TakeOver;

/// The field manager of the member's agent.
pub const FIELD_MANAGER: &str = "work-api-agent";

/// The manager that the API server records for fields from before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The API server of a member, which computes the result of a write.
pub trait MemberApi {
    /// The result of a server-side apply as [`FIELD_MANAGER`].
    fn compute_apply(&self, live: &Value, manifest: &Value, force: bool) -> Result<Value, ApiError>;

    /// The result of a create, or of an update of `live`.
    fn compute_write(&self, live: Option<&Value>, object: Value) -> Result<Value, ApiError>;
}

/// A write to the member.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberWrite {
    /// The object is created.
    Create(Value),
    /// It is replaced.
    Update(Value),
    /// It is patched.
    Patch {
        /// The patch's media type.
        media: &'static str,
        /// The patch.
        patch: Value,
        /// The patched object.
        patched: Value,
    },
    /// It is applied by server-side apply.
    Apply {
        /// What is applied.
        manifest: Value,
        /// Whether fields are taken from other managers.
        force: bool,
    },
}

/// The outcome for one manifest.
#[derive(Clone, Debug, Default)]
pub struct ManifestOutcome {
    /// The agent's decision.
    pub decision: &'static str,
    /// The agent's error.
    pub error: Option<&'static str>,
    /// The differences between hub and member, where they decide.
    pub diffs: Vec<PatchDetail>,
    /// The fields that another client changed in the member.
    pub drifts: Vec<PatchDetail>,
    /// The writes, in order.
    pub writes: Vec<MemberWrite>,
    /// The object after them.
    pub result: Option<Value>,
}

impl ManifestOutcome {
    fn finish_with(mut self, decision: &'static str, error: Option<&'static str>) -> Self {
        (self.decision, self.error) = (decision, error);
        self
    }
}

/// An agent that applies manifests in one member.
pub struct ManifestApplier<'m> {
    /// The apply strategy of the placement.
    pub strategy: &'m ApplyStrategy,
    /// The owner reference to the placement's `AppliedWork`. Where the member has none, the hash on an object
    /// shows that it belongs to the placement.
    pub owner: Option<&'m Value>,
    /// The Works that exist.
    pub works: &'m [String],
    /// The kind, if it is a built-in one.
    pub kind: Option<&'m ResourceKind>,
    /// The member.
    pub member: &'m dyn MemberApi,
}

impl ManifestApplier<'_> {
    /// Decides what to do about one manifest.
    pub fn decide_outcome(&self, manifest: &Value, live: Option<&Value>) -> ManifestOutcome {
        let manifest = stamp::strip_manifest(manifest);
        let mut outcome = ManifestOutcome::default();
        let mut live = live.cloned();
        let mut owned = live.as_ref().is_none_or(|live| self.owns_object(live));
        if let Some(found) =
            live.clone().filter(|_| !owned && self.strategy.takeover_mode() != TakeOver::Never)
        {
            match self.adopt_object(&manifest, &found, &mut outcome) {
                Ok(taken) => (live, owned) = (Some(taken), true),
                Err(error) => return outcome.finish_with("FailedToTakeOver", Some(error)),
            }
        }
        if self.strategy.only_reports() {
            outcome.diffs = match &live {
                None => differences::missing_object(),
                Some(live) => self.compute_differences(&manifest, live),
            };
            let decision = if outcome.diffs.is_empty() { "NoDiffFound" } else { "FoundDiff" };
            return outcome.finish_with(decision, None);
        }
        if !owned {
            return outcome.finish_with("NotTakenOver", Some("NotOwned"));
        }
        if let Some(live) = live.as_ref().filter(|live| self.is_applied(&manifest, live)) {
            outcome.drifts = self.compute_differences(&manifest, live);
            if !outcome.drifts.is_empty() {
                return outcome.finish_with("FoundDrifts", Some("DriftsFound"));
            }
        }
        match self.apply_manifest(&manifest, live.as_ref(), &mut outcome) {
            Ok(result) => {
                if self.strategy.compares_all() {
                    outcome.drifts = differences::find_differences(
                        &view::comparable_view(&manifest),
                        &view::comparable_view(&result),
                    );
                }
                outcome.result = Some(result);
                outcome.finish_with("Applied", None)
            }
            Err(error) => {
                outcome.result = live.filter(|_| !outcome.writes.is_empty());
                outcome.finish_with("ManifestApplyFailed", Some(error))
            }
        }
    }

    /// Whether an object belongs to the placement.
    pub fn owns_object(&self, live: &Value) -> bool {
        match self.owner {
            Some(owner) => owner::owner_references(live).iter().any(|one| owner::is_same_owner(one, owner)),
            None => {
                live.pointer("/metadata/annotations").is_some_and(|a| a.get(stamp::HASH_ANNOTATION).is_some())
            }
        }
    }

    fn adopt_object(
        &self,
        manifest: &Value,
        live: &Value,
        outcome: &mut ManifestOutcome,
    ) -> Result<Value, &'static str> {
        let taken = owner::add_owner(live, self.owner, self.works, self.strategy.allow_co_ownership)?;
        if self.strategy.takeover_mode() == TakeOver::IfNoDiff {
            outcome.diffs = self.compute_differences(manifest, live);
            if !outcome.diffs.is_empty() {
                return Err("DiffsFound");
            }
        }
        let written = self.member.compute_write(Some(live), taken.clone()).map_err(|_| "TakeOverFailed")?;
        outcome.writes.push(MemberWrite::Update(taken));
        outcome.result = Some(written.clone());
        Ok(written)
    }

    /// Whether a drifted object must stay: this manifest was applied before.
    fn is_applied(&self, manifest: &Value, live: &Value) -> bool {
        let applied =
            live.pointer("/metadata/annotations").and_then(|a| a.get(stamp::HASH_ANNOTATION)?.as_str());
        self.strategy.keeps_drifts() && applied == Some(&view::hash_view(manifest))
    }

    /// The differences between hub and member. A partial comparison uses a dry run of an apply; an invalid
    /// manifest is compared as a whole.
    fn compute_differences(&self, manifest: &Value, live: &Value) -> Vec<PatchDetail> {
        let partial = !self.strategy.compares_all();
        let applied = partial.then(|| self.member.compute_apply(live, manifest, true).ok()).flatten();
        let hub = applied.as_ref().unwrap_or(manifest);
        differences::find_differences(&view::comparable_view(hub), &view::comparable_view(live))
    }

    fn apply_manifest(
        &self,
        manifest: &Value,
        live: Option<&Value>,
        outcome: &mut ManifestOutcome,
    ) -> Result<Value, &'static str> {
        if live.is_some_and(|live| owner::owner_references(live).len() > 1)
            && !self.strategy.allow_co_ownership
        {
            return Err("CoOwnershipDisallowed");
        }
        let by_client = !self.strategy.is_server_side();
        let stamp::StampedManifest { body, is_large } =
            stamp::stamp_manifest(manifest, self.owner, by_client);
        let Some(live) = live else {
            outcome.writes.push(MemberWrite::Create(body.clone()));
            return self.member.compute_write(None, body).map_err(|failure| error_reason(&failure));
        };
        if by_client && !is_large {
            let (media, patch, patched) = self.build_patch(&body, live)?;
            outcome.writes.push(MemberWrite::Patch { media, patch, patched: patched.clone() });
            return self.member.compute_write(Some(live), patched).map_err(|failure| error_reason(&failure));
        }
        let force = !is_large && (self.strategy.is_forced() || is_sole_owner(live));
        outcome.writes.push(MemberWrite::Apply { manifest: body.clone(), force });
        self.member.compute_apply(live, &body, force).map_err(|failure| error_reason(&failure))
    }

    /// The patch of a client-side apply.
    fn build_patch(&self, body: &Value, live: &Value) -> Result<(&'static str, Value, Value), &'static str> {
        let last = live
            .pointer("/metadata/annotations")
            .and_then(|a| a.get(stamp::LAST_APPLIED_ANNOTATION)?.as_str());
        let last = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        let (media, schema) = match self.kind {
            Some(kind) => ("application/strategic-merge-patch+json", &kind.schema),
            None => ("application/merge-patch+json", &federate_apiserver_model::schema::Type::Any),
        };
        let mut patch = Value::Object(patch::three_way_patch(schema, &last, body, live));
        if self.strategy.keeps_drifts()
            && let Some(version) = live.pointer("/metadata/resourceVersion")
        {
            patch["metadata"]["resourceVersion"] = version.clone();
        }
        let patched = match self.kind {
            Some(kind) => {
                patches::apply_strategic_patch(&kind.schema, live, &patch).map_err(|_| "PatchFailed")?
            }
            None => patches::apply_merge_patch(live, &patch),
        };
        Ok((media, patch, patched))
    }
}

/// Whether only the agent manages fields of the object.
fn is_sole_owner(live: &Value) -> bool {
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    managers.into_iter().flatten().all(|entry| {
        [FIELD_MANAGER, BEFORE_FIRST_APPLY].contains(&entry["manager"].as_str().unwrap_or_default())
    })
}

/// The agent's error for a request that the API server refuses.
fn error_reason(failure: &ApiError) -> &'static str {
    if failure.reason == "Conflict" { "FieldManagerConflict" } else { "ManifestInvalid" }
}
