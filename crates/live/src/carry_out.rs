//! Carries decisions out in one cluster.
//!
//! The inventory's parent is written before anything else, with what was and what will be ours, and last
//! with what is ours then: a run that ends in between leaves nothing that the next one does not find.
//! Deletions come last, with the uid and the version that were decided about, and only where nothing failed
//! that may depend on the object; but what holds something that another object asks for goes first.

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use super::carried::{SendResult, SendResults};
use super::client::Client;
use super::depends::{Failed, in_the_way, live};
use super::gates::Gates;
use super::order::{Phase, phase, phases};
use super::parent::Parent;
use super::read::{ClusterState, finished};
use super::steps::{Steps, steps, take};
use super::{ApplyOptions, Decider, DesiredState, DryRun, Error, Progress, Step};
use federate_engine::actions::{ActionKind, Decision, Send};
use federate_kubernetes::{ClusterName, ObjectRef};

/// Tells how many objects are done.
pub(super) struct Tally<'t> {
    cluster: &'t ClusterName,
    progress: &'t dyn Progress,
    done: usize,
    of: usize,
}

impl Tally<'_> {
    fn tell(&self) {
        self.progress.at(self.cluster, Step::Applying { done: self.done, of: self.of });
    }

    /// The same for objects that were counted already.
    pub(super) fn again(&self) -> Self {
        Self { done: 0, ..*self }
    }

    fn one_more(&mut self) {
        self.done += 1;
        self.tell();
    }
}

/// Objects in the phases that they are sent in.
type Phased = Vec<(Phase, Steps)>;

/// Everything that carrying out in one cluster needs.
pub(super) struct Run<'r> {
    pub(super) client: &'r Client,
    pub(super) job: &'r DesiredState<'r>,
    pub(super) seen: &'r ClusterState,
    pub(super) decisions: &'r [Decision],
    pub(super) how: &'r ApplyOptions<'r>,
    /// What the API server would take, by its answer to a dry run of exactly that.
    pub(super) tried: &'r BTreeSet<ObjectRef>,
}

impl Run<'_> {
    /// Carries out what was decided. `carried` says what came of it also where this ends with an error.
    pub(super) async fn carry_out(
        &self,
        decider: &dyn Decider,
        carried: &mut SendResults,
    ) -> Result<(), Error> {
        *carried = SendResults::begin(self.decisions);
        let (applied, deleted) = self.sorted(decider, carried);
        let of = applied.len() + deleted.len();
        let mut tally = Tally { cluster: &self.job.cluster, progress: self.how.progress, done: 0, of };
        if of > 0 {
            tally.tell();
        }
        if self.how.dry_run == Some(DryRun::Server) {
            return self.dry_run(applied, deleted, carried, &mut tally).await;
        }
        let mut parent = Parent::new(self.seen, self.decisions, self.how);
        let mut waves = phases(applied.into_iter());
        run(self.client, self.home(&mut waves), carried, &mut tally).await?;
        parent.announce(self.client).await?;
        carried.parent.clone_from(&parent.uid);
        let first = in_the_way(self.seen, &self.job.cluster, self.decisions);
        let (room, deleted): (Phased, Phased) =
            deleted.into_iter().partition(|(_, steps)| first.contains_key(&steps.object));
        run(self.client, room.into_iter().map(|(_, steps)| steps).collect(), carried, &mut tally).await?;
        let gates = Gates {
            client: self.client,
            job: self.job,
            seen: self.seen,
            decisions: self.decisions,
            how: self.how,
        };
        for (phase, steps) in waves {
            let steps = if phase == Phase::Gates { gates.open(steps, carried).await? } else { steps };
            run(self.client, steps, carried, &mut tally).await?;
        }
        let deleted = gates.unblock(deleted, carried, &mut tally).await?;
        self.delete(deleted, carried, &mut tally).await?;
        if carried.is_clean() {
            parent.settle(self.client).await?;
        }
        Ok(())
    }

    /// The requests about what is applied, and about what is deleted.
    fn sorted(&self, decider: &dyn Decider, carried: &mut SendResults) -> (Phased, Phased) {
        let (mut applied, mut deleted) = (Vec::new(), Vec::new());
        for decision in self.decisions {
            let Some(send) = &decision.send else { continue };
            let object = &decision.action.object;
            let place = phase(object, decider.wave(object));
            match (steps(self.seen, object, send, self.how), send) {
                (Some(steps), Send::Apply { .. }) => applied.push((place, steps)),
                (Some(steps), Send::Delete { .. }) => deleted.push((place, steps)),
                (None, _) => carried.note(object.clone(), SendResult::Failed(unknown(object))),
            }
        }
        (applied, deleted)
    }

    /// The parent's own namespace, which comes even before the parent.
    fn home(&self, waves: &mut [(Phase, Vec<Steps>)]) -> Vec<Steps> {
        let Some((Phase::Ground, ground)) = waves.first_mut() else { return Vec::new() };
        let home = |steps: &Steps| {
            steps.object.kind == "Namespace" && steps.object.name == self.how.inventory.namespace
        };
        let (first, rest) = std::mem::take(ground).into_iter().partition(home);
        *ground = rest;
        first
    }

    /// Tries everything, and stores nothing.
    async fn dry_run(
        &self,
        applied: Phased,
        deleted: Phased,
        carried: &mut SendResults,
        tally: &mut Tally<'_>,
    ) -> Result<(), Error> {
        let first = in_the_way(self.seen, &self.job.cluster, self.decisions);
        let mut all = Vec::new();
        for (_, steps) in applied.into_iter().chain(deleted) {
            let room = first.iter().find(|(_, waiting)| ***waiting == steps.object);
            let room = room.map(|(held, _)| format!("{held} is deleted first, which holds what it asks for"));
            match self.seen.obstacle(self.job, &steps.object).or(room) {
                Some(why) => carried.note(steps.object, SendResult::Held(why)),
                None if self.tried.contains(&steps.object) => carried.note(steps.object, SendResult::Done),
                None => all.push(steps),
            }
        }
        run(self.client, all, carried, tally).await
    }

    /// Deletes what nothing that failed may need.
    async fn delete(
        &self,
        deleted: Phased,
        carried: &mut SendResults,
        tally: &mut Tally<'_>,
    ) -> Result<(), Error> {
        let failed =
            Failed::of(carried.undone(), self.decisions, |object| live(self.seen, &self.job.cluster, object));
        let mut gone = Vec::new();
        for (phase, steps) in deleted {
            match failed.keeps(&steps.object) {
                None => gone.push((phase, steps)),
                Some(other) => {
                    let why = format!("not deleted, because {other} could not be applied, which may need it");
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

/// Takes the steps of several objects at once. A cluster that does not answer for one of them is not asked
/// about the others: each would have to be waited for.
pub(super) async fn run(
    client: &Client,
    all: Vec<Steps>,
    carried: &mut SendResults,
    tally: &mut Tally<'_>,
) -> Result<(), Error> {
    // What is under way ends with it.
    let mut under_way = JoinSet::new();
    for steps in all {
        let client = client.clone();
        under_way.spawn(async move {
            let result = take(&client, &steps).await;
            (steps.object, result)
        });
    }
    while let Some(task) = under_way.join_next().await {
        tally.one_more();
        match finished(task)? {
            (_, Err(Error::Access(why))) => return Err(Error::Access(why)),
            (object, Err(Error::Unreachable(why))) => {
                return Err(Error::Unreachable(format!("{why}; the rest was given up at {object}")));
            }
            (object, result) => carried.note(object, result.into()),
        }
    }
    Ok(())
}

/// Whether something is there that an apply left there.
pub(super) fn stands(deed: ActionKind) -> bool {
    matches!(deed, ActionKind::Create | ActionKind::Update | ActionKind::Adopt | ActionKind::Unchanged)
}
