//! The parent of the `ApplySet` in a cluster: written before anything else, with what was and what will be ours, and
//! last with what is ours then and the commit that it comes from.
//!
//! It remembers which repo it belongs to. Another one would take what it does not render itself for no longer wanted.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::call::Call;
use super::client::Client;
use super::read::{ClusterState, parent_path};
use super::steps::{APPLY, deletion};
use super::{ApplyOptions, Error};
use federate_engine::actions::inventory::Members;
use federate_engine::actions::{Decision, Inventory, MANAGER, RepoRef, Send};
use federate_kubernetes::ObjectRef;

/// What a parent says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    members: Members,
    repo: Option<RepoRef>,
}

impl Said {
    fn of(parent: &Value) -> Self {
        Self { members: Members::of(parent), repo: RepoRef::of_parent(parent) }
    }
}

/// The inventory's parent.
pub(super) struct Parent<'p> {
    how: ApplyOptions<'p>,
    /// As the server has it.
    there: Option<Said>,
    /// What it says when all is done.
    then: Said,
    /// The parent of the set whose members become ours: its path, uid and resource version.
    moved: Option<(String, String, String)>,
    /// Its uid, once it is there.
    pub(super) uid: Option<String>,
}

/// Refuses a set of another repo, and says of sets of this one that are left.
pub(super) fn check(seen: &ClusterState, how: &ApplyOptions<'_>) -> Result<Vec<String>, Error> {
    let set = how.inventory;
    let recorded = seen.parent.as_ref().filter(|parent| set.is_parent(parent)).and_then(RepoRef::of_parent);
    if let Some(recorded) = recorded
        && !how.repo.is_some_and(|repo| repo.is_same(&recorded))
        && how.moved != Some(set)
    {
        let ours = how
            .repo
            .map_or_else(|| "a folder without a git remote `origin`".to_owned(), |repo| format!("of {repo}"));
        return Err(Error::Access(format!(
            "the ApplySet {set} is that of {recorded}, and this repo is {ours}: what it does not render would be \
             deleted. Name an ApplySet of its own with --applyset; if the repo has moved, --move-from {set} says so"
        )));
    }
    let left = seen.others.iter().filter_map(|parent| {
        let text = |key: &str| parent.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
        let other = Inventory { namespace: text("namespace")?.to_owned(), name: text("name")?.to_owned() };
        let ours = how.repo.zip(RepoRef::of_parent(parent)).is_some_and(|(a, b)| a.is_same(&b));
        (ours && other != *set && how.moved != Some(&other)).then(|| {
            format!(
                "the ApplySet {other} is of this repo, too, and no longer applied: `federate apply --move-from {other}` \
                 takes its objects over"
            )
        })
    });
    Ok(left.collect())
}

impl<'p> Parent<'p> {
    pub(super) fn new(seen: &ClusterState, decisions: &[Decision], how: &ApplyOptions<'p>) -> Self {
        let inventory = how.inventory;
        let goes = |decision: &&Decision| matches!(decision.send, Some(Send::Delete { .. }));
        let gone: BTreeSet<&ObjectRef> = decisions.iter().filter(goes).map(|d| &d.action.object).collect();
        let comes = |decision: &&Decision| matches!(decision.send, Some(Send::Apply { .. }));
        let ours = decisions.iter().filter(comes).map(|d| &d.action.object);
        let kept = seen.members.iter().filter(|object| !gone.contains(object));
        let mut members = inventory.members(ours.chain(kept));
        // What may not be read may still be there.
        if let (true, Some(parent)) = (seen.partial || !seen.unreadable.is_empty(), &seen.parent) {
            members = members.and(&Members::of(parent));
        }
        // Where the label is gone, nobody would know it for a parent.
        let parent = seen.parent.as_ref().filter(|parent| inventory.is_parent(parent));
        let there = parent.map(Said::of);
        let before = there.as_ref().and_then(|said| said.repo.clone());
        let repo = how.repo.cloned().map(|repo| {
            // Who only puts back what drifted says nothing of the commit.
            let revision = repo.revision.or_else(|| before.as_ref().and_then(|o| o.revision.clone()));
            RepoRef { revision, ..repo }
        });
        let text = |object: &Value, key: &str| {
            let value = object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let moved = how.moved.filter(|moved| *moved != inventory).zip(seen.moved.as_ref());
        let moved = moved.filter(|(moved, parent)| moved.is_parent(parent)).map(|(moved, parent)| {
            (parent_path(moved), text(parent, "uid"), text(parent, "resourceVersion"))
        });
        let uid = parent.map(|parent| text(parent, "uid"));
        Self { how: how.clone(), there, then: Said { members, repo }, moved, uid }
    }

    /// Says what may be ours from now on.
    pub(super) async fn announce(&mut self, client: &Client) -> Result<(), Error> {
        let there = self.there.clone().unwrap_or_default();
        // The commit runs when all of it does.
        let revision = there.repo.and_then(|repo| repo.revision);
        let repo = self.then.repo.clone().map(|repo| RepoRef { revision, ..repo });
        self.write(client, Said { members: there.members.and(&self.then.members), repo }).await
    }

    /// Says what is ours.
    pub(super) async fn settle(&mut self, client: &Client) -> Result<(), Error> {
        let then = self.then.clone();
        self.write(client, then).await?;
        if let Some((path, uid, version)) = self.moved.take() {
            client.find(&deletion(&path, "Background", &uid, &version)).await?;
        }
        Ok(())
    }

    async fn write(&mut self, client: &Client, said: Said) -> Result<(), Error> {
        let nothing = self.there.is_none() && said.members == Members::default();
        if nothing || self.there.as_ref() == Some(&said) {
            return Ok(());
        }
        let inventory = self.how.inventory;
        let call = Call::new(Method::PATCH, parent_path(inventory)).query("fieldManager", MANAGER);
        let body = inventory.parent(&said.members, said.repo.as_ref());
        let stored: Value = client.send(&call.query("force", "true").body(APPLY, &body)).await?;
        self.uid = stored.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        self.there = Some(said);
        Ok(())
    }
}

/// Leaves an Event on the parent that says what an apply did.
pub(super) async fn report(
    client: &Client,
    how: &ApplyOptions<'_>,
    uid: &str,
    (failed, message): (bool, String),
) {
    use super::call::encoded;
    let set = how.inventory;
    let now = jiff::Timestamp::now();
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let from = how.repo.map(|repo| match &repo.revision {
        Some(revision) => format!(" from {repo} at {revision}"),
        None => format!(" from {repo}"),
    });
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{}.{:x}", set.name, now.as_nanosecond()), "namespace": set.namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": set.namespace, "name": set.name, "uid": uid,
        },
        "type": if failed { "Warning" } else { "Normal" },
        "reason": if failed { "ApplyFailed" } else { "Applied" },
        "message": format!("{message}{}", from.unwrap_or_default()),
        "source": {"component": MANAGER}, "reportingComponent": MANAGER,
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    let path = format!("/api/v1/namespaces/{}/events", encoded(&set.namespace));
    let call = Call::new(Method::POST, path).body("application/json", &event);
    // Who may not leave one, or cannot, has applied everything all the same.
    let _ = tokio::time::timeout(PATIENCE, client.send::<Value>(&call)).await;
}

/// How long an Event may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
