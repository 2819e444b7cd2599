//! Reads what a snapshot contains from API servers: the hub, then the members.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::snapshot::SnapshotCommand;
use crate::cli::{CommandError, print_notice};
use federate_dialect::HubKinds;
use federate_dialects::DIALECTS;
use federate_engine::snapshot::{SnapshotInput, StoredSnapshot};
use federate_kubernetes::display_text::escape_line;
use federate_kubernetes::finding::{format_count, join_names};
use federate_kubernetes::{ClusterName, Object};
use federate_live::snapshot::{MemberSnapshot, read_hub};
use federate_live::{Access, MemberContext};
use federate_repo::{Claims, Role};
use federate_session::{Session, set_status};

impl SnapshotCommand {
    /// Reads the hub, if one is given, and the members.
    pub(in crate::cli) fn read_servers(&self, captured: &mut SnapshotInput) -> Result<(), CommandError> {
        let now = self.args.now().unwrap_or_else(Timestamp::now);
        captured.taken = Some(now);
        if let Some(context) = self.access.hub_context() {
            let kinds: Vec<HubKinds> =
                DIALECTS.iter().flat_map(|d| d.hub().hub_kinds().iter().copied()).collect();
            let objects = read_hub(&self.access.build_hub_access(), context, &kinds);
            let objects =
                objects.map_err(|error| CommandError::Failed(format!("the hub (`{context}`): {error}")))?;
            captured.objects.extend(objects);
            captured.sources.push(format!("context {context}"));
        }
        if self.no_members { Ok(()) } else { self.read_members(captured, now) }
    }

    fn read_members(&self, captured: &mut SnapshotInput, now: Timestamp) -> Result<(), CommandError> {
        if captured.objects.iter().any(is_inventory) {
            let stored = StoredSnapshot::from_input(DIALECTS, captured);
            self.args.observe_state(stored.map_err(|error| CommandError::Failed(error.to_string()))?);
        }
        let session = self.args.open_session(Some(&self.out), None)?;
        let errors = session.findings().iter().filter(|finding| finding.is_error()).count();
        if errors > 0 {
            print_notice(&format!(
                "warning: the repo has {}, so objects that it would render may be missing\n",
                format_count(errors, "error")
            ));
        }
        let inventory = collect_inventory(&session, captured);
        let MemberChoice { contexts, clusters, without_access } =
            self.choose_clusters(&session, &inventory)?;
        if !without_access.is_empty() {
            self.report_unread(&without_access, &inventory);
            captured.not_read.extend(without_access);
        }
        if clusters.is_empty() {
            return Ok(());
        }
        let mut access = self.access.build_access(&session);
        access
            .contexts
            .extend(contexts.into_iter().map(|(name, context)| (name, MemberContext::Named(context))));
        let members = self.member_snapshots(&session, &access, &clusters, &inventory, now)?;
        captured.objects.retain(|object| !is_inventory(object));
        add_members(captured, inventory, members);
        Ok(())
    }

    fn member_snapshots(
        &self,
        session: &Session,
        access: &Access,
        clusters: &[ClusterName],
        inventory: &BTreeMap<String, Object>,
        now: Timestamp,
    ) -> Result<Vec<MemberSnapshot>, CommandError> {
        let set = self.applyset.choose_applyset(self.args.repo_ref().as_ref(), &self.args.selected_paths());
        let of_hub = self.access.has_hub() || !self.files.is_empty();
        let members = session.read_members(
            access,
            &set,
            clusters,
            &|cluster: &str| {
                // The status that the hub reports is not read again.
                let status = inventory.get(cluster).and_then(|object| object.value_at(&["status"]));
                !of_hub || status.is_none_or(Value::is_null)
            },
            now,
        );
        members.map_err(|error| CommandError::Failed(error.to_string()))
    }

    /// The clusters to read: those that `--context` names, or else all, with those of `federate.yaml`, which have no
    /// inventory object and so no status in a snapshot.
    fn choose_clusters(
        &self,
        session: &Session,
        inventory: &BTreeMap<String, Object>,
    ) -> Result<MemberChoice, CommandError> {
        let contexts: BTreeMap<String, String> = self
            .contexts
            .iter()
            .map(|text| match text.split_once('=') {
                Some((cluster, context)) => (cluster.to_owned(), context.to_owned()),
                None => (text.clone(), text.clone()),
            })
            .collect();
        let configured = session.repo().config.clusters.iter().map(|cluster| &cluster.name);
        let known: BTreeSet<&String> = inventory.keys().chain(configured).collect();
        if let Some(unlisted) = contexts.keys().find(|cluster| !known.contains(cluster)) {
            return Err(CommandError::Failed(format!(
                "there is no inventory object for the cluster `{unlisted}`: add one to the repo, such as a Cluster of \
                 cluster.karmada.io, or name the cluster with --context CLUSTER={unlisted}"
            )));
        }
        let names: Vec<ClusterName> = known
            .iter()
            .copied()
            .filter(|name| {
                (contexts.is_empty() || contexts.contains_key(*name)) && self.args.selects_cluster(name)
            })
            .map(|n| n.as_str().into())
            .collect();
        if names.is_empty() {
            let why = if known.is_empty() { "there is no inventory" } else { "--cluster names none" };
            return Err(CommandError::Failed(format!(
                "there is no cluster to read ({why}): add inventory objects to the repo, or read a control plane with --hub-context"
            )));
        }
        let choice = MemberChoice { contexts, clusters: names, without_access: Vec::new() };
        if self.access.has_hub() && self.contexts.is_empty() {
            self.leave_out_unreachable(choice, session, inventory)
        } else {
            Ok(choice)
        }
    }

    /// Leaves out the clusters for which the hub has no connection details, unless the kubeconfig has a context with the name
    /// of the cluster, or the repo names one for it.
    fn leave_out_unreachable(
        &self,
        mut choice: MemberChoice,
        session: &Session,
        inventory: &BTreeMap<String, Object>,
    ) -> Result<MemberChoice, CommandError> {
        let contexts = self.access.build_hub_access().context_names();
        let contexts = contexts.map_err(|error| CommandError::Failed(error.to_string()))?;
        let named = &session.repo().config.contexts;
        for cluster in std::mem::take(&mut choice.clusters) {
            let name = cluster.to_string();
            let is_known = inventory.get(&name).is_some_and(has_connection);
            if is_known || named.get(&name).is_some_and(|context| *context != name) {
                choice.clusters.push(cluster);
            } else if contexts.contains(&name) {
                choice.contexts.insert(name.clone(), name);
                choice.clusters.push(cluster);
            } else {
                choice.without_access.push(name);
            }
        }
        Ok(choice)
    }

    /// Says which clusters are not read, what is unknown then, and how to give access.
    fn report_unread(&self, clusters: &[String], inventory: &BTreeMap<String, Object>) {
        if self.args.quiet {
            return;
        }
        let has_status = |name: &String| {
            inventory
                .get(name)
                .and_then(|object| object.value_at(&["status"]))
                .is_some_and(|it| !it.is_null())
        };
        let status = if clusters.iter().all(has_status) { "" } else { ", nor what is free there" };
        let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
        let text = format!(
            "note: {} not read: {}. The hub has no connection details for {}, and the kubeconfig no context with {}, \
             so the snapshot does not say what runs there{status}; --context CLUSTER=CONTEXT gives access",
            if names.len() == 1 {
                "one cluster is".to_owned()
            } else {
                format!("{} clusters are", names.len())
            },
            join_names(&names, 10),
            if names.len() == 1 { "it" } else { "them" },
            if names.len() == 1 { "its name" } else { "their names" },
        );
        print_notice(&format!("{}\n", escape_line(&text)));
    }
}

/// The clusters of a snapshot.
struct MemberChoice {
    /// The contexts of clusters that are reached through one of the kubeconfig, by cluster.
    contexts: BTreeMap<String, String>,
    /// The clusters to read.
    clusters: Vec<ClusterName>,
    /// The clusters that are not read, because nothing says how to reach them.
    without_access: Vec<String>,
}

/// Whether the inventory object of a cluster says how its control plane reaches it.
fn has_connection(object: &Object) -> bool {
    let dialect = DIALECTS.role_of_kind(&object.id.api_version, &object.id.kind);
    let dialect = dialect.and_then(|(name, _)| DIALECTS.get(name));
    dialect.is_some_and(|dialect| dialect.hub().read_connection(object).is_ok())
}

fn is_inventory(object: &Object) -> bool {
    matches!(DIALECTS.role_of_kind(&object.id.api_version, &object.id.kind), Some((_, Role::Inventory)))
}

/// The inventory objects by cluster: those of the hub, or else those of the repo.
fn collect_inventory(session: &Session, captured: &SnapshotInput) -> BTreeMap<String, Object> {
    let of_hub: BTreeMap<String, Object> =
        captured.objects.iter().filter(|o| is_inventory(o)).map(|o| (o.id.name.clone(), o.clone())).collect();
    if !of_hub.is_empty() {
        return of_hub;
    }
    let claimed = session.repo().claimed.iter().filter(|claimed| claimed.role == Role::Inventory);
    claimed.map(|claimed| (claimed.object.id.name.clone(), claimed.object.clone())).collect()
}

/// Adds what was read of members. A cluster that cannot be read keeps the status that its control plane says.
fn add_members(
    captured: &mut SnapshotInput,
    inventory: BTreeMap<String, Object>,
    members: Vec<MemberSnapshot>,
) {
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
