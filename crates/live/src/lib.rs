//! Reads member clusters through their API servers, has `federate-reconcile` decide what to do, and does it.
//!
//! ```text
//!            one thread per cluster; 16 work at a time, once their servers answer
//! read (few lists) ─► decide (pure) ─► dry runs on the server ─► decide by them (pure) ─► carry out ─► wait
//!      ▲                                                                                   │ conflict
//!      └───────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Of objects that are unchanged by their text (`federate_reconcile::comparison`), only the membership is read; the others
//! are read whole.
//!
//! Clusters are independent: each has its own connection, time limits, attempts and outcome. A run that is
//! killed leaves nothing that the next run does not find: the parent of the ApplySet names objects before they
//! are created, and stops naming them after they are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use federate_kubernetes::ObjectRef;
use federate_reconcile::cluster::{ClusterDecisions, DecisionContext};
use federate_reconcile::{Action, ActionKind, ActionOutcome, Orphans};

mod answer;
mod client;
mod cluster_reader;
mod cluster_state;
pub mod compression;
mod counts;
mod dependencies;
mod desired_state;
mod discovery;
mod dry_run;
mod early_reads;
mod error;
mod execution;
mod health;
mod hooks;
mod hub;
pub mod import;
mod items;
mod kinds;
mod kubeconfig;
mod lists;
mod member_search;
mod object_requests;
mod options;
mod order;
mod parent;
pub mod path;
mod plan_config_maps;
mod proxy;
mod request;
mod rights;
mod runtime;
mod send_results;
mod sender;
pub mod snapshot;
mod stored_plan;
mod survey;
mod target;
mod wait;
mod watch;
mod webhooks;

pub use answer::StatusError;
pub use client::{Fence, Interrupt};
pub use cluster_state::ClusterState;
pub use counts::{AnswerCounts, AnswersByCode, ServerRole};
pub use desired_state::DesiredState;
pub use early_reads::{EarlyReads, read_early};
pub use error::Error;
pub use health::{ClusterHealth, ClusterMembers, find_members, read_health};
pub use hub::HubAccess;
pub use kinds::ClusterKinds;
pub use kubeconfig::Kubeconfig;
pub use options::{ApplyOptions, ClusterOutcome, ClusterProgress, ProgressReporter, ServerOptions};
pub use plan_config_maps::FoundPlan;
pub use rights::{MissingRights, check_rights};
pub use stored_plan::StoredPlan;
pub use survey::{SurveyOptions, SurveyResult, SurveyedCluster, find_unreachable, survey_clusters};
pub use target::{Access, MemberContext};
pub use watch::{MemberWatch, WatchedObjects};

use client::Client;
use early_reads::{EarlyCluster, EarlyLists};
use execution::ApplyExecution;
use runtime::{CLUSTER_TIMEOUT, for_each_bounded, for_each_cluster, limit_time};
use send_results::SendResults;
use target::Connections;
use wait::AppliedObjects;

/// The number of times that a cluster is read because another client changed objects after they were decided about.
const MAX_ATTEMPTS: u32 = 6;
/// The pause before the second time; it doubles.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// Compares clusters with their desired state and, where the options say so, brings them there. The outcomes are in the order of `desired_states`; only what keeps every cluster
/// from being reached is an error.
pub fn reconcile_clusters(
    access: &Access,
    desired_states: &[DesiredState<'_>],
    context: &DecisionContext<'_>,
    options: &ApplyOptions<'_>,
) -> Result<Vec<ClusterOutcome>, Error> {
    match options.server.early.and_then(|early| Some((early.runtime.as_ref()?, &early.connections))) {
        Some((runtime, connections)) => Ok(for_each_bounded(desired_states, |desired| {
            connect_and_reconcile(runtime, connections, desired, context, options)
        })),
        None => for_each_cluster(access, desired_states, |runtime, connections, desired| {
            connect_and_reconcile(runtime, connections, desired, context, options)
        }),
    }
}

fn connect_and_reconcile(
    runtime: &Runtime,
    connections: &Arc<Connections>,
    desired: &DesiredState<'_>,
    context: &DecisionContext<'_>,
    options: &ApplyOptions<'_>,
) -> ClusterOutcome {
    let mut outcome = ClusterOutcome {
        cluster: desired.cluster.clone(),
        read: false,
        actions: Vec::new(),
        error: None,
        notes: Vec::new(),
        orphans: None,
    };
    let mut results = SendResults::default();
    let worked = runtime.block_on(limit_time(connections.timeout(), async {
        let early = options.server.early.and_then(|early| early.take_cluster(&desired.cluster));
        let (client, early) = match early {
            Some(early) => {
                let EarlyCluster { client, found } = early.await?;
                (client, Some(found))
            }
            None => (target::connect_member(connections, &desired.cluster).await?, None),
        };
        let client = client.with_dry_run(!options.server.dry_run.writes());
        let client = client
            .with_fence(options.server.fence.as_ref())
            .with_interrupt(options.server.interrupt.as_ref());
        let work = reconcile_cluster(&client, desired, context, options, early, &mut outcome, &mut results);
        match connections.timeout() {
            Some(_) => work.await,
            None => {
                client.limit_work_time(CLUSTER_TIMEOUT + options.server.wait.unwrap_or_default(), work).await
            }
        }
    }));
    if let Err(error) = worked {
        let why = error.to_string();
        results.mark_actions(&mut outcome.actions, !options.server.dry_run.writes(), &why, &why);
        outcome.error = Some(why);
    }
    outcome.actions.sort_by(|a, b| a.object.cmp(&b.object));
    let failed =
        outcome.error.is_some() || outcome.actions.iter().any(|a| a.outcome == ActionOutcome::Failed);
    options.server.progress.report_progress(
        &desired.cluster,
        if failed { ClusterProgress::Failed } else { ClusterProgress::Done },
    );
    options.server.progress.note_outcome(&outcome);
    outcome
}

/// Records an Event that says what was done, if anything was.
async fn record_event(
    client: &Client,
    options: &ApplyOptions<'_>,
    results: &SendResults,
    actions: &[Action],
) {
    let mut counts: BTreeMap<ActionKind, usize> = BTreeMap::new();
    let mut failed = 0;
    for action in actions {
        match action.outcome {
            ActionOutcome::Failed => failed += 1,
            ActionOutcome::Done
                if !matches!(
                    action.action,
                    ActionKind::Unchanged | ActionKind::Conflict | ActionKind::Skip
                ) =>
            {
                *counts.entry(action.action).or_default() += 1;
            }
            _ => {}
        }
    }
    let (true, Some(uid)) =
        (options.server.dry_run.writes() && (failed > 0 || !counts.is_empty()), &results.parent)
    else {
        return;
    };
    let done = counts.iter().map(|(kind, count)| {
        let word = match kind {
            ActionKind::Create => "created",
            ActionKind::Update => "updated",
            ActionKind::Adopt => "adopted",
            _ => "deleted",
        };
        format!("{count} {word}")
    });
    let failures = (failed > 0).then(|| format!("{failed} failed"));
    let message = done.chain(failures).collect::<Vec<_>>().join(", ");
    parent::write_event(client, options, uid, failed > 0, &message).await;
}

/// Reads a cluster, decides about its objects and sends what is decided, again as long as there are conflicts. `early`
/// is what was listed before.
async fn reconcile_cluster(
    client: &Client,
    desired: &DesiredState<'_>,
    context: &DecisionContext<'_>,
    options: &ApplyOptions<'_>,
    mut early: Option<EarlyLists>,
    outcome: &mut ClusterOutcome,
    results: &mut SendResults,
) -> Result<(), Error> {
    let Some(cluster) = context.find_cluster(&desired.cluster) else {
        return Err(Error::Access(format!("the inventory has no cluster {}", desired.cluster)));
    };
    // The objects that the attempt before did not finish; all objects in the first attempt.
    let mut open: Option<BTreeSet<ObjectRef>> = None;
    for attempt in 1..=MAX_ATTEMPTS {
        options.server.progress.report_progress(&desired.cluster, ClusterProgress::Reading);
        let mut state =
            cluster_reader::read_cluster_state(client, desired, options, Some(context), early.take()).await?;
        outcome.read = true;
        outcome.notes = parent::check_ownership(&state, options)?;
        let apply_sets = outcome.notes.len();
        outcome.notes.extend(state.lost_records.iter().cloned());
        outcome.notes.extend(plan_config_maps::warn_if_unused(client, &state, options).await?);
        let mut decided = context.decide_before_dry_run(
            cluster,
            &state.live,
            &|object| state.describe_kind(object),
            &|object| state.is_compared(object),
        );
        for decision in &mut decided.decisions {
            if let Some(why) = state.unreadable.get(&decision.action.object) {
                decision.mark_refused(why);
            }
        }
        let idle = options.server.wait.is_none()
            && decided.decisions.iter().all(|decision| decision.request.is_none());
        if !idle {
            state.read_compared(&desired.cluster)?;
        }
        let accepted = if options.server.dry_run.reaches_servers() {
            dry_run::send_dry_runs(client, desired, &state, &mut decided.decisions, context).await?
        } else {
            BTreeSet::new()
        };
        let ClusterDecisions { decisions, stopped, orphans } =
            context.finish_decisions(cluster, &state.live, &|object| state.describe_kind(object), decided);
        let news = decisions.iter().map(|decision| &decision.action);
        match &open {
            None => outcome.actions = news.cloned().collect(),
            Some(open) => {
                outcome.actions.retain(|action| !open.contains(&action.object));
                outcome.actions.extend(news.filter(|action| open.contains(&action.object)).cloned());
            }
        }
        outcome.orphans = orphans.map(|objects| Orphans { objects, apply_sets });
        outcome.error = stopped;
        if outcome.error.is_some() || context.only_reports() {
            return Ok(());
        }
        let run = ApplyExecution {
            client,
            desired,
            state: &state,
            decisions: &decisions,
            placed: &context.placed,
            options,
            accepted: &accepted,
        };
        if !options.server.dry_run.reaches_servers() {
            run.predict_held_back(results).await?;
            results.mark_actions(&mut outcome.actions, true, "", "");
            return Ok(());
        }
        run.carry_out(results).await?;
        let again = results.any_conflict() && attempt < MAX_ATTEMPTS;
        let conflicted = format!("gave up after {attempt} conflicts: another client keeps modifying it");
        results.mark_actions(&mut outcome.actions, !options.server.dry_run.writes(), &conflicted, "");
        let unreported = results.find_unreported(&outcome.actions);
        outcome.error =
            unreported.map(|(object, why)| format!("the hook {object} holds back what follows it: {why}"));
        if !again {
            record_event(client, options, results, &outcome.actions).await;
            if let Some(timeout) = options.server.wait.filter(|_| options.server.dry_run.writes()) {
                // The objects are not needed any more, and another cluster may have some in memory.
                let applied = AppliedObjects::new(&decisions, state.kinds);
                drop((decisions, state.live));
                client.release_slot();
                let cluster = &desired.cluster;
                let placed = &context.placed;
                let waited =
                    wait::wait_until_healthy(client, cluster, &applied, placed, options, timeout).await?;
                for found in waited {
                    let action = outcome.actions.iter_mut().find(|action| action.object == found.object);
                    if let Some(action) = action.filter(|action| action.outcome == ActionOutcome::Done) {
                        (action.outcome, action.error) = (ActionOutcome::Failed, Some(found.why));
                        action.unhealthy = found.state;
                    }
                }
            }
            return Ok(());
        }
        open = Some(results.retry_objects());
        // A client that keeps changing an object may be done with it a moment later.
        tokio::time::sleep(FIRST_BACKOFF * 2_u32.pow(attempt - 1)).await;
    }
    Ok(())
}
