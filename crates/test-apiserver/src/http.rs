//! Requests and responses, without sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use federate_apiserver_model::ApiError;
use serde_json::{Value, json};

use super::watch::Watch;

/// How a request is authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCredentials {
    /// A client certificate of the administrator.
    #[default]
    Certificate,
    Token(String),
    None,
}

#[derive(Clone, Debug, Default)]
pub struct ApiRequest {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub credentials: ClientCredentials,
}

impl ApiRequest {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub fn with_query(mut self, key: &str, value: &str) -> Self {
        self.query.push((key.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn with_header(mut self, key: &str, value: &str) -> Self {
        self.headers.insert(key.to_lowercase(), value.to_owned());
        self
    }

    #[must_use]
    pub fn with_body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.with_header("content-type", content_type)
    }

    pub fn query_param(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A parameter that is not empty.
    pub fn non_empty_param(&self, key: &str) -> Option<&str> {
        self.query_param(key).filter(|value| !value.is_empty())
    }

    pub fn is_flag_set(&self, key: &str) -> bool {
        matches!(self.query_param(key), Some("true" | "1" | ""))
    }

    /// The path with the query.
    pub fn path_and_query(&self) -> String {
        let pairs = self.query.iter().map(|(key, value)| format!("{key}={value}"));
        format!("{}?{}", self.path, pairs.collect::<Vec<_>>().join("&"))
    }

    /// The content type without its parameters.
    pub fn content_type(&self) -> &str {
        let all = self.headers.get("content-type").map_or("", String::as_str);
        all.split(';').next().unwrap_or_default().trim()
    }

    pub fn accept_header(&self) -> &str {
        self.headers.get("accept").map_or("", String::as_str)
    }

    /// Whether it is a dry run. A deletion that has a body is one only if the body says so.
    pub fn is_dry_run(&self) -> bool {
        if self.method == "DELETE" && !self.body.is_empty() {
            let options: Value = serde_json::from_slice(&self.body).unwrap_or_default();
            return options["dryRun"].as_array().is_some_and(|values| values.contains(&json!("All")));
        }
        self.non_empty_param("dryRun").is_some()
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
    pub fn from_json(status: u16, body: impl Into<Arc<Value>>) -> Self {
        Self { status, headers: Vec::new(), body: Body::Json(body.into()) }
    }

    pub fn from_text(status: u16, body: &str) -> Self {
        let headers = vec![("Content-Type".to_owned(), "text/plain; charset=utf-8".to_owned())];
        Self { status, headers, body: Body::Text(body.to_owned()) }
    }

    #[must_use]
    pub fn with_header(mut self, key: &str, value: &str) -> Self {
        self.headers.push((key.to_owned(), value.to_owned()));
        self
    }

    /// No such path.
    pub fn not_found() -> Self {
        Self::from_text(404, "404 page not found\n")
    }

    /// The object in the response; null if there is none.
    pub fn json_body(&self) -> &Value {
        match &self.body {
            Body::Json(value) => value,
            Body::Text(_) | Body::Watch(_) => &Value::Null,
        }
    }
}

impl From<ApiError> for Response {
    fn from(failure: ApiError) -> Self {
        let wait = failure.details.get("retryAfterSeconds").map(Value::to_string);
        let response = Self::from_json(failure.code, failure.to_status());
        match wait {
            Some(wait) => response.with_header("Retry-After", &wait),
            None => response,
        }
    }
}
