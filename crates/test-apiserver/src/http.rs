//! Requests and responses, without sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use federate_apiserver::Failure;
use serde_json::{Value, json};

use super::watch::Watch;

/// How a request is authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// A client certificate of the administrator.
    #[default]
    Certificate,
    Token(String),
    None,
}

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub credentials: Credentials,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub fn query(mut self, key: &str, value: &str) -> Self {
        self.query.push((key.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn header(mut self, key: &str, value: &str) -> Self {
        self.headers.insert(key.to_lowercase(), value.to_owned());
        self
    }

    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    pub fn param(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A parameter that is not empty.
    pub fn filled(&self, key: &str) -> Option<&str> {
        self.param(key).filter(|value| !value.is_empty())
    }

    pub fn flag(&self, key: &str) -> bool {
        matches!(self.param(key), Some("true" | "1" | ""))
    }

    /// The path with the query.
    pub fn target(&self) -> String {
        let pairs = self.query.iter().map(|(key, value)| format!("{key}={value}"));
        format!("{}?{}", self.path, pairs.collect::<Vec<_>>().join("&"))
    }

    /// The content type without its parameters.
    pub fn content_type(&self) -> &str {
        let all = self.headers.get("content-type").map_or("", String::as_str);
        all.split(';').next().unwrap_or_default().trim()
    }

    pub fn accept(&self) -> &str {
        self.headers.get("accept").map_or("", String::as_str)
    }

    /// Whether it is a dry run. A deletion that has a body is one only if the body says so.
    pub fn dry_run(&self) -> bool {
        if self.method == "DELETE" && !self.body.is_empty() {
            let options: Value = serde_json::from_slice(&self.body).unwrap_or_default();
            return options["dryRun"].as_array().is_some_and(|values| values.contains(&json!("All")));
        }
        self.filled("dryRun").is_some()
    }
}

#[derive(Debug)]
pub enum Body {
    Json(Arc<Value>),
    Text(String),
    Watch(Box<Watch>),
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Body,
}

impl Response {
    pub fn json(status: u16, body: impl Into<Arc<Value>>) -> Self {
        Self { status, headers: Vec::new(), body: Body::Json(body.into()) }
    }

    pub fn text(status: u16, body: &str) -> Self {
        let headers = vec![("Content-Type".to_owned(), "text/plain; charset=utf-8".to_owned())];
        Self { status, headers, body: Body::Text(body.to_owned()) }
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.headers.push((key.to_owned(), value.to_owned()));
        self
    }

    /// No such path.
    pub fn nowhere() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// The object in the response.
    pub fn object(&self) -> &Value {
        match &self.body {
            Body::Json(value) => value,
            other => panic!("no object: {other:?}"),
        }
    }
}

impl From<Failure> for Response {
    fn from(failure: Failure) -> Self {
        let wait = failure.details.get("retryAfterSeconds").map(Value::to_string);
        let response = Self::json(failure.code, failure.status());
        match wait {
            Some(wait) => response.with("Retry-After", &wait),
            None => response,
        }
    }
}
