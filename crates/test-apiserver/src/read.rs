//! Reading objects: one, or pages of many.

use federate_apiserver::{Cause, Failure, Kind};
use serde_json::{Map, Value, json};

use super::cluster::{Cluster, Target};
use super::decode::option;
use super::http::{Request, Response};
use super::selector::Selector;
use super::table;
use super::watch::Watch;

/// Where a list continues: the version that it shows, and the last key.
struct Token {
    version: i64,
    start: String,
}

impl Token {
    fn write(version: u64, start: &str) -> String {
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": format!("{start}\0")});
        base64url(token.to_string().as_bytes())
    }

    fn read(text: &str) -> Result<Self, Failure> {
        let bad = || Failure::bad_request("invalid continue token: continue key is not valid");
        let bytes = unbase64url(text).ok_or_else(bad)?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        let start = token["start"].as_str().ok_or_else(bad)?;
        Ok(Self {
            version: token["rv"].as_i64().ok_or_else(bad)?,
            start: start.trim_end_matches('\0').to_owned(),
        })
    }
}

impl Cluster {
    pub(super) fn read(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
    ) -> Result<Response, Failure> {
        if let Some(version) = request.filled("resourceVersion") {
            self.check_version(version)?;
        }
        let live = self.stored(target, kind)?;
        Ok(Response::json(200, table::one(request, kind, &live)))
    }

    /// Refuses an invalid version, or one in the future.
    fn check_version(&self, version: &str) -> Result<u64, Failure> {
        let number: u64 = version.parse().map_err(|_| {
            Failure::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing \
                 {version:?}: invalid syntax"
            ))
        })?;
        if number > self.store.version {
            let message =
                format!("Timeout: Too large resource version: {number}, current: {}", self.store.version);
            let cause = Cause::new("ResourceVersionTooLarge", "", "Too large resource version");
            return Err(Failure::new(504, "Timeout", message)
                .caused_by(&[cause])
                .with("retryAfterSeconds", 1));
        }
        Ok(number)
    }

    pub(super) fn list(
        &mut self,
        request: &Request,
        kind: &Kind,
        target: &Target,
    ) -> Result<Response, Failure> {
        let watching = request.flag("watch") && request.param("watch").is_some();
        let mut fields = request.filled("fieldSelector").unwrap_or_default().to_owned();
        if !target.name.is_empty() {
            fields = format!("metadata.name={}", target.name);
        }
        let selector = Selector::parse(request.filled("labelSelector"), Some(&fields), kind)?;
        check_list_options(request, watching)?;
        if watching {
            let watch = Watch::new(request, kind, target, selector, self)?;
            return Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: super::http::Body::Watch(Box::new(watch)),
            });
        }
        if request.accept().contains("text/html") && !request.accept().contains("json") {
            let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                           application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                           application/vnd.kubernetes.protobuf;stream=watch";
            return Err(Failure::new(406, "NotAcceptable", message));
        }
        let mut version = self.store.version;
        let token = request.filled("continue").map(Token::read).transpose()?;
        let given = request.filled("resourceVersion");
        if let Some(token) = &token {
            if given.is_some_and(|v| v != "0") {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Failure::bad_request(message));
            }
            if token.version >= 0 {
                version = u64::try_from(token.version).unwrap();
                if version < self.store.compacted {
                    return Ok(expired(token));
                }
            }
        } else if let Some(given) = given {
            let wanted = self.check_version(given)?;
            if request.filled("resourceVersionMatch") == Some("Exact") {
                if wanted < self.store.compacted {
                    let message = "The resourceVersion for the provided list is too old.";
                    return Err(Failure::new(410, "Expired", message));
                }
                version = wanted;
            }
        }
        let objects = self.page(kind, target, version, token.as_ref().map(|t| t.start.as_str()));
        let limit = request.filled("limit").and_then(|l| l.parse::<i64>().ok()).filter(|l| *l > 0);
        let matching: Vec<(String, Value)> =
            objects.into_iter().filter(|(_, object)| selector.matches(object)).collect();
        let end = limit.and_then(|l| usize::try_from(l).ok()).unwrap_or(usize::MAX).min(matching.len());
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), json!(version.to_string()));
        if kind.custom.is_some() {
            metadata.insert("continue".to_owned(), json!(""));
        }
        if end < matching.len() {
            metadata.insert("continue".to_owned(), json!(Token::write(version, &matching[end - 1].0)));
            if selector.is_empty() {
                metadata.insert("remainingItemCount".to_owned(), json!(matching.len() - end));
            }
        }
        let items: Vec<Value> = matching.into_iter().take(end).map(|(_, object)| object).collect();
        Ok(Response::json(200, table::many(request, kind, &Value::Object(metadata), &items)))
    }

    /// The objects at a version after a key, in the order of keys.
    fn page(&self, kind: &Kind, target: &Target, version: u64, after: Option<&str>) -> Vec<(String, Value)> {
        let place = |namespace: &str, name: &str| {
            if target.namespace.is_empty() && kind.namespaced {
                format!("{namespace}/{name}")
            } else {
                name.to_owned()
            }
        };
        let mut objects: Vec<(String, Value)> = self
            .store
            .list(&kind.group, &kind.plural, &target.namespace)
            .map(|(key, object)| (place(&key.namespace, &key.name), object.clone()))
            .collect();
        // Undo what has happened since.
        for event in self.store.events.iter().rev().take_while(|event| event.version > version) {
            let key = &event.key;
            let same_kind = (&key.group, &key.plural) == (&kind.group, &kind.plural)
                && (target.namespace.is_empty() || key.namespace == target.namespace);
            if same_kind {
                let at = place(&key.namespace, &key.name);
                objects.retain(|(place, _)| *place != at);
                objects.extend(event.before.as_ref().map(|object| (at, Value::clone(object))));
            }
        }
        objects.sort_by(|a, b| a.0.cmp(&b.0));
        objects.retain(|(place, _)| after.is_none_or(|after| place.as_str() > after));
        objects
    }
}

fn check_list_options(request: &Request, watching: bool) -> Result<(), Failure> {
    let matching = request.filled("resourceVersionMatch");
    let version = request.filled("resourceVersion");
    let initial = request.filled("sendInitialEvents").is_some();
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
    Err(option("ListOptions", &[Cause::forbidden("resourceVersionMatch", why)]))
}

/// The answer to a token whose version is forgotten: another one, without a version.
fn expired(token: &Token) -> Response {
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                   new list without the continue parameter, or use the continue token in this response to retrieve \
                   the remainder of the results. Continuing with the provided token results in an inconsistent list \
                   - objects that were created, modified, or deleted between the time the first chunk was returned \
                   and now may show up in the list.";
    let fresh = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": format!("{}\0", token.start)});
    let mut status = Failure::new(410, "Expired", message).status();
    status["metadata"] = json!({"continue": base64url(fresh.to_string().as_bytes())});
    Response::json(410, status)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub fn base64url(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut bits = [0_u8; 3];
        bits[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from(bits[0]) << 16 | u32::from(bits[1]) << 8 | u32::from(bits[2]);
        for place in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

fn unbase64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | u32::try_from(DIGITS.iter().position(|d| *d == c)?).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}
