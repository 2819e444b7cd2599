//! Recorded exchanges with a real API server, replayed step by step against the one of the tests.
//!
//! Values that the server chose are named in the cases (`<rv1>`, `<uid1>`): the same name is the same
//! value, other names are other values. `<time>` is any time, `<rv>` any number.

use std::path::Path;

use federate_apiserver_model::ResourceKind;
use serde_json::{Value, json};

use crate::diff;
use federate_test_apiserver::{
    ApiRequest, ApiUser, Body, ClientCredentials, FaultKind, InjectedFault, Response, TestCluster,
};

mod names;

use names::Names;

const NOW: &str = "2026-01-01T00:00:00Z";

pub(crate) fn verify(case: &Value) -> Result<(), String> {
    let mut cluster = prepared(case);
    let mut names = Names::default();
    names.busy = cluster.keeps_namespaces();
    let note = case["note"].as_str().unwrap_or_default();
    for (place, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
        let request = request(&step["request"], &mut names);
        // How long was waited between steps is not recorded; an answer other than 404 shows that it was.
        if cluster.has_pending_definitions() && step["response"]["status"] != json!(404) {
            cluster.get("/version");
        }
        let response = cluster.handle_request(&request);
        compare(&step["response"], response, &cluster, &mut names, note)
            .map_err(|why| format!("step {place}: {} {}\n{why}", request.method, request.path))?;
    }
    match path_of(case) {
        Some(path) if !case["live"].is_null() => {
            complete(&case["live"])?;
            let live = cluster.get(&path).ok_or_else(|| format!("live: {path} is gone"))?;
            alike(&case["live"], live, &mut names, note).map_err(|why| format!("live: {path}\n{why}"))
        }
        _ => Ok(()),
    }
}

/// The cluster as it was before the first step.
fn prepared(case: &Value) -> TestCluster {
    let mut cluster = TestCluster::new("member-1").with_clock(NOW);
    if case["note"].as_str().is_some_and(|note| note.contains("kube-controller-manager runs")) {
        cluster = cluster.with_controllers();
    }
    cluster.add_token("viewer", ApiUser::new("viewer", &["", "system:authenticated"]));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/apiserver");
    let definition = std::fs::read_to_string(folder.join("widget.json")).expect("the definition of widgets");
    let definition = serde_json::from_str(&definition).expect("JSON");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.conf.example.com";
    cluster.apply_object(path, "setup", &definition);
    cluster.get("/version");
    if let Some(namespace) = case["namespace"].as_str() {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let request = ApiRequest::new("POST", "/api/v1/namespaces")
            .with_header("user-agent", "federate/test")
            .with_body("application/json", body.to_string());
        cluster.handle_request(&request);
        if cluster.get("/version").is_some() && cluster.keeps_namespaces() {
            // A cluster in which something goes on.
            cluster.create_object(
                "/api/v1/namespaces/default/configmaps",
                &json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"},
                }),
            );
        }
        if case["note"].as_str().is_some_and(|note| note.contains("five ConfigMaps c0..c4")) {
            five(&mut cluster, namespace);
        }
    }
    let covers = case["covers"].as_array().into_iter().flatten();
    if covers.clone().any(|c| c == "expired") {
        cluster.compact_history();
    }
    if case["note"].as_str().is_some_and(|note| note.contains("limit of requests in flight")) {
        cluster.add_fault(InjectedFault::new("list", FaultKind::TooMany { seconds: 1 }));
    }
    cluster
}

fn five(cluster: &mut TestCluster, namespace: &str) {
    for i in 0..5 {
        let mut labels = json!({"i": i.to_string(), "even": (i % 2 == 0).to_string()});
        if i == 3 {
            labels["x"] = json!("y");
        }
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{i}"), "labels": labels},
            "data": {"k": "v"},
        });
        cluster.create_object(&format!("/api/v1/namespaces/{namespace}/configmaps"), &body);
    }
}

fn request(step: &Value, names: &mut Names) -> ApiRequest {
    let text = |key: &str| step[key].as_str().unwrap_or_default();
    let mut request =
        ApiRequest::new(text("method"), &names.fill(text("path"))).with_header("user-agent", "federate/test");
    for (key, value) in step["query"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        request = request.with_query(key, &names.fill(&value));
    }
    for (key, value) in step["headers"].as_object().into_iter().flatten() {
        request = request.with_header(key, value.as_str().unwrap_or_default());
    }
    let content_type = step["contentType"].as_str().unwrap_or_default();
    if let Some(raw) = step["rawBody"].as_str() {
        request = request.with_body(content_type, names.fill(raw));
    } else if !step["body"].is_null() {
        let mut body = step["body"].clone();
        names.fill_all(&mut body);
        request = request.with_body(content_type, body.to_string());
    }
    request.credentials = match step["auth"].as_str() {
        None => ClientCredentials::Certificate,
        Some("none") => ClientCredentials::None,
        Some(token) => ClientCredentials::Token(token.to_owned()),
    };
    request
}

/// What a server wrote is in its form and has every default: completing it changes nothing.
fn complete(live: &Value) -> Result<(), String> {
    let text = |key: &str| live[key].as_str().unwrap_or_default();
    let Some(kind) = ResourceKind::find_builtin(text("apiVersion"), text("kind")) else { return Ok(()) };
    diff::compare(live, &federate_apiserver_model::complete_object(kind, live.clone()))
        .map_err(|why| format!("completed:\n{why}"))
}

/// The path of the case's object.
fn path_of(case: &Value) -> Option<String> {
    let (mut resource, live) = (case["resource"].clone(), &case["live"]["metadata"]);
    let name = |key: &str| case["live"][key].as_str().unwrap_or_default();
    if let Some(kind) = ResourceKind::find_builtin(name("apiVersion"), name("kind")) {
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
    cluster: &TestCluster,
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
        Body::Json(value) => Value::clone(&value),
        Body::Text(text) => Value::String(text),
        Body::Watch(mut watch) => Value::Array(watch.take_events(cluster)),
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
    if want["kind"] == "Table" {
        // Descriptions are prose, and the objects of the rows were not recorded.
        for key in ["description", "object"] {
            strip(&mut want, key);
            strip(&mut got, key);
        }
    }
    let cut = want.get("...").is_some() || note.contains("cut to four paths");
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
    if want["kind"] == "ReplicaSetList" {
        for value in [&mut want, &mut got] {
            let items = value["items"].as_array_mut().into_iter().flatten();
            let revision = |item: &Value| item["metadata"]["annotations"].to_string();
            let mut items: Vec<Value> = items.map(Value::take).collect();
            items.sort_by_key(revision);
            value["items"] = Value::Array(items);
        }
        let pairs = want["items"]
            .as_array()
            .into_iter()
            .flatten()
            .zip(got["items"].as_array_mut().into_iter().flatten());
        for (want, got) in pairs {
            narrow(want, got);
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
        || message.starts_with(" \"\" is invalid: patch: Invalid value: \"{")
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
            common(want, got, "versions", "version");
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
