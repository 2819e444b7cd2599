//! Reads what a snapshot contains from API servers: the hub, then the members.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Snapshot;
use crate::cli::{Fault, say};
use federate_control_planes::DIALECTS;
use federate_dialect::HubKinds;
use federate_engine::snapshot::{Captured, Stored};
use federate_kubernetes::{ClusterName, Object};
use federate_live::Access;
use federate_live::snapshot::{MemberSnapshot, read_hub};
use federate_repo::{Claims, Role};
use federate_session::{Session, set_status};

impl Snapshot {
    /// Reads the hub, if one is given, and the members.
    pub(super) fn read_servers(&self, captured: &mut Captured) -> Result<(), Fault> {
        let now = self.args.now().unwrap_or_else(Timestamp::now);
        captured.taken = Some(now);
        if let Some(context) = self.access.hub_context() {
            let kinds: Vec<HubKinds> = DIALECTS.iter().flat_map(|d| d.hub_kinds().iter().copied()).collect();
            let objects = read_hub(&self.access.of_hub(), context, &kinds);
            let objects =
                objects.map_err(|error| Fault::Failed(format!("the hub (`{context}`): {error}")))?;
            captured.objects.extend(objects);
            captured.sources.push(format!("context {context}"));
        }
        if self.no_members { Ok(()) } else { self.read_members(captured, now) }
    }

    fn read_members(&self, captured: &mut Captured, now: Timestamp) -> Result<(), Fault> {
        if captured.objects.iter().any(is_inventory) {
            let stored = Stored::of(DIALECTS, captured);
            self.args.observe(stored.map_err(|error| Fault::Failed(error.to_string()))?);
        }
        let session = self.args.session(Some(&self.out), None)?;
        let errors = session.findings().iter().filter(|finding| finding.is_error()).count();
        if errors > 0 {
            say(&format!(
                "warning: the repo has {errors} errors, so objects that it would render may be missing\n"
            ));
        }
        let inventory = inventory(&session, captured);
        let (contexts, clusters) = self.clusters(&session, &inventory)?;
        let mut access = self.access.access(&session);
        access.contexts.extend(contexts);
        let members = self.member_snapshots(&session, &access, &clusters, &inventory, now)?;
        captured.objects.retain(|object| !is_inventory(object));
        add(captured, inventory, members);
        Ok(())
    }

    fn member_snapshots(
        &self,
        session: &Session,
        access: &Access,
        clusters: &[ClusterName],
        inventory: &BTreeMap<String, Object>,
        now: Timestamp,
    ) -> Result<Vec<MemberSnapshot>, Fault> {
        let set = self.applyset.inventory(self.args.repo_ref().as_ref(), &self.args.paths());
        let reported = |object: &Object| object.at(&["status"]).is_some_and(|status| !status.is_null());
        let of_hub = self.access.has_hub() || !self.files.is_empty();
        let status = |cluster: &str| !(of_hub && inventory.get(cluster).is_some_and(reported));
        session
            .read_members(access, &set, clusters, &status, now)
            .map_err(|error| Fault::Failed(error.to_string()))
    }

    /// The contexts that are named, by cluster, and the clusters to read: those named, or else all, with those of
    /// `federate.yaml`, which have no inventory object and so no status in a snapshot.
    fn clusters(
        &self,
        session: &Session,
        inventory: &BTreeMap<String, Object>,
    ) -> Result<(BTreeMap<String, String>, Vec<ClusterName>), Fault> {
        let pair = |text: &String| match text.split_once('=') {
            Some((cluster, context)) => (cluster.to_owned(), context.to_owned()),
            None => (text.clone(), text.clone()),
        };
        let contexts: BTreeMap<String, String> = self.contexts.iter().map(pair).collect();
        let configured = session.repo().config.clusters.iter().map(|cluster| &cluster.name);
        let known: BTreeSet<&String> = inventory.keys().chain(configured).collect();
        if let Some(unlisted) = contexts.keys().find(|cluster| !known.contains(cluster)) {
            return Err(Fault::Failed(format!(
                "there is no inventory object for the cluster `{unlisted}`: add one to the repo, such as a Cluster of \
                 cluster.karmada.io, or name the cluster with --context CLUSTER={unlisted}"
            )));
        }
        let wanted =
            |name: &&String| (contexts.is_empty() || contexts.contains_key(*name)) && self.args.wants(name);
        let names: Vec<ClusterName> =
            known.iter().copied().filter(wanted).map(|n| n.as_str().into()).collect();
        if names.is_empty() {
            let why = if known.is_empty() { "there is no inventory" } else { "--cluster names none" };
            return Err(Fault::Failed(format!(
                "there is no cluster to read ({why}): add inventory objects to the repo, or read a control plane with --hub-context"
            )));
        }
        Ok((contexts, names))
    }
}

fn is_inventory(object: &Object) -> bool {
    matches!(DIALECTS.role(&object.id.api_version, &object.id.kind), Some((_, Role::Inventory)))
}

/// The inventory objects by cluster: those of the hub, or else those of the repo.
fn inventory(session: &Session, captured: &Captured) -> BTreeMap<String, Object> {
    let of_hub: BTreeMap<String, Object> =
        captured.objects.iter().filter(|o| is_inventory(o)).map(|o| (o.id.name.clone(), o.clone())).collect();
    if !of_hub.is_empty() {
        return of_hub;
    }
    let claimed = session.repo().claimed.iter().filter(|claimed| claimed.role == Role::Inventory);
    claimed.map(|claimed| (claimed.object.id.name.clone(), claimed.object.clone())).collect()
}

/// Adds what was read of members. A cluster that cannot be read keeps the status that its control plane says.
fn add(captured: &mut Captured, inventory: BTreeMap<String, Object>, members: Vec<MemberSnapshot>) {
    let of_hub = !captured.sources.is_empty();
    let mut unread: Vec<String> = Vec::new();
    let mut statuses = BTreeMap::new();
    for MemberSnapshot { cluster, found } in members {
        match found {
            Ok(state) => {
                captured.sources.push(format!("cluster {cluster}"));
                if let Some(version) = state.version {
                    captured.kubernetes.insert(cluster.to_string(), version);
                }
                captured.scopes.extend(state.scopes);
                statuses.extend(state.observation.map(|observation| (cluster.to_string(), observation)));
                captured.observed.insert(cluster, state.objects);
            }
            Err(why) => {
                unread.push(cluster.to_string());
                captured.failed.insert(cluster.to_string(), why.to_string());
            }
        }
    }
    for (name, mut object) in inventory {
        if !of_hub && unread.contains(&name) {
            continue;
        }
        if let Some(seen) = statuses.get(&name) {
            set_status(DIALECTS, &mut object, seen);
        }
        captured.objects.push(object);
    }
}
