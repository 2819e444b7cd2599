//! Creating and replacing objects.

use std::sync::Arc;

use federate_apiserver_model::values::{list_at, text_at};
use federate_apiserver_model::{
    ApiError, ResourceKind, StatusCause, WriteOptions, complete_object, services, strategy, update_managers,
};
use serde_json::{Value, json};

use super::cluster::{RequestTarget, TestCluster};
use super::decoding::{self, FieldValidation};
use super::http::{ApiRequest, Response};

/// The default field manager.
pub fn field_manager(request: &ApiRequest) -> String {
    let agent = request.headers.get("user-agent").map_or("", String::as_str);
    let name = request
        .non_empty_param("fieldManager")
        .unwrap_or_else(|| agent.split('/').next().unwrap_or_default());
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}

/// Refuses invalid options.
pub fn check_options(request: &ApiRequest, options: &str) -> Result<(), ApiError> {
    if let Some(other) = request.non_empty_param("dryRun").filter(|v| *v != "All") {
        let cause = StatusCause::unsupported("dryRun", &json!([other]), &["All"]);
        return Err(decoding::invalid_option(options, &[cause]));
    }
    if request.non_empty_param("fieldManager").is_some_and(|m| m.len() > 128) {
        let cause =
            StatusCause::new("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes");
        return Err(decoding::invalid_option(options, &[cause]));
    }
    Ok(())
}

fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        response = response.with_header("Warning", &format!("299 - {warning:?}"));
    }
    response
}

impl TestCluster {
    pub(super) fn handle_create(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        check_options(request, "CreateOptions")?;
        let strictness = FieldValidation::from_request(request, "CreateOptions")?;
        let sent = decoding::decode_object(request, kind, strictness)?;
        let mut target = target.clone();
        let mut object = sent.object;
        set_namespace(&mut object, kind, &target)?;
        if !text_at(&object, "/metadata/resourceVersion").is_empty() {
            return Err(ApiError::internal_error(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if let (true, prefix) =
            (text_at(&object, "/metadata/name").is_empty(), text_at(&object, "/metadata/generateName"))
            && !prefix.is_empty()
        {
            object["metadata"]["name"] = json!(format!("{prefix}{}", self.store.next_suffix()));
        }
        text_at(&object, "/metadata/name").clone_into(&mut target.name);
        self.check_namespace(kind, &target)?;
        let manager = field_manager(request);
        let now = self.current_time();
        let write = WriteOptions { kind, manager: &manager, subresource: None, force: false, now: &now };
        let object = complete_object(kind, object);
        let object = update_managers(None, &object, &write);
        let stored = self.store_new(request, kind, &target, object, &write)?;
        Ok(with_warnings(Response::from_json(201, stored), &sent.warnings))
    }

    /// Stores a new object, except in a dry run.
    pub(super) fn store_new(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        mut object: Value,
        write: &WriteOptions<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let key = target.store_key();
        self.admit_pod(kind, target, &mut object)?;
        object["metadata"]["uid"] = json!(self.store.next_uid());
        object["metadata"]["creationTimestamp"] = json!(self.current_time());
        let dry = request.is_dry_run();
        let mut object = strategy::prepare_for_create(object, write)?;
        if self.store.objects.contains_key(&key) {
            let message = format!("{} \"{}\" already exists", kind.resource_name(), target.name);
            return Err(ApiError::new(409, "AlreadyExists", message).about_object(
                &kind.group,
                &kind.plural,
                &target.name,
            ));
        }
        if kind.is_builtin("Service") {
            self.check_service(kind, target, &object)?;
            let (address, store) = (self.store.next_address(), &mut self.store);
            services::allocate_addresses(&mut object, || address, || store.next_port());
        }
        if dry {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.shift_remove("resourceVersion");
            }
            return Ok(Arc::new(object));
        }
        let stored = self.store.put_object(key, object);
        self.handle_stored(kind, &stored);
        Ok(stored)
    }

    pub(super) fn handle_replace(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        check_options(request, "UpdateOptions")?;
        let strictness = FieldValidation::from_request(request, "UpdateOptions")?;
        let sent = decoding::decode_object(request, kind, strictness)?;
        let mut object = sent.object;
        set_namespace(&mut object, kind, target)?;
        check_name(&object, target)?;
        let manager = field_manager(request);
        let now = self.current_time();
        let write = WriteOptions { kind, manager: &manager, subresource: None, force: false, now: &now };
        let live = match self.stored_object(target, kind) {
            Err(_) if makes_by_replacing(kind) => {
                self.check_namespace(kind, target)?;
                let object = update_managers(None, &complete_object(kind, object), &write);
                let stored = self.store_new(request, kind, target, object, &write)?;
                return Ok(with_warnings(Response::from_json(201, stored), &sent.warnings));
            }
            live => live?,
        };
        self.check_replaced(kind, target, &live, &object)?;
        let object = complete_object(kind, object);
        let object = update_managers(Some(&live), &object, &write);
        let stored = self.store_changed(request, kind, target, &live, object, &write)?;
        Ok(with_warnings(Response::from_json(200, stored), &sent.warnings))
    }

    /// Refuses to replace another object, or an object without its version where one is required.
    pub(super) fn check_replaced(
        &self,
        kind: &ResourceKind,
        target: &RequestTarget,
        live: &Value,
        object: &Value,
    ) -> Result<(), ApiError> {
        let (uid, live_uid) = (text_at(object, "/metadata/uid"), text_at(live, "/metadata/uid"));
        if !uid.is_empty() && uid != live_uid {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /{}/{}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}",
                self.name, kind.plural, target.namespace, target.name
            );
            return Err(ApiError::conflict(kind, &target.name, &why));
        }
        if wants_version(kind) && text_at(object, "/metadata/resourceVersion").is_empty() {
            let cause = StatusCause::invalid(
                "metadata.resourceVersion",
                &json!(0),
                "must be specified for an update",
            );
            let name = kind.resource_name();
            return Err(ApiError::invalid_values(&name, &kind.group, &kind.plural, &target.name, &[cause]));
        }
        Ok(())
    }

    /// Stores a changed object, except in a dry run.
    pub(super) fn store_changed(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        live: &Value,
        object: Value,
        write: &WriteOptions<'_>,
    ) -> Result<Arc<Value>, ApiError> {
        let mut object = strategy::prepare_for_update(live, object, write)?;
        if kind.is_builtin("Service") && object != *live {
            self.check_service(kind, target, &object)?;
        }
        let again = self.settles_twice(kind, live);
        if (object == *live && !again) || request.is_dry_run() {
            return Ok(Arc::new(object));
        }
        if kind.is_builtin("Service") {
            let (address, store) = (self.store.next_address(), &mut self.store);
            services::allocate_addresses(&mut object, || address, || store.next_port());
        }
        let key = target.store_key();
        let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
        let held =
            object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
        if deleting && !held && !kind.is_builtin("Namespace") && !kind.is_builtin("Pod") {
            self.store.remove_object(&key, live.clone());
            self.handle_deleted(kind, &object);
            // The answer has the last state of the object.
            object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            return Ok(Arc::new(object));
        }
        let stored = self.store.put_object(key, object);
        self.handle_stored(kind, &stored);
        Ok(stored)
    }

    /// The first write after the apply that created a Job or a claim writes it once more.
    fn settles_twice(&self, kind: &ResourceKind, live: &Value) -> bool {
        let applied = live["metadata"]["managedFields"][0]["operation"] == "Apply";
        if !applied || !(kind.is_builtin("Job") || kind.is_builtin("PersistentVolumeClaim")) {
            return false;
        }
        let uid = &live["metadata"]["uid"];
        let newest = self.store.events.iter().rev().find(|event| event.object["metadata"]["uid"] == *uid);
        newest.is_some_and(|event| event.before.is_none())
    }

    pub(super) fn check_namespace(
        &self,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<(), ApiError> {
        if !kind.namespaced {
            return Ok(());
        }
        let name = &target.namespace;
        let Some(namespace) = self.store.get("", "namespaces", "", name) else {
            let message = format!("namespaces \"{name}\" not found");
            return Err(ApiError::new(404, "NotFound", message).about_object("", "namespaces", name));
        };
        if namespace.pointer("/metadata/deletionTimestamp").is_some() {
            let message = format!(
                "{} \"{}\" is forbidden: unable to create new content in namespace {name} because it is being \
                 terminated",
                kind.resource_name(),
                target.name
            );
            let why = format!("namespace {name} is being terminated");
            let cause = StatusCause::new("NamespaceTerminating", "metadata.namespace", why);
            return Err(ApiError::new(403, "Forbidden", message)
                .about_object(&kind.group, &kind.plural, &target.name)
                .caused_by(&[cause]));
        }
        Ok(())
    }

    /// The built-in admission of pods.
    fn admit_pod(
        &self,
        kind: &ResourceKind,
        target: &RequestTarget,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        if !kind.is_builtin("Pod") {
            return Ok(());
        }
        let given = text_at(object, "/spec/serviceAccountName");
        let account = if given.is_empty() { "default".to_owned() } else { given.to_owned() };
        if self.store.get("", "serviceaccounts", &target.namespace, &account).is_none() {
            let message = format!(
                "pods \"{}\" is forbidden: error looking up service account {}/{account}: serviceaccount \
                 \"{account}\" not found",
                target.name, target.namespace
            );
            return Err(ApiError::new(403, "Forbidden", message).about_object("", "pods", &target.name));
        }
        let spec = &mut object["spec"];
        spec["serviceAccountName"] = json!(account);
        spec["serviceAccount"] = json!(account);
        for (key, value) in [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority"))] {
            if spec.get(key).is_none() {
                spec[key] = value;
            }
        }
        let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
        tolerations.extend(["not-ready", "unreachable"].map(|taint| {
            json!({
                "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300,
            })
        }));
        spec["tolerations"] = tolerations.into();
        Ok(())
    }

    /// Refuses addresses and ports of a Service that are allocated to another one.
    fn check_service(
        &self,
        kind: &ResourceKind,
        target: &RequestTarget,
        object: &Value,
    ) -> Result<(), ApiError> {
        let address = text_at(object, "/spec/clusterIP");
        let own_key = target.store_key();
        let services = self.store.list_objects("", "services", "");
        let others: Vec<&Value> =
            services.filter(|(key, _)| **key != own_key).map(|(_, service)| service).collect();
        if !matches!(address, "" | "None") {
            let why = if !address.starts_with("10.1.") {
                Some("the provided network does not match the current range")
            } else if others.iter().any(|other| text_at(other, "/spec/clusterIP") == address) {
                Some("provided IP is already allocated")
            } else {
                None
            };
            if let Some(why) = why {
                let why = format!("failed to allocate IP {address}: {why}");
                let cause = StatusCause::invalid("spec.clusterIPs", &json!([address]), &why);
                return Err(ApiError::invalid_object(kind, &target.name, &[cause]));
            }
        }
        for (place, port) in list_at(object, "/spec/ports").iter().enumerate() {
            let Some(number) = port.get("nodePort") else { continue };
            let mut taken = others.iter().flat_map(|other| list_at(other, "/spec/ports"));
            if taken.any(|port| port.get("nodePort") == Some(number)) {
                let field = format!("spec.ports[{place}].nodePort");
                let cause = StatusCause::invalid(field, number, "provided port is already allocated");
                return Err(ApiError::invalid_object(kind, &target.name, &[cause]));
            }
        }
        Ok(())
    }
}

/// Whether a replacement must name the version.
fn wants_version(kind: &ResourceKind) -> bool {
    let groups = ["admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "policy"];
    kind.custom.is_some() || groups.contains(&kind.group.as_str()) || kind.is_builtin("CSIDriver")
}

/// Whether replacing an object that does not exist creates it.
fn makes_by_replacing(kind: &ResourceKind) -> bool {
    let makes = match kind.group.as_str() {
        "" => matches!(kind.kind.as_str(), "Service" | "Endpoints" | "LimitRange" | "Event"),
        "coordination.k8s.io" | "rbac.authorization.k8s.io" => true,
        _ => false,
    };
    makes && kind.custom.is_none()
}

/// Sets the namespace of the URL, or refuses another one.
pub fn set_namespace(
    object: &mut Value,
    kind: &ResourceKind,
    target: &RequestTarget,
) -> Result<(), ApiError> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let given = text_at(object, "/metadata/namespace");
    if !given.is_empty() && given != target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    if kind.namespaced {
        object["metadata"]["namespace"] = json!(target.namespace);
    }
    Ok(())
}

/// Refuses an object with another name than the URL's.
pub fn check_name(object: &Value, target: &RequestTarget) -> Result<(), ApiError> {
    let name = text_at(object, "/metadata/name");
    if name != target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(())
}
