//! Subresources: status, scale, eviction, finalize.

use std::sync::Arc;

use federate_apiserver_model::values::text_at;
use federate_apiserver_model::{
    ApiError, ResourceKind, StatusCause, WriteOptions, complete_object, update_managers,
};
use serde_json::{Value, json};

use super::auth::ApiUser;
use super::cluster::{RequestTarget, TestCluster, not_allowed, unknown_resource};
use super::decoding::{self, FieldValidation};
use super::http::{ApiRequest, Response};
use super::patch::compute_patched;
use super::write::{check_name, check_options, field_manager, set_namespace};

impl TestCluster {
    pub(super) fn handle_subresource(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        user: &ApiUser,
    ) -> Result<Response, ApiError> {
        match target.subresource.as_str() {
            "status" if kind.status => self.handle_status(request, kind, target, user),
            "scale" if kind.scale => self.handle_scale(request, kind, target),
            "eviction" if kind.is_builtin("Pod") && request.method == "POST" => {
                self.evict_pod(request, kind, target)
            }
            "finalize" if kind.is_builtin("Namespace") && request.method == "PUT" => {
                self.handle_finalize(request, kind, target)
            }
            _ => Err(unknown_resource()),
        }
    }

    fn handle_status(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        user: &ApiUser,
    ) -> Result<Response, ApiError> {
        match request.method.as_str() {
            "GET" => self.handle_read(request, kind, target),
            "PATCH" => self.handle_patch(request, kind, target, user),
            "PUT" => {
                check_options(request, "UpdateOptions")?;
                let sent = decoding::decode_object(
                    request,
                    kind,
                    FieldValidation::from_request(request, "UpdateOptions")?,
                )?;
                let mut object = sent.object;
                set_namespace(&mut object, kind, target)?;
                check_name(&object, target)?;
                let live = self.stored_object(target, kind)?;
                self.check_replaced(kind, target, &live, &object)?;
                let (manager, now) = (field_manager(request), self.current_time());
                let write = WriteOptions {
                    kind,
                    manager: &manager,
                    subresource: Some("status"),
                    force: false,
                    now: &now,
                };
                let object = update_managers(Some(&live), &complete_object(kind, object), &write);
                Ok(Response::from_json(
                    200,
                    self.store_changed(request, kind, target, &live, object, &write)?,
                ))
            }
            _ => Err(not_allowed()),
        }
    }

    fn handle_scale(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        let live = self.stored_object(target, kind)?;
        let current = scale_of(kind, &live);
        let wanted = match request.method.as_str() {
            "GET" => return Ok(Response::from_json(200, current)),
            "PUT" => decoding::decode_json(&request.body).map_err(ApiError::bad_request)?.0,
            "PATCH" => {
                let pretended = ResourceKind {
                    custom: None,
                    schema: federate_apiserver_model::schema::Type::Any,
                    ..kind.clone()
                };
                compute_patched(
                    request,
                    request.content_type(),
                    &pretended,
                    &current,
                    FieldValidation::Ignore,
                )?
                .0
            }
            _ => return Err(not_allowed()),
        };
        let version = text_at(&wanted, "/metadata/resourceVersion");
        if !version.is_empty() && version != text_at(&live, "/metadata/resourceVersion") {
            return Err(ApiError::stale_version(kind, &target.name));
        }
        let mut object = live.clone();
        let pointer = replicas_pointer(kind);
        set_value(Arc::make_mut(&mut object), &pointer, wanted["spec"]["replicas"].clone());
        let (manager, now) = (field_manager(request), self.current_time());
        let write =
            WriteOptions { kind, manager: &manager, subresource: Some("scale"), force: false, now: &now };
        let mut object = update_managers(Some(&live), &object, &write);
        if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
            entries.retain_mut(|entry| {
                if entry["subresource"] != "scale" || entry["manager"] != manager.as_str() {
                    return true;
                }
                // Entries for `scale` have no time.
                if let Some(entry) = entry.as_object_mut() {
                    entry.shift_remove("time");
                }
                // Custom resources have no such entries.
                kind.custom.is_none()
            });
        }
        let stored = self.store_changed(request, kind, target, &live, object, &write)?;
        Ok(Response::from_json(200, scale_of(kind, &stored)))
    }

    fn evict_pod(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        let live = self.stored_object(target, kind)?;
        let labels = live.pointer("/metadata/labels");
        let mut budgets = self.store.list_objects("policy", "poddisruptionbudgets", &target.namespace);
        let selecting = budgets.find(|(_, budget)| {
            let wanted = budget.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
            wanted.is_some_and(|wanted| {
                wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
            })
        });
        drop(budgets);
        if let Some((_, budget)) = selecting
            && budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default() < 1
        {
            let why = format!(
                "The disruption budget {} is still being processed by the server.",
                text_at(budget, "/metadata/name")
            );
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(ApiError::new(429, "TooManyRequests", message)
                .caused_by(&[StatusCause::new("DisruptionBudget", "", why)])
                .with_detail("retryAfterSeconds", 10));
        }
        let mut deletion = ApiRequest::new("DELETE", &request.path);
        deletion.query.clone_from(&request.query);
        self.handle_delete(&deletion, kind, target)?;
        Ok(Response::from_json(
            201,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        ))
    }

    /// Deletes a namespace without finalizers, with its contents.
    fn handle_finalize(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        let (object, _) = decoding::decode_json(&request.body).map_err(ApiError::bad_request)?;
        let mut live = Value::clone(&*self.stored_object(target, kind)?);
        live["spec"] = object["spec"].clone();
        let emptied = live.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if emptied && live.pointer("/metadata/deletionTimestamp").is_some() {
            let inside: Vec<_> =
                self.store.objects.keys().filter(|k| k.namespace == target.name).cloned().collect();
            for key in inside {
                let object = Value::clone(&self.store.objects[&key]);
                self.store.remove_object(&key, object);
            }
            self.store.remove_object(&target.store_key(), live.clone());
            return Ok(Response::from_json(200, live));
        }
        Ok(Response::from_json(200, self.store.put_object(target.store_key(), live)))
    }
}

fn to_pointer(path: &str) -> String {
    path.replace('.', "/")
}

fn replicas_pointer(kind: &ResourceKind) -> String {
    let path = kind.custom.as_ref().and_then(|custom| custom.replicas.clone());
    to_pointer(path.as_deref().unwrap_or(".spec.replicas"))
}

fn set_value(object: &mut Value, pointer: &str, value: Value) {
    if let Some((parent, key)) = pointer.rsplit_once('/')
        && let Some(parent) = object.pointer_mut(parent)
    {
        parent[key] = value;
    }
}

fn scale_of(kind: &ResourceKind, object: &Value) -> Value {
    let custom = kind.custom.as_ref();
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[key] = object["metadata"][key].clone();
    }
    let running = custom.and_then(|custom| custom.status_replicas.as_deref());
    let running = to_pointer(running.unwrap_or(".status.replicas"));
    let running = object.pointer(&running).cloned().unwrap_or_else(|| json!(0));
    let replicas = object.pointer(&replicas_pointer(kind)).cloned().unwrap_or_else(|| json!(0));
    let mut spec = json!({});
    if replicas != json!(0) {
        spec["replicas"] = replicas;
    }
    let mut status = json!({"replicas": running});
    let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    if let (None, Some(labels)) = (custom, labels) {
        let terms: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        status["selector"] = json!(terms.join(","));
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}
