//! A cluster: its state, and how it answers requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use federate_apiserver::schema::{Field, Type, WhenWritten};
use federate_apiserver::{Failure, Kind};
use serde_json::{Value, json};

use super::auth::{Action, User};
use super::faults::{DROPPED, Fault, Faults};
use super::http::{Request, Response};
use super::store::{Event as WriteEvent, Key, Store};

/// Requests that were answered, by verb.
pub type Count = BTreeMap<String, usize>;

/// An API server without sockets.
#[derive(Debug)]
pub struct Cluster {
    pub name: String,
    pub(super) store: Store,
    pub(super) kinds: Vec<Arc<Kind>>,
    /// `OpenAPI` documents by their path.
    pub(super) openapi: BTreeMap<String, Value>,
    pub(super) tokens: BTreeMap<String, User>,
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
    counts: Count,
    answered: Vec<Request>,
    clock: Option<String>,
}

/// The resource that the path of a request names.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
}

impl Cluster {
    /// An empty cluster with the namespaces that every cluster has.
    pub fn new(name: &str) -> Self {
        let seed =
            name.bytes().fold(7_u64, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(b)) & 0xffff_ffff);
        let mut cluster = Self {
            name: name.to_owned(),
            store: Store::new(seed),
            kinds: Kind::builtins().cloned().map(Arc::new).collect(),
            openapi: BTreeMap::new(),
            tokens: BTreeMap::new(),
            faults: Faults::default(),
            establishing: Vec::new(),
            waited: Vec::new(),
            controllers: false,
            controlling: false,
            ready: false,
            admission: |_| {},
            counts: Count::new(),
            answered: Vec::new(),
            clock: None,
        };
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            cluster.namespace(namespace);
        }
        cluster.counts.clear();
        cluster
    }

    /// Stops the clock.
    #[must_use]
    pub fn at(mut self, time: &str) -> Self {
        self.clock = Some(time.to_owned());
        self
    }

    /// Adds a controller manager for namespaces and Deployments.
    #[must_use]
    pub fn controllers(mut self) -> Self {
        self.controllers = true;
        self
    }

    /// Adds a controller manager, and nodes on which pods become ready at once.
    #[must_use]
    pub fn nodes(mut self) -> Self {
        self.ready = true;
        self.controllers()
    }

    /// Adds a mutating webhook for all objects.
    #[must_use]
    pub fn admission(mut self, admission: fn(&mut Value)) -> Self {
        self.admission = admission;
        self
    }

    /// Adds a text field at these keys to a kind, as a later version would.
    #[must_use]
    pub fn newer(mut self, api_version: &str, kind: &str, field: &[&str]) -> Self {
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
    pub fn serving(mut self, api_version: &str, kind: &str) -> Self {
        self.kinds.push(Arc::new(Kind::unknown(api_version, kind, true)));
        self
    }

    /// Serves the kind of an aggregated API server, with an `OpenAPI` v3 document that describes its types.
    #[must_use]
    pub fn aggregating(mut self, api_version: &str, kind: &str, document: Value) -> Self {
        let kind = Kind::unknown(api_version, kind, true).with_openapi(&document);
        self.kinds.push(Arc::new(kind));
        self.openapi.insert(format!("/openapi/v3/apis/{api_version}"), document);
        self
    }

    pub fn keeps_namespaces(&self) -> bool {
        self.controllers
    }

    /// Creates a namespace.
    pub fn namespace(&mut self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &body);
    }

    /// Creates an object as the administrator.
    pub fn create(&mut self, path: &str, body: &Value) -> Response {
        let request = Request::new("POST", path).body("application/json", body.to_string());
        self.handle(&request)
    }

    /// Applies an object as the administrator.
    pub fn apply(&mut self, path: &str, manager: &str, body: &Value) -> Response {
        let request = Request::new("PATCH", path)
            .query("fieldManager", manager)
            .query("force", "true")
            .body("application/apply-patch+yaml", body.to_string());
        self.handle(&request)
    }

    /// The object at a path, if it exists.
    pub fn get(&mut self, path: &str) -> Option<Value> {
        let response = self.handle(&Request::new("GET", path));
        (response.status == 200).then(|| response.object().clone())
    }

    /// Adds a user with a token.
    pub fn token(&mut self, token: &str, user: User) {
        self.tokens.insert(token.to_owned(), user);
    }

    /// Adds a fault.
    pub fn fault(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Ends all faults.
    pub fn repair(&mut self) {
        self.faults = Faults::default();
    }

    /// The delay of a request by a fault.
    pub fn delay(&mut self, request: &Request) -> Option<std::time::Duration> {
        let target = Target::parse(&request.path);
        let verb = request_verb(request, target.is_some_and(|t| !t.name.is_empty()));
        self.faults.delay(verb, request)
    }

    /// How many requests of each verb were answered.
    pub fn counts(&self) -> &Count {
        &self.counts
    }

    pub fn reset_counts(&mut self) {
        self.counts.clear();
        self.answered.clear();
    }

    /// The requests that were answered, in order.
    pub fn answered(&self) -> &[Request] {
        &self.answered
    }

    /// Every write since the begin, in order.
    pub fn writes(&self) -> &[WriteEvent] {
        &self.store.events
    }

    /// Compacts the history: watches that start earlier have expired.
    pub fn compact(&mut self) {
        self.store.compacted = self.store.version;
    }

    /// Whether a definition was stored whose kind is not served yet.
    pub fn waiting(&self) -> bool {
        !self.establishing.is_empty()
    }

    /// The version of the newest change.
    pub fn version(&self) -> u64 {
        self.store.version
    }

    pub(super) fn now(&self) -> String {
        self.clock.clone().unwrap_or_else(|| {
            let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap();
            now.to_string()
        })
    }

    /// Answers a request.
    pub fn handle(&mut self, request: &Request) -> Response {
        let target = Target::parse(&request.path);
        let verb = request_verb(request, target.as_ref().is_some_and(|t| !t.name.is_empty()));
        // Dry runs are counted apart.
        let verb = if request.method != "GET" && request.dry_run() { "dry run" } else { verb };
        *self.counts.entry(verb.to_owned()).or_default() += 1;
        self.answered.push(request.clone());
        if let Some(response) = self.faults.next_failure(verb, request) {
            return response;
        }
        self.control(request);
        let response = self.quietly(request);
        if self.faults.lost(verb, request) { Response::text(DROPPED, "") } else { response }
    }

    /// Answers a request without counting it and without faults.
    pub(super) fn quietly(&mut self, request: &Request) -> Response {
        let target = Target::parse(&request.path);
        let verb = request_verb(request, target.as_ref().is_some_and(|t| !t.name.is_empty()));
        self.establish(&request.path);
        self.answer_request(request, target, verb).unwrap_or_else(Response::from)
    }

    fn answer_request(
        &mut self,
        request: &Request,
        target: Option<Target>,
        verb: &str,
    ) -> Result<Response, Failure> {
        let user = self.user(request)?;
        let Some(mut target) = target.filter(|t| !t.plural.is_empty()) else {
            Self::authorize_path(&user, &request.path)?;
            return self.discover(request);
        };
        let action = Action {
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
            self.authorize(&user, &action)?;
        }
        if request.body.len() > 3 * 1024 * 1024 {
            let message = "Request entity too large: limit is 3145728";
            return Err(Failure::new(413, "RequestEntityTooLarge", message));
        }
        if review {
            let body = serde_json::from_slice(&request.body).unwrap_or_default();
            return self
                .review(&user, &target, &body, &super::write::manager(request))
                .ok_or_else(unknown_resource);
        }
        if !self.serves_group(&target.group) {
            return Ok(Response::nowhere());
        }
        let kind = self.kind(&target).ok_or_else(unknown_resource)?;
        if !kind.namespaced && target.namespace == target.name {
            target.namespace.clear();
        }
        if !target.subresource.is_empty() {
            return self.subresource(request, &kind, &target, &user);
        }
        self.ask_webhooks(&target, verb)?;
        match (request.method.as_str(), target.name.is_empty()) {
            ("GET", true) => self.list(request, &kind, &target),
            ("GET", false) if request.flag("watch") && request.param("watch").is_some() => {
                self.list(request, &kind, &target)
            }
            ("GET", false) => self.read(request, &kind, &target),
            ("POST", true) => self.post(request, &kind, &target),
            ("PUT", false) => self.replace(request, &kind, &target),
            ("PATCH", false) => self.patch(request, &kind, &target, &user),
            ("DELETE", false) => self.delete(request, &kind, &target),
            ("DELETE", true) => self.delete_collection(request, &kind, &target),
            _ => Err(not_allowed()),
        }
    }

    pub(super) fn serves_group(&self, group: &str) -> bool {
        self.kinds.iter().any(|kind| kind.group == group)
    }

    pub(super) fn kind(&self, target: &Target) -> Option<Arc<Kind>> {
        let found = self.kinds.iter().find(|kind| {
            (&kind.group, &kind.version, &kind.plural) == (&target.group, &target.version, &target.plural)
        });
        found
            .filter(|kind| kind.namespaced || target.namespace.is_empty() || kind.plural == "namespaces")
            .cloned()
    }

    pub(super) fn stored(&self, target: &Target, kind: &Kind) -> Result<Arc<Value>, Failure> {
        let found = self.store.objects.get(&target.key());
        found.cloned().ok_or_else(|| Failure::not_found(kind, &target.name))
    }
}

impl Target {
    /// Parses a path; `None` for paths outside of the API groups.
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let mut target = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        let mut take = |plural: &str, rest: &[&str]| {
            plural.clone_into(&mut target.plural);
            rest.first().copied().unwrap_or_default().clone_into(&mut target.name);
            target.subresource = rest.get(1..).unwrap_or_default().join("/");
        };
        match rest {
            // For rights, a namespace is in itself.
            ["namespaces", name] => take("namespaces", &[name]),
            ["namespaces", name, part @ ("status" | "finalize")] => take("namespaces", &[name, part]),
            ["namespaces", namespace, plural, rest @ ..] => {
                take(plural, rest);
                (*namespace).clone_into(&mut target.namespace);
            }
            [plural, rest @ ..] => take(plural, rest),
            [] => {}
        }
        Some(target)
    }

    pub fn key(&self) -> Key {
        Key {
            group: self.group.clone(),
            plural: self.plural.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// The verb of a request, by method and by whether one object is named.
fn request_verb(request: &Request, named: bool) -> &'static str {
    match (request.method.as_str(), named) {
        ("GET", _) if request.flag("watch") && request.param("watch").is_some() => "watch",
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

pub(super) fn unknown_resource() -> Failure {
    Failure::new(404, "NotFound", "the server could not find the requested resource")
}

pub(super) fn not_allowed() -> Failure {
    let message = "the server does not allow this method on the requested resource";
    Failure::new(405, "MethodNotAllowed", message)
}

/// A type with one more field.
fn with_field(ty: &Type, field: &[&str]) -> Type {
    let Type::Struct(known) = ty.resolve() else { return ty.clone() };
    let mut known = known.clone();
    match field {
        [] => {}
        [new] => {
            let field = Field { ty: Type::Text, written: WhenWritten::Filled, default: None };
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
