//! Carries out decisions in one cluster.
//!
//! The parent of the ApplySet is written first, with the old and the new members, and last, with the members that
//! remain: a run that is killed in between leaves nothing that the next run does not find. Deletions come last, with
//! the uid and the version that were decided about, and only where nothing failed that may depend on the object; but an
//! object that holds a port or an address is deleted right before the one that asks for it.

use std::collections::BTreeSet;

use super::client::Client;
use super::cluster_state::ClusterState;
use super::dependencies::{FailedObjects, find_blocking, find_live};
use super::hooks::{find_unhealthy_hook, group_early_hooks};
use super::object_requests::{ObjectRequests, build_requests};
use super::order::{Phase, assign_phase, group_by_phase};
use super::parent::ApplySetParent;
use super::plan_config_maps;
use super::send_results::{SendResult, SendResults};
use super::sender::{ProgressCounter, send_all};
use super::webhooks::AdmissionWebhooks;
use super::{ApplyOptions, DesiredState, Error};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::hooks::Hook;
use federate_reconcile::{ActionKind, ActionOutcome, ObjectDecision, PlacedObjects, WriteRequest};

/// Requests about objects, each with its phase.
type Phased = Vec<(Phase, ObjectRequests)>;

/// Everything that is needed to carry out decisions in one cluster.
pub(super) struct ApplyExecution<'r> {
    pub(super) client: &'r Client,
    pub(super) desired: &'r DesiredState<'r>,
    pub(super) state: &'r ClusterState,
    pub(super) decisions: &'r [ObjectDecision],
    pub(super) placed: &'r PlacedObjects<'r>,
    pub(super) options: &'r ApplyOptions<'r>,
    /// The objects of which the API server has accepted a dry run of the same request.
    pub(super) accepted: &'r BTreeSet<ObjectRef>,
}

impl ApplyExecution<'_> {
    /// Carries out the decisions. `results` has the results also where this ends with an error.
    pub(super) async fn carry_out(&self, results: &mut SendResults) -> Result<(), Error> {
        *results = SendResults::from_decisions(self.decisions);
        let (applies, deletions) = self.separate_requests(results);
        let of = applies.len() + deletions.len();
        let mut counter = ProgressCounter::new(&self.desired.cluster, self.options.server.progress, of);
        if of > 0 {
            counter.report_progress();
        }
        if !self.options.server.dry_run.writes() {
            return self.dry_run_rest(applies, deletions, results, &mut counter).await;
        }
        let mut parent = ApplySetParent::new(self.state, self.decisions, self.options);
        let mut phases = group_by_phase(applies.into_iter());
        send_all(self.client, self.take_parent_namespace(&mut phases), results, &mut counter).await?;
        parent.announce_members(self.client).await?;
        results.parent.clone_from(&parent.uid);
        if let (Some(plan), Some(uid)) = (self.options.server.plan_to_store, &parent.uid) {
            plan_config_maps::write_plan(self.client, self.options.apply_set, uid, plan).await?;
        }
        let waiting = find_blocking(self.state, &self.desired.cluster, self.decisions);
        let (mut blocking, mut deletions): (Phased, Phased) =
            deletions.into_iter().partition(|(_, requests)| waiting.contains_key(&requests.object));
        let webhooks = AdmissionWebhooks {
            client: self.client,
            desired: self.desired,
            state: self.state,
            decisions: self.decisions,
            options: self.options,
        };
        // A hook that is unchanged has no request, and holds back what follows anyway.
        let hooks = group_early_hooks(self.desired, self.placed);
        let sent: BTreeSet<Phase> = phases.iter().map(|(phase, _)| *phase).collect();
        phases.extend(hooks.keys().filter(|phase| !sent.contains(phase)).map(|phase| (*phase, Vec::new())));
        phases.sort_by_key(|(phase, _)| *phase);
        let mut held: Option<String> = None;
        for (phase, all) in phases {
            if let Some(why) = &held {
                for requests in all {
                    results.set_result(requests.object, SendResult::NotSent(why.clone()));
                }
                continue;
            }
            let all = if phase == Phase::Webhooks { webhooks.select_ready(all, results).await? } else { all };
            let objects: BTreeSet<&ObjectRef> = all.iter().map(|requests| &requests.object).collect();
            let (first, later): (Phased, Phased) = blocking.into_iter().partition(|(_, requests)| {
                waiting.get(&requests.object).is_some_and(|waiting| objects.contains(waiting))
            });
            blocking = later;
            send_all(
                self.client,
                first.into_iter().map(|(_, requests)| requests).collect(),
                results,
                &mut counter,
            )
            .await?;
            send_all(self.client, all, results, &mut counter).await?;
            if let Some(hooks) = hooks.get(&phase) {
                held = self.hold_back_after(hooks, results).await?;
            }
        }
        deletions.extend(blocking);
        let deletions = webhooks.retry_blocked(deletions, results, &mut counter).await?;
        self.delete_objects(deletions, results, &mut counter).await?;
        if results.is_clean() {
            parent.record_remaining_members(self.client).await?;
        }
        Ok(())
    }

    /// Waits until hooks that run before the other objects have ended; a dry run only looks at those that nothing is sent
    /// about. Returns why what follows is not applied, if one could not be applied, has failed or has not ended.
    async fn hold_back_after(
        &self,
        hooks: &[&ObjectRef],
        results: &mut SendResults,
    ) -> Result<Option<String>, Error> {
        for hook in hooks {
            if let Some(why) = self.find_obstruction(hook, results) {
                return Ok(Some(format!(
                    "not applied, because the hook {hook}, which runs before it, could not be applied: {why}"
                )));
            }
        }
        let writes = self.options.server.dry_run.writes();
        let hooks = hooks.iter().filter(|hook| writes || !results.sent.contains_key(**hook));
        let found =
            find_unhealthy_hook(self.client, self.state, self.placed, self.options, hooks.copied()).await?;
        Ok(found.map(|hook| {
            let why = format!(
                "not applied, because the hook {}, which runs before it, did not succeed: {}",
                hook.object, hook.why
            );
            let result = match hook.state {
                Some(state) => SendResult::Unfinished { why: hook.why, state },
                None => SendResult::Failed(hook.why),
            };
            results.set_result(hook.object, result);
            why
        }))
    }

    /// Why a hook could not be applied, or was not.
    fn find_obstruction<'f>(&'f self, hook: &ObjectRef, results: &'f SendResults) -> Option<&'f str> {
        if let Some(sent) = results.sent.get(hook) {
            return sent.find_failure();
        }
        let at = self.decisions.binary_search_by(|decision| decision.action.object.cmp(hook)).ok()?;
        let action = &self.decisions.get(at)?.action;
        // An object that is not adopted, but is as rendered, is the hook.
        let is_same = action.action == ActionKind::Conflict && action.diffs.is_empty();
        let is_left = action.outcome == ActionOutcome::NotTried && !is_same;
        is_left.then(|| action.reason.as_deref().unwrap_or_default())
    }

    /// Marks what a dry run would not send, because a hook that runs before it has failed or cannot be applied. Returns the
    /// requests that remain.
    async fn hold_back_in_dry_run(
        &self,
        applies: Phased,
        results: &mut SendResults,
    ) -> Result<Phased, Error> {
        for (phase, hooks) in group_early_hooks(self.desired, self.placed) {
            let Some(why) = self.hold_back_after(&hooks, results).await? else { continue };
            let (held, rest): (Phased, Phased) = applies.into_iter().partition(|(later, _)| *later > phase);
            for (_, requests) in held {
                results.set_result(requests.object, SendResult::NotSent(why.clone()));
            }
            return Ok(rest);
        }
        Ok(applies)
    }

    /// Notes what would not be applied, because of a hook, without sending anything.
    pub(super) async fn predict_held_back(&self, results: &mut SendResults) -> Result<(), Error> {
        let mut all = SendResults::from_decisions(self.decisions);
        let (applies, _) = self.separate_requests(&mut all);
        self.hold_back_in_dry_run(applies, &mut all).await?;
        all.sent.retain(|_, sent| *sent != SendResult::Open);
        *results = all;
        Ok(())
    }

    /// The requests that apply, and those that delete.
    fn separate_requests(&self, results: &mut SendResults) -> (Phased, Phased) {
        let (mut applied, mut deleted) = (Vec::new(), Vec::new());
        for decision in self.decisions {
            let Some(request) = &decision.request else { continue };
            let object = &decision.action.object;
            let hook = match request {
                WriteRequest::Apply { body, .. } => Hook::from_body(body).map(|hook| hook.time),
                WriteRequest::Delete { .. } => None,
            };
            let phase = assign_phase(object, self.placed.find_wave(object), hook);
            match (build_requests(self.state, object, request, self.options), request) {
                (Some(requests), WriteRequest::Apply { .. }) => applied.push((phase, requests)),
                (Some(requests), WriteRequest::Delete { .. }) => deleted.push((phase, requests)),
                (None, _) => {
                    results.set_result(object.clone(), SendResult::Failed(describe_unknown_kind(object)));
                }
            }
        }
        (applied, deleted)
    }

    /// The namespace of the parent, which is applied before the parent.
    fn take_parent_namespace(&self, phases: &mut [(Phase, Vec<ObjectRequests>)]) -> Vec<ObjectRequests> {
        let Some((Phase::Prerequisites, ground)) = phases.first_mut() else { return Vec::new() };
        let (first, rest) = std::mem::take(ground).into_iter().partition(|requests| {
            requests.object.kind == "Namespace" && requests.object.name == self.options.apply_set.namespace
        });
        *ground = rest;
        first
    }

    /// Dry-runs on the API server what it has not accepted yet.
    async fn dry_run_rest(
        &self,
        applied: Phased,
        deleted: Phased,
        results: &mut SendResults,
        counter: &mut ProgressCounter<'_>,
    ) -> Result<(), Error> {
        let first = find_blocking(self.state, &self.desired.cluster, self.decisions);
        let applied = self.hold_back_in_dry_run(applied, results).await?;
        let mut all = Vec::new();
        for (_, requests) in applied.into_iter().chain(deleted) {
            let blocked = first.iter().find(|(_, waiting)| ***waiting == requests.object);
            let blocked = blocked.map(|(held, _)| {
                format!("{held}, which holds a port or an address that it asks for, is deleted first")
            });
            match self.state.find_obstacle(self.desired, &requests.object).or(blocked) {
                Some(why) => results.set_result(requests.object, SendResult::NotSent(why)),
                None if self.accepted.contains(&requests.object) => {
                    results.set_result(requests.object, SendResult::Done);
                }
                None => all.push(requests),
            }
        }
        send_all(self.client, all, results, counter).await
    }

    /// Deletes the objects that nothing that failed may need.
    async fn delete_objects(
        &self,
        deleted: Phased,
        results: &mut SendResults,
        counter: &mut ProgressCounter<'_>,
    ) -> Result<(), Error> {
        let failed = FailedObjects::from_results(results.undone_objects(), self.decisions, |object| {
            find_live(self.state, &self.desired.cluster, object)
        });
        let mut gone = Vec::new();
        for (phase, requests) in deleted {
            match failed.find_dependent(&requests.object) {
                None => gone.push((phase, requests)),
                Some(other) => {
                    let why =
                        format!("not deleted, because {other}, which may need it, could not be applied");
                    results.set_result(requests.object, SendResult::NotSent(why));
                }
            }
        }
        for (_, all) in group_by_phase(gone.into_iter()).into_iter().rev() {
            send_all(self.client, all, results, counter).await?;
        }
        Ok(())
    }
}

fn describe_unknown_kind(object: &ObjectRef) -> String {
    format!(
        "the cluster does not serve {} {}, and no CustomResourceDefinition of it is rendered",
        object.api_version, object.kind
    )
}
