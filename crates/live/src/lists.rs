//! Lists of the objects of a cluster, page by page, and how large they may be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::client::{Client, not_json};
use super::error::Error;
use super::items::{ListItem, build_object};
use super::kinds::list_path;
use super::request::RepeatableRequest;
use super::runtime::join_result;
use federate_apiserver_model::ResourceKind;
use federate_apiserver_model::lists::{ListPage, read_item};
use federate_apiserver_model::managed_fields::read_fields;
use federate_kubernetes::{ClusterName, Object};

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

/// The bytes that lists may still have, which are read at the same time.
#[derive(Clone, Debug)]
pub(super) struct ListBudget {
    left: Arc<AtomicUsize>,
    limit: usize,
}

impl ListBudget {
    /// The budget of the lists of a cluster.
    pub(super) fn for_cluster() -> Self {
        Self::new(MAX_LISTED_BYTES)
    }

    /// The budget of the lists of a cluster whose objects are reduced as they arrive.
    pub(super) fn for_reduced_lists() -> Self {
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
    let budget = ListBudget::for_reduced_lists();
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
        let budget = ListBudget::for_cluster();
        assert!(budget.take_bytes(100 << 20).is_ok() && budget.clone().take_bytes(20 << 20).is_ok());
        let error = budget.take_bytes(20 << 20).unwrap_err().to_string();
        assert!(error.contains("more than 128 MiB, the limit"), "{error}");
        assert!(budget.take_bytes(8 << 20).is_ok(), "what does not fit is not counted");
    }
}
