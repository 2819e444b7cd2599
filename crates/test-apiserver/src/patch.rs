//! Patches of all four sorts.

use federate_apiserver::typed::{mistyped, undeclared};
use federate_apiserver::{
    Cause, Failure, Kind, Write, complete_object, merge_applied, patches, update_managers,
};
use federate_kubernetes::patch::{self as json_patch, Operation, Rules};
use serde_json::Value;

use super::auth::{Action, User};
use super::cluster::{Cluster, Target};
use super::decode::{self, FieldValidation, body};
use super::http::{Request, Response};
use super::write::{check_options, manager, named, place, text};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl Cluster {
    pub(super) fn patch(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
        user: &User,
    ) -> Result<Response, Failure> {
        let sort = request.content_type().to_owned();
        if !matches!(sort.as_str(), JSON | MERGE | STRATEGIC | APPLY) {
            return Err(Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type"));
        }
        if sort == STRATEGIC && kind.custom.is_some() {
            return Err(decode::unsupported(&[JSON, MERGE, APPLY].join(", ")));
        }
        check_options(request, "PatchOptions")?;
        if sort != APPLY && request.filled("force").is_some() {
            let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
            return Err(decode::option("PatchOptions", &[cause]));
        }
        if sort == APPLY {
            return self.server_side_apply(request, kind, target, user);
        }
        let strictness = FieldValidation::of(request, "PatchOptions")?;
        let live = self.stored(target, kind)?;
        let (patched, warnings) = patched(request, &sort, kind, &live, strictness)?;
        let response = self.put_patched(request, kind, target, &live, patched)?;
        Ok(warnings
            .iter()
            .fold(response, |response, warning| response.with("Warning", &format!("299 - {warning:?}"))))
    }

    fn put_patched(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
        live: &Value,
        mut patched: Value,
    ) -> Result<Response, Failure> {
        place(&mut patched, kind, target)?;
        named(&patched, target)?;
        let manager = manager(request);
        let now = self.now();
        let subresource = Some(target.subresource.as_str()).filter(|s| !s.is_empty());
        let write = Write { kind, manager: &manager, subresource, force: false, now: &now };
        let object = complete_object(kind, patched);
        let object = update_managers(Some(live), &object, &write);
        Ok(Response::json(200, self.change(request, kind, target, live, object, &write)?))
    }

    fn server_side_apply(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
        user: &User,
    ) -> Result<Response, Failure> {
        let strictness = FieldValidation::of(request, "PatchOptions")?;
        let Some(manager) = request.filled("fieldManager") else {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(decode::option("PatchOptions", &[cause]));
        };
        let (applied, odd) = decode::applied(&request.body)?;
        if strictness == FieldValidation::Strict && odd {
            return Err(Failure::bad_request("error strict decoding YAML: error converting YAML to JSON"));
        }
        let (version, given) = (text(&applied, "/apiVersion"), text(&applied, "/kind"));
        if version != kind.api_version() || given != kind.kind {
            let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
            return Err(Failure::bad_request(format!("invalid object type: {version}, Kind={given}")));
        }
        let namespace = text(&applied, "/metadata/namespace");
        if !namespace.is_empty() && namespace != target.namespace {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::bad_request(message));
        }
        let name = text(&applied, "/metadata/name");
        if name.is_empty() {
            return Err(Failure::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                target.name
            )));
        }
        named(&applied, target)?;
        let now = self.now();
        let subresource = Some(target.subresource.as_str()).filter(|s| !s.is_empty());
        let force = request.flag("force") && request.param("force").is_some();
        let write = Write { kind, manager, subresource, force, now: &now };
        let live = self.store.objects.get(&target.key()).cloned();
        let Some(live) = live else {
            return self.apply_new(request, kind, target, user, &applied, &write);
        };
        let mut object = merge_applied(Some(&live), &applied, &write)?;
        (self.admission)(&mut object);
        Ok(Response::json(200, self.change(request, kind, target, &live, object, &write)?))
    }

    fn apply_new(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
        user: &User,
        applied: &Value,
        write: &Write<'_>,
    ) -> Result<Response, Failure> {
        if !target.subresource.is_empty() {
            return Err(Failure::not_found(kind, &target.name));
        }
        let action = Action {
            verb: "create",
            group: &kind.group,
            resource: &kind.plural,
            subresource: "",
            namespace: &target.namespace,
            name: &target.name,
        };
        let mut object = merge_applied(None, applied, write)?;
        (self.admission)(&mut object);
        self.authorize(user, &action)?;
        let uid = text(applied, "/metadata/uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::conflict(kind, &target.name, &why));
        }
        self.check_namespace(kind, target)?;
        place(&mut object, kind, target)?;
        Ok(Response::json(201, self.make(request, kind, target, object, write)?))
    }
}

/// The document after a patch that is not an apply, with warnings.
pub fn patched(
    request: &Request,
    sort: &str,
    kind: &Kind,
    live: &Value,
    strictness: FieldValidation,
) -> Result<(Value, Vec<String>), Failure> {
    let (patch, _) = decode::json(&request.body)
        .map_err(|why| Failure::bad_request(format!("error decoding patch: {why}")))?;
    let patched = match sort {
        JSON => by_operations(live, &patch)?,
        MERGE => patches::apply_merge_patch(live, &patch),
        _ => patches::apply_strategic_patch(&kind.schema, live, &patch)
            .map_err(|why| Failure::new(400, "BadRequest", why))?,
    };
    let object = body(&patched);
    let invalid = |why: &str| {
        let shown = if sort == STRATEGIC { go(&patch) } else { patched.to_string() };
        let cause = Cause::invalid("patch", &Value::from(shown), why);
        let mut failure = Failure::unacceptable("", "", "", "", &[cause]);
        failure.details.shift_remove("kind");
        failure
    };
    if let (None, Some(why)) = (&kind.custom, mistyped(&kind.schema, &object)) {
        return Err(invalid(&why));
    }
    let unknown: Vec<String> =
        undeclared(&kind.schema, &object).iter().map(|path| format!("unknown field \"{path}\"")).collect();
    match strictness {
        FieldValidation::Strict if !unknown.is_empty() => {
            Err(invalid(&format!("strict decoding error: {}", unknown.join(", "))))
        }
        FieldValidation::Warn => Ok((patched, unknown)),
        _ => Ok((patched, Vec::new())),
    }
}

fn by_operations(live: &Value, patch: &Value) -> Result<Value, Failure> {
    let rejected =
        || Failure::new(422, "Invalid", "the server rejected our request due to an error in our request");
    let operations = patch.as_array().ok_or_else(|| {
        let message = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        Failure::bad_request(message)
    })?;
    let mut document = live.clone();
    for operation in operations {
        let at = |key: &str| operation.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, path) = (at("op"), at("path"));
        let run = |document: &mut Value, name: &str, path: &str, value: Option<&Value>| {
            json_patch::apply_by(Rules::Lenient, document, Operation { name, path, value })
                .map_err(|_| rejected())
        };
        match name {
            "copy" | "move" => {
                let from = json_patch::tokens(at("from")).map_err(|_| rejected())?;
                let value = json_patch::get(&document, &from).cloned().ok_or_else(rejected)?;
                if name == "move" {
                    run(&mut document, "remove", at("from"), None)?;
                }
                run(&mut document, "add", path, Some(&value))?;
            }
            _ => run(&mut document, name, path, operation.get("value"))?,
        }
    }
    Ok(document)
}

/// A document as Go prints maps.
fn go(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", go(value))).collect();
            entries.sort();
            format!("map[{}]", entries.join(" "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
