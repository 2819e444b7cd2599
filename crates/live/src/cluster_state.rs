//! Reads the objects of a cluster that a run is about, in few requests: one list per kind, by the label of the
//! ApplySet, and one list per kind and namespace for desired objects that are not among them.
//!
//! Where it is known which objects differ, only these are read ([`ApplyOptions::narrow`]).
//!
//! A user who may not list a kind in all namespaces lists it in each namespace of the run, and one who may not list at
//! all gets each object. An object that may not be read even so is named, and nothing is decided about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::Value;
use tokio::task::{JoinError, JoinHandle};

use super::client::{Client, not_json};
use super::early_reads::{EarlyLists, PendingRead};
use super::items::{self, ListItem, UnreadObjects, build_object};
use super::kinds::{self, ClusterKinds, ScopeCorrections, list_path, object_path};
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::{ApplyOptions, Decider, DesiredState, Error};
use federate_apiserver::ResourceKind;
use federate_apiserver::lists::{ListPage, read_item};
use federate_apiserver::managed_fields::read_fields;
use federate_engine::actions::ApplySet;
use federate_engine::actions::apply_set::ApplySetContents;
use federate_engine::actions::ownership::{PART_OF_LABEL, is_member};
use federate_kubernetes::{ClusterName, LiveObjects, Object, ObjectRef};

/// The number of objects in a page of a list.
const PAGE_SIZE: &str = "500";
/// The number of times that a list is started because its pages expire.
const MAX_LIST_ATTEMPTS: usize = 3;
/// The most bytes of the objects of a cluster that are kept at the same time.
const MAX_LISTED_BYTES: usize = 128 << 20;
/// The most bytes of a list whose objects are reduced when they arrive.
const MAX_REDUCED_BYTES: usize = 1 << 30;
/// The most pages of a list, and the most of them in a row that are empty.
const MAX_PAGES: usize = 10_000;
const MAX_EMPTY_PAGES: usize = 10;

/// The state of a cluster.
#[derive(Debug)]
pub struct ClusterState {
    /// The desired objects and the members of the `ApplySet` that exist.
    pub live: LiveObjects,
    /// Their kinds.
    pub kinds: ClusterKinds,
    /// The parent of the `ApplySet`.
    pub parent: Option<Value>,
    /// The parent of the `ApplySet` whose members are taken over.
    pub(super) moved: Option<Value>,
    /// The parents of all `ApplySet`s, where this one has no parent yet.
    pub(super) others: Vec<Value>,
    /// The members of the `ApplySet`.
    pub members: Vec<ObjectRef>,
    /// Whether members may be missing here, because a list was refused.
    pub partial: bool,
    /// The desired objects that may not be read, and why.
    pub unreadable: BTreeMap<ObjectRef, String>,
    /// The objects that are unchanged by their text; only their metadata is live.
    unread: UnreadObjects,
    /// A digest of everything that was read, if reads that began early cover it.
    pub(super) digest: Option<String>,
}

impl ClusterState {
    /// Whether an object is unchanged by its text. Only its metadata is live.
    pub fn is_unread(&self, object: &ObjectRef) -> bool {
        self.unread.contains(object)
    }

    /// Reads the objects of which only the metadata is live.
    pub(super) fn read_rest(&mut self, cluster: &ClusterName) -> Result<(), Error> {
        self.unread.read_into(&mut self.live, cluster)
    }

    /// Why an object cannot be dry-run before others exist, if it cannot.
    pub(super) fn find_obstacle(&self, desired: &DesiredState<'_>, object: &ObjectRef) -> Option<String> {
        if !self.kinds.is_served(object) {
            return Some(format!(
                "its CustomResourceDefinition does not exist yet, so that {} {} is not served",
                object.api_version, object.kind
            ));
        }
        let namespace = object.namespace.as_ref()?;
        let wanted = desired.objects.iter().any(|(object, _)| {
            object.kind == "Namespace" && object.group().is_empty() && object.name == *namespace
        });
        let new = wanted && self.live.get(&desired.cluster, "", "Namespace", None, namespace).is_none();
        new.then(|| format!("its namespace {namespace} does not exist yet"))
    }
}

/// An object, whatever its version.
type ObjectKey<'o> = (&'o str, &'o str, Option<&'o str>, &'o str);

fn object_key(object: &ObjectRef) -> ObjectKey<'_> {
    (object.group(), &object.kind, object.namespace.as_deref(), &object.name)
}

/// Reads a cluster. With a decider, objects that are unchanged by their text are not read further.
pub(super) async fn read_cluster_state(
    client: &Client,
    desired: &DesiredState<'_>,
    options: &ApplyOptions<'_>,
    decider: Option<&dyn Decider>,
    early: Option<EarlyLists>,
) -> Result<ClusterState, Error> {
    let sets =
        options.moved.into_iter().filter(|moved| *moved != options.inventory).chain([options.inventory]);
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
    let members = options.contents.map_or_else(|| members.clone(), |more| members.merged_with(more));
    let parent = parents.pop().flatten();
    if options.narrow {
        return read_desired(client, desired, options, parent).await;
    }
    let others = if parent.is_none() { other_sets(client).await? } else { Vec::new() };
    let kinds = kinds::find_kinds(client, desired, &members).await?;
    let ids: Vec<String> = sets.iter().map(|set| set.compute_id()).collect();
    let selector = member_selector(&ids);
    let versions: BTreeMap<ObjectKey<'_>, &str> =
        desired.objects.iter().map(|(object, _)| (object_key(object), object.api_version.as_str())).collect();

    let lists: Vec<ListRequest> = kinds
        .served_kinds()
        .map(|kind| ListRequest { kind: kind.clone(), namespace: None, selector: Some(selector.clone()) })
        .collect();
    let digests = early.as_ref().and_then(|early| early.digests_of(&lists));
    let places = collect_namespaces(desired, options.inventory, &members);
    let ListedItems { items, partial } = list_all(client, lists, &places, early).await?;
    let (mut objects, unread) = items::read_objects(items, &desired.cluster, decider)?;
    ScopeCorrections::new(desired, &kinds).rename_objects(&mut objects);
    objects.retain(|object| {
        versions.get(&object_key(&object.id)).is_none_or(|version| *version == object.id.api_version)
    });
    objects.sort_by(|a, b| object_key(&a.id).cmp(&object_key(&b.id)));
    // Objects that are not desired are read once, in any version.
    objects.dedup_by(|a, b| object_key(&a.id) == object_key(&b.id));
    let members = objects.iter().filter(|object| ids.iter().any(|id| is_member(&object.body, id)));
    let members = members.map(|object| object.id.clone()).collect();

    let (more, unreadable) = read_missing(client, desired, &kinds, &objects).await?;
    let covered = !partial && more.is_empty() && unreadable.is_empty();
    let digest = digests.filter(|_| covered).and_then(|digests| digests.combine_digests());
    objects.extend(more);
    let mut live = LiveObjects::default();
    live.insert(desired.cluster.clone(), objects);
    let moved = parents.pop().flatten();
    Ok(ClusterState { live, kinds, parent, moved, others, members, partial, unreadable, unread, digest })
}

/// Reads only the desired objects. Which other members there are is unknown.
async fn read_desired(
    client: &Client,
    desired: &DesiredState<'_>,
    options: &ApplyOptions<'_>,
    parent: Option<Value>,
) -> Result<ClusterState, Error> {
    if !parent.as_ref().is_some_and(|parent| options.inventory.is_parent(parent)) {
        // Someone has deleted it: everything must be applied again.
        return Err(Error::Access(format!("the parent of the ApplySet {} is gone", options.inventory)));
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
        unreadable,
        unread: UnreadObjects::default(),
        digest: None,
    })
}

/// The parents of all `ApplySet`s of a cluster; none where they may not be listed.
async fn other_sets(client: &Client) -> Result<Vec<Value>, Error> {
    let call = RepeatableRequest::get(ApiPath::of_version("v1").join("configmaps"))
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

/// The selector of the members of `ApplySet`s.
pub(super) fn member_selector(ids: &[String]) -> String {
    match ids {
        [one] => format!("{PART_OF_LABEL}={one}"),
        several => format!("{PART_OF_LABEL} in ({})", several.join(",")),
    }
}

/// The namespaces that a run is about.
fn collect_namespaces(
    desired: &DesiredState<'_>,
    inventory: &ApplySet,
    members: &ApplySetContents,
) -> BTreeSet<String> {
    let wanted = desired.objects.iter().filter_map(|(object, _)| object.namespace.clone());
    wanted.chain(members.namespaces.iter().cloned()).chain([inventory.namespace.clone()]).collect()
}

/// The path of the parent of an `ApplySet`.
pub(super) fn parent_path(inventory: &ApplySet) -> ApiPath {
    ApiPath::of_version("v1").in_namespace(&inventory.namespace).join("configmaps").join(&inventory.name)
}

/// The desired objects that the lists did not have, `found` being sorted: a single object of a kind and namespace is read by its name,
/// several by a list.
async fn read_missing(
    client: &Client,
    desired: &DesiredState<'_>,
    kinds: &ClusterKinds,
    found: &[Object],
) -> Result<(Vec<Object>, BTreeMap<ObjectRef, String>), Error> {
    let mut places: BTreeMap<(&str, &str, Option<&str>), Vec<&ObjectRef>> = BTreeMap::new();
    for (object, _) in &desired.objects {
        let is_found = found.binary_search_by(|other| object_key(&other.id).cmp(&object_key(object))).is_ok();
        if !is_found && kinds.is_served(object) {
            let place = (object.api_version.as_str(), object.kind.as_str(), object.namespace.as_deref());
            places.entry(place).or_default().push(object);
        }
    }
    let (mut lists, mut gets) = (Vec::new(), Vec::new());
    for wanted in places.into_values() {
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
            Some(items) => all.extend(items::read_objects(items, &desired.cluster, None)?.0),
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
    let budget = ListBudget::of_cluster();
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

/// The bytes that lists may still have, which are read at the same time.
#[derive(Clone, Debug)]
pub(super) struct ListBudget {
    left: Arc<AtomicUsize>,
    limit: usize,
}

impl ListBudget {
    /// The budget of the lists of a cluster.
    pub(super) fn of_cluster() -> Self {
        Self::new(MAX_LISTED_BYTES)
    }

    /// The budget of the lists of a cluster whose objects are reduced as they arrive.
    pub(super) fn of_reduced_lists() -> Self {
        Self::new(MAX_REDUCED_BYTES)
    }

    fn new(limit: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(limit)), limit }
    }

    pub(super) fn take_bytes(&self, bytes: usize) -> Result<(), Error> {
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Unreachable(format!(
                "the objects that it lists have more than {} MiB, the limit",
                self.limit >> 20
            ))),
        }
    }
}

/// The items of a list.
pub(super) async fn list_items(
    client: &Client,
    list: &ListRequest,
    budget: &ListBudget,
) -> Result<Vec<ListItem>, Error> {
    let items = read_pages(client, list, budget, Ok).await?;
    let kind = Arc::new(list.kind.clone());
    Ok(items.into_iter().map(|item| (kind.clone(), item)).collect())
}

/// A list of objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct ListRequest {
    pub(super) kind: ResourceKind,
    pub(super) namespace: Option<String>,
    pub(super) selector: Option<String>,
}

/// The objects of several lists, with all field sets as values.
pub(super) async fn list_objects(
    client: &Client,
    lists: impl Iterator<Item = ListRequest>,
    cluster: &ClusterName,
) -> Result<Vec<Object>, Error> {
    let budget = ListBudget::of_reduced_lists();
    let under_way = lists.map(|list| {
        let (client, cluster, budget) = (client.clone(), cluster.clone(), budget.clone());
        tokio::spawn(async move { list_reduced(&client, &list, &cluster, &budget, read_fields).await })
    });
    let under_way: Vec<JoinHandle<Result<Vec<Object>, Error>>> = under_way.collect();
    let mut all = Vec::new();
    for task in under_way {
        all.extend(join_result(task.await)??);
    }
    Ok(all)
}

/// The result of a task that has ended.
pub(super) fn join_result<T>(task: Result<T, JoinError>) -> Result<T, Error> {
    task.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Error::Unreachable(error.to_string()),
    })
}

/// The objects of a list; `change` reduces each as soon as its page arrives.
pub(super) async fn list_reduced(
    client: &Client,
    list: &ListRequest,
    cluster: &ClusterName,
    budget: &ListBudget,
    change: fn(&mut Value),
) -> Result<Vec<Object>, Error> {
    let (kind, cluster) = (list.kind.clone(), cluster.clone());
    let pages = read_pages(client, list, budget, move |items| {
        let reduced = items.iter().map(|text| {
            let mut body = read_item(text)?;
            change(&mut body);
            Ok(build_object(&kind, body, &cluster))
        });
        reduced.collect()
    });
    pages.await
}

/// The pages of a list that a server may still send.
#[derive(Debug, Default)]
pub(super) struct PageLimit {
    tokens: BTreeSet<String>,
    empty: usize,
}

impl PageLimit {
    /// Refuses a page that names a next one where the list does not end.
    pub(super) fn check_page(&mut self, page: &ListPage<'_>) -> Result<(), Error> {
        self.empty = if page.items.is_empty() { self.empty + 1 } else { 0 };
        if page.next.is_empty() {
            return Ok(());
        }
        let why = if self.empty > MAX_EMPTY_PAGES {
            format!("more than {MAX_EMPTY_PAGES} pages in a row are empty")
        } else if self.tokens.len() == MAX_PAGES {
            format!("it has more than {MAX_PAGES} pages")
        } else if self.tokens.insert(page.next.clone()) {
            return Ok(());
        } else {
            "a page names itself or one before it as the next".to_owned()
        };
        Err(Error::Unreachable(format!("a list does not end: {why}")))
    }
}

/// What is read of the pages of a list; nothing where the cluster does not know the kind. The next page is requested
/// before a page is read.
async fn read_pages<T: Send + 'static>(
    client: &Client,
    list: &ListRequest,
    budget: &ListBudget,
    read: impl Fn(Vec<Bytes>) -> serde_json::Result<Vec<T>> + Clone + Send + 'static,
) -> Result<Vec<T>, Error> {
    let mut begun = 1;
    let mut under_way: Vec<JoinHandle<serde_json::Result<Vec<T>>>> = Vec::new();
    let mut token = String::new();
    let mut limit = PageLimit::default();
    loop {
        let mut call =
            RepeatableRequest::get(list_path(&list.kind, list.namespace.as_deref())).with_page_limit();
        // Where pages expire faster than they are read, everything is read at once.
        if begun < MAX_LIST_ATTEMPTS {
            call = call.with_query("limit", PAGE_SIZE);
        }
        if let Some(selector) = &list.selector {
            call = call.with_query("labelSelector", selector);
        }
        if !token.is_empty() {
            call = call.with_query("continue", &token);
        }
        let page = match client.request_bytes(&call).await {
            Ok(page) => page,
            Err(Error::Refused(refusal)) if refusal.is_absent() => break,
            Err(Error::Refused(refusal)) if refusal.code == 410 && begun < MAX_LIST_ATTEMPTS => {
                begun += 1;
                under_way.clear();
                token.clear();
                limit = PageLimit::default();
                continue;
            }
            Err(error) => return Err(error),
        };
        budget.take_bytes(page.len())?;
        let listed = ListPage::parse(&page).map_err(|_| not_json())?;
        limit.check_page(&listed)?;
        let ListPage { next, items, .. } = listed;
        token = next;
        let items = items.into_iter().map(|item| page.slice_ref(item.as_bytes())).collect();
        let read = read.clone();
        under_way.push(tokio::spawn(async move { read(items) }));
        if token.is_empty() {
            break;
        }
    }
    let mut all = Vec::new();
    for page in under_way {
        all.extend(join_result(page.await)?.map_err(|_| not_json())?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: &mut PageLimit, next: &str, items: &str) -> Result<(), String> {
        let text = format!(r#"{{"metadata": {{"continue": "{next}"}}, "items": [{items}]}}"#);
        limit.check_page(&ListPage::parse(text.as_bytes()).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_end() {
        let mut limit = PageLimit::default();
        assert!(check(&mut limit, "a", "{}").is_ok() && check(&mut limit, "b", "{}").is_ok());
        let again = check(&mut limit, "a", "{}").unwrap_err();
        assert!(again.contains("a list does not end: a page names itself or one before it"), "{again}");

        let mut limit = PageLimit::default();
        for number in 0..MAX_EMPTY_PAGES {
            assert_eq!(check(&mut limit, &number.to_string(), ""), Ok(()));
        }
        let empty = check(&mut limit, "next", "").unwrap_err();
        assert!(empty.contains("more than 10 pages in a row are empty"), "{empty}");

        let mut limit = PageLimit::default();
        let ends = (0..=MAX_PAGES).find_map(|number| check(&mut limit, &number.to_string(), "{}").err());
        assert!(ends.is_some_and(|why| why.contains("more than 10000 pages")));
        assert_eq!(check(&mut limit, "", ""), Ok(()), "the last page");
    }

    #[test]
    fn lists_of_a_cluster_have_a_size_together() {
        let budget = ListBudget::of_cluster();
        assert!(budget.take_bytes(100 << 20).is_ok() && budget.clone().take_bytes(20 << 20).is_ok());
        let error = budget.take_bytes(20 << 20).unwrap_err().to_string();
        assert!(error.contains("more than 128 MiB, the limit"), "{error}");
        assert!(budget.take_bytes(8 << 20).is_ok(), "what does not fit is not counted");
    }
}
