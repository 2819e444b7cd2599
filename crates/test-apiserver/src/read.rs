//! Reading objects: one, or pages of many.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use federate_apiserver_model::{ApiError, ResourceKind, StatusCause};
use serde_json::{Map, Value, json};

use super::cluster::{RequestTarget, TestCluster};
use super::decoding::invalid_option;
use super::http::{ApiRequest, Response};
use super::selector::RequestSelector;
use super::table;
use super::watch::Watch;

/// The place at which a list continues: the version that it shows, and the last key.
struct ContinueToken {
    version: i64,
    start: String,
}

impl ContinueToken {
    fn to_text(version: u64, start: &str) -> String {
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": format!("{start}\0")});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string().as_bytes())
    }

    fn from_text(text: &str) -> Result<Self, ApiError> {
        Self::decode(text)
            .ok_or_else(|| ApiError::bad_request("invalid continue token: continue key is not valid"))
    }

    fn decode(text: &str) -> Option<Self> {
        let token: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let start = token["start"].as_str()?.trim_end_matches('\0').to_owned();
        Some(Self { version: token["rv"].as_i64()?, start })
    }
}

impl TestCluster {
    pub(super) fn handle_read(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        if let Some(version) = request.non_empty_param("resourceVersion") {
            self.check_version(version)?;
        }
        let live = self.stored_object(target, kind)?;
        Ok(Response::from_json(200, table::format_object(request, kind, &live)))
    }

    /// Refuses an invalid version, or one in the future.
    fn check_version(&self, version: &str) -> Result<u64, ApiError> {
        let number: u64 = version.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing \
                 {version:?}: invalid syntax"
            ))
        })?;
        if number > self.store.version {
            let message =
                format!("Timeout: Too large resource version: {number}, current: {}", self.store.version);
            let cause = StatusCause::new("ResourceVersionTooLarge", "", "Too large resource version");
            return Err(ApiError::new(504, "Timeout", message)
                .caused_by(&[cause])
                .with_detail("retryAfterSeconds", 1));
        }
        Ok(number)
    }

    pub(super) fn handle_list(
        &mut self,
        request: &ApiRequest,
        kind: &ResourceKind,
        target: &RequestTarget,
    ) -> Result<Response, ApiError> {
        let watching = request.is_flag_set("watch") && request.query_param("watch").is_some();
        let mut fields = request.non_empty_param("fieldSelector").unwrap_or_default().to_owned();
        if !target.name.is_empty() {
            fields = format!("metadata.name={}", target.name);
        }
        let selector = RequestSelector::parse(request.non_empty_param("labelSelector"), Some(&fields), kind)?;
        check_list_options(request, watching)?;
        if watching {
            let watch = Watch::new(request, kind, target, selector, self)?;
            return Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: super::http::Body::Watch(Box::new(watch)),
            });
        }
        if request.accept_header().contains("text/html") && !request.accept_header().contains("json") {
            let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                           application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                           application/vnd.kubernetes.protobuf;stream=watch";
            return Err(ApiError::new(406, "NotAcceptable", message));
        }
        let mut version = self.store.version;
        let token = request.non_empty_param("continue").map(ContinueToken::from_text).transpose()?;
        let given = request.non_empty_param("resourceVersion");
        if let Some(token) = &token {
            if given.is_some_and(|v| v != "0") {
                let message = "specifying resource version is not allowed when using continue";
                return Err(ApiError::bad_request(message));
            }
            if let Ok(shown) = u64::try_from(token.version) {
                version = shown;
                if version < self.store.compacted {
                    return Ok(expired_response(token));
                }
            }
        } else if let Some(given) = given {
            let wanted = self.check_version(given)?;
            if request.non_empty_param("resourceVersionMatch") == Some("Exact") {
                if wanted < self.store.compacted {
                    let message = "The resourceVersion for the provided list is too old.";
                    return Err(ApiError::new(410, "Expired", message));
                }
                version = wanted;
            }
        }
        let objects =
            self.objects_at_version(kind, target, version, token.as_ref().map(|t| t.start.as_str()));
        let limit = request.non_empty_param("limit").and_then(|l| l.parse::<i64>().ok()).filter(|l| *l > 0);
        let matching: Vec<(String, Value)> =
            objects.into_iter().filter(|(_, object)| selector.matches_object(object)).collect();
        let end = limit.and_then(|l| usize::try_from(l).ok()).unwrap_or(usize::MAX).min(matching.len());
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), json!(version.to_string()));
        if kind.custom.is_some() {
            metadata.insert("continue".to_owned(), json!(""));
        }
        if end < matching.len() {
            metadata
                .insert("continue".to_owned(), json!(ContinueToken::to_text(version, &matching[end - 1].0)));
            if selector.is_empty() {
                metadata.insert("remainingItemCount".to_owned(), json!(matching.len() - end));
            }
        }
        let items: Vec<Value> = matching.into_iter().take(end).map(|(_, object)| object).collect();
        Ok(Response::from_json(200, table::format_list(request, kind, &Value::Object(metadata), &items)))
    }

    /// The objects at a version after a key, in the order of keys.
    fn objects_at_version(
        &self,
        kind: &ResourceKind,
        target: &RequestTarget,
        version: u64,
        after: Option<&str>,
    ) -> Vec<(String, Value)> {
        let with_namespace = target.namespace.is_empty() && kind.namespaced;
        let mut objects: Vec<(String, Value)> = self
            .store
            .list_objects(&kind.group, &kind.plural, &target.namespace)
            .map(|(key, object)| (key.list_place(with_namespace), object.clone()))
            .collect();
        // Undo what has happened since.
        for event in self.store.events.iter().rev().take_while(|event| event.version > version) {
            let key = &event.key;
            let same_kind = (&key.group, &key.plural) == (&kind.group, &kind.plural)
                && (target.namespace.is_empty() || key.namespace == target.namespace);
            if same_kind {
                let at = key.list_place(with_namespace);
                objects.retain(|(place, _)| *place != at);
                objects.extend(event.before.as_ref().map(|object| (at, Value::clone(object))));
            }
        }
        objects.sort_by(|a, b| a.0.cmp(&b.0));
        objects.retain(|(place, _)| after.is_none_or(|after| place.as_str() > after));
        objects
    }
}

fn check_list_options(request: &ApiRequest, watching: bool) -> Result<(), ApiError> {
    let matching = request.non_empty_param("resourceVersionMatch");
    let version = request.non_empty_param("resourceVersion");
    let initial = request.non_empty_param("sendInitialEvents").is_some();
    let why = if initial && matching != Some("NotOlderThan") {
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    } else if watching && matching.is_some() && !initial {
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    } else if matching.is_some() && version.is_none() && !initial {
        "resourceVersionMatch is forbidden unless resourceVersion is provided"
    } else if matching == Some("Exact") && version == Some("0") {
        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
    } else {
        return Ok(());
    };
    Err(invalid_option("ListOptions", &[StatusCause::forbidden("resourceVersionMatch", why)]))
}

/// The answer to a token whose version is forgotten: another one, without a version.
fn expired_response(token: &ContinueToken) -> Response {
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                   new list without the continue parameter, or use the continue token in this response to retrieve \
                   the remainder of the results. Continuing with the provided token results in an inconsistent list \
                   - objects that were created, modified, or deleted between the time the first chunk was returned \
                   and now may show up in the list.";
    let fresh = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": format!("{}\0", token.start)});
    let mut status = ApiError::new(410, "Expired", message).to_status();
    status["metadata"] = json!({"continue": BASE64_URL_SAFE_NO_PAD.encode(fresh.to_string().as_bytes())});
    Response::from_json(410, status)
}
