//! Patches: JSON patches, merge patches, strategic merge patches and server-side apply.

use federate_apiserver_model::typed::{find_mistyped, find_undeclared};
use federate_apiserver_model::values::{text_at, text_below};
use federate_apiserver_model::{
    ApiError, ResourceKind, StatusCause, WriteOptions, complete_object, merge_applied, patches,
    update_managers,
};
use federate_kubernetes::patch::{self as json_patch, JsonPatchOperation, PatchRules};
use serde_json::Value;

use super::auth::{ApiUser, RequestAttributes};
use super::cluster::{RequestTarget, TestCluster};
use super::decoding::{self, FieldValidation, without_type_meta};
use super::http::{ApiRequest, Response};
use super::write::{check_name, check_options, field_manager, set_namespace};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl TestCluster {
    pub(super) fn handle_patch(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        user: &ApiUser,
    ) -> Result<Response, ApiError> {
        let sort = request.content_type().to_owned();
        if !matches!(sort.as_str(), JSON | MERGE | STRATEGIC | APPLY) {
            return Err(ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type"));
        }
        if sort == STRATEGIC && kind.custom.is_some() {
            return Err(decoding::unsupported_media_type(&[JSON, MERGE, APPLY].join(", ")));
        }
        check_options(request, "PatchOptions")?;
        if sort != APPLY && request.non_empty_param("force").is_some() {
            let cause = StatusCause::forbidden("force", "may not be specified for non-apply patch");
            return Err(decoding::invalid_option("PatchOptions", &[cause]));
        }
        if sort == APPLY {
            return self.server_side_apply(request, kind, target, user);
        }
        let strictness = FieldValidation::from_request(request, "PatchOptions")?;
        let live = self.stored_object(target, kind)?;
        let (patched, warnings) = compute_patched(request, &sort, kind, &live, strictness)?;
        let response = self.put_patched(request, kind, target, &live, patched)?;
        Ok(warnings.iter().fold(response, |response, warning| {
            response.with_header("Warning", &format!("299 - {warning:?}"))
        }))
    }

    fn put_patched(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        live: &Value,
        mut patched: Value,
    ) -> Result<Response, ApiError> {
        set_namespace(&mut patched, kind, target)?;
        check_name(&patched, target)?;
        let manager = field_manager(request);
        let now = self.current_time();
        let subresource = Some(target.subresource.as_str()).filter(|s| !s.is_empty());
        let write = WriteOptions { kind, manager: &manager, subresource, force: false, now: &now };
        let object = complete_object(kind, patched);
        let object = update_managers(Some(live), &object, &write);
        Ok(Response::from_json(200, self.store_changed(request, kind, target, live, object, &write)?))
    }

    fn server_side_apply(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        user: &ApiUser,
    ) -> Result<Response, ApiError> {
        let strictness = FieldValidation::from_request(request, "PatchOptions")?;
        let Some(manager) = request.non_empty_param("fieldManager") else {
            let cause = StatusCause::required("fieldManager", "is required for apply patch");
            return Err(decoding::invalid_option("PatchOptions", &[cause]));
        };
        let (applied, odd) = decoding::decode_apply(&request.body)?;
        if strictness == FieldValidation::Strict && odd {
            return Err(ApiError::bad_request("error strict decoding YAML: error converting YAML to JSON"));
        }
        let (version, given) = (text_at(&applied, "/apiVersion"), text_at(&applied, "/kind"));
        if version != kind.api_version() || given != kind.kind {
            let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
            return Err(ApiError::bad_request(format!("invalid object type: {version}, Kind={given}")));
        }
        let namespace = text_at(&applied, "/metadata/namespace");
        if !namespace.is_empty() && namespace != target.namespace {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(message));
        }
        let name = text_at(&applied, "/metadata/name");
        if name.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                target.name
            )));
        }
        check_name(&applied, target)?;
        let now = self.current_time();
        let subresource = Some(target.subresource.as_str()).filter(|s| !s.is_empty());
        let force = request.is_flag_set("force") && request.query_param("force").is_some();
        let write = WriteOptions { kind, manager, subresource, force, now: &now };
        let live = self.store.objects.get(&target.store_key()).cloned();
        let Some(live) = live else {
            return self.apply_new(request, kind, target, user, &applied, &write);
        };
        let mut object = merge_applied(Some(&live), &applied, &write)?;
        (self.admission)(&mut object);
        Ok(Response::from_json(200, self.store_changed(request, kind, target, &live, object, &write)?))
    }

    fn apply_new(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
        user: &ApiUser,
        applied: &Value,
        write: &WriteOptions<'_>,
    ) -> Result<Response, ApiError> {
        if !target.subresource.is_empty() {
            return Err(ApiError::not_found(kind, &target.name));
        }
        let action = RequestAttributes {
            verb: "create",
            group: &kind.group,
            resource: &kind.plural,
            subresource: "",
            namespace: &target.namespace,
            name: &target.name,
        };
        let mut object = merge_applied(None, applied, write)?;
        (self.admission)(&mut object);
        self.authorize_action(user, &action)?;
        let uid = text_at(applied, "/metadata/uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(kind, &target.name, &why));
        }
        self.check_namespace(kind, target)?;
        set_namespace(&mut object, kind, target)?;
        Ok(Response::from_json(201, self.store_new(request, kind, target, object, write)?))
    }
}

/// The document after a patch that is not an apply, with warnings.
pub fn compute_patched(
    request: &ApiRequest,
    sort: &str,
    kind: &ResourceKind,
    live: &Value,
    strictness: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let (patch, _) = decoding::decode_json(&request.body)
        .map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))?;
    let patched = match sort {
        JSON => apply_operations(live, &patch)?,
        MERGE => patches::apply_merge_patch(live, &patch),
        _ => patches::apply_strategic_patch(&kind.schema, live, &patch)
            .map_err(|why| ApiError::new(400, "BadRequest", why))?,
    };
    let object = without_type_meta(&patched);
    let mistyped = find_mistyped(&kind.schema, &object).filter(|_| kind.custom.is_none());
    let unknown: Vec<String> = find_undeclared(&kind.schema, &object)
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    let why = match (mistyped, strictness) {
        (Some(why), _) => why,
        (None, FieldValidation::Strict) if !unknown.is_empty() => {
            format!("strict decoding error: {}", unknown.join(", "))
        }
        (None, FieldValidation::Warn) => return Ok((patched, unknown)),
        (None, _) => return Ok((patched, Vec::new())),
    };
    let shown = if sort == STRATEGIC { format_go(&patch) } else { patched.to_string() };
    let cause = StatusCause::invalid("patch", &Value::from(shown), &why);
    let mut failure = ApiError::invalid_values("", "", "", "", &[cause]);
    failure.details.shift_remove("kind");
    Err(failure)
}

fn apply_operations(live: &Value, patch: &Value) -> Result<Value, ApiError> {
    let operations = patch.as_array().ok_or_else(|| {
        let message = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        ApiError::bad_request(message)
    })?;
    let mut document = live.clone();
    for operation in operations {
        apply_operation(&mut document, operation).map_err(|_| {
            ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
        })?;
    }
    Ok(document)
}

fn apply_operation(document: &mut Value, operation: &Value) -> Result<(), json_patch::Error> {
    let rules = PatchRules::Lenient;
    let (name, path) = (text_below(operation, "op"), text_below(operation, "path"));
    if !matches!(name, "copy" | "move") {
        let operation = JsonPatchOperation { name, path, value: operation.get("value") };
        return json_patch::apply_by(rules, document, operation);
    }
    let from = text_below(operation, "from");
    let tokens = json_patch::parse_pointer(from)?;
    let found = json_patch::find_value(document, &tokens).cloned();
    let value = found.ok_or_else(|| json_patch::Error::Missing(from.to_owned()))?;
    if name == "move" {
        json_patch::apply_by(
            rules,
            document,
            JsonPatchOperation { name: "remove", path: from, value: None },
        )?;
    }
    json_patch::apply_by(rules, document, JsonPatchOperation { name: "add", path, value: Some(&value) })
}

/// A document as Go prints maps.
fn format_go(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", format_go(value))).collect();
            entries.sort();
            format!("map[{}]", entries.join(" "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
