//! What a cluster holds of what concerns us, in few requests: a list for each kind, by the label of our
//! inventory, and what is wanted but not among them by one more list for a kind and namespace.
//!
//! Whoever may not list a kind in all namespaces is asked about each namespace that the run is about, and
//! whoever may not list at all about each object. What may not be read even so is named, and nothing is decided
//! about it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::task::{JoinError, JoinHandle};

use super::call::Call;
use super::client::Client;
use super::kinds::{self, Kinds, path, path_of};
use super::{ApplyOptions, DesiredState, Error};
use federate_apiserver::Kind;
use federate_engine::actions::Inventory;
use federate_engine::actions::inventory::Members;
use federate_engine::actions::ownership::{PART_OF, is_member};
use federate_kubernetes::{ClusterName, Live, Object, ObjectRef};

/// How many objects a page of a list has.
const PAGE: &str = "500";
/// How often a list is begun anew because its pages expired.
const LISTS: usize = 3;

/// What was found in a cluster.
#[derive(Debug)]
pub struct ClusterState {
    /// What is wanted, and what we own, as far as it is there.
    pub live: Live,
    /// The kinds of all of them.
    pub kinds: Kinds,
    /// The inventory's parent.
    pub parent: Option<Value>,
    /// The parent of the set whose members become ours.
    pub(super) moved: Option<Value>,
    /// The parents of all sets, where ours has none yet.
    pub(super) others: Vec<Value>,
    /// What we applied.
    pub members: Vec<ObjectRef>,
    /// Whether some of what we applied may not be known, because a list was refused.
    pub partial: bool,
    /// What is wanted and may not be read, and why.
    pub unreadable: BTreeMap<ObjectRef, String>,
}

impl ClusterState {
    /// Why an API server cannot try an object before others are there, if it cannot.
    pub(super) fn obstacle(&self, job: &DesiredState<'_>, object: &ObjectRef) -> Option<String> {
        if !self.kinds.serves(object) {
            return Some(format!(
                "its CustomResourceDefinition is not there yet, so that {} {} is not served",
                object.api_version, object.kind
            ));
        }
        let namespace = object.namespace.as_ref()?;
        let is = |o: &ObjectRef| o.kind == "Namespace" && o.group().is_empty() && o.name == *namespace;
        let wanted = job.wanted.iter().any(|(object, _)| is(object));
        let new = wanted && self.live.get(&job.cluster, "", "Namespace", None, namespace).is_none();
        new.then(|| format!("its namespace {namespace} does not exist yet"))
    }
}

/// What an object is whatever its version.
type Key = (String, String, Option<String>, String);

fn key(object: &ObjectRef) -> Key {
    (object.group().to_owned(), object.kind.clone(), object.namespace.clone(), object.name.clone())
}

/// Reads a cluster.
pub(super) async fn read(
    client: &Client,
    job: &DesiredState<'_>,
    how: &ApplyOptions<'_>,
) -> Result<ClusterState, Error> {
    let sets = how.moved.into_iter().filter(|moved| *moved != how.inventory).chain([how.inventory]);
    let sets: Vec<&Inventory> = sets.collect();
    let mut parents = Vec::new();
    for set in &sets {
        parents.push(client.find(&Call::get(parent_path(set))).await?);
    }
    let members =
        parents.iter().flatten().map(Members::of).fold(Members::default(), |all, one| all.and(&one));
    let parent = parents.pop().flatten();
    let others = if parent.is_none() { other_sets(client).await? } else { Vec::new() };
    let kinds = kinds::find(client, job, &members).await?;
    let ids: Vec<String> = sets.iter().map(|set| set.id()).collect();
    let selector = match ids.as_slice() {
        [one] => format!("{PART_OF}={one}"),
        several => format!("{PART_OF} in ({})", several.join(",")),
    };
    let versions: BTreeMap<Key, &str> =
        job.wanted.iter().map(|(object, _)| (key(object), object.api_version.as_str())).collect();

    let lists = kinds.served().map(|kind| List {
        kind: kind.clone(),
        namespace: None,
        selector: Some(selector.clone()),
    });
    let places = namespaces(job, how.inventory, &members);
    let Listed { mut objects, partial } = listed(client, lists, &places, &job.cluster).await?;
    objects.retain(|object| {
        versions.get(&key(&object.id)).is_none_or(|version| *version == object.id.api_version)
    });
    let mut found: BTreeSet<Key> = BTreeSet::new();
    // An object that is not wanted is read once, in whatever version.
    objects.retain(|object| found.insert(key(&object.id)));
    let ours = objects.iter().filter(|object| ids.iter().any(|id| is_member(&object.body, id)));
    let members = ours.map(|object| object.id.clone()).collect();

    let (more, unreadable) = missing(client, job, &kinds, &found).await?;
    objects.extend(more);
    let mut live = Live::default();
    live.insert(job.cluster.clone(), objects);
    let moved = parents.pop().flatten();
    Ok(ClusterState { live, kinds, parent, moved, others, members, partial, unreadable })
}

/// The parents of all `ApplySets` of a cluster; none where they may not be listed.
async fn other_sets(client: &Client) -> Result<Vec<Value>, Error> {
    let call = Call::get("/api/v1/configmaps").query("labelSelector", "applyset.kubernetes.io/id");
    let list = match client.find(&call).await {
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
fn namespaces(job: &DesiredState<'_>, inventory: &Inventory, members: &Members) -> BTreeSet<String> {
    let wanted = job.wanted.iter().filter_map(|(object, _)| object.namespace.clone());
    wanted.chain(members.namespaces.iter().cloned()).chain([inventory.namespace.clone()]).collect()
}

/// The path of the inventory's parent.
pub(super) fn parent_path(inventory: &Inventory) -> String {
    use super::call::encoded;
    format!("/api/v1/namespaces/{}/configmaps/{}", encoded(&inventory.namespace), encoded(&inventory.name))
}

/// What is wanted and was not found: alone it is asked for by name, with others by their namespace.
async fn missing(
    client: &Client,
    job: &DesiredState<'_>,
    kinds: &Kinds,
    found: &BTreeSet<Key>,
) -> Result<(Vec<Object>, BTreeMap<ObjectRef, String>), Error> {
    let mut places: BTreeMap<(&str, &str, Option<&str>), Vec<&ObjectRef>> = BTreeMap::new();
    for (object, _) in &job.wanted {
        if kinds.serves(object) && !found.contains(&key(object)) {
            let place = (object.api_version.as_str(), object.kind.as_str(), object.namespace.as_deref());
            places.entry(place).or_default().push(object);
        }
    }
    let (mut lists, mut gets) = (Vec::new(), Vec::new());
    for wanted in places.into_values() {
        let Some(kind) = wanted.first().and_then(|first| kinds.of(first)) else { continue };
        match wanted.as_slice() {
            [one] => gets.push((kind.clone(), *one)),
            several => {
                let namespace = several.first().and_then(|object| object.namespace.clone());
                lists.push((List { kind: kind.clone(), namespace, selector: None }, wanted));
            }
        }
    }
    let mut all = Vec::new();
    let answers = try_lists(client, lists.iter().map(|(list, _)| list)).await?;
    for ((list, wanted), answer) in lists.iter().zip(answers) {
        match answer {
            Some(items) => all.extend(items.into_iter().map(|item| object(&list.kind, item, &job.cluster))),
            None => gets.extend(wanted.iter().map(|object| (list.kind.clone(), *object))),
        }
    }
    let wanted: BTreeSet<&ObjectRef> = job.wanted.iter().map(|(object, _)| *object).collect();
    all.retain(|object| wanted.contains(&object.id));
    let under_way = gets.into_iter().map(|(kind, wanted)| {
        let (client, call) = (client.clone(), Call::get(path_of(&kind, wanted)));
        (kind, wanted, tokio::spawn(async move { client.find(&call).await }))
    });
    let under_way: Vec<(Kind, &ObjectRef, JoinHandle<_>)> = under_way.collect();
    let mut unreadable = BTreeMap::new();
    for (kind, wanted, get) in under_way {
        match finished(get.await)? {
            Err(Error::Refused(refusal)) if refusal.code == 403 => {
                unreadable.insert(wanted.clone(), format!("it may not be read: {}", refusal.message));
            }
            found => all.extend(found?.map(|body| object(&kind, body, &job.cluster))),
        }
    }
    Ok((all, unreadable))
}

/// What is in several lists, as far as it may be read.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) objects: Vec<Object>,
    /// Whether a list was refused.
    pub(super) partial: bool,
}

/// What is in several lists of all namespaces; one that is refused is made for some namespaces.
pub(super) async fn listed(
    client: &Client,
    lists: impl Iterator<Item = List>,
    namespaces: &BTreeSet<String>,
    cluster: &ClusterName,
) -> Result<Listed, Error> {
    let mut lists: Vec<List> = lists.collect();
    let mut all = Listed::default();
    while !lists.is_empty() {
        let mut narrower = Vec::new();
        let answers = try_lists(client, lists.iter()).await?;
        for (list, answer) in lists.iter().zip(answers) {
            match answer {
                Some(items) => {
                    all.objects.extend(items.into_iter().map(|item| object(&list.kind, item, cluster)));
                }
                None if list.kind.namespaced && list.namespace.is_none() => narrower.extend(
                    namespaces
                        .iter()
                        .map(|namespace| List { namespace: Some(namespace.clone()), ..list.clone() }),
                ),
                None => all.partial = true,
            }
        }
        lists = narrower;
    }
    Ok(all)
}

/// What is in each of several lists; nothing for one that may not be read.
async fn try_lists(
    client: &Client,
    lists: impl Iterator<Item = &List>,
) -> Result<Vec<Option<Vec<Value>>>, Error> {
    let under_way = lists.map(|list| {
        let (client, list) = (client.clone(), list.clone());
        tokio::spawn(async move { items(&client, &list).await })
    });
    let under_way: Vec<JoinHandle<_>> = under_way.collect();
    let mut all = Vec::new();
    for task in under_way {
        all.push(match finished(task.await)? {
            Err(Error::Refused(refusal)) if refusal.code == 403 => None,
            items => Some(items?),
        });
    }
    Ok(all)
}

/// Objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) kind: Kind,
    pub(super) namespace: Option<String>,
    pub(super) selector: Option<String>,
}

/// What is in several lists.
pub(super) async fn objects(
    client: &Client,
    lists: impl Iterator<Item = List>,
    cluster: &ClusterName,
) -> Result<Vec<Object>, Error> {
    let under_way = lists.map(|list| {
        let (client, cluster) = (client.clone(), cluster.clone());
        tokio::spawn(async move {
            let items = items(&client, &list).await?;
            Ok(items.into_iter().map(|item| object(&list.kind, item, &cluster)).collect::<Vec<_>>())
        })
    });
    let under_way: Vec<JoinHandle<Result<Vec<Object>, Error>>> = under_way.collect();
    let mut all = Vec::new();
    for task in under_way {
        all.extend(finished(task.await)??);
    }
    Ok(all)
}

/// The result of a task that was waited for.
pub(super) fn finished<T>(task: Result<T, JoinError>) -> Result<T, Error> {
    task.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Error::Unreachable(error.to_string()),
    })
}

/// All pages of a list; none where the cluster does not know the kind.
async fn items(client: &Client, list: &List) -> Result<Vec<Value>, Error> {
    let mut begun = 1;
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let mut call = Call::get(path(&list.kind, list.namespace.as_deref()));
        // Where pages expire faster than they are read, all is asked for at once.
        if begun < LISTS {
            call = call.query("limit", PAGE);
        }
        if let Some(selector) = &list.selector {
            call = call.query("labelSelector", selector);
        }
        if !token.is_empty() {
            call = call.query("continue", &token);
        }
        let mut page = match client.find(&call).await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(all),
            Err(Error::Refused(refusal)) if refusal.code == 410 && begun < LISTS => {
                begun += 1;
                all.clear();
                token.clear();
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
            all.extend(items);
        }
        page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().clone_into(&mut token);
        if token.is_empty() {
            return Ok(all);
        }
    }
}

/// An object of a list, whose items need not say what they are.
pub(super) fn object(kind: &Kind, mut body: Value, cluster: &ClusterName) -> Object {
    if let Some(map) = body.as_object_mut() {
        map.insert("apiVersion".to_owned(), json!(kind.api_version()));
        map.insert("kind".to_owned(), json!(kind.kind));
    }
    Object::of(body, cluster.clone())
}
