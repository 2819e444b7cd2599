//! Deletions: at once, or after the finalizers are gone.

use federate_apiserver_model::values::{list_at, text_at};
use federate_apiserver_model::{ApiError, ResourceKind, StatusCause, WriteOptions, update_managers};
use serde_json::{Value, json};

use super::cluster::{RequestTarget, TestCluster};
use super::decoding::invalid_option;
use super::http::{ApiRequest, Body, Response};
use super::write::check_options;

/// The options of a deletion.
#[derive(Debug, Default)]
struct Options {
    policy: String,
    uid: String,
    version: String,
    grace: Option<i64>,
    dry: bool,
}

impl Options {
    fn from_request(request: &ApiRequest) -> Result<Self, ApiError> {
        check_options(request, "DeleteOptions")?;
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut options = Self {
            policy: text_at(&body, "/propagationPolicy").to_owned(),
            uid: text_at(&body, "/preconditions/uid").to_owned(),
            version: text_at(&body, "/preconditions/resourceVersion").to_owned(),
            grace: body["gracePeriodSeconds"].as_i64(),
            dry: request.is_dry_run(),
        };
        // The query counts only where there is no body.
        if request.body.is_empty() {
            request.non_empty_param("propagationPolicy").unwrap_or_default().clone_into(&mut options.policy);
            options.grace =
                request.non_empty_param("gracePeriodSeconds").and_then(|grace| grace.parse().ok());
        }
        let policies = ["Foreground", "Background", "Orphan"];
        if !options.policy.is_empty() && !policies.contains(&options.policy.as_str()) {
            let allowed = ["Foreground", "Background", "Orphan", "nil"];
            let cause = StatusCause::unsupported("propagationPolicy", &json!(options.policy), &allowed);
            return Err(invalid_option("DeleteOptions", &[cause]));
        }
        if !options.policy.is_empty() && body.get("orphanDependents").is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let cause = StatusCause::invalid("propagationPolicy", &json!(options.policy), why);
            return Err(invalid_option("DeleteOptions", &[cause]));
        }
        Ok(options)
    }

    fn check_preconditions(&self, kind: &ResourceKind, live: &Value) -> Result<(), ApiError> {
        let (uid, version) = (text_at(live, "/metadata/uid"), text_at(live, "/metadata/resourceVersion"));
        let why = if !self.uid.is_empty() && self.uid != uid {
            format!(
                "the UID in the precondition ({}) does not match the UID in record ({uid}). The object might have \
                 been deleted and then recreated",
                self.uid
            )
        } else if !self.version.is_empty() && self.version != version {
            format!(
                "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified",
                self.version
            )
        } else {
            return Ok(());
        };
        let name = text_at(live, "/metadata/name");
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            super::auth::qualified_resource(&kind.kind, &kind.group)
        );
        Err(ApiError::new(409, "Conflict", message).about_object(&kind.group, &kind.kind, name))
    }
}

fn deleted_status(kind: &ResourceKind, live: &Value) -> Value {
    let mut details = json!({"name": live["metadata"]["name"]});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details["kind"] = json!(kind.plural);
    details["uid"] = live["metadata"]["uid"].clone();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn raise_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

/// The warning where a Job is deleted without a policy.
const JOB_KEEPS_PODS: &str = "child pods are preserved by default when jobs are deleted; set \
     propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

impl TestCluster {
    pub(super) fn handle_delete(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        let mut options = Options::from_request(request)?;
        if kind.is_builtin("Namespace")
            && matches!(target.name.as_str(), "default" | "kube-system" | "kube-public" | "kube-node-lease")
        {
            let message =
                format!("namespaces \"{}\" is forbidden: this namespace may not be deleted", target.name);
            return Err(ApiError::new(403, "Forbidden", message).about_object(
                "",
                "namespaces",
                &target.name,
            ));
        }
        let live = self.stored_object(target, kind)?;
        options.check_preconditions(kind, &live)?;
        // The pods of a Job are kept by default.
        let by_default = kind.is_builtin("Job") && options.policy.is_empty();
        if by_default {
            "Orphan".clone_into(&mut options.policy);
        }
        let response = Response::from_json(200, self.remove_object(kind, target, &live, &options));
        Ok(if by_default {
            response.with_header("Warning", &format!("299 - {JOB_KEEPS_PODS:?}"))
        } else {
            response
        })
    }

    fn remove_object(
        &mut self,
        kind: &ResourceKind,
        target: &RequestTarget,
        live: &Value,
        options: &Options,
    ) -> Value {
        let deleting = live.pointer("/metadata/deletionTimestamp").is_some();
        let mut object = live.clone();
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        match options.policy.as_str() {
            "Foreground" => finalizers.push(json!("foregroundDeletion")),
            "Orphan" => finalizers.push(json!("orphan")),
            _ => {}
        }
        let held = !finalizers.is_empty() || kind.is_builtin("Namespace");
        if !finalizers.is_empty() {
            object["metadata"]["finalizers"] = finalizers.into();
        } else if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.shift_remove("finalizers");
        }
        if kind.is_builtin("CustomResourceDefinition") && !held && !deleting {
            return self.remove_definition(kind, target, object, options);
        }
        let grace = Self::grace_period(kind, live, options);
        if options.dry && !(held || grace > 0) {
            return deleted_status(kind, live);
        }
        if held || grace > 0 {
            if deleting {
                return live.clone();
            }
            object["metadata"]["deletionTimestamp"] = json!(self.current_time());
            if kind.is_builtin("Namespace") {
                object["status"]["phase"] = json!("Terminating");
            } else {
                object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            }
            raise_generation(&mut object);
            if options.dry {
                return object;
            }
            return Value::clone(&self.store.put_object(target.store_key(), object));
        }
        if kind.is_builtin("Pod") {
            object["metadata"]["deletionTimestamp"] = json!(self.current_time());
            object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            if !deleting {
                raise_generation(&mut object);
            }
        }
        self.store.remove_object(&target.store_key(), object.clone());
        self.handle_deleted(kind, &object);
        if ["Service", "Pod", "ServiceAccount", "ResourceQuota", "PodTemplate"]
            .iter()
            .any(|known| kind.is_builtin(known))
        {
            object["metadata"]["resourceVersion"] = json!(self.store.version.to_string());
            return object;
        }
        deleted_status(kind, live)
    }

    /// Pods with a node get a grace period.
    fn grace_period(kind: &ResourceKind, live: &Value, options: &Options) -> i64 {
        if !kind.is_builtin("Pod") || text_at(live, "/spec/nodeName").is_empty() {
            return 0;
        }
        options.grace.or_else(|| live["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30)
    }

    /// Deletes a definition with all objects of its kind.
    fn remove_definition(
        &mut self,
        kind: &ResourceKind,
        target: &RequestTarget,
        mut object: Value,
        options: &Options,
    ) -> Value {
        if options.dry {
            return deleted_status(kind, &object);
        }
        object["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
        object["metadata"]["deletionTimestamp"] = json!(self.current_time());
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        let shown = Value::clone(&self.store.put_object(target.store_key(), object.clone()));
        let group = text_at(&object, "/spec/group").to_owned();
        let plural = text_at(&object, "/spec/names/plural").to_owned();
        let keys: Vec<_> =
            self.store.list_objects(&group, &plural, "").map(|(key, o)| (key.clone(), o.clone())).collect();
        for (key, object) in keys {
            self.store.remove_object(&key, object);
        }
        self.store.remove_object(&target.store_key(), shown.clone());
        self.handle_deleted(kind, &shown);
        shown
    }

    pub(super) fn delete_collection(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        let options = Options::from_request(request)?;
        let mut reading = request.clone();
        reading.query.retain(|(key, _)| matches!(key.as_str(), "labelSelector" | "fieldSelector"));
        let response = self.handle_list(&reading, kind, target)?;
        let Body::Json(list) = &response.body else { return Ok(response) };
        let items = list["items"].as_array().cloned().unwrap_or_default();
        for item in items {
            let mut one = target.clone();
            text_at(&item, "/metadata/name").clone_into(&mut one.name);
            text_at(&item, "/metadata/namespace").clone_into(&mut one.namespace);
            let live = self.stored_object(&one, kind)?;
            self.remove_object(kind, &one, &live, &options);
        }
        Ok(response)
    }

    /// What the server does after an object is stored: a definition is established after a while.
    pub(super) fn handle_stored(&mut self, kind: &ResourceKind, object: &Value) {
        if !kind.is_builtin("CustomResourceDefinition") {
            return;
        }
        if object.pointer("/status/conditions").is_some_and(|c| !c.as_array().is_none_or(Vec::is_empty)) {
            self.handle_deleted(kind, object);
            self.kinds.extend(ResourceKind::from_definition(object).into_iter().map(std::sync::Arc::new));
        } else {
            self.establishing.push(text_at(object, "/metadata/name").to_owned());
        }
    }

    /// Establishes definitions, except those of a group that was requested too early, which are established by the next
    /// request.
    pub(super) fn establish_definitions(&mut self, path: &str) {
        let Some(kind) = ResourceKind::find_builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        else {
            return;
        };
        for name in std::mem::take(&mut self.establishing) {
            let key = RequestTarget {
                group: kind.group.clone(),
                plural: kind.plural.clone(),
                name: name.clone(),
                ..RequestTarget::default()
            }
            .store_key();
            let Some(live) = self.store.objects.get(&key).cloned() else { continue };
            let group = text_at(&live, "/spec/group");
            if path.starts_with(&format!("/apis/{group}/")) && !self.waited.contains(&name) {
                self.waited.push(name.clone());
                self.establishing.push(name);
                continue;
            }
            self.mark_established(kind, key, &live);
        }
    }

    fn mark_established(&mut self, kind: &ResourceKind, key: super::store::StoreKey, live: &Value) {
        let now = self.current_time();
        let mut object = live.clone();
        let stored: Vec<&Value> = list_at(live, "/spec/versions")
            .iter()
            .filter(|version| version["storage"] == json!(true))
            .map(|version| &version["name"])
            .collect();
        object["status"] = json!({
            "conditions": [
                {
                    "type": "NamesAccepted", "status": "True", "lastTransitionTime": now, "reason": "NoConflicts",
                    "message": "no conflicts found",
                },
                {
                    "type": "Established", "status": "True", "lastTransitionTime": now,
                    "reason": "InitialNamesAccepted", "message": "the initial names have been accepted",
                },
            ],
            "acceptedNames": object["spec"]["names"],
            "storedVersions": stored,
        });
        let write = WriteOptions {
            kind,
            manager: "kube-apiserver",
            subresource: Some("status"),
            force: false,
            now: &now,
        };
        let object = update_managers(Some(live), &object, &write);
        let stored = self.store.put_object(key, object);
        self.handle_stored(kind, &stored);
    }

    /// What the server does after an object is deleted: with a definition its kind is no longer served.
    pub(super) fn handle_deleted(&mut self, kind: &ResourceKind, object: &Value) {
        if kind.is_builtin("CustomResourceDefinition") {
            let (group, plural) = (text_at(object, "/spec/group"), text_at(object, "/spec/names/plural"));
            self.kinds.retain(|kind| kind.group != group || kind.plural != plural);
        }
    }
}
