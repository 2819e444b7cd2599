//! The parent of the `ApplySet` in a cluster. It is written first, with the old and the new members, and last, with the
//! members that remain and the commit that they come from.
//!
//! The parent names its repo, because another repo with the same `ApplySet` would delete the objects that it does not
//! render.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::cluster_state::ClusterState;
use super::object_requests::{APPLY, delete_request};
use super::path::{ApiPath, parent_path};
use super::plan_config_maps;
use super::request::RepeatableRequest;
use super::{ApplyOptions, Error};
use federate_kubernetes::ObjectRef;
use federate_kubernetes::object::pointer_text;
use federate_reconcile::apply_set::ApplySetContents;
use federate_reconcile::{ApplySet, FIELD_MANAGER, ObjectDecision, RepoRef, WriteRequest};

/// What a parent records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ParentRecord {
    members: ApplySetContents,
    repo: Option<RepoRef>,
    /// Whether the cluster keeps a plan.
    plan: bool,
}

impl ParentRecord {
    fn from_parent(parent: &Value) -> Self {
        Self {
            members: ApplySetContents::from_parent(parent),
            repo: RepoRef::from_parent(parent),
            plan: plan_config_maps::names_plan(parent),
        }
    }
}

/// The parent of the `ApplySet`.
pub(super) struct ApplySetParent<'p> {
    options: ApplyOptions<'p>,
    /// The record in the cluster.
    there: Option<ParentRecord>,
    /// The record when everything is done.
    then: ParentRecord,
    /// The parent of the `ApplySet` whose members are taken over: its path, uid and resource version.
    moved: Option<(ApiPath, String, String)>,
    /// Its uid, once it exists.
    pub(super) uid: Option<String>,
    /// Whether it is deleted when everything is done: nothing is in the set, and nothing is on its way out. Its uid and
    /// resource version.
    ends: Option<(String, String)>,
}

/// Refuses an `ApplySet` of another repo, and returns a warning for each other `ApplySet` of this repo.
pub(super) fn check_ownership(
    state: &ClusterState,
    options: &ApplyOptions<'_>,
) -> Result<Vec<String>, Error> {
    let set = options.apply_set;
    let recorded =
        state.parent.as_ref().filter(|parent| set.is_parent(parent)).and_then(RepoRef::from_parent);
    if let Some(recorded) = recorded
        && !options.repo.is_some_and(|repo| repo.is_same(&recorded))
        && options.moved_from != Some(set)
    {
        let named = options
            .repo
            .map_or_else(|| "a folder without a git remote `origin`".to_owned(), |repo| format!("of {repo}"));
        return Err(Error::Access(format!(
            "the ApplySet {set} belongs to {recorded}, and this repo is {named}: objects that it does not render would be \
             deleted. Name another ApplySet with --applyset; if the repo has moved, confirm it with --move-from {set}"
        )));
    }
    let left = state.others.iter().filter_map(|parent| {
        let metadata = parent.get("metadata")?;
        let namespace = metadata.get("namespace")?.as_str()?.to_owned();
        let other = ApplySet { namespace, name: metadata.get("name")?.as_str()?.to_owned() };
        let is_own = options.repo.zip(RepoRef::from_parent(parent)).is_some_and(|(a, b)| a.is_same(&b));
        (is_own && other != *set && options.moved_from != Some(&other)).then(|| {
            format!(
                "the ApplySet {other} belongs to this repo, too, and is no longer applied: `federate apply --move-from {other}` \
                 takes over its objects"
            )
        })
    });
    Ok(left.collect())
}

/// The UID and the resource version of an object.
fn uid_and_version(object: &Value) -> (String, String) {
    let uid = pointer_text(object, "/metadata/uid").to_owned();
    (uid, pointer_text(object, "/metadata/resourceVersion").to_owned())
}

impl<'p> ApplySetParent<'p> {
    pub(super) fn new(
        state: &ClusterState,
        decisions: &[ObjectDecision],
        options: &ApplyOptions<'p>,
    ) -> Self {
        let apply_set = options.apply_set;
        let gone: BTreeSet<&ObjectRef> = decisions
            .iter()
            .filter(|decision| matches!(decision.request, Some(WriteRequest::Delete { .. })))
            .map(|d| &d.action.object)
            .collect();
        let applied = decisions
            .iter()
            .filter(|decision| matches!(decision.request, Some(WriteRequest::Apply { .. })))
            .map(|d| &d.action.object);
        let kept = state.members.iter().filter(|object| !gone.contains(object));
        let mut members = apply_set.collect_contents(applied.chain(kept));
        // Objects that may not be read may still exist.
        if let (true, Some(parent)) = (state.partial || !state.unreadable.is_empty(), &state.parent) {
            members = members.merged_with(&ApplySetContents::from_parent(parent));
        }
        members.group_kinds.extend(state.unlisted_kinds.iter().cloned());
        // Without the label it is not the parent of an ApplySet.
        let parent = state.parent.as_ref().filter(|parent| apply_set.is_parent(parent));
        let there = parent.map(ParentRecord::from_parent);
        let before = there.as_ref().and_then(|record| record.repo.clone());
        let repo = options.repo.cloned().map(|repo| {
            // Correcting drift does not change which commit runs.
            let revision = repo.revision.or_else(|| before.as_ref().and_then(|o| o.revision.clone()));
            RepoRef { revision, ..repo }
        });
        let moved = options.moved_from.filter(|moved| *moved != apply_set).zip(state.moved.as_ref());
        let moved = moved.filter(|(moved, parent)| moved.is_parent(parent)).map(|(moved, parent)| {
            let (uid, version) = uid_and_version(parent);
            (parent_path(moved), uid, version)
        });
        let uid = parent.map(|parent| uid_and_version(parent).0);
        let is_last = options.ends && gone.is_empty() && members == ApplySetContents::default();
        let ends = parent.filter(|_| is_last).map(uid_and_version);
        let plan = options.server.plan_to_store.is_some() || there.as_ref().is_some_and(|record| record.plan);
        Self { options: *options, there, then: ParentRecord { members, repo, plan }, moved, uid, ends }
    }

    /// Records the old and the new members.
    pub(super) async fn announce_members(&mut self, client: &Client) -> Result<(), Error> {
        if self.ends.is_some() {
            return Ok(());
        }
        let there = self.there.clone().unwrap_or_default();
        // The commit runs when all of its objects are applied.
        let revision = there.repo.and_then(|repo| repo.revision);
        let repo = self.then.repo.clone().map(|repo| RepoRef { revision, ..repo });
        let members = there.members.merged_with(&self.then.members);
        self.write_record(client, ParentRecord { members, repo, ..self.then.clone() }).await
    }

    /// Records the members that remain.
    pub(super) async fn record_remaining_members(&mut self, client: &Client) -> Result<(), Error> {
        if let Some((uid, version)) = self.ends.take() {
            client
                .request_optional(&delete_request(
                    &parent_path(self.options.apply_set),
                    "Background",
                    &uid,
                    &version,
                ))
                .await?;
            return Ok(());
        }
        let then = self.then.clone();
        self.write_record(client, then).await?;
        if let Some((path, uid, version)) = self.moved.take() {
            client.request_optional(&delete_request(&path, "Background", &uid, &version)).await?;
        }
        Ok(())
    }

    async fn write_record(&mut self, client: &Client, record: ParentRecord) -> Result<(), Error> {
        let nothing = self.there.is_none() && record.members == ApplySetContents::default();
        if nothing || self.there.as_ref() == Some(&record) {
            return Ok(());
        }
        let apply_set = self.options.apply_set;
        let call = RepeatableRequest::new(Method::PATCH, parent_path(apply_set))
            .with_query("fieldManager", FIELD_MANAGER);
        let mut body = apply_set.build_parent(&record.members, record.repo.as_ref());
        let annotations = body.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        if let Some(annotations) = annotations.filter(|_| record.plan) {
            annotations.insert(
                plan_config_maps::PLAN_ANNOTATION.to_owned(),
                plan_config_maps::config_map_name(apply_set, "").into(),
            );
        }
        let stored: Value =
            client.request_json(&call.with_query("force", "true").with_body(APPLY, &body)).await?;
        self.uid = stored.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        self.there = Some(record);
        Ok(())
    }
}

/// Records an Event on the parent that says what an apply did.
pub(super) async fn write_event(
    client: &Client,
    options: &ApplyOptions<'_>,
    uid: &str,
    failed: bool,
    message: &str,
) {
    let set = options.apply_set;
    let now = jiff::Timestamp::now();
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let from = options.repo.map(|repo| match &repo.revision {
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
        "source": {"component": FIELD_MANAGER}, "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": time, "lastTimestamp": time, "count": 1,
    });
    let path = ApiPath::from_version("v1").in_namespace(&set.namespace).join("events");
    let call = RepeatableRequest::new(Method::POST, path).with_body("application/json", &event);
    // Without the right to create Events the objects are applied anyway.
    let _ = tokio::time::timeout(EVENT_TIMEOUT, client.request_json(&call)).await;
}

/// How long an Event may take.
const EVENT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
