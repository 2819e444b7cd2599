//! Creating and replacing objects.

use std::sync::Arc;

use federate_apiserver::{Cause, Failure, Kind, Write, complete_object, services, strategy, update_managers};
use serde_json::{Value, json};

use super::cluster::{Cluster, Target};
use super::decode::{self, FieldValidation};
use super::http::{Request, Response};

/// The default field manager.
pub fn manager(request: &Request) -> String {
    let agent = request.headers.get("user-agent").map_or("", String::as_str);
    let name = request.filled("fieldManager").unwrap_or_else(|| agent.split('/').next().unwrap_or_default());
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}

/// Refuses invalid options.
pub fn check_options(request: &Request, options: &str) -> Result<(), Failure> {
    if let Some(other) = request.filled("dryRun").filter(|v| *v != "All") {
        let cause = Cause::unsupported("dryRun", &json!([other]), &["All"]);
        return Err(decode::option(options, &[cause]));
    }
    if request.filled("fieldManager").is_some_and(|m| m.len() > 128) {
        let cause =
            Cause::new("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes");
        return Err(decode::option(options, &[cause]));
    }
    Ok(())
}

pub fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn warned(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        response = response.with("Warning", &format!("299 - {warning:?}"));
    }
    response
}

impl Cluster {
    pub(super) fn post(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
    ) -> Result<Response, Failure> {
        check_options(request, "CreateOptions")?;
        let strictness = FieldValidation::of(request, "CreateOptions")?;
        let sent = decode::object(request, kind, strictness)?;
        let mut target = target.clone();
        let mut object = sent.object;
        place(&mut object, kind, &target)?;
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
        }
        if let (true, prefix) =
            (text(&object, "/metadata/name").is_empty(), text(&object, "/metadata/generateName"))
            && !prefix.is_empty()
        {
            object["metadata"]["name"] = json!(format!("{prefix}{}", self.store.suffix()));
        }
        text(&object, "/metadata/name").clone_into(&mut target.name);
        self.check_namespace(kind, &target)?;
        let manager = manager(request);
        let now = self.now();
        let write = Write { kind, manager: &manager, subresource: None, force: false, now: &now };
        let object = complete_object(kind, object);
        let object = update_managers(None, &object, &write);
        let stored = self.make(request, kind, &target, object, &write)?;
        Ok(warned(Response::json(201, stored), &sent.warnings))
    }

    /// Stores a new object, except in a dry run.
    pub(super) fn make(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
        mut object: Value,
        write: &Write<'_>,
    ) -> Result<Arc<Value>, Failure> {
        let key = target.key();
        self.admit(kind, target, &mut object)?;
        object["metadata"]["uid"] = json!(self.store.uid());
        object["metadata"]["creationTimestamp"] = json!(self.now());
        let dry = request.dry_run();
        let mut object = strategy::prepare_for_create(object, write)?;
        if self.store.objects.contains_key(&key) {
            let message = format!("{} \"{}\" already exists", kind.resource(), target.name);
            return Err(Failure::new(409, "AlreadyExists", message).about(
                &kind.group,
                &kind.plural,
                &target.name,
            ));
        }
        if kind.is("Service") {
            self.check_service(kind, target, &object)?;
        }
        if kind.is("Service") {
            let (address, store) = (self.store.address(), &mut self.store);
            services::allocate(&mut object, || address, || store.port());
        }
        if dry {
            object["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
            return Ok(Arc::new(object));
        }
        let stored = self.store.put(key, object);
        self.made(kind, &stored);
        Ok(stored)
    }

    pub(super) fn replace(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
    ) -> Result<Response, Failure> {
        check_options(request, "UpdateOptions")?;
        let strictness = FieldValidation::of(request, "UpdateOptions")?;
        let sent = decode::object(request, kind, strictness)?;
        let mut object = sent.object;
        place(&mut object, kind, target)?;
        named(&object, target)?;
        let manager = manager(request);
        let now = self.now();
        let write = Write { kind, manager: &manager, subresource: None, force: false, now: &now };
        let live = match self.stored(target, kind) {
            Err(_) if makes_by_replacing(kind) => {
                self.check_namespace(kind, target)?;
                let object = update_managers(None, &complete_object(kind, object), &write);
                let stored = self.make(request, kind, target, object, &write)?;
                return Ok(warned(Response::json(201, stored), &sent.warnings));
            }
            live => live?,
        };
        self.check_replaced(kind, target, &live, &object)?;
        let object = complete_object(kind, object);
        let object = update_managers(Some(&live), &object, &write);
        let stored = self.change(request, kind, target, &live, object, &write)?;
        Ok(warned(Response::json(200, stored), &sent.warnings))
    }

    /// Refuses to replace another object, or an object without its version where one is required.
    pub(super) fn check_replaced(
        &self,
        kind: &Kind,
        target: &Target,
        live: &Value,
        object: &Value,
    ) -> Result<(), Failure> {
        let (uid, live_uid) = (text(object, "/metadata/uid"), text(live, "/metadata/uid"));
        if !uid.is_empty() && uid != live_uid {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /{}/{}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}",
                self.name, kind.plural, target.namespace, target.name
            );
            return Err(Failure::conflict(kind, &target.name, &why));
        }
        if wants_version(kind) && text(object, "/metadata/resourceVersion").is_empty() {
            let cause =
                Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
            let name = kind.resource();
            return Err(Failure::unacceptable(&name, &kind.group, &kind.plural, &target.name, &[cause]));
        }
        Ok(())
    }

    /// Stores a changed object, except in a dry run.
    pub(super) fn change(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
        live: &Value,
        object: Value,
        write: &Write<'_>,
    ) -> Result<Arc<Value>, Failure> {
        let mut object = strategy::prepare_for_update(live, object, write)?;
        if kind.is("Service") && object != *live {
            self.check_service(kind, target, &object)?;
        }
        let again = self.settles_twice(kind, live);
        if (object == *live && !again) || request.dry_run() {
            return Ok(Arc::new(object));
        }
        if kind.is("Service") {
            let (address, store) = (self.store.address(), &mut self.store);
            services::allocate(&mut object, || address, || store.port());
        }
        let key = target.key();
        let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
        let held =
            object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
        if deleting && !held && !kind.is("Namespace") && !kind.is("Pod") {
            self.store.remove(&key, live.clone());
            self.unmade(kind, &object);
            // The answer has the last state of the object.
            object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            return Ok(Arc::new(object));
        }
        let stored = self.store.put(key, object);
        self.made(kind, &stored);
        Ok(stored)
    }

    /// The first write after the apply that created a Job or a claim writes it once more.
    fn settles_twice(&self, kind: &Kind, live: &Value) -> bool {
        let applied = live["metadata"]["managedFields"][0]["operation"] == "Apply";
        if !applied || !(kind.is("Job") || kind.is("PersistentVolumeClaim")) {
            return false;
        }
        let uid = &live["metadata"]["uid"];
        let newest = self.store.events.iter().rev().find(|event| event.object["metadata"]["uid"] == *uid);
        newest.is_some_and(|event| event.before.is_none())
    }

    pub(super) fn check_namespace(&self, kind: &Kind, target: &Target) -> Result<(), Failure> {
        if !kind.namespaced {
            return Ok(());
        }
        let name = &target.namespace;
        let Some(namespace) = self.store.get("", "namespaces", "", name) else {
            let message = format!("namespaces \"{name}\" not found");
            return Err(Failure::new(404, "NotFound", message).about("", "namespaces", name));
        };
        if namespace.pointer("/metadata/deletionTimestamp").is_some() {
            let message = format!(
                "{} \"{}\" is forbidden: unable to create new content in namespace {name} because it is being \
                 terminated",
                kind.resource(),
                target.name
            );
            let why = format!("namespace {name} is being terminated");
            let cause = Cause::new("NamespaceTerminating", "metadata.namespace", why);
            return Err(Failure::new(403, "Forbidden", message)
                .about(&kind.group, &kind.plural, &target.name)
                .caused_by(&[cause]));
        }
        Ok(())
    }

    /// The built-in admission of pods.
    fn admit(&self, kind: &Kind, target: &Target, object: &mut Value) -> Result<(), Failure> {
        if !kind.is("Pod") {
            return Ok(());
        }
        let given = text(object, "/spec/serviceAccountName");
        let account = if given.is_empty() { "default".to_owned() } else { given.to_owned() };
        if self.store.get("", "serviceaccounts", &target.namespace, &account).is_none() {
            let message = format!(
                "pods \"{}\" is forbidden: error looking up service account {}/{account}: serviceaccount \
                 \"{account}\" not found",
                target.name, target.namespace
            );
            return Err(Failure::new(403, "Forbidden", message).about("", "pods", &target.name));
        }
        let spec = &mut object["spec"];
        spec["serviceAccountName"] = json!(account);
        spec["serviceAccount"] = json!(account);
        for (key, value) in [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority"))] {
            if spec.get(key).is_none() {
                spec[key] = value;
            }
        }
        let tolerations = spec.as_object_mut().unwrap().entry("tolerations").or_insert_with(|| json!([]));
        for taint in ["not-ready", "unreachable"] {
            tolerations.as_array_mut().unwrap().push(json!({
                "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300,
            }));
        }
        Ok(())
    }

    /// Allocates addresses and ports.
    fn check_service(&self, kind: &Kind, target: &Target, object: &Value) -> Result<(), Failure> {
        let refuse = |cause: Cause| Err(Failure::invalid(kind, &target.name, &[cause]));
        let address = text(object, "/spec/clusterIP");
        let others = || self.store.list("", "services", "").filter(|(key, _)| **key != target.key());
        if !matches!(address, "" | "None") {
            let why = if !address.starts_with("10.1.") {
                Some("the provided network does not match the current range")
            } else if others().any(|(_, s)| text(s, "/spec/clusterIP") == address) {
                Some("provided IP is already allocated")
            } else {
                None
            };
            if let Some(why) = why {
                let why = format!("failed to allocate IP {address}: {why}");
                return refuse(Cause::invalid("spec.clusterIPs", &json!([address]), &why));
            }
        }
        let ports = object.pointer("/spec/ports").and_then(Value::as_array);
        for (place, port) in ports.into_iter().flatten().enumerate() {
            let Some(number) = port.get("nodePort") else { continue };
            let taken = others().any(|(_, s)| {
                s.pointer("/spec/ports")
                    .and_then(Value::as_array)
                    .is_some_and(|p| p.iter().any(|p| p.get("nodePort") == Some(number)))
            });
            if taken {
                let field = format!("spec.ports[{place}].nodePort");
                return refuse(Cause::invalid(field, number, "provided port is already allocated"));
            }
        }
        Ok(())
    }
}

/// Whether a replacement must name the version.
fn wants_version(kind: &Kind) -> bool {
    let groups = ["admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "policy"];
    kind.custom.is_some() || groups.contains(&kind.group.as_str()) || kind.is("CSIDriver")
}

/// Whether replacing an object that does not exist creates it.
fn makes_by_replacing(kind: &Kind) -> bool {
    let makes = match kind.group.as_str() {
        "" => matches!(kind.kind.as_str(), "Service" | "Endpoints" | "LimitRange" | "Event"),
        "coordination.k8s.io" | "rbac.authorization.k8s.io" => true,
        _ => false,
    };
    makes && kind.custom.is_none()
}

/// Sets the namespace of the URL, or refuses another one.
pub fn place(object: &mut Value, kind: &Kind, target: &Target) -> Result<(), Failure> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let given = text(object, "/metadata/namespace");
    if !given.is_empty() && given != target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(message));
    }
    if kind.namespaced {
        object["metadata"]["namespace"] = json!(target.namespace);
    }
    Ok(())
}

/// Refuses an object with another name than the URL's.
pub fn named(object: &Value, target: &Target) -> Result<(), Failure> {
    let name = text(object, "/metadata/name");
    if name != target.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(())
}
