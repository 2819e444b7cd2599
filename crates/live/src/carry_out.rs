//! Carries out decisions in one cluster.
//!
//! The parent of the ApplySet is written first, with the old and the new members, and last, with the members that
//! remain: a run that is killed in between leaves nothing that the next run does not find. Deletions come last, with
//! the uid and the version that were decided about, and only where nothing failed that may depend on the object; but an
//! object that holds a port or an address that another one asks for is deleted first.

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use super::carried::{SendResult, SendResults};
use super::client::Client;
use super::depends::{Failed, in_the_way, live};
use super::gates::Gates;
use super::memory;
use super::order::{Phase, phase, phases};
use super::parent::Parent;
use super::read::{ClusterState, finished};
use super::steps::{Steps, send, steps};
use super::{ApplyOptions, Decider, DesiredState, DryRun, Error, Progress, Step};
use federate_engine::actions::{ActionKind, Decision, Send};
use federate_kubernetes::{ClusterName, ObjectRef};

/// Counts the objects that are done, and reports the count.
pub(super) struct ProgressCounter<'t> {
    cluster: &'t ClusterName,
    progress: &'t dyn Progress,
    done: usize,
    of: usize,
}

impl ProgressCounter<'_> {
    fn report(&self) {
        self.progress.at(self.cluster, Step::Applying { done: self.done, of: self.of });
    }

    /// A tally that starts again, for objects that were counted before.
    pub(super) fn again(&self) -> Self {
        Self { done: 0, ..*self }
    }

    fn one_more(&mut self) {
        self.done += 1;
        self.report();
    }
}

/// Requests about objects, each with its phase.
type Phased = Vec<(Phase, Steps)>;

/// Everything that is needed to carry out decisions in one cluster.
pub(super) struct Run<'r> {
    pub(super) client: &'r Client,
    pub(super) desired: &'r DesiredState<'r>,
    pub(super) state: &'r ClusterState,
    pub(super) decisions: &'r [Decision],
    pub(super) options: &'r ApplyOptions<'r>,
    /// The objects of which the API server has accepted a dry run of the same request.
    pub(super) accepted: &'r BTreeSet<ObjectRef>,
}

impl Run<'_> {
    /// Carries out the decisions. `carried` has the results also where this ends with an error.
    pub(super) async fn carry_out(
        &self,
        decider: &dyn Decider,
        carried: &mut SendResults,
    ) -> Result<(), Error> {
        *carried = SendResults::begin(self.decisions);
        let (applied, deleted) = self.sorted(decider, carried);
        let of = applied.len() + deleted.len();
        let mut tally =
            ProgressCounter { cluster: &self.desired.cluster, progress: self.options.progress, done: 0, of };
        if of > 0 {
            tally.report();
        }
        if self.options.dry_run == Some(DryRun::Server) {
            return self.dry_run(applied, deleted, carried, &mut tally).await;
        }
        let mut parent = Parent::new(self.state, self.decisions, self.options);
        let mut waves = phases(applied.into_iter());
        run(self.client, self.home(&mut waves), carried, &mut tally).await?;
        parent.announce(self.client).await?;
        carried.parent.clone_from(&parent.uid);
        if let (Some(plan), Some(uid)) = (self.options.remember, &parent.uid) {
            memory::write(self.client, self.options.inventory, uid, plan).await?;
        }
        let first = in_the_way(self.state, &self.desired.cluster, self.decisions);
        let (blocking, deleted): (Phased, Phased) =
            deleted.into_iter().partition(|(_, steps)| first.contains_key(&steps.object));
        run(self.client, blocking.into_iter().map(|(_, steps)| steps).collect(), carried, &mut tally).await?;
        let gates = Gates {
            client: self.client,
            desired: self.desired,
            state: self.state,
            decisions: self.decisions,
            options: self.options,
        };
        for (phase, steps) in waves {
            let steps = if phase == Phase::Gates { gates.open(steps, carried).await? } else { steps };
            run(self.client, steps, carried, &mut tally).await?;
        }
        let deleted = gates.unblock(deleted, carried, &mut tally).await?;
        self.delete(deleted, carried, &mut tally).await?;
        if carried.is_clean() {
            parent.complete(self.client).await?;
        }
        Ok(())
    }

    /// The requests that apply, and those that delete.
    fn sorted(&self, decider: &dyn Decider, carried: &mut SendResults) -> (Phased, Phased) {
        let (mut applied, mut deleted) = (Vec::new(), Vec::new());
        for decision in self.decisions {
            let Some(send) = &decision.send else { continue };
            let object = &decision.action.object;
            let place = phase(object, decider.wave(object));
            match (steps(self.state, object, send, self.options), send) {
                (Some(steps), Send::Apply { .. }) => applied.push((place, steps)),
                (Some(steps), Send::Delete { .. }) => deleted.push((place, steps)),
                (None, _) => carried.note(object.clone(), SendResult::Failed(unknown(object))),
            }
        }
        (applied, deleted)
    }

    /// The namespace of the parent, which is applied before the parent.
    fn home(&self, waves: &mut [(Phase, Vec<Steps>)]) -> Vec<Steps> {
        let Some((Phase::Ground, ground)) = waves.first_mut() else { return Vec::new() };
        let home = |steps: &Steps| {
            steps.object.kind == "Namespace" && steps.object.name == self.options.inventory.namespace
        };
        let (first, rest) = std::mem::take(ground).into_iter().partition(home);
        *ground = rest;
        first
    }

    /// Dry-runs everything on the API server.
    async fn dry_run(
        &self,
        applied: Phased,
        deleted: Phased,
        carried: &mut SendResults,
        tally: &mut ProgressCounter<'_>,
    ) -> Result<(), Error> {
        let first = in_the_way(self.state, &self.desired.cluster, self.decisions);
        let mut all = Vec::new();
        for (_, steps) in applied.into_iter().chain(deleted) {
            let blocked = first.iter().find(|(_, waiting)| ***waiting == steps.object);
            let blocked = blocked.map(|(held, _)| {
                format!("{held}, which holds a port or an address that it asks for, is deleted first")
            });
            match self.state.obstacle(self.desired, &steps.object).or(blocked) {
                Some(why) => carried.note(steps.object, SendResult::Held(why)),
                None if self.accepted.contains(&steps.object) => carried.note(steps.object, SendResult::Done),
                None => all.push(steps),
            }
        }
        run(self.client, all, carried, tally).await
    }

    /// Deletes the objects that nothing that failed may need.
    async fn delete(
        &self,
        deleted: Phased,
        carried: &mut SendResults,
        tally: &mut ProgressCounter<'_>,
    ) -> Result<(), Error> {
        let failed = Failed::of(carried.undone(), self.decisions, |object| {
            live(self.state, &self.desired.cluster, object)
        });
        let mut gone = Vec::new();
        for (phase, steps) in deleted {
            match failed.keeps(&steps.object) {
                None => gone.push((phase, steps)),
                Some(other) => {
                    let why =
                        format!("not deleted, because {other}, which may need it, could not be applied");
                    carried.note(steps.object, SendResult::Held(why));
                }
            }
        }
        for (_, steps) in phases(gone.into_iter()).into_iter().rev() {
            run(self.client, steps, carried, tally).await?;
        }
        Ok(())
    }
}

fn unknown(object: &ObjectRef) -> String {
    format!(
        "the cluster does not serve {} {}, and no CustomResourceDefinition of it is rendered",
        object.api_version, object.kind
    )
}

/// Sends the requests about several objects at once. A cluster that does not answer about one of them is not asked
/// about the others: each would run into its time limit.
pub(super) async fn run(
    client: &Client,
    all: Vec<Steps>,
    carried: &mut SendResults,
    tally: &mut ProgressCounter<'_>,
) -> Result<(), Error> {
    // Dropping the set aborts the requests.
    let mut under_way = JoinSet::new();
    for steps in all {
        let client = client.clone();
        under_way.spawn(async move {
            let result = send(&client, &steps).await;
            (steps.object, result)
        });
    }
    while let Some(task) = under_way.join_next().await {
        tally.one_more();
        match finished(task)? {
            (_, Err(Error::Access(why))) => return Err(Error::Access(why)),
            (object, Err(Error::Unreachable(why))) => {
                return Err(Error::Unreachable(format!("{why}; gave up at {object}")));
            }
            (object, result) => carried.note(object, result.into()),
        }
    }
    Ok(())
}

/// Whether an object exists after the action.
pub(super) fn is_applied(kind: ActionKind) -> bool {
    matches!(kind, ActionKind::Create | ActionKind::Update | ActionKind::Adopt | ActionKind::Unchanged)
}
