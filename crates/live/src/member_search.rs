//! Searches every kind that a cluster serves for members of an `ApplySet` whose parent does not name their kinds: it was
//! deleted, replaced or edited. Without the search, the last object of a kind that is no longer rendered would stay forever,
//! and nothing would say so.
//!
//! The parent names the kinds of objects before they are created, so that a member of another kind shows that the record is
//! lost. What cannot be listed is named, and stays in the record that an apply writes.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinHandle;

use super::Error;
use super::client::{Client, not_json};
use super::discovery::list_appliable_kinds;
use super::items::{ComparedObjects, ListItem, read_objects};
use super::kinds::ClusterKinds;
use super::lists::{ListBudget, ListRequest, list_items};
use super::runtime::join_result;
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::values::text_at;
use federate_kubernetes::finding::join_names;
use federate_kubernetes::{ClusterName, Object, ObjectRef};
use federate_reconcile::ApplySet;
use federate_reconcile::apply_set::{ApplySetContents, group_kind};
use federate_reconcile::cluster_errors::{MAX_SINGLE_OBJECTS, summarize_objects};
use federate_reconcile::listed_object::ListedObject;
use federate_reconcile::ownership::is_member;

/// How many kinds a message names.
const MAX_NAMED_KINDS: usize = 5;

/// An `ApplySet` with what its parent records.
pub(super) struct RecordedSet<'s> {
    pub(super) set: &'s ApplySet,
    /// What the parent records; `None` if there is no parent.
    pub(super) contents: Option<ApplySetContents>,
}

impl RecordedSet<'_> {
    /// Whether a member is of a kind that the parent does not name. The namespace of the parent is applied before the parent.
    fn lacks_kind_of(&self, object: &Object) -> bool {
        let ObjectRef { kind, name, .. } = &object.id;
        let is_own_namespace =
            kind == "Namespace" && object.id.group().is_empty() && *name == self.set.namespace;
        let is_member = is_member(&object.body, &self.set.compute_id());
        is_member
            && !is_own_namespace
            && self.contents.as_ref().is_none_or(|known| !known.group_kinds.contains(&group_kind(&object.id)))
    }

    /// Whether its record is lost, by the members that were found.
    pub(super) fn is_lost(&self, found: &[Object]) -> bool {
        found.iter().any(|object| self.lacks_kind_of(object))
    }
}

/// What a search has found.
#[derive(Debug, Default)]
pub(super) struct FoundMembers {
    /// The members of kinds that were not known.
    pub(super) objects: Vec<Object>,
    /// Their kinds.
    pub(super) kinds: Vec<ResourceKind>,
    /// The kinds that could not be listed, as `Kind.group`, and why.
    pub(super) unlisted: BTreeMap<String, String>,
    /// The API versions whose kinds are unknown.
    silent: Vec<String>,
}

/// What is searched for.
pub(super) struct MemberSearch<'s> {
    pub(super) client: &'s Client,
    pub(super) cluster: &'s ClusterName,
    /// The kinds that were listed already.
    pub(super) known: &'s ClusterKinds,
    /// Selects the members.
    pub(super) selector: &'s str,
    /// The namespaces that are listed where a list of all namespaces is refused.
    pub(super) namespaces: &'s BTreeSet<String>,
}

impl MemberSearch<'_> {
    /// Lists the members of all kinds that were not listed yet. `found` are those of the others.
    pub(super) async fn search_kinds(
        &self,
        found: &[Object],
        compared: &ComparedObjects,
    ) -> Result<FoundMembers, Error> {
        let (kinds, silent) = list_appliable_kinds(self.client).await?;
        let mut all = FoundMembers { silent, ..FoundMembers::default() };
        let budget = ListBudget::for_cluster();
        let unknown = kinds.into_iter().filter(|kind| !self.known.has_kind(&kind.group, &kind.kind));
        let under_way = unknown.map(|kind| {
            let list = ListRequest { kind, namespace: None, selector: Some(self.selector.to_owned()) };
            let (client, budget, namespaces) = (self.client.clone(), budget.clone(), self.namespaces.clone());
            let kind = list.kind.clone();
            (kind, tokio::spawn(async move { list_kind(&client, list, &namespaces, &budget).await }))
        });
        let under_way: Vec<(ResourceKind, JoinHandle<ListedKind>)> = under_way.collect();
        // A group may show the objects of another one: an object is the same if it has the same uid.
        let mut uids = collect_uids(found, compared)?;
        for (kind, task) in under_way {
            let listed = join_result(task.await)?;
            if let Some(why) = listed.refusal {
                if let Error::Access(_) = why {
                    return Err(why);
                }
                all.unlisted.insert(name_kind(&kind), why.to_string());
            }
            let before = all.objects.len();
            for object in read_objects(&listed.items, self.cluster)? {
                if uids.insert(text_at(&object.body, "/metadata/uid").to_owned()) {
                    all.objects.push(object);
                }
            }
            if all.objects.len() > before {
                all.kinds.push(kind);
            }
        }
        Ok(all)
    }
}

/// The members of a kind, as far as they may be listed.
struct ListedKind {
    items: Vec<ListItem>,
    /// Why there may be more.
    refusal: Option<Error>,
}

async fn list_kind(
    client: &Client,
    list: ListRequest,
    namespaces: &BTreeSet<String>,
    budget: &ListBudget,
) -> ListedKind {
    let refusal = match list_items(client, &list, budget).await {
        Ok(items) => return ListedKind { items, refusal: None },
        Err(error) if error.is_absent() => return ListedKind { items: Vec::new(), refusal: None },
        Err(error) => error,
    };
    let mut listed = ListedKind { items: Vec::new(), refusal: Some(refusal) };
    if !matches!(&listed.refusal, Some(Error::Refused(refusal)) if refusal.code == 403 && list.kind.namespaced)
    {
        return listed;
    }
    for namespace in namespaces {
        let list = ListRequest { namespace: Some(namespace.clone()), ..list.clone() };
        // Whoever may not list a namespace may not list the next one either.
        let Ok(items) = list_items(client, &list, budget).await else { break };
        listed.items.extend(items);
    }
    listed
}

/// The uids of objects; those that are unchanged by their text have theirs there.
fn collect_uids(objects: &[Object], compared: &ComparedObjects) -> Result<BTreeSet<String>, Error> {
    let uids = objects.iter().map(|object| match compared.0.get(&object.id) {
        Some(text) => Ok(ListedObject::from_json(text)?.uid().to_owned()),
        None => Ok(text_at(&object.body, "/metadata/uid").to_owned()),
    });
    uids.collect::<serde_json::Result<_>>().map_err(|_| not_json())
}

/// `Kind.group`, or the kind alone in the core group, as the parent names it.
fn name_kind(kind: &ResourceKind) -> String {
    if kind.group.is_empty() { kind.kind.clone() } else { format!("{}.{}", kind.kind, kind.group) }
}

impl FoundMembers {
    /// Says whose record was lost, and what was found and what was not.
    pub(super) fn describe(&self, lost: &RecordedSet<'_>, is_written: bool) -> String {
        let RecordedSet { set, contents } = lost;
        let what = if contents.is_some() { "does not name the kinds of all members" } else { "is gone" };
        let objects: Vec<&ObjectRef> = self.objects.iter().map(|object| &object.id).collect();
        let found = match objects.as_slice() {
            [] => "no further members were found".to_owned(),
            objects if objects.len() > MAX_SINGLE_OBJECTS => {
                format!("also found were {}", summarize_objects(objects.iter().copied()))
            }
            objects => {
                let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
                format!("also found were {}", names.join(", "))
            }
        };
        let mut text = format!(
            "the parent of the ApplySet {set} {what}, so that every kind of the cluster was searched for members: {found}"
        );
        if let Some((_, why)) = self.unlisted.first_key_value() {
            let names: Vec<&str> = self.unlisted.keys().map(String::as_str).collect();
            let names = join_names(&names, MAX_NAMED_KINDS);
            text += &format!("; {names} could not be listed ({why}), and members of these kinds stay");
        }
        if !self.silent.is_empty() {
            let names: Vec<&str> = self.silent.iter().map(String::as_str).collect();
            let names = join_names(&names, MAX_NAMED_KINDS);
            text += &format!("; {names} did not answer, and members of kinds that it serves stay");
        }
        text += if is_written {
            "; the parent is written again"
        } else {
            "; `federate apply` writes the parent again"
        };
        text
    }
}
