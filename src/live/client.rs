//! Requests to one API server: a bounded number at a time, each with its own time limit, and again where
//! the server is busy or the connection breaks.
//!
//! Facts: the API machinery answers 429 and 503 with `Retry-After`; an answer need not be an object
//! `Status`, nor JSON. A patch that does not fit the schema is answered with 500, though it is the
//! user's mistake.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::Error;

/// How often a request is sent until it is given up.
const ATTEMPTS: u32 = 5;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// The wait before the second attempt where the server names none; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// The longest wait, whatever the server asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How many requests are under way to a cluster at a time.
const AT_ONCE: usize = 8;

/// An API server.
#[derive(Clone)]
pub(super) struct Client {
    inner: kube::Client,
    slots: Arc<Semaphore>,
}

/// A request that can be sent again.
#[derive(Clone, Debug)]
pub(super) struct Call {
    method: Method,
    path: String,
    query: String,
    content_type: &'static str,
    body: Vec<u8>,
    /// Whether what is sent or answered must not be repeated to anybody.
    secret: bool,
    /// Whether the resource may become known to the server in a moment.
    awaited: bool,
}

/// A refusal of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// One word; empty where the server gives none.
    pub reason: String,
    /// What went wrong; without values where they could be secrets.
    pub message: String,
}

impl Refusal {
    /// Whether there is no such object or resource.
    pub(super) fn is_absent(&self) -> bool {
        self.code == 404
    }

    /// Whether somebody else was faster.
    pub(super) fn is_conflict(&self) -> bool {
        self.code == 409
    }
}

impl Call {
    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        let secret = path.split('/').any(|part| part == "secrets");
        Self {
            method,
            path,
            query: String::new(),
            content_type: "",
            body: Vec::new(),
            secret,
            awaited: false,
        }
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn query(mut self, key: &str, value: &str) -> Self {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        self.query.push(separator);
        self.query.push_str(key);
        self.query.push('=');
        self.query.push_str(&encoded(value));
        self
    }

    pub(super) fn body(mut self, content_type: &'static str, body: &Value) -> Self {
        self.content_type = content_type;
        self.body = body.to_string().into_bytes();
        self
    }

    /// The same, patient with a resource that was defined a moment ago.
    pub(super) fn awaited(mut self) -> Self {
        self.awaited = true;
        self
    }

    fn request(&self) -> Result<Request<Body>, Error> {
        let mut request = Request::builder().method(&self.method).uri(format!("{}{}", self.path, self.query));
        request = request.header(header::ACCEPT, "application/json");
        request = request.header(header::USER_AGENT, concat!("federate/", env!("CARGO_PKG_VERSION")));
        if !self.content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, self.content_type);
        }
        request.body(Body::from(self.body.clone())).map_err(|e| Error::Unreachable(e.to_string()))
    }
}

/// Text as it stands in a part of a URL.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(letter).collect()
}

/// What came of an attempt that may be repeated.
struct Again {
    error: Error,
    /// How long the server asks to wait.
    wait: Option<Duration>,
}

impl Client {
    pub(super) fn new(inner: kube::Client) -> Self {
        Self { inner, slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The namespace that the kubeconfig's context names, or `default`.
    pub(super) fn namespace(&self) -> &str {
        self.inner.default_namespace()
    }

    /// The answer of the server; refusals are errors.
    pub(super) async fn send(&self, call: &Call) -> Result<Value, Error> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        loop {
            match self.attempt(call).await? {
                Ok(answer) => return Ok(answer),
                Err(again) if attempt == ATTEMPTS => return Err(again.error.after(ATTEMPTS)),
                Err(again) => {
                    sleep(again.wait.unwrap_or(wait).min(LONGEST_WAIT)).await;
                    wait *= 2;
                    attempt += 1;
                }
            }
        }
    }

    /// The same, with `None` where there is nothing of that name.
    pub(super) async fn find(&self, call: &Call) -> Result<Option<Value>, Error> {
        match self.send(call).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Refused(refusal)) if refusal.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Result<Value, Again>, Error> {
        // Nobody closes the semaphore.
        let _slot = self.slots.acquire().await.map_err(|e| Error::Unreachable(e.to_string()))?;
        let request = call.request()?;
        let exchange = async {
            let response = self.inner.send(request).await.map_err(|e| fault(&e))?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.map_err(|e| Fault::Broken(chain(&e)))?.to_bytes();
            Ok::<_, Fault>((parts, bytes))
        };
        let (parts, bytes) = match timeout(ANSWER, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Fault::Lasting(why))) => return Err(Error::Access(why)),
            Ok(Err(Fault::Broken(why))) => {
                return Ok(Err(Again { error: Error::Unreachable(why), wait: None }));
            }
            Err(_) => {
                let error = Error::Unreachable(format!("no answer within {} s", ANSWER.as_secs()));
                return Ok(Err(Again { error, wait: None }));
            }
        };
        if parts.status.is_success() {
            return match serde_json::from_slice(&bytes) {
                Ok(answer) => Ok(Ok(answer)),
                Err(_) => Err(Error::Unreachable("the answer is no JSON: is this an API server?".to_owned())),
            };
        }
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let error = Error::Refused(refusal(parts.status, &status, &bytes, call.secret));
        if !repeatable(parts.status, &status, call) {
            return Err(error);
        }
        let asked = parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = asked.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        Ok(Err(Again { error, wait }))
    }
}

fn repeatable(code: StatusCode, status: &Value, call: &Call) -> bool {
    match code.as_u16() {
        429 | 503 | 504 => true,
        404 => call.awaited && status.pointer("/details/name").is_none(),
        _ => false,
    }
}

fn refusal(code: StatusCode, status: &Value, body: &[u8], secret: bool) -> Refusal {
    let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = match (secret && code.as_u16() != 403 && code.as_u16() != 404, text("message")) {
        (true, _) => withheld(status),
        (false, "") => String::from_utf8_lossy(body).trim().chars().take(300).collect(),
        (false, message) => message.to_owned(),
    };
    let message = if message.is_empty() { format!("HTTP {code}") } else { message };
    Refusal { code: code.as_u16(), reason: text("reason").to_owned(), message }
}

/// Which fields are wrong, without their values: servers repeat those.
fn withheld(status: &Value) -> String {
    let causes = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    let fields: Vec<&str> = causes.filter_map(|cause| cause.get("field")?.as_str()).collect();
    let reason = status.get("reason").and_then(Value::as_str).unwrap_or("refused");
    if fields.is_empty() {
        return format!("{reason} (the server's words may hold values of the Secret and are not shown)");
    }
    format!("{reason} at {} (values are not shown)", fields.join(", "))
}

/// Why there is no answer.
enum Fault {
    /// It may go better the next time.
    Broken(String),
    /// It will not.
    Lasting(String),
}

fn fault(error: &kube::Error) -> Fault {
    match error {
        kube::Error::Auth(error) => Fault::Lasting(credentials(error)),
        // What middlewares answer: credentials that cannot be had, too.
        kube::Error::Service(error) => match error.downcast_ref::<kube::client::AuthError>() {
            Some(error) => Fault::Lasting(credentials(error)),
            None => told(chain(error.as_ref())),
        },
        error => told(chain(error)),
    }
}

/// A certificate that is not trusted stays so.
fn told(why: String) -> Fault {
    if why.contains("invalid peer certificate") { Fault::Lasting(why) } else { Fault::Broken(why) }
}

/// What a command for credentials printed may be credentials, and is not repeated.
pub(super) fn credentials(error: &kube::client::AuthError) -> String {
    match error {
        kube::client::AuthError::AuthExecRun { cmd, out } => {
            format!("the command `{cmd}`, which is to give credentials, failed ({})", out.status)
        }
        kube::client::AuthError::AuthExecStart(error) => {
            format!("the command that is to give credentials does not start: {error}")
        }
        _ => "the kubeconfig's credentials cannot be used".to_owned(),
    }
}

/// An error with its causes, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_busy_servers_are_asked_again() {
        let again = |code: u16, status: Value, call: &Call| {
            repeatable(StatusCode::from_u16(code).unwrap(), &status, call)
        };
        let call = Call::get("/api/v1/namespaces/a/configmaps/b");
        for (code, expected) in
            [(429, true), (503, true), (504, true), (500, false), (409, false), (404, false)]
        {
            assert_eq!(again(code, Value::Null, &call), expected, "{code}");
        }
        let awaited = call.awaited();
        assert!(again(404, Value::Null, &awaited), "a kind that is not served yet");
        assert!(!again(404, json!({"details": {"name": "shop"}}), &awaited), "a namespace that is not there");
    }

    #[test]
    fn what_a_server_says_of_a_secret_is_not_repeated() {
        let status = json!({
            "reason": "Invalid", "message": "Secret \"s\" is invalid: data[k]: Invalid value: \"hunter2\"",
            "details": {"causes": [{"field": "data[k]", "message": "Invalid value: \"hunter2\""}]},
        });
        let told = |path: &str| {
            let call = Call::get(path);
            refusal(StatusCode::UNPROCESSABLE_ENTITY, &status, b"", call.secret).message
        };
        assert_eq!(told("/api/v1/namespaces/a/secrets/s"), "Invalid at data[k] (values are not shown)");
        assert!(told("/api/v1/namespaces/a/configmaps/s").contains("hunter2"));
    }

    #[test]
    fn parts_of_urls_are_encoded() {
        let call = Call::get("/api/v1/configmaps").query("labelSelector", "a/b=c").query("limit", "500");
        assert_eq!(call.query, "?labelSelector=a%2Fb%3Dc&limit=500");
    }
}
