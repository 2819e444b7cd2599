//! A request to an API server, which can be sent again.
//!
//! Every request can be repeated when its answer is lost. Reads and applies have the same effect however often they are
//! sent. Patches and deletions name the version that they are about, so that the second one is refused where the first
//! one was carried out, and the cluster is read again.

use bytes::Bytes;
use http::{Method, Request, header};
use kube::client::Body;
use serde_json::{Value, json};

use super::Error;
use super::path::ApiPath;
use federate_kubernetes::sops::must_not_be_sent;

/// A request that can be sent again.
#[derive(Clone, Debug)]
pub(super) struct RepeatableRequest {
    method: Method,
    path: ApiPath,
    content_type: &'static str,
    body: Bytes,
    /// Whether the request or its answer holds values of a Secret, or what SOPS encrypted, which no message may quote.
    pub(super) secret: bool,
    /// Whether the body holds ciphertext, which is never sent.
    pub(super) holds_ciphertext: bool,
    /// Whether the server may serve the resource in a moment.
    pub(super) until_served: bool,
    /// Whether it is a dry run.
    dry_run: bool,
    /// The media type that is asked for.
    accept: &'static str,
    /// The most bytes that the answer may have.
    pub(super) max_bytes: usize,
}

/// The most bytes of an answer, which becomes a value that takes several times as much memory.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// The most bytes of a page of a list, whose items stay text.
pub(super) const MAX_PAGE_BYTES: usize = 128 << 20;

/// Whole objects.
const JSON: &str = "application/json";
/// The metadata of the objects of a list.
pub(super) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The metadata of the objects of a watch.
pub(super) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

impl RepeatableRequest {
    pub(super) fn new(method: Method, path: ApiPath) -> Self {
        let secret = path.is_secret();
        Self {
            method,
            path,
            content_type: "",
            body: Bytes::new(),
            secret,
            holds_ciphertext: false,
            until_served: false,
            dry_run: false,
            accept: JSON,
            max_bytes: MAX_ANSWER_BYTES,
        }
    }

    pub(super) fn get(path: ApiPath) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn with_query(mut self, key: &str, value: &str) -> Self {
        self.path = self.path.with_query(key, value);
        self
    }

    pub(super) fn with_body(mut self, content_type: &'static str, body: &Value) -> Self {
        self.content_type = content_type;
        self.holds_ciphertext = must_not_be_sent(body, self.secret) && !self.path.leads_to("sopssecrets");
        self.body = body.to_string().into();
        self
    }

    /// The same, whose answer no message may quote, if that is so.
    pub(super) fn with_hidden_answer(mut self, is_hidden: bool) -> Self {
        self.secret |= is_hidden;
        self
    }

    /// Makes it a dry run. All dry runs are made here. The API server ignores the query of a deletion that has a
    /// body, so that the body needs `dryRun`, too.
    pub(super) fn with_dry_run(mut self) -> Self {
        if self.dry_run {
            return self;
        }
        if self.method == Method::DELETE
            && let Ok(Value::Object(mut options)) = serde_json::from_slice(&self.body)
        {
            options.insert("dryRun".to_owned(), json!(["All"]));
            self.body = Value::Object(options).to_string().into();
        }
        self.dry_run = true;
        self.with_query("dryRun", "All")
    }

    /// Whether it can change anything in the cluster.
    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET && !self.dry_run
    }

    /// Makes it repeat where the resource is not served yet, because it was defined a moment ago.
    pub(super) fn until_served(mut self) -> Self {
        self.until_served = true;
        self
    }

    /// The same, with objects in the form of a media type.
    pub(super) fn with_accept(mut self, media_type: &'static str) -> Self {
        self.accept = media_type;
        self
    }

    /// The same, with an answer that is a page of a list.
    pub(super) fn with_page_limit(mut self) -> Self {
        self.max_bytes = MAX_PAGE_BYTES;
        self
    }

    /// As an HTTP request.
    pub(super) fn to_request(&self) -> Result<Request<Body>, Error> {
        self.build_head()?.body(Body::from(self.body.clone())).map_err(|e| Error::Unreachable(e.to_string()))
    }

    fn build_head(&self) -> Result<http::request::Builder, Error> {
        let mut request = Request::builder().method(&self.method).uri(self.path.to_uri()?);
        request = request.header(header::ACCEPT, self.accept);
        request = request.header(header::USER_AGENT, concat!("federate/", env!("CARGO_PKG_VERSION")));
        if !self.content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, self.content_type);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> ApiPath {
        ApiPath::from_version("v1").in_namespace("a")
    }

    #[test]
    fn a_dry_run_is_one_in_query_and_body() {
        let options = json!({"kind": "DeleteOptions", "preconditions": {"uid": "1"}});
        let call = RepeatableRequest::new(Method::DELETE, namespace())
            .with_body("application/json", &options)
            .with_dry_run();
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        assert_eq!(body, json!({"kind": "DeleteOptions", "preconditions": {"uid": "1"}, "dryRun": ["All"]}));
        assert_eq!(call.path.to_uri().unwrap(), "/api/v1/namespaces/a?dryRun=All");
        assert!(!call.is_write());
        assert!(RepeatableRequest::new(Method::PATCH, namespace()).is_write());
        assert!(!RepeatableRequest::get(namespace()).is_write());
    }

    #[test]
    fn requests_about_secrets_are_known() {
        assert!(RepeatableRequest::get(namespace().join("secrets").join("s")).secret);
        assert!(!RepeatableRequest::get(namespace().join("configmaps").join("secrets.s")).secret);
    }
}
