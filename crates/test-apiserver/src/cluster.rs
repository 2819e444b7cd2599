//! A cluster: its state, and how it answers requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use federate_apiserver_model::schema::{StructField, Type, WhenWritten};
use federate_apiserver_model::{ApiError, ResourceKind};
use serde_json::{Value, json};

use super::auth::{ApiUser, RequestAttributes};
use super::faults::{DROPPED, Faults, InjectedFault};
use super::http::{ApiRequest, Response};
use super::store::{ObjectStore, StoreEvent as WriteEvent, StoreKey};

/// Requests that were answered, by verb.
pub type RequestCounts = BTreeMap<String, usize>;

/// An API server without sockets.
#[derive(Debug)]
pub struct TestCluster {
    pub name: String,
    pub(super) store: ObjectStore,
    pub(super) kinds: Vec<Arc<ResourceKind>>,
    /// `OpenAPI` documents by their path.
    pub(super) openapi: BTreeMap<String, Value>,
    pub(super) tokens: BTreeMap<String, ApiUser>,
    pub(super) faults: Faults,
    /// Definitions whose kinds are not served yet, and those that were requested too early.
    pub(super) establishing: Vec<String>,
    pub(super) waited: Vec<String>,
    pub(super) controllers: bool,
    pub(super) controlling: bool,
    /// Whether pods become ready.
    pub(super) ready: bool,
    /// The mutating admission of objects that are written, before validation.
    pub(super) admission: fn(&mut Value),
    counts: RequestCounts,
    answered: Vec<ApiRequest>,
    clock: Option<String>,
}

/// The resource that the path of a request names.
#[derive(Clone, Debug, Default)]
pub struct RequestTarget {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
}

impl TestCluster {
    /// An empty cluster with the namespaces that every cluster has.
    pub fn new(name: &str) -> Self {
        let seed =
            name.bytes().fold(7_u64, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(b)) & 0xffff_ffff);
        let mut cluster = Self {
            name: name.to_owned(),
            store: ObjectStore::new(seed),
            kinds: ResourceKind::all_builtins().cloned().map(Arc::new).collect(),
            openapi: BTreeMap::new(),
            tokens: BTreeMap::new(),
            faults: Faults::default(),
            establishing: Vec::new(),
            waited: Vec::new(),
            controllers: false,
            controlling: false,
            ready: false,
            admission: |_| {},
            counts: RequestCounts::new(),
            answered: Vec::new(),
            clock: None,
        };
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            cluster.create_namespace(namespace);
        }
        cluster.counts.clear();
        cluster
    }

    /// Stops the clock.
    #[must_use]
    pub fn with_clock(mut self, time: &str) -> Self {
        self.clock = Some(time.to_owned());
        self
    }

    /// Adds a controller manager for namespaces and Deployments.
    #[must_use]
    pub fn with_controllers(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// Adds a controller manager, and nodes on which pods become ready at once.
    #[must_use]
    pub fn with_nodes(mut self) -> Self {
        self.ready = true;
        self.with_controllers()
    }

    /// Adds a mutating webhook for all objects.
    #[must_use]
    pub fn with_admission(mut self, admission: fn(&mut Value)) -> Self {
        self.admission = admission;
        self
    }

    /// Adds a text field at these keys to a kind, as a later version would.
    #[must_use]
    pub fn with_added_field(mut self, api_version: &str, kind: &str, field: &[&str]) -> Self {
        for known in &mut self.kinds {
            if known.kind == kind && known.api_version() == api_version {
                let known = Arc::make_mut(known);
                known.schema = with_field(&known.schema, field);
            }
        }
        self
    }

    /// Serves one more namespaced kind without a schema, as a later version would.
    #[must_use]
    pub fn with_kind(mut self, api_version: &str, kind: &str) -> Self {
        self.kinds.push(Arc::new(ResourceKind::without_schema(api_version, kind, true)));
        self
    }

    /// Serves the kind of an aggregated API server, with an `OpenAPI` v3 document that describes its types.
    #[must_use]
    pub fn with_aggregated_kind(mut self, api_version: &str, kind: &str, document: Value) -> Self {
        let kind = ResourceKind::without_schema(api_version, kind, true).with_openapi(&document);
        self.kinds.push(Arc::new(kind));
        self.openapi.insert(format!("/openapi/v3/apis/{api_version}"), document);
        self
    }

    pub fn keeps_namespaces(&self) -> bool {
        self.controllers
    }

    /// Creates a namespace.
    pub fn create_namespace(&mut self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create_object("/api/v1/namespaces", &body);
    }

    /// Creates an object as the administrator.
    pub fn create_object(&mut self, path: &str, body: &Value) -> Response {
        let request = ApiRequest::new("POST", path).with_body("application/json", body.to_string());
        self.handle_request(&request)
    }

    /// Applies an object as the administrator.
    pub fn apply_object(&mut self, path: &str, manager: &str, body: &Value) -> Response {
        let request = ApiRequest::new("PATCH", path)
            .with_query("fieldManager", manager)
            .with_query("force", "true")
            .with_body("application/apply-patch+yaml", body.to_string());
        self.handle_request(&request)
    }

    /// The object at a path, if it exists.
    pub fn get(&mut self, path: &str) -> Option<Value> {
        let response = self.handle_request(&ApiRequest::new("GET", path));
        (response.status == 200).then(|| response.json_body().clone())
    }

    /// Adds a user with a token.
    pub fn add_token(&mut self, token: &str, user: ApiUser) {
        self.tokens.insert(token.to_owned(), user);
    }

    /// Forgets a token.
    pub fn remove_token(&mut self, token: &str) {
        self.tokens.remove(token);
    }

    /// Adds a fault.
    pub fn add_fault(&mut self, fault: InjectedFault) {
        self.faults.add_fault(fault);
    }

    /// Ends all faults.
    pub fn repair(&mut self) {
        self.faults = Faults::default();
    }

    /// The delay of a request by a fault.
    pub fn request_delay(&mut self, request: &ApiRequest) -> Option<std::time::Duration> {
        let target = RequestTarget::parse(&request.path);
        let verb = request_verb(request, target.is_some_and(|t| !t.name.is_empty()));
        self.faults.take_delay(verb, request)
    }

    /// The numbers of answered requests, by verb.
    pub fn counts(&self) -> &RequestCounts {
        &self.counts
    }

    pub fn reset_counts(&mut self) {
        self.counts.clear();
        self.answered.clear();
    }

    /// The requests that were answered, in order.
    pub fn answered(&self) -> &[ApiRequest] {
        &self.answered
    }

    /// Every write since the begin, in order.
    pub fn writes(&self) -> &[WriteEvent] {
        &self.store.events
    }

    /// Compacts the history: watches that start earlier have expired.
    pub fn compact_history(&mut self) {
        self.store.compacted = self.store.version;
    }

    /// Whether a definition was stored whose kind is not served yet.
    pub fn has_pending_definitions(&self) -> bool {
        !self.establishing.is_empty()
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.store.version
    }

    pub(super) fn current_time(&self) -> String {
        self.clock.clone().unwrap_or_else(|| {
            let now = jiff::Timestamp::now();
            now.round(jiff::Unit::Second).unwrap_or(now).to_string()
        })
    }

    /// Answers a request.
    pub fn handle_request(&mut self, request: &ApiRequest) -> Response {
        let target = RequestTarget::parse(&request.path);
        let verb = request_verb(request, target.as_ref().is_some_and(|t| !t.name.is_empty()));
        // Dry runs are counted under a verb of their own.
        let verb = if request.method != "GET" && request.is_dry_run() { "dry run" } else { verb };
        *self.counts.entry(verb.to_owned()).or_default() += 1;
        self.answered.push(request.clone());
        if let Some(response) = self.faults.next_failure(verb, request) {
            return response;
        }
        self.run_controllers(request);
        let response = self.handle_quietly(request);
        if self.faults.is_answer_lost(verb, request) { Response::from_text(DROPPED, "") } else { response }
    }

    /// Answers a request without counting it and without faults.
    pub(super) fn handle_quietly(&mut self, request: &ApiRequest) -> Response {
        let target = RequestTarget::parse(&request.path);
        let verb = request_verb(request, target.as_ref().is_some_and(|t| !t.name.is_empty()));
        self.establish_definitions(&request.path);
        self.answer_request(request, target, verb).unwrap_or_else(Response::from)
    }

    fn answer_request(
        &mut self,
        request: &ApiRequest,
        target: Option<RequestTarget>,
        verb: &str,
    ) -> Result<Response, ApiError> {
        let user = self.authenticate_request(request)?;
        let Some(mut target) = target.filter(|t| !t.plural.is_empty()) else {
            Self::authorize_path(&user, &request.path)?;
            return self.handle_discovery(request);
        };
        let action = RequestAttributes {
            verb,
            group: &target.group,
            resource: &target.plural,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: &target.name,
        };
        let review = matches!(
            target.plural.as_str(),
            "selfsubjectreviews" | "selfsubjectaccessreviews" | "selfsubjectrulesreviews"
        );
        if !review {
            self.authorize_action(&user, &action)?;
        }
        if request.body.len() > 3 * 1024 * 1024 {
            let message = "Request entity too large: limit is 3145728";
            return Err(ApiError::new(413, "RequestEntityTooLarge", message));
        }
        if review {
            let body = serde_json::from_slice(&request.body).unwrap_or_default();
            return self
                .answer_review(&user, &target, &body, &super::write::field_manager(request))
                .ok_or_else(unknown_resource);
        }
        if !self.serves_group(&target.group) {
            return Ok(Response::not_found());
        }
        let kind = self.find_kind(&target).ok_or_else(unknown_resource)?;
        if !kind.namespaced && target.namespace == target.name {
            target.namespace.clear();
        }
        if !target.subresource.is_empty() {
            return self.handle_subresource(request, &kind, &target, &user);
        }
        self.ask_webhooks(&target, verb)?;
        match (request.method.as_str(), target.name.is_empty()) {
            ("GET", true) => self.handle_list(request, &kind, &target),
            ("GET", false) if request.is_flag_set("watch") && request.query_param("watch").is_some() => {
                self.handle_list(request, &kind, &target)
            }
            ("GET", false) => self.handle_read(request, &kind, &target),
            ("POST", true) => self.handle_create(request, &kind, &target),
            ("PUT", false) => self.handle_replace(request, &kind, &target),
            ("PATCH", false) => self.handle_patch(request, &kind, &target, &user),
            ("DELETE", false) => self.handle_delete(request, &kind, &target),
            ("DELETE", true) => self.delete_collection(request, &kind, &target),
            _ => Err(not_allowed()),
        }
    }

    pub(super) fn serves_group(&self, group: &str) -> bool {
        self.kinds.iter().any(|kind| kind.group == group)
    }

    pub(super) fn find_kind(&self, target: &RequestTarget) -> Option<Arc<ResourceKind>> {
        let found = self.kinds.iter().find(|kind| {
            (&kind.group, &kind.version, &kind.plural) == (&target.group, &target.version, &target.plural)
        });
        found
            .filter(|kind| kind.namespaced || target.namespace.is_empty() || kind.plural == "namespaces")
            .cloned()
    }

    pub(super) fn stored_object(
        &self,
        target: &RequestTarget,
        kind: &ResourceKind,
    ) -> Result<Arc<Value>, ApiError> {
        let found = self.store.objects.get(&target.store_key());
        found.cloned().ok_or_else(|| ApiError::not_found(kind, &target.name))
    }
}

impl RequestTarget {
    /// Parses a path; `None` for paths outside of the API groups.
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let mut target = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        let resource = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => rest,
            ["namespaces", namespace, rest @ ..] => {
                (*namespace).clone_into(&mut target.namespace);
                rest
            }
            _ => rest,
        };
        if let [plural, rest @ ..] = resource {
            (*plural).clone_into(&mut target.plural);
            rest.first().copied().unwrap_or_default().clone_into(&mut target.name);
            target.subresource = rest.get(1..).unwrap_or_default().join("/");
        }
        Some(target)
    }

    pub fn store_key(&self) -> StoreKey {
        StoreKey {
            group: self.group.clone(),
            plural: self.plural.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// The verb of a request, by method and by whether one object is named.
fn request_verb(request: &ApiRequest, named: bool) -> &'static str {
    match (request.method.as_str(), named) {
        ("GET", _) if request.is_flag_set("watch") && request.query_param("watch").is_some() => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "unknown",
    }
}

pub(super) fn unknown_resource() -> ApiError {
    ApiError::new(404, "NotFound", "the server could not find the requested resource")
}

pub(super) fn not_allowed() -> ApiError {
    let message = "the server does not allow this method on the requested resource";
    ApiError::new(405, "MethodNotAllowed", message)
}

/// A type with one more field.
fn with_field(ty: &Type, field: &[&str]) -> Type {
    let Type::Struct(known) = ty.resolve_name() else { return ty.clone() };
    let mut known = known.clone();
    match field {
        [] => {}
        [new] => {
            let field = StructField { ty: Type::Text, written: WhenWritten::Filled, default: None };
            known.fields.insert((*new).to_owned(), field);
        }
        [first, rest @ ..] => {
            if let Some(below) = known.fields.get_mut(*first) {
                below.ty = with_field(&below.ty, rest);
            }
        }
    }
    Type::Struct(known)
}
