//! Recorded exchanges with a real API server, replayed step by step against the one of the tests.
//!
//! Values that the server chose are named in the cases (`<rv1>`, `<uid1>`): the same name is the same
//! value, other names are other values. `<time>` is any time, `<rv>` any number.

use std::collections::BTreeMap;
use std::path::Path;

use federate::server::Kind;
use regex::Regex;
use serde_json::{Value, json};

use crate::diff;
use crate::support::apiserver::{Body, Cluster, Credentials, Fault, Mishap, Request, Response, User};

const NOW: &str = "2026-01-01T00:00:00Z";

/// Values by their names in the case.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

pub(crate) fn judge(case: &Value) -> Result<(), String> {
    let mut cluster = prepared(case);
    let mut names = Names::default();
    let note = case["note"].as_str().unwrap_or_default();
    for (place, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
        let request = request(&step["request"], &mut names);
        let response = cluster.handle(&request);
        compare(&step["response"], response, &cluster, &mut names, note)
            .map_err(|why| format!("step {place}: {} {}\n{why}", request.method, request.path))?;
    }
    match path_of(case) {
        Some(path) if !case["live"].is_null() => {
            let live = cluster.get(&path).ok_or_else(|| format!("live: {path} is gone"))?;
            alike(&case["live"], live, &mut names, note).map_err(|why| format!("live: {path}\n{why}"))
        }
        _ => Ok(()),
    }
}

/// The cluster as it was before the first step.
fn prepared(case: &Value) -> Cluster {
    let mut cluster = Cluster::new("member-1").at(NOW);
    if case["note"].as_str().is_some_and(|note| note.contains("kube-controller-manager runs")) {
        cluster = cluster.controllers();
    }
    cluster.token("viewer", User::new("viewer", &["", "system:authenticated"]));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/apiserver");
    let definition = std::fs::read_to_string(folder.join("widget.json")).expect("the definition of widgets");
    let definition = serde_json::from_str(&definition).expect("JSON");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.conf.example.com";
    cluster.apply(path, "setup", &definition);
    cluster.get("/version");
    if let Some(namespace) = case["namespace"].as_str() {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let request = Request::new("POST", "/api/v1/namespaces")
            .header("user-agent", "federate/test")
            .body("application/json", body.to_string());
        cluster.handle(&request);
        if case["note"].as_str().is_some_and(|note| note.contains("five ConfigMaps c0..c4")) {
            five(&mut cluster, namespace);
        }
    }
    let covers = case["covers"].as_array().into_iter().flatten();
    if covers.clone().any(|c| c == "expired") {
        cluster.compact();
    }
    if case["note"].as_str().is_some_and(|note| note.contains("limit of requests in flight")) {
        cluster.fault(Fault::new("list", Mishap::TooMany { seconds: 1 }));
    }
    cluster
}

fn five(cluster: &mut Cluster, namespace: &str) {
    for i in 0..5 {
        let mut labels = json!({"i": i.to_string(), "even": (i % 2 == 0).to_string()});
        if i == 3 {
            labels["x"] = json!("y");
        }
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{i}"), "labels": labels},
            "data": {"k": "v"},
        });
        cluster.create(&format!("/api/v1/namespaces/{namespace}/configmaps"), &body);
    }
}

fn request(step: &Value, names: &mut Names) -> Request {
    let text = |key: &str| step[key].as_str().unwrap_or_default();
    let mut request =
        Request::new(text("method"), &names.fill(text("path"))).header("user-agent", "federate/test");
    for (key, value) in step["query"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        request = request.query(key, &names.fill(&value));
    }
    for (key, value) in step["headers"].as_object().into_iter().flatten() {
        request = request.header(key, value.as_str().unwrap_or_default());
    }
    let content_type = step["contentType"].as_str().unwrap_or_default();
    if let Some(raw) = step["rawBody"].as_str() {
        request = request.body(content_type, names.fill(raw));
    } else if !step["body"].is_null() {
        let mut body = step["body"].clone();
        names.fill_all(&mut body);
        request = request.body(content_type, body.to_string());
    }
    request.credentials = match step["auth"].as_str() {
        None => Credentials::Certificate,
        Some("none") => Credentials::None,
        Some(token) => Credentials::Token(token.to_owned()),
    };
    request
}

/// The path of the case's object.
fn path_of(case: &Value) -> Option<String> {
    let (mut resource, live) = (case["resource"].clone(), &case["live"]["metadata"]);
    let name = |key: &str| case["live"][key].as_str().unwrap_or_default();
    if let Some(kind) = Kind::builtin(name("apiVersion"), name("kind")) {
        resource = json!({"group": kind.group, "version": kind.version, "plural": kind.plural});
    }
    let text = |key: &str| resource[key].as_str();
    let group = text("group")?;
    let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    let namespace = live["namespace"].as_str().map_or_else(String::new, |n| format!("/namespaces/{n}"));
    Some(format!("{root}/{}{namespace}/{}/{}", text("version")?, text("plural")?, live["name"].as_str()?))
}

fn compare(
    want: &Value,
    got: Response,
    cluster: &Cluster,
    names: &mut Names,
    note: &str,
) -> Result<(), String> {
    let shown = |body: &Body| match body {
        Body::Json(value) => serde_json::to_string_pretty(value).expect("JSON prints"),
        other => format!("{other:?}"),
    };
    if want["status"] != json!(got.status) {
        return Err(format!("status {}, want {}\n{}", got.status, want["status"], shown(&got.body)));
    }
    let header = |name: &str| {
        let mut values: Vec<&str> =
            got.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect();
        values.sort_unstable();
        values
    };
    for name in ["Warning", "Retry-After", "Content-Type"] {
        let mut wanted: Vec<&str> = match &want["headers"][name] {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            Value::String(one) => vec![one],
            _ => Vec::new(),
        };
        wanted.sort_unstable();
        // The OpenAPI root says text and sends JSON.
        if wanted != header(name) {
            return Err(format!("{name}: {:?}, want {wanted:?}", header(name)));
        }
    }
    let body = match got.body {
        Body::Json(value) => value,
        Body::Text(text) => Value::String(text),
        Body::Watch(mut watch) => Value::Array(watch.events(cluster)),
    };
    alike(&want["body"], body, names, note)
}

/// Whether two bodies are the same but for what may differ.
fn alike(want: &Value, mut got: Value, names: &mut Names, note: &str) -> Result<(), String> {
    let mut want = want.clone();
    if decoder(want["message"].as_str().unwrap_or_default()) {
        for key in ["message", "details"] {
            want[key] = Value::Null;
            got[key] = Value::Null;
        }
    }
    if note.contains("managedFields cut") {
        strip(&mut want, "managedFields");
        strip(&mut got, "managedFields");
    }
    let cut = want.get("...").is_some();
    strip(&mut want, "...");
    if cut || (want["kind"].is_string() && want.get("apiVersion").is_none() && got["apiVersion"] != "v1") {
        narrow(&want, &mut got);
    }
    for value in [&mut want, &mut got] {
        let empty = value["details"].as_object().is_some_and(serde_json::Map::is_empty);
        if let (true, Some(map)) = (empty, value.as_object_mut()) {
            map.shift_remove("details");
        }
    }
    printed(&mut want, &mut got);
    discovered(&mut want, &mut got);
    order(&mut want);
    order(&mut got);
    names.same(&want, &got, "").map_err(|why| {
        let difference = diff::compare(&want, &got).err().unwrap_or_default();
        format!("{why}\n{difference}")
    })
}

/// Whether a message comes from a decoder of Go or YAML, whose words are its own.
fn decoder(message: &str) -> bool {
    [
        "json:",
        "yaml:",
        "unknown conversion",
        "json parse error",
        "continue key is not valid",
        "invalid is invalid: patch",
    ]
    .iter()
    .any(|words| message.contains(words))
        || (message.starts_with(" \"\" is invalid: patch") && !message.contains("strict"))
}

/// What only Go prints: structs and differences. Of those the reason and the field are compared, and of
/// errors about several fields, of which the server gives some, those that it gave.
fn printed(want: &mut Value, got: &mut Value) {
    let message = want["message"].as_str().unwrap_or_default().to_owned();
    if message.contains("\"Volumes\":null") || message.contains("\n@@ ") {
        strip(want, "message");
        strip(got, "message");
    }
    if let Some((head, wrong)) = message.split_once("): .").or(message.split_once("): errors:"))
        && head.starts_with("failed to create typed patch object")
    {
        let found = got["message"].as_str().unwrap_or_default().to_owned();
        let known = |line: &str| found.contains(line.trim().trim_start_matches('.'));
        if found.starts_with(head) && wrong.lines().all(known) {
            got["message"] = want["message"].clone();
        }
    }
    // Bookmarks come about once a minute.
    let plain = |event: &Value| {
        event["type"] == "BOOKMARK" && event["object"]["metadata"].get("annotations").is_none()
    };
    if let Some(events) = want.as_array_mut() {
        events.retain(|event| !plain(event));
    }
    // A generated name ends as it likes.
    let prefix = want["metadata"]["generateName"].as_str().unwrap_or_default();
    if !prefix.is_empty()
        && got["metadata"]["name"]
            .as_str()
            .is_some_and(|n| n.starts_with(prefix) && n.len() == prefix.len() + 5)
    {
        got["metadata"]["name"] = want["metadata"]["name"].clone();
    }
}

/// What is recorded of a body that was cut.
fn narrow(want: &Value, got: &mut Value) {
    if let (Value::Object(want), Value::Object(got)) = (want, got) {
        got.retain(|key, _| want.contains_key(key));
        for (key, got) in got.iter_mut() {
            narrow(&want[key], got);
        }
    }
}

fn strip(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            map.shift_remove(key);
            map.values_mut().for_each(|value| strip(value, key));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, key)),
        _ => {}
    }
}

/// Lists that the server writes in no order, or in one that depends on the second.
fn order(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                order(value);
                if let (true, Value::Array(items)) =
                    (matches!(key.as_str(), "causes" | "managedFields"), &mut *value)
                {
                    let mark = |item: &Value| {
                        let part = |key: &str| item[key].to_string();
                        let timeless = item.get("time").is_none();
                        (
                            part("operation"),
                            !timeless,
                            part("manager"),
                            part("subresource"),
                            part("field"),
                            part("message"),
                        )
                    };
                    items.sort_by_key(mark);
                }
                // Errors about several fields stand in no order.
                if let (true, Value::String(text)) = (key == "message", value)
                    && text.contains("errors:\n")
                {
                    let mut lines: Vec<&str> = text.lines().collect();
                    lines[1..].sort_unstable();
                    *text = lines.join("\n");
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(order),
        _ => {}
    }
}

/// Discovery is compared as far as both servers have the same kinds.
fn discovered(want: &mut Value, got: &mut Value) {
    for (list, name) in [("resources", "name"), ("groups", "name")] {
        common(want, got, list, name);
    }
    for key in
        ["serverAddressByClientCIDRs", "gitCommit", "goVersion", "platform", "buildDate", "gitTreeState"]
    {
        strip(want, key);
        strip(got, key);
    }
    if want["kind"] == "APIGroupList" {
        let groups = want["groups"].as_array_mut().into_iter().flatten();
        for (want, got) in groups.zip(got["groups"].as_array_mut().into_iter().flatten()) {
            common(want, got, "versions", "groupVersion");
        }
    }
    if want["kind"] == "APIGroupDiscoveryList" {
        let name = |item: &Value| item["metadata"]["name"].to_string();
        let both = |value: &mut Value, other: &Value| {
            let others: Vec<String> = other["items"].as_array().into_iter().flatten().map(name).collect();
            if let Some(items) = value["items"].as_array_mut() {
                items.retain(|item| others.contains(&name(item)));
                items.sort_by_key(name);
            }
        };
        let copy = want.clone();
        both(want, got);
        both(got, &copy);
        let pairs = want["items"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .zip(got["items"].as_array_mut().into_iter().flatten());
        for (want, got) in pairs {
            let versions = want["versions"].as_array_mut().into_iter().flatten();
            for (want, got) in versions.zip(got["versions"].as_array_mut().into_iter().flatten()) {
                common(want, got, "resources", "resource");
                let parts = want["resources"].as_array_mut().into_iter().flatten();
                for (want, got) in parts.zip(got["resources"].as_array_mut().into_iter().flatten()) {
                    common(want, got, "subresources", "subresource");
                }
            }
        }
    }
    strip(want, "storageVersionHash");
    for key in ["subresources", "versions"] {
        for value in [&mut *want, &mut *got] {
            unlist(value, key);
        }
    }
}

/// Takes out lists with nothing in them.
fn unlist(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| name != key || value.as_array().is_none_or(|list| !list.is_empty()));
            map.values_mut().for_each(|value| unlist(value, key));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| unlist(item, key)),
        _ => {}
    }
}

fn common(want: &mut Value, got: &mut Value, list: &str, name: &str) {
    let names = |value: &Value| -> Vec<String> {
        value[list].as_array().into_iter().flatten().map(|item| item[name].to_string()).collect()
    };
    let (wanted, found) = (names(want), names(got));
    for (value, other) in [(want, found), (got, wanted)] {
        if let Some(items) = value.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| other.contains(&item[name].to_string()));
            items.sort_by_key(|item| item[name].to_string());
        }
    }
}

impl Names {
    /// A text of a request with the values that the server chose.
    fn fill(&self, text: &str) -> String {
        let name = Regex::new(r"<([a-zA-Z]+\d+)>").expect("a pattern");
        let times = Regex::new(r"^<(\d+) times (.)>$").expect("a pattern");
        if let Some(found) = times.captures(text) {
            return found[2].repeat(found[1].parse().expect("a number"));
        }
        let filled = name.replace_all(text, |found: &regex::Captures<'_>| match self.0.get(&found[1]) {
            Some(value) => value.clone(),
            // A token of a version long gone, as the note of the case describes it.
            None if found[1].starts_with("continue") => {
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJjMVx1MDAwMCJ9".to_owned()
            }
            None => found[0].to_owned(),
        });
        filled.replace("<time>", NOW)
    }

    fn fill_all(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.fill(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill_all(item)),
            Value::Object(map) => {
                let pointed = map.get("path").is_some_and(|p| p == "/metadata/resourceVersion");
                // Recorded without a name: the version that an earlier answer carried.
                if pointed && map["value"].as_str().is_some_and(|v| v.parse::<u64>().is_ok()) {
                    map["value"] = json!(self.0.get("rv1").cloned().unwrap_or_default());
                }
                map.values_mut().for_each(|value| self.fill_all(value));
            }
            _ => {}
        }
    }

    fn same(&mut self, want: &Value, got: &Value, path: &str) -> Result<(), String> {
        match (want, got) {
            (Value::Object(a), Value::Object(b)) => {
                let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
                for key in keys {
                    let path = format!("{path}/{key}");
                    match (a.get(key), b.get(key)) {
                        (Some(a), Some(b)) => self.same(a, b, &path)?,
                        (Some(a), None) => return Err(format!("{path} is missing, want {a}")),
                        (_, b) => return Err(format!("{path} is there: {}", b.unwrap_or(&Value::Null))),
                    }
                }
                Ok(())
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
                .iter()
                .zip(b)
                .enumerate()
                .try_for_each(|(at, (a, b))| self.same(a, b, &format!("{path}/{at}"))),
            (Value::String(a), Value::Number(_)) if a.starts_with('<') => {
                self.text(a, &got.to_string()).map_err(|why| format!("{path}: {why}"))
            }
            (Value::String(a), Value::String(b)) => self.text(a, b).map_err(|why| format!("{path}: {why}")),
            _ if diff::normal(want) == diff::normal(got) => Ok(()),
            _ => Err(format!("{path}: {got}, want {want}")),
        }
    }

    fn text(&mut self, want: &str, got: &str) -> Result<(), String> {
        if want == got {
            return Ok(());
        }
        let name = Regex::new(r"<([a-zA-Z]+)(\d*)>").expect("a pattern");
        let (mut pattern, mut fresh, mut end) = ("^".to_owned(), Vec::new(), 0);
        for found in name.captures_iter(want) {
            let whole = found.get(0).expect("the match");
            pattern.push_str(&literal(&want[end..whole.start()]));
            end = whole.end();
            let full = format!("{}{}", &found[1], &found[2]);
            match (&found[1], self.0.get(&full)) {
                ("time", _) => pattern.push_str(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
                ("pem", _) => pattern.push_str("(?s:.+)"),
                ("rv", _) if found[2].is_empty() => pattern.push_str(r"\d+"),
                (_, Some(value)) => pattern.push_str(&regex::escape(value)),
                _ => {
                    pattern.push_str("(.+)");
                    fresh.push(full);
                }
            }
        }
        pattern.push_str(&literal(&want[end..]));
        pattern.push('$');
        let found = Regex::new(&pattern)
            .expect("a pattern")
            .captures(got)
            .ok_or_else(|| format!("{got:?}, want {want:?} with {:?}", self.0))?;
        for (at, name) in fresh.into_iter().enumerate() {
            let value = found[at + 1].to_owned();
            let class = name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
            let other = self.0.iter().find(|(known, v)| {
                **v == value && known.trim_end_matches(|c: char| c.is_ascii_digit()) == class
            });
            if let Some((other, _)) = other {
                return Err(format!("{name} is {value}, as is {other}"));
            }
            self.0.insert(name, value);
        }
        Ok(())
    }
}

/// A literal part of a text; versions in parentheses were recorded without names.
fn literal(text: &str) -> String {
    let number = Regex::new(r"\\\(\d+\\\)").expect("a pattern");
    number.replace_all(&regex::escape(text), r"\(\d+\)").into_owned()
}
