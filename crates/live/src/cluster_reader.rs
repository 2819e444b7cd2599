//! Reads the objects of a cluster that a run is about, in few requests: one list per kind, by the label of the
//! ApplySet, and one list per kind and namespace for desired objects that are not among them.
//!
//! Where it is known which objects differ, only these are read ([`ApplyOptions::only_objects`]).
//!
//! A user who may not list a kind in all namespaces lists it in each namespace of the run, and one who may not list at
//! all gets each object. An object that may not be read even so is named, and nothing is decided about it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rayon::prelude::*;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::client::{Client, not_json};
use super::cluster_state::ClusterState;
use super::early_reads::{EarlyLists, PendingRead};
use super::items::{ComparedObjects, ListItem, build_object, read_objects};
use super::kinds::{self, ClusterKinds, ScopeCorrections, object_path};
use super::lists::{ListBudget, ListRequest, list_items};
use super::member_search::{FoundMembers, MemberSearch, RecordedSet};
use super::path::{ApiPath, member_selector, parent_path};
use super::request::RepeatableRequest;
use super::runtime::join_result;
use super::{ApplyOptions, DesiredState, Error};
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::lists::read_item;
use federate_kubernetes::{ClusterName, LiveObjects, Object, ObjectRef, UnversionedRef};
use federate_reconcile::ApplySet;
use federate_reconcile::apply_set::ApplySetContents;
use federate_reconcile::cluster::DecisionContext;
use federate_reconcile::comparison::is_read_first;
use federate_reconcile::listed_object::ListedObject;
use federate_reconcile::ownership::is_member;

/// Reads a cluster. Where decisions are made, objects that are unchanged by their text are not read further.
pub(super) async fn read_cluster_state(
    client: &Client,
    desired: &DesiredState<'_>,
    options: &ApplyOptions<'_>,
    comparison: Option<&DecisionContext<'_>>,
    early: Option<EarlyLists>,
) -> Result<ClusterState, Error> {
    let sets =
        options.moved_from.into_iter().filter(|moved| *moved != options.apply_set).chain([options.apply_set]);
    let sets: Vec<&ApplySet> = sets.collect();
    // Reads begin early only where nothing moves.
    let mut early = early.filter(|_| sets.len() == 1);
    let mut parents: Vec<Option<Value>> = early.iter_mut().map(|early| early.parent.take()).collect();
    for set in sets.iter().skip(parents.len()) {
        parents.push(client.request_optional(&RepeatableRequest::get(parent_path(set))).await?);
    }
    let members = parents
        .iter()
        .flatten()
        .map(ApplySetContents::from_parent)
        .fold(ApplySetContents::default(), |all, one| all.merged_with(&one));
    let records = sets.iter().zip(&parents).map(|(set, parent)| RecordedSet {
        set,
        contents: parent.as_ref().filter(|parent| set.is_parent(parent)).map(ApplySetContents::from_parent),
    });
    let records: Vec<RecordedSet<'_>> = records.collect();
    let parent = parents.pop().flatten();
    let known = options.server.contents.filter(|_| options.ends || parent.is_none());
    let members = known.map_or_else(|| members.clone(), |known| members.merged_with(known));
    if options.only_objects {
        return read_desired(client, desired, options, parent).await;
    }
    let others = if parent.is_none() { other_sets(client).await? } else { Vec::new() };
    let mut kinds = kinds::find_kinds(client, desired, &members).await?;
    let ids: Vec<String> = sets.iter().map(|set| set.compute_id()).collect();
    let selector = member_selector(&ids);
    let versions: BTreeMap<UnversionedRef<'_>, &str> = desired
        .objects
        .iter()
        .map(|(object, _)| (object.unversioned(), object.api_version.as_str()))
        .collect();

    let lists: Vec<ListRequest> = kinds
        .served_kinds()
        .map(|kind| ListRequest { kind: kind.clone(), namespace: None, selector: Some(selector.clone()) })
        .collect();
    let namespaces = collect_namespaces(desired, options.apply_set, &members);
    let ListedItems { items, partial } = list_all(client, lists, &namespaces, early).await?;
    let (mut objects, compared) = match comparison {
        Some(context) => compare_objects(items, &desired.cluster, context)?,
        None => (read_objects(&items, &desired.cluster)?, ComparedObjects::default()),
    };
    let lost: Vec<&RecordedSet<'_>> = records.iter().filter(|record| record.is_lost(&objects)).collect();
    let (mut lost_records, mut unlisted_kinds) = (Vec::new(), BTreeSet::new());
    if !lost.is_empty() {
        let cluster = &desired.cluster;
        let search =
            MemberSearch { client, cluster, known: &kinds, selector: &selector, namespaces: &namespaces };
        let found = search.search_kinds(&objects, &compared).await?;
        let is_written = options.server.dry_run.writes();
        lost_records = lost.iter().map(|record| found.describe(record, is_written)).collect();
        let FoundMembers { objects: more, kinds: served, unlisted, .. } = found;
        objects.extend(more);
        for kind in served {
            kinds.insert(kind, true);
        }
        unlisted_kinds.extend(unlisted.into_keys());
    }
    ScopeCorrections::new(desired, &kinds).rename_objects(&mut objects);
    objects.retain(|object| {
        versions.get(&object.id.unversioned()).is_none_or(|version| *version == object.id.api_version)
    });
    objects.sort_by(|a, b| a.id.unversioned().cmp(&b.id.unversioned()));
    // Objects that are not desired are read once, in any version.
    objects.dedup_by(|a, b| a.id.unversioned() == b.id.unversioned());
    let members = objects.iter().filter(|object| ids.iter().any(|id| is_member(&object.body, id)));
    let members = members.map(|object| object.id.clone()).collect();

    let (more, unreadable) = read_missing(client, desired, &kinds, &objects).await?;
    objects.extend(more);
    let mut live = LiveObjects::default();
    live.insert(desired.cluster.clone(), objects);
    let moved = parents.pop().flatten();
    let partial = partial || !unlisted_kinds.is_empty();
    Ok(ClusterState {
        live,
        kinds,
        parent,
        moved,
        others,
        members,
        partial,
        unlisted_kinds,
        lost_records,
        unreadable,
        compared,
    })
}

/// Reads only the desired objects. Which other members there are is unknown.
async fn read_desired(
    client: &Client,
    desired: &DesiredState<'_>,
    options: &ApplyOptions<'_>,
    parent: Option<Value>,
) -> Result<ClusterState, Error> {
    if !parent.as_ref().is_some_and(|parent| options.apply_set.is_parent(parent)) {
        // Someone has deleted it: everything must be applied again.
        return Err(Error::Access(format!("the parent of the ApplySet {} is gone", options.apply_set)));
    }
    let kinds = kinds::find_kinds(client, desired, &ApplySetContents::default()).await?;
    let (objects, unreadable) = read_missing(client, desired, &kinds, &[]).await?;
    let mut live = LiveObjects::default();
    live.insert(desired.cluster.clone(), objects);
    Ok(ClusterState {
        live,
        kinds,
        parent,
        moved: None,
        others: Vec::new(),
        members: Vec::new(),
        partial: true,
        unlisted_kinds: BTreeSet::new(),
        lost_records: Vec::new(),
        unreadable,
        compared: ComparedObjects::default(),
    })
}

/// The parents of all `ApplySet`s of a cluster; none where they may not be listed.
async fn other_sets(client: &Client) -> Result<Vec<Value>, Error> {
    let call = RepeatableRequest::get(ApiPath::from_version("v1").join("configmaps"))
        .with_query("labelSelector", "applyset.kubernetes.io/id");
    let list = match client.request_optional(&call).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => None,
        list => list?,
    };
    let items = list.and_then(|mut list| list.get_mut("items").map(Value::take));
    Ok(match items {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    })
}

/// The namespaces that a run is about.
fn collect_namespaces(
    desired: &DesiredState<'_>,
    apply_set: &ApplySet,
    members: &ApplySetContents,
) -> BTreeSet<String> {
    let wanted = desired.objects.iter().filter_map(|(object, _)| object.namespace.clone());
    wanted.chain(members.namespaces.iter().cloned()).chain([apply_set.namespace.clone()]).collect()
}

/// The desired objects that the lists did not have, `found` being sorted: a single object of a kind and namespace is read by its name,
/// several by a list.
async fn read_missing(
    client: &Client,
    desired: &DesiredState<'_>,
    kinds: &ClusterKinds,
    found: &[Object],
) -> Result<(Vec<Object>, BTreeMap<ObjectRef, String>), Error> {
    let mut namespaces: BTreeMap<(&str, &str, Option<&str>), Vec<&ObjectRef>> = BTreeMap::new();
    for (object, _) in &desired.objects {
        let is_found =
            found.binary_search_by(|other| other.id.unversioned().cmp(&object.unversioned())).is_ok();
        if !is_found && kinds.is_served(object) {
            let place = (object.api_version.as_str(), object.kind.as_str(), object.namespace.as_deref());
            namespaces.entry(place).or_default().push(object);
        }
    }
    let (mut lists, mut gets) = (Vec::new(), Vec::new());
    for wanted in namespaces.into_values() {
        let Some(kind) = wanted.first().and_then(|first| kinds.find_kind(first)) else { continue };
        match wanted.as_slice() {
            [one] => gets.push((kind.clone(), *one)),
            several => {
                let namespace = several.first().and_then(|object| object.namespace.clone());
                lists.push((ListRequest { kind: kind.clone(), namespace, selector: None }, wanted));
            }
        }
    }
    let mut all = Vec::new();
    let answers = try_lists(client, lists.iter().map(|(list, _)| list), None).await?;
    for ((list, wanted), answer) in lists.iter().zip(answers) {
        match answer {
            Some(items) => all.extend(read_objects(&items, &desired.cluster)?),
            None => gets.extend(wanted.iter().map(|object| (list.kind.clone(), *object))),
        }
    }
    let wanted: BTreeSet<&ObjectRef> = desired.objects.iter().map(|(object, _)| *object).collect();
    let rescoped = ScopeCorrections::new(desired, kinds);
    rescoped.rename_objects(&mut all);
    all.retain(|object| wanted.contains(&object.id));
    let under_way = gets.into_iter().map(|(kind, wanted)| {
        let (client, call) = (client.clone(), RepeatableRequest::get(object_path(&kind, wanted)));
        (kind, wanted, tokio::spawn(async move { client.request_optional(&call).await }))
    });
    let under_way: Vec<(ResourceKind, &ObjectRef, JoinHandle<_>)> = under_way.collect();
    let mut unreadable = BTreeMap::new();
    for (kind, wanted, get) in under_way {
        match join_result(get.await)? {
            Err(Error::Refused(refusal)) if refusal.code == 403 => {
                unreadable.insert(wanted.clone(), format!("it may not be read: {}", refusal.message));
            }
            found => all.extend(found?.map(|body| build_object(&kind, body, &desired.cluster))),
        }
    }
    rescoped.rename_objects(&mut all);
    Ok((all, unreadable))
}

/// The items of several lists that may be read.
#[derive(Debug, Default)]
pub(super) struct ListedItems {
    pub(super) items: Vec<ListItem>,
    /// Whether a list was refused.
    pub(super) partial: bool,
}

/// The items of several lists of all namespaces, some of which began early. One that is refused is repeated for each of
/// `namespaces`.
pub(super) async fn list_all(
    client: &Client,
    mut lists: Vec<ListRequest>,
    namespaces: &BTreeSet<String>,
    mut early: Option<EarlyLists>,
) -> Result<ListedItems, Error> {
    let mut all = ListedItems::default();
    while !lists.is_empty() {
        let mut narrower = Vec::new();
        let answers = try_lists(client, lists.iter(), early.take()).await?;
        for (list, answer) in lists.iter().zip(answers) {
            match answer {
                Some(items) => all.items.extend(items),
                None if list.kind.namespaced && list.namespace.is_none() => narrower.extend(
                    namespaces
                        .iter()
                        .map(|namespace| ListRequest { namespace: Some(namespace.clone()), ..list.clone() }),
                ),
                None => all.partial = true,
            }
        }
        lists = narrower;
    }
    Ok(all)
}

/// The items of each of several lists; `None` for one that may not be read.
async fn try_lists(
    client: &Client,
    lists: impl Iterator<Item = &ListRequest>,
    mut early: Option<EarlyLists>,
) -> Result<Vec<Option<Vec<ListItem>>>, Error> {
    let budget = ListBudget::for_cluster();
    let under_way = lists.map(|list| {
        let begun = early.as_mut().and_then(|early| early.take_list(list));
        let (client, list, budget) = (client.clone(), list.clone(), budget.clone());
        begun.unwrap_or_else(|| {
            let read = tokio::spawn(async move { list_items(&client, &list, &budget).await });
            Box::pin(async move { join_result(read.await)? })
        })
    });
    let under_way: Vec<PendingRead<Vec<ListItem>>> = under_way.collect();
    let mut all = Vec::new();
    for reading in under_way {
        all.push(match reading.await {
            Err(Error::Refused(refusal)) if refusal.code == 403 => None,
            items => Some(items?),
        });
    }
    Ok(all)
}

/// The objects of some lists; of those that are unchanged by their text, only the metadata.
fn compare_objects(
    items: Vec<ListItem>,
    cluster: &ClusterName,
    context: &DecisionContext<'_>,
) -> Result<(Vec<Object>, ComparedObjects), Error> {
    let (first, rest): (Vec<ListItem>, Vec<ListItem>) =
        items.into_iter().partition(|(kind, _)| is_read_first(&kind.group, &kind.kind));
    let mut objects = read_objects(&first, cluster)?;
    let member = context.find_cluster(cluster);
    let Some(comparison) = member.and_then(|member| context.prepare_comparison(member, &objects)) else {
        objects.extend(read_objects(&rest, cluster)?);
        return Ok((objects, ComparedObjects::default()));
    };
    let read = rest.into_par_iter().map(|(kind, text)| {
        let head = ListedObject::from_json(&text).ok().and_then(|listed| {
            let id = listed.object_ref(kind.api_version(), kind.kind.clone());
            comparison.membership_stub(&id, &listed).map(|head| (head, id))
        });
        match head {
            Some((head, id)) => Ok((Object::with_identity(id, head, cluster.clone()), Some(text))),
            None => Ok((build_object(&kind, read_item(&text)?, cluster), None)),
        }
    });
    let read: serde_json::Result<Vec<(Object, Option<Bytes>)>> = read.collect();
    let mut compared = ComparedObjects::default();
    for (object, text) in read.map_err(|_| not_json())? {
        compared.0.extend(text.map(|text| (object.id.clone(), text)));
        objects.push(object);
    }
    Ok((objects, compared))
}
