//! The action for an object of a placement in one cluster, from its row of the plan.

use serde_json::{Value, json};

use super::super::memory::Share;
use super::super::{KubeFleetPlane, PLACEMENT_GROUP, Subject, shared};
use super::owner;
use super::{Applying, MANAGER, Outcome, Server, Strategy, Write};
use federate_apiserver::Kind;
use federate_dialect::{Action, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::{Cluster, Object, ObjectRef};

/// Decides what to do in a cluster; `None` where the agent neither acts nor reports.
pub(crate) fn reconcile(
    plane: &KubeFleetPlane<'_>,
    row: &Placement,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<Action> {
    let shares = shared::shares(row);
    let Some(share) = shares.iter().find(|share| share.clusters.contains(&cluster.name)) else {
        let of = |share: &Share| withdraw(plane, plane.subject(&share.policy)?, cluster, live?);
        return shares.iter().find_map(of);
    };
    let subject = plane.subject(&share.policy)?;
    let manifest = match plane.variant(subject, &row.object, &share.clusters, &cluster.name)? {
        Ok(rendered) => rendered.body,
        Err(withheld) => return Some(Action::nothing(withheld.status)),
    };
    let of = PlacementInCluster::new(plane, &subject.object, cluster);
    let kind = Kind::builtin(&row.object.api_version, &row.object.kind);
    let server = Server::new(&row.object.api_version, &row.object.kind);
    let applying = of.applying(kind, &server);
    let live = live.map(|live| &live.body);
    Some(action(applying.decide(&manifest, live), live, live.is_some_and(|live| !applying.owns(live))))
}

/// The action is the last write, which includes an earlier one that adopts the object.
fn action(mut outcome: Outcome, live: Option<&Value>, taken: bool) -> Action {
    let status = match (outcome.decision, outcome.error) {
        ("Applied", _) => "OK",
        (decision, error) => error.unwrap_or(decision),
    };
    let failed = outcome.decision == "ManifestApplyFailed";
    let op = match outcome.writes.pop() {
        _ if failed => SyncOp::Nothing,
        None => SyncOp::Nothing,
        Some(Write::Create(body)) => SyncOp::Create(body),
        Some(Write::Update(body)) => SyncOp::Update(body),
        Some(Write::Patch { patched, .. }) if Some(&patched) == live => SyncOp::Nothing,
        Some(Write::Patch { patched, .. }) => SyncOp::Update(patched),
        Some(Write::Apply { manifest, force }) => SyncOp::Apply { manifest, manager: MANAGER, force },
    };
    let hint = hint(status).filter(|_| taken && op == SyncOp::Nothing).map(str::to_owned);
    Action { adopts: taken && op != SyncOp::Nothing, op, status, hint }
}

/// The setting that keeps the agent from adopting an object.
fn hint(status: &str) -> Option<&'static str> {
    Some(match status {
        "NotOwned" => "`spec.strategy.applyStrategy.whenToTakeOver` of its placement is `Never`",
        "DiffsFound" => {
            "`spec.strategy.applyStrategy.whenToTakeOver` of its placement is `IfNoDiff`, and it differs"
        }
        "CoOwnershipDisallowed" => {
            "it has another owner, and `spec.strategy.applyStrategy.allowCoOwnership` of its placement is not `true`"
        }
        "PlacedInDuplicate" => "another placement owns it",
        _ => return None,
    })
}

/// Decides what to do about an object that the placement no longer sends.
fn withdraw(
    plane: &KubeFleetPlane<'_>,
    subject: &Subject<'_>,
    cluster: &Cluster,
    live: &Object,
) -> Option<Action> {
    let of = PlacementInCluster::new(plane, &subject.object, cluster);
    let server = Server::new(&live.id.api_version, &live.id.kind);
    let owns = of.applying(None, &server).owns(&live.body);
    let abandons =
        subject.object.text(&["spec", "strategy", "deleteStrategy", "propagationPolicy"]) == "Abandon";
    if !owns || abandons {
        return None;
    }
    let own = usize::from(of.owner.is_some());
    let op = match &of.owner {
        Some(owner) if owner::owners(&live.body).len() > own => {
            SyncOp::Release(owner::released(&live.body, owner))
        }
        None if !owner::owners(&live.body).is_empty() => SyncOp::Nothing,
        _ => SyncOp::Delete(only(live)),
    };
    Some(Action { op, adopts: false, status: "OK", hint: None })
}

/// Options that delete this object, and not a later one of its name.
fn only(live: &Object) -> DeleteOptions {
    let uid = live.text(&["metadata", "uid"]);
    let precondition = (!uid.is_empty()).then(|| ("preconditions".to_owned(), json!({"uid": uid})));
    precondition.into_iter().collect()
}

/// A placement in one cluster.
struct PlacementInCluster {
    strategy: Strategy,
    owner: Option<Value>,
    works: Vec<String>,
}

impl PlacementInCluster {
    fn new(plane: &KubeFleetPlane<'_>, placement: &Object, cluster: &Cluster) -> Self {
        let works = plane.input.live.list(&cluster.name, PLACEMENT_GROUP, "AppliedWork", None);
        let name = work_name(&placement.id);
        let own = works.iter().find(|work| work.id.name == name);
        Self {
            strategy: Strategy::of(placement),
            owner: own.map(|work| owner::reference(&name, work.text(&["metadata", "uid"]))),
            works: works.iter().map(|work| work.id.name.clone()).collect(),
        }
    }

    fn applying<'m>(&'m self, kind: Option<&'m Kind>, server: &'m Server) -> Applying<'m> {
        Applying {
            strategy: &self.strategy,
            owner: self.owner.as_ref(),
            works: &self.works,
            kind,
            member: server,
        }
    }
}

/// The name of a placement's Work, and of its `AppliedWork`.
fn work_name(placement: &ObjectRef) -> String {
    match &placement.namespace {
        Some(namespace) => format!("{namespace}.{}-work", placement.name),
        None => format!("{}-work", placement.name),
    }
}
