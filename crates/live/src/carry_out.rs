//! Carries decisions out in one cluster.
//!
//! The inventory's parent is written before anything else, with what was and what will be ours, and last
//! with what is ours then: a run that ends in between leaves nothing that the next one does not find.
//! Deletions come last, with the uid and the version that were decided about, and only where nothing failed
//! that may depend on the object; but what holds something that another object asks for goes first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::call::{Call, encoded};
use super::client::Client;
use super::depends::{Failed, in_the_way, live};
use super::gates::Gates;
use super::kinds::path_of;
use super::order::{Phase, phase, phases};
use super::read::{Seen, finished, parent_path};
use super::{Decider, DryRun, Error, How, Job, Progress, Step};
use federate_engine::actions::inventory::Members;
use federate_engine::actions::{Action, Decision, Deed, Inventory, MANAGER, Outcome, Send};
use federate_kubernetes::{ClusterName, ObjectRef};

pub(super) const APPLY: &str = "application/apply-patch+yaml";
const JSON_PATCH: &str = "application/json-patch+json";
/// How long a definition may take until its kind is served.
const ESTABLISHED: Duration = Duration::from_secs(30);
/// How often it is asked whether it is.
const PAUSE: Duration = Duration::from_millis(250);

/// What came of what was decided to be sent about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The run has not come to it.
    Open,
    /// The API server took it.
    Done,
    /// The API server refused it.
    Failed(String),
    /// Why it was not sent.
    Held(String),
    /// Another client changed the object after it was decided about.
    Late,
}

/// What came of it, by object.
#[derive(Debug, Default)]
pub(super) struct Carried(pub(super) BTreeMap<ObjectRef, Sent>);

impl Carried {
    /// Everything that is to be sent, before anything is.
    fn begin(decisions: &[Decision]) -> Self {
        let sent = decisions.iter().filter_map(|decision| match (&decision.send, &decision.action.error) {
            (Some(_), _) => Some((decision.action.object.clone(), Sent::Open)),
            // What depends on it must not go.
            (None, Some(why)) => Some((decision.action.object.clone(), Sent::Failed(why.clone()))),
            (None, None) => None,
        });
        Self(sent.collect())
    }

    /// The objects that could not be changed, or were not because of others.
    pub(super) fn undone(&self) -> impl Iterator<Item = &ObjectRef> {
        let undone = |sent: &Sent| matches!(sent, Sent::Failed(_) | Sent::Held(_) | Sent::Late);
        self.0.iter().filter(move |(_, sent)| undone(sent)).map(|(object, _)| object)
    }

    fn is_clean(&self) -> bool {
        self.undone().next().is_none()
    }

    pub(super) fn note(&mut self, object: ObjectRef, sent: Sent) {
        self.0.insert(object, sent);
    }

    /// The objects that are worth another round: another client was faster, or what they need was held up by that.
    pub(super) fn again(&self) -> BTreeSet<ObjectRef> {
        let again = self.0.iter().filter(|(_, sent)| !matches!(sent, Sent::Done));
        again.map(|(object, _)| object.clone()).collect()
    }

    pub(super) fn any_late(&self) -> bool {
        self.0.values().any(|sent| *sent == Sent::Late)
    }

    /// Says of actions what came of them.
    pub(super) fn mark(&self, actions: &mut [Action], tried_only: bool, late: &str, ended: &str) {
        for action in actions {
            let (outcome, why) = match self.0.get(&action.object) {
                Some(Sent::Done) if tried_only => continue,
                Some(Sent::Done) => (Outcome::Done, None),
                Some(Sent::Failed(why)) => (Outcome::Failed, Some(why.as_str())),
                Some(Sent::Late) => (Outcome::Failed, Some(late)),
                Some(Sent::Held(why)) => (Outcome::NotTried, Some(why.as_str())),
                Some(Sent::Open) => (Outcome::NotTried, Some(ended)),
                None if tried_only || action.outcome != Outcome::Planned => continue,
                None => (Outcome::Done, None),
            };
            action.outcome = outcome;
            match outcome {
                Outcome::Failed => action.error = why.map(str::to_owned),
                Outcome::NotTried => action.reason = why.map(str::to_owned),
                Outcome::Planned | Outcome::Done => {}
            }
        }
    }
}

impl From<Result<(), Error>> for Sent {
    fn from(result: Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) if error.is_conflict() => Self::Late,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

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

/// The requests about one object, in order.
pub(super) struct Steps {
    pub(super) object: ObjectRef,
    calls: Vec<Call>,
    /// Where to ask whether a definition is in force.
    establishes: Option<Call>,
    /// The `ServiceAccount` without which the object is deleted at once.
    needs: Option<(Call, String)>,
    /// Whether it is no failure that the object is not there.
    may_be_gone: bool,
}

/// Carries out what was decided. `carried` says what came of it also where this ends with an error.
pub(super) async fn carry_out(
    client: &Client,
    job: &Job<'_>,
    seen: &Seen,
    decisions: &[Decision],
    (decider, how): (&dyn Decider, &How<'_>),
    carried: &mut Carried,
) -> Result<(), Error> {
    *carried = Carried::begin(decisions);
    let (mut applied, mut deleted) = (Vec::new(), Vec::new());
    for decision in decisions {
        let Some(send) = &decision.send else { continue };
        let object = &decision.action.object;
        let place = phase(object, decider.wave(object));
        match (steps(seen, object, send, how), send) {
            (Some(steps), Send::Apply { .. }) => applied.push((place, steps)),
            (Some(steps), Send::Delete { .. }) => deleted.push((place, steps)),
            (None, _) => carried.note(object.clone(), Sent::Failed(unknown(object))),
        }
    }
    let of = applied.len() + deleted.len();
    let mut tally = Tally { cluster: &job.cluster, progress: how.progress, done: 0, of };
    if of > 0 {
        tally.tell();
    }
    let first = in_the_way(seen, &job.cluster, decisions);
    if how.dry_run == Some(DryRun::Server) {
        let mut tried = Vec::new();
        for (_, steps) in applied.into_iter().chain(deleted) {
            let room = first.iter().find(|(_, waiting)| ***waiting == steps.object);
            let room = room.map(|(held, _)| format!("{held} is deleted first, which holds what it asks for"));
            match untried(seen, job, &steps.object).or(room) {
                Some(why) => carried.note(steps.object, Sent::Held(why)),
                None => tried.push(steps),
            }
        }
        return run(client, tried, carried, &mut tally).await;
    }
    let mut parent = Parent::new(seen, decisions, how.inventory);
    let mut waves = phases(applied.into_iter());
    // The parent's own namespace comes even before the parent.
    if let Some((Phase::Ground, ground)) = waves.first_mut() {
        let home =
            |steps: &Steps| steps.object.kind == "Namespace" && steps.object.name == how.inventory.namespace;
        let (first, rest) = std::mem::take(ground).into_iter().partition(home);
        *ground = rest;
        run(client, first, carried, &mut tally).await?;
    }
    parent.announce(client).await?;
    let (room, deleted): (Vec<_>, Vec<_>) =
        deleted.into_iter().partition(|(_, steps)| first.contains_key(&steps.object));
    run(client, room.into_iter().map(|(_, steps)| steps).collect(), carried, &mut tally).await?;
    let gates = Gates { client, job, seen, decisions, how };
    for (phase, steps) in waves {
        let steps = if phase == Phase::Gates { gates.open(steps, carried).await? } else { steps };
        run(client, steps, carried, &mut tally).await?;
    }
    let deleted = gates.unblock(deleted, carried, &mut tally).await?;
    let failed = Failed::of(carried.undone(), decisions, |object| live(seen, &job.cluster, object));
    let (kept, gone): (Vec<_>, Vec<_>) =
        deleted.into_iter().partition(|(_, steps)| failed.keeps(&steps.object).is_some());
    for (_, Steps { object, .. }) in kept {
        let other = failed.keeps(&object).map(ToString::to_string).unwrap_or_default();
        carried.note(
            object,
            Sent::Held(format!("not deleted, because {other} could not be applied, which may need it")),
        );
    }
    for (_, steps) in phases(gone.into_iter()).into_iter().rev() {
        run(client, steps, carried, &mut tally).await?;
    }
    if carried.is_clean() {
        parent.settle(client).await?;
    }
    Ok(())
}

fn unknown(object: &ObjectRef) -> String {
    format!(
        "the cluster does not serve {} {}, and no CustomResourceDefinition of it is rendered",
        object.api_version, object.kind
    )
}

/// Why an API server cannot try an object before others are there, if it cannot.
fn untried(seen: &Seen, job: &Job<'_>, object: &ObjectRef) -> Option<String> {
    if !seen.kinds.serves(object) {
        return Some(format!(
            "its CustomResourceDefinition is not there yet, so that {} {} is not served",
            object.api_version, object.kind
        ));
    }
    let namespace = object.namespace.as_ref()?;
    let is = |o: &ObjectRef| o.kind == "Namespace" && o.group().is_empty() && o.name == *namespace;
    let wanted = job.wanted.iter().any(|(object, _)| is(object));
    let new = wanted && seen.live.get(&job.cluster, "", "Namespace", None, namespace).is_none();
    new.then(|| format!("its namespace {namespace} does not exist yet"))
}

/// The requests for a decision; `None` where the kind is not known.
pub(super) fn steps(seen: &Seen, object: &ObjectRef, send: &Send, how: &How<'_>) -> Option<Steps> {
    let kind = seen.kinds.of(object)?;
    let path = path_of(kind, object);
    let patch = || {
        let call = Call::new(Method::PATCH, path.clone()).query("fieldManager", MANAGER);
        let awaited = kind.custom.is_some() || kind.is("Pod");
        if awaited && how.dry_run.is_none() { call.awaited() } else { call }
    };
    let is_definition = object.kind == "CustomResourceDefinition" && how.dry_run.is_none();
    let mut steps = Steps {
        object: object.clone(),
        calls: Vec::new(),
        establishes: None,
        needs: None,
        may_be_gone: matches!(send, Send::Delete { .. }),
    };
    match send {
        Send::Apply { body, owners } => {
            if let Some((entries, version)) = owners {
                let operations = json!([
                    {"op": "replace", "path": "/metadata/managedFields", "value": entries},
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                ]);
                steps.calls.push(patch().body(JSON_PATCH, &operations));
            }
            steps.calls.push(patch().query("force", "true").body(APPLY, body));
            steps.establishes = is_definition.then(|| Call::get(path));
            steps.needs = account(object, body).filter(|_| how.dry_run.is_none());
        }
        Send::Delete { uid, resource_version } => {
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
                "preconditions": {"uid": uid, "resourceVersion": resource_version},
            });
            steps.calls.push(Call::new(Method::DELETE, path).body("application/json", &options));
        }
    }
    Some(steps)
}

/// The `ServiceAccount` whose token a Secret is to hold.
fn account(object: &ObjectRef, body: &Value) -> Option<(Call, String)> {
    let is_token = object.kind == "Secret"
        && body.get("type").is_some_and(|kind| kind == "kubernetes.io/service-account-token");
    let name = body.pointer("/metadata/annotations/kubernetes.io~1service-account.name")?.as_str()?;
    let namespace = object.namespace.as_deref().filter(|_| is_token)?;
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{}", encoded(namespace), encoded(name));
    Some((Call::get(path), format!("{namespace}/{name}")))
}

/// Takes the steps of several objects at once. A cluster that does not answer for one of them is not asked
/// about the others: each would have to be waited for.
pub(super) async fn run(
    client: &Client,
    all: Vec<Steps>,
    carried: &mut Carried,
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

async fn take(client: &Client, steps: &Steps) -> Result<(), Error> {
    for call in &steps.calls {
        match client.send::<IgnoredAny>(call).await {
            Err(error) if steps.may_be_gone && error.is_absent() => {}
            result => drop(result?),
        }
    }
    if let Some((call, name)) = &steps.needs {
        needed(client, call, name).await?;
    }
    match &steps.establishes {
        Some(call) => established(client, call).await,
        None => Ok(()),
    }
}

/// Says that an object does not stay without its `ServiceAccount`. One that may not be read may be there.
async fn needed(client: &Client, call: &Call, name: &str) -> Result<(), Error> {
    match client.find(call).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => Ok(()),
        found => match found? {
            Some(_) => Ok(()),
            None => Err(Error::Late(format!(
                "the token controller deletes it, because ServiceAccount {name} does not exist"
            ))),
        },
    }
}

/// Waits until a definition is in force.
async fn established(client: &Client, call: &Call) -> Result<(), Error> {
    let end = Instant::now() + ESTABLISHED;
    loop {
        let definition: Value = client.send(call).await?;
        let conditions = || definition.pointer("/status/conditions").and_then(Value::as_array);
        let holds = |condition: &&Value, kind: &str, status: &str| {
            condition.get("type") == Some(&json!(kind)) && condition.get("status") == Some(&json!(status))
        };
        if conditions().into_iter().flatten().any(|condition| holds(&condition, "Established", "True")) {
            return Ok(());
        }
        // Its names stay taken.
        if let Some(refused) = conditions().into_iter().flatten().find(|c| holds(c, "NamesAccepted", "False"))
        {
            let why = refused.get("message").and_then(Value::as_str).unwrap_or_default();
            return Err(Error::Late(format!("it is not established: {why}")));
        }
        if Instant::now() >= end {
            return Err(Error::Late(format!("it was not established within {} s", ESTABLISHED.as_secs())));
        }
        sleep(PAUSE).await;
    }
}

/// The inventory's parent.
struct Parent<'p> {
    inventory: &'p Inventory,
    /// As the server has it.
    there: Option<Members>,
    /// What will be ours when all is done.
    then: Members,
}

impl<'p> Parent<'p> {
    fn new(seen: &Seen, decisions: &[Decision], inventory: &'p Inventory) -> Self {
        let goes = |decision: &&Decision| matches!(decision.send, Some(Send::Delete { .. }));
        let gone: BTreeSet<&ObjectRef> = decisions.iter().filter(goes).map(|d| &d.action.object).collect();
        let comes = |decision: &&Decision| matches!(decision.send, Some(Send::Apply { .. }));
        let ours = decisions.iter().filter(comes).map(|d| &d.action.object);
        let then = inventory.members(ours.chain(seen.members.iter().filter(|object| !gone.contains(object))));
        // Where the label is gone, nobody would know it for a parent.
        let id = "/metadata/labels/applyset.kubernetes.io~1id";
        let labelled = |parent: &&Value| parent.pointer(id).and_then(Value::as_str) == Some(&inventory.id());
        Self { inventory, there: seen.parent.as_ref().filter(labelled).map(Members::of), then }
    }

    /// Says what may be ours from now on.
    async fn announce(&mut self, client: &Client) -> Result<(), Error> {
        let all = self.there.clone().unwrap_or_default().and(&self.then);
        self.write(client, all).await
    }

    /// Says what is ours.
    async fn settle(&mut self, client: &Client) -> Result<(), Error> {
        let then = self.then.clone();
        self.write(client, then).await
    }

    async fn write(&mut self, client: &Client, members: Members) -> Result<(), Error> {
        let nothing = self.there.is_none() && members == Members::default();
        if nothing || self.there.as_ref() == Some(&members) {
            return Ok(());
        }
        let call = Call::new(Method::PATCH, parent_path(self.inventory)).query("fieldManager", MANAGER);
        let call = call.query("force", "true").body(APPLY, &self.inventory.parent(&members));
        client.send::<IgnoredAny>(&call).await?;
        self.there = Some(members);
        Ok(())
    }
}

/// Whether something is there that an apply left there.
pub(super) fn stands(deed: Deed) -> bool {
    matches!(deed, Deed::Create | Deed::Update | Deed::Adopt | Deed::Unchanged)
}
