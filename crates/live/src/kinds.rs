//! The kinds of the objects of a run: their paths, their scope, and their schema.
//!
//! Built-in kinds are known. Others are looked up: API discovery has their paths and scopes, and their
//! `CustomResourceDefinition` has the schema. A definition that is about to be applied takes precedence over the one
//! in the cluster, because it is established before its objects are applied. Kinds of aggregated API servers have no
//! definition; the cluster's `OpenAPI` documents say how their lists are merged.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::client::Client;
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::{DesiredState, Error};
use federate_apiserver_model::ResourceKind;
use federate_kubernetes::kinds::Scope;
use federate_kubernetes::object::field_text;
use federate_kubernetes::{Object, ObjectRef};
use federate_reconcile::apply_set::ApplySetContents;

/// The kinds of the objects of a run in a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterKinds {
    /// By API version, then by kind.
    known: BTreeMap<String, BTreeMap<String, KnownKind>>,
}

#[derive(Clone, Debug)]
struct KnownKind {
    kind: ResourceKind,
    /// Whether the cluster serves it now.
    served: bool,
}

impl ClusterKinds {
    /// The kind of an object.
    pub fn find_kind(&self, object: &ObjectRef) -> Option<&ResourceKind> {
        self.find_known(object).map(|known| &known.kind)
    }

    /// Whether the cluster serves the kind of an object now.
    pub fn is_served(&self, object: &ObjectRef) -> bool {
        self.find_known(object).is_some_and(|known| known.served)
    }

    fn find_known(&self, object: &ObjectRef) -> Option<&KnownKind> {
        self.known.get(&object.api_version)?.get(&object.kind)
    }

    fn known_kinds(&self) -> impl Iterator<Item = &KnownKind> {
        self.known.values().flat_map(BTreeMap::values)
    }

    /// The scopes of the custom resources that the cluster serves, by `Kind.group`.
    pub(super) fn custom_scopes(&self) -> BTreeMap<String, Scope> {
        let custom = self
            .served_kinds()
            .filter(|kind| ResourceKind::find_builtin(&kind.api_version(), &kind.kind).is_none());
        custom
            .map(|kind| {
                let scope = if kind.namespaced { Scope::Namespaced } else { Scope::Cluster };
                (format!("{}.{}", kind.kind, kind.group), scope)
            })
            .collect()
    }

    /// The kinds that the cluster serves.
    pub(super) fn served_kinds(&self) -> impl Iterator<Item = &ResourceKind> {
        self.known_kinds().filter(|known| known.served).map(|known| &known.kind)
    }

    pub(super) fn insert(&mut self, kind: ResourceKind, served: bool) {
        let kinds = self.known.entry(kind.api_version()).or_default();
        kinds.insert(kind.kind.clone(), KnownKind { kind, served });
    }

    pub(super) fn has_kind(&self, group: &str, kind: &str) -> bool {
        self.known_kinds().any(|known| (known.kind.group.as_str(), known.kind.kind.as_str()) == (group, kind))
    }
}

/// The path of a kind's objects in a namespace, or in all.
pub(super) fn list_path(kind: &ResourceKind, namespace: Option<&str>) -> ApiPath {
    let version = ApiPath::from_version(&kind.api_version());
    match namespace.filter(|_| kind.namespaced) {
        Some(namespace) => version.in_namespace(namespace).join(&kind.plural),
        None => version.join(&kind.plural),
    }
}

/// The path of an object. The cluster says whether its kind is namespaced; the repo may not know.
pub(super) fn object_path(kind: &ResourceKind, object: &ObjectRef) -> ApiPath {
    let namespace = object.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    list_path(kind, Some(namespace)).join(&object.name)
}

/// A manifest as the cluster takes it: without a namespace, where the cluster has no namespaces for its kind.
pub(super) fn manifest_for<'b>(kind: &ResourceKind, body: &'b Value) -> Cow<'b, Value> {
    if kind.namespaced || body.pointer("/metadata/namespace").is_none() {
        return Cow::Borrowed(body);
    }
    let mut body = body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("namespace");
    }
    Cow::Owned(body)
}

/// The namespace of namespaced objects without one.
const DEFAULT_NAMESPACE: &str = "default";

/// The desired objects that the cluster has in another scope than the repo takes for theirs.
pub(super) struct ScopeCorrections<'d> {
    /// By what the cluster calls them.
    desired: BTreeMap<(String, &'d str, &'d str, Option<&'d str>), &'d ObjectRef>,
}

impl<'d> ScopeCorrections<'d> {
    /// Compares the desired objects with the kinds of the cluster.
    pub(super) fn new(desired: &DesiredState<'d>, kinds: &ClusterKinds) -> Self {
        let objects = desired.objects.iter().map(|(object, _)| *object);
        let desired = objects.filter_map(|object| {
            let kind =
                kinds.find_kind(object).filter(|kind| kind.namespaced != object.namespace.is_some())?;
            let namespace = kind.namespaced.then_some(DEFAULT_NAMESPACE);
            Some(((object.group().to_owned(), object.kind.as_str(), object.name.as_str(), namespace), object))
        });
        Self { desired: desired.collect() }
    }

    /// Identifies live objects as the repo does.
    pub(super) fn rename_objects(&self, live: &mut [Object]) {
        if self.desired.is_empty() {
            return;
        }
        for Object { id, .. } in live {
            let key = (id.group().to_owned(), id.kind.as_str(), id.name.as_str(), id.namespace.as_deref());
            let namespace = self.desired.get(&key).map(|desired| desired.namespace.clone());
            if let Some(namespace) = namespace {
                id.namespace = namespace;
            }
        }
    }
}

/// Looks up the kinds of the desired objects and of the members of the `ApplySet`.
pub(super) async fn find_kinds(
    client: &Client,
    desired: &DesiredState<'_>,
    members: &ApplySetContents,
) -> Result<ClusterKinds, Error> {
    let mut kinds = ClusterKinds::default();
    let defined = defined_kinds(desired);
    let mut foreign: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (object, _) in &desired.objects {
        if kinds.find_kind(object).is_some() {
            continue;
        }
        match ResourceKind::find_builtin(&object.api_version, &object.kind).cloned() {
            Some(kind) => kinds.insert(kind, true),
            None => drop(foreign.entry(object.api_version.clone()).or_default().insert(object.kind.clone())),
        }
    }
    for (api_version, wanted) in foreign {
        look_up_kinds(client, &api_version, &wanted, &defined, &mut kinds).await?;
    }
    for owned in &members.group_kinds {
        let (kind, group) = owned.split_once('.').unwrap_or((owned, ""));
        if kinds.has_kind(group, kind) {
            continue;
        }
        if let Some(builtin) =
            ResourceKind::all_builtins().find(|k| (k.group.as_str(), k.kind.as_str()) == (group, kind))
        {
            kinds.insert(builtin.clone(), true);
            continue;
        }
        // Without the group there are no objects of it.
        let Some(found) =
            client.request_optional(&RepeatableRequest::get(ApiPath::new(["apis", group]))).await?
        else {
            continue;
        };
        if let Some(preferred) = found.pointer("/preferredVersion/groupVersion").and_then(Value::as_str) {
            look_up_kinds(client, preferred, &[kind.to_owned()].into(), &defined, &mut kinds).await?;
        }
    }
    Ok(kinds)
}

/// The kinds that desired definitions define.
fn defined_kinds(desired: &DesiredState<'_>) -> Vec<ResourceKind> {
    let definitions = desired.objects.iter().filter(|(object, _)| object.kind == "CustomResourceDefinition");
    definitions.flat_map(|(_, body)| ResourceKind::from_definition(body)).collect()
}

async fn look_up_kinds(
    client: &Client,
    api_version: &str,
    wanted: &BTreeSet<String>,
    defined: &[ResourceKind],
    kinds: &mut ClusterKinds,
) -> Result<(), Error> {
    let discovered = client
        .request_optional(&RepeatableRequest::get(ApiPath::from_version(api_version)))
        .await?
        .unwrap_or_default();
    let resources = discovered.get("resources").and_then(Value::as_array);
    for name in wanted {
        let rendered = defined.iter().find(|kind| kind.kind == *name && kind.api_version() == api_version);
        let resource = resources.into_iter().flatten().find(|resource| is_resource_of(resource, name));
        match (rendered, resource) {
            (Some(kind), served) => kinds.insert(kind.clone(), served.is_some()),
            (None, Some(resource)) => {
                let plain = untyped_kind(api_version, name, resource);
                let definition = find_definition(client, &plain).await?;
                let customs = definition
                    .map(|definition| ResourceKind::from_definition(&definition))
                    .unwrap_or_default();
                let custom = customs.into_iter().find(|k| k.kind == *name && k.version == plain.version);
                let kind = match custom {
                    Some(custom) => custom,
                    None => add_openapi_types(client, plain).await?,
                };
                kinds.insert(kind, true);
            }
            (None, None) => {}
        }
    }
    Ok(())
}

/// The `CustomResourceDefinition` of a kind, where there is one that may be read.
pub(super) async fn find_definition(client: &Client, kind: &ResourceKind) -> Result<Option<Value>, Error> {
    let definitions = ApiPath::from_version("apiextensions.k8s.io/v1").join("customresourcedefinitions");
    match client.request_optional(&RepeatableRequest::get(definitions.join(&kind.resource_name()))).await {
        Err(Error::Refused(refusal)) if refusal.code == 403 => Ok(None),
        found => found,
    }
}

/// A kind with its types by the `OpenAPI` documents of the cluster, as far as it publishes them.
async fn add_openapi_types(client: &Client, kind: ResourceKind) -> Result<ResourceKind, Error> {
    let of_version = ApiPath::new(["openapi", "v3"]).join_version(&kind.api_version());
    for path in [of_version, ApiPath::new(["openapi", "v2"])] {
        match client.request_optional(&RepeatableRequest::get(path)).await {
            Err(Error::Refused(refusal)) if matches!(refusal.code, 403 | 406) => {}
            Err(error) => return Err(error),
            Ok(None) => {}
            Ok(Some(document)) => return Ok(kind.with_openapi(&document)),
        }
    }
    Ok(kind)
}

/// Whether a resource of discovery is that of a kind, and not a subresource.
pub(super) fn is_resource_of(resource: &Value, kind: &str) -> bool {
    field_text(resource, "kind") == kind && !field_text(resource, "name").contains('/')
}

/// A kind of which only discovery is known: nothing is defaulted, and lists are atomic.
pub(super) fn untyped_kind(api_version: &str, kind: &str, resource: &Value) -> ResourceKind {
    let namespaced = resource.get("namespaced") == Some(&Value::Bool(true));
    ResourceKind {
        plural: field_text(resource, "name").to_owned(),
        singular: field_text(resource, "singularName").to_owned(),
        ..ResourceKind::without_schema(api_version, kind, namespaced)
    }
}
