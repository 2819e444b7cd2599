//! The action for an object of a placement in one cluster, from its row of the plan.

use serde_json::{Value, json};

use super::super::{KubeFleetPlane, PLACEMENT_GROUP, PlacementSubject, shared_objects};
use super::owner;
use super::{ApplyStrategy, FIELD_MANAGER, ManifestApplier, ManifestOutcome, MemberServer, MemberWrite};
use federate_apiserver_model::ResourceKind;
use federate_dialect::{ControlPlaneAction, DeleteOptions, Placement, SyncOp};
use federate_kubernetes::{Cluster, Object, ObjectRef};

/// Decides what to do in a cluster; `None` where the agent neither acts nor reports.
pub(crate) fn decide_action(
    plane: &KubeFleetPlane<'_>,
    row: &Placement,
    cluster: &Cluster,
    live: Option<&Object>,
) -> Option<ControlPlaneAction> {
    let shares = shared_objects::read_shares(row);
    let Some(share) = shares.iter().find(|share| share.clusters.contains(&cluster.name)) else {
        return shares
            .iter()
            .find_map(|share| decide_removal(plane, plane.find_subject(&share.policy)?, cluster, live?));
    };
    let subject = plane.find_subject(&share.policy)?;
    let manifest = match plane.render_variant(subject, &row.object, &share.clusters, &cluster.name)? {
        Ok(rendered) => rendered.body,
        Err(withheld) => return Some(ControlPlaneAction::do_nothing(withheld.status)),
    };
    let of = PlacementInCluster::new(plane, &subject.object, cluster);
    let kind = ResourceKind::find_builtin(&row.object.api_version, &row.object.kind);
    let server = MemberServer::new(&row.object.api_version, &row.object.kind);
    let applying = of.manifest_applier(kind, &server);
    let live = live.map(|live| &live.body);
    Some(action_of_outcome(
        applying.decide_outcome(&manifest, live),
        live,
        live.is_some_and(|live| !applying.owns_object(live)),
    ))
}

/// The action is the last write, which includes an earlier one that adopts the object.
fn action_of_outcome(mut outcome: ManifestOutcome, live: Option<&Value>, taken: bool) -> ControlPlaneAction {
    let status = match (outcome.decision, outcome.error) {
        ("Applied", _) => "OK",
        (decision, error) => error.unwrap_or(decision),
    };
    let failed = outcome.decision == "ManifestApplyFailed";
    let op = match outcome.writes.pop() {
        _ if failed => SyncOp::Nothing,
        None => SyncOp::Nothing,
        Some(MemberWrite::Create(body)) => SyncOp::Create(body),
        Some(MemberWrite::Update(body)) => SyncOp::Update(body),
        Some(MemberWrite::Patch { patched, .. }) if Some(&patched) == live => SyncOp::Nothing,
        Some(MemberWrite::Patch { patched, .. }) => SyncOp::Update(patched),
        Some(MemberWrite::Apply { manifest, force }) => {
            SyncOp::Apply { manifest, manager: FIELD_MANAGER, force }
        }
    };
    let hint = adoption_hint(status).filter(|_| taken && op == SyncOp::Nothing).map(str::to_owned);
    ControlPlaneAction { adopts: taken && op != SyncOp::Nothing, op, status, hint }
}

/// The setting that keeps the agent from adopting an object.
fn adoption_hint(status: &str) -> Option<&'static str> {
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
fn decide_removal(
    plane: &KubeFleetPlane<'_>,
    subject: &PlacementSubject<'_>,
    cluster: &Cluster,
    live: &Object,
) -> Option<ControlPlaneAction> {
    let of = PlacementInCluster::new(plane, &subject.object, cluster);
    let server = MemberServer::new(&live.id.api_version, &live.id.kind);
    let owns = of.manifest_applier(None, &server).owns_object(&live.body);
    let abandons =
        subject.object.text_at(&["spec", "strategy", "deleteStrategy", "propagationPolicy"]) == "Abandon";
    if !owns || abandons {
        return None;
    }
    let own = usize::from(of.owner.is_some());
    let op = match &of.owner {
        Some(owner) if owner::owner_references(&live.body).len() > own => {
            SyncOp::Release(owner::remove_owner(&live.body, owner))
        }
        None if !owner::owner_references(&live.body).is_empty() => SyncOp::Nothing,
        _ => SyncOp::Delete(delete_options(live)),
    };
    Some(ControlPlaneAction { op, adopts: false, status: "OK", hint: None })
}

/// Options that delete this object, and not a later one of its name.
fn delete_options(live: &Object) -> DeleteOptions {
    let uid = live.text_at(&["metadata", "uid"]);
    let precondition = (!uid.is_empty()).then(|| ("preconditions".to_owned(), json!({"uid": uid})));
    precondition.into_iter().collect()
}

/// A placement in one cluster.
struct PlacementInCluster {
    strategy: ApplyStrategy,
    owner: Option<Value>,
    works: Vec<String>,
}

impl PlacementInCluster {
    fn new(plane: &KubeFleetPlane<'_>, placement: &Object, cluster: &Cluster) -> Self {
        let works = plane.input.live.list_kind(&cluster.name, PLACEMENT_GROUP, "AppliedWork", None);
        let name = work_name(&placement.id);
        let own = works.iter().find(|work| work.id.name == name);
        Self {
            strategy: ApplyStrategy::from_placement(placement),
            owner: own.map(|work| owner::applied_work_reference(&name, work.text_at(&["metadata", "uid"]))),
            works: works.iter().map(|work| work.id.name.clone()).collect(),
        }
    }

    fn manifest_applier<'m>(
        &'m self,
        kind: Option<&'m ResourceKind>,
        server: &'m MemberServer,
    ) -> ManifestApplier<'m> {
        ManifestApplier {
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
