//! Requests to one API server: a bounded number at a time, each with its own time limits, and repeated where the
//! server is busy, the connection breaks, or the credentials have expired.
//!
//! Facts: the API machinery answers 429 and 503 with `Retry-After`; an answer need not be an object
//! `Status`, nor JSON. A patch that does not fit the schema is answered with 500, though it is the
//! user's mistake. A token that has expired is answered with 401.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::core::WatchEvent;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Error;
use super::answer::{RequestError, StatusError};
use super::counts::{AnswerCounts, ServerRole};
use super::request::RepeatableRequest;

/// Whether something newer is to be done than to wait for what was applied: another revision, a request, or the end of the
/// process.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// Whether this process may still write to clusters: another one may lead by now.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

/// The size of an event of a watch; what is watched is metadata.
const MAX_EVENT_BYTES: usize = 8 << 20;
/// The number of times that a request is sent.
const MAX_ATTEMPTS: u32 = 5;
/// The number of times where the server asks to repeat the request later.
const MAX_ATTEMPTS_IF_BUSY: u32 = 10;
/// The time limit for a request with all its repetitions and pauses.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(2);
/// How long an answer may take to begin.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server that is expected to answer may be silent after its first answer.
const MAX_SILENCE: Duration = Duration::from_secs(30);
/// The pause between two looks at whether it is silent.
const SILENCE_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long it may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// The pause before the second attempt where the server names none; it doubles.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause, whatever the server asks for.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The number of requests to a cluster at a time.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Makes clients for an API server.
pub(super) trait ClientFactory: Send + Sync {
    /// Makes a client with the current credentials.
    fn make_client(&self) -> Pin<Box<dyn Future<Output = Result<kube::Client, Error>> + Send + '_>>;
}

/// An API server.
#[derive(Clone)]
pub(super) struct Client {
    server: Arc<Server>,
    /// Whether every request that would write is sent as a dry run.
    dry_run: bool,
    /// What is checked before each write.
    fence: Option<Fence>,
    /// How long the server may take to answer for the first time, with all attempts; it also limits how long it may be silent
    /// later.
    first_answer: Option<Duration>,
    /// Whether something newer is to be done than to wait for a server that has stopped answering.
    interrupt: Option<Interrupt>,
    /// Counts the answers.
    answers: Option<(Arc<AnswerCounts>, ServerRole)>,
}

struct Server {
    factory: Box<dyn ClientFactory>,
    /// The current client, and how often it was renewed.
    inner: Mutex<(kube::Client, u32)>,
    renewing: tokio::sync::Mutex<()>,
    request_slots: Semaphore,
    /// The time until which the server refuses further requests.
    quiet: Mutex<Instant>,
    /// The slots of clusters that are worked on at the same time, and the slot of this one, if it has one.
    cluster_slots: Arc<Semaphore>,
    cluster_slot: tokio::sync::Mutex<Option<OwnedSemaphorePermit>>,
    /// When it has answered last.
    answered: Mutex<Option<Instant>>,
    /// Whether it has a slot.
    has_slot: watch::Sender<bool>,
}

/// Why an attempt failed.
enum AttemptError {
    /// Another attempt would fail as well.
    Permanent(Error),
    /// Another attempt may succeed.
    Retryable(Error),
    /// The server asks to repeat the request later.
    RetryAfter(Error, Duration),
    /// The server does not accept the credentials.
    Unauthorized(Error),
}

impl Client {
    /// Connects. A cluster takes one of the `cluster_slots` when it answers, and keeps it while it answers, until it is released:
    /// clusters that cannot be reached, hang or are only waited for do not delay others.
    pub(super) async fn new(
        factory: impl ClientFactory + 'static,
        cluster_slots: Arc<Semaphore>,
    ) -> Result<Self, Error> {
        let inner = factory.make_client().await?;
        let server = Arc::new(Server {
            factory: Box::new(factory),
            inner: Mutex::new((inner, 0)),
            renewing: tokio::sync::Mutex::new(()),
            request_slots: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            quiet: Mutex::new(Instant::now()),
            cluster_slots,
            cluster_slot: tokio::sync::Mutex::default(),
            answered: Mutex::new(None),
            has_slot: watch::Sender::new(false),
        });
        Ok(Self { server, dry_run: false, fence: None, answers: None, first_answer: None, interrupt: None })
    }

    /// The same server, which is given up if it does not answer anything for this long, or is silent for longer later.
    pub(super) fn with_first_answer(self, first_answer: Option<Duration>) -> Self {
        Self { first_answer, ..self }
    }

    /// The same server, whose silence is not waited for when something newer is to be done.
    pub(super) fn with_interrupt(self, interrupt: Option<&Interrupt>) -> Self {
        Self { interrupt: interrupt.cloned(), ..self }
    }

    /// The same server, with every request that would write sent as a dry run.
    pub(super) fn with_dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// The same server, with answers that are counted.
    pub(super) fn with_answer_counts(self, answers: Option<Arc<AnswerCounts>>, server: ServerRole) -> Self {
        Self { answers: answers.map(|answers| (answers, server)), ..self }
    }

    /// The same server, with a check before each write.
    pub(super) fn with_fence(self, fence: Option<&Fence>) -> Self {
        Self { fence: fence.cloned(), ..self }
    }

    /// The namespace that the kubeconfig's context names, or `default`.
    pub(super) fn default_namespace(&self) -> String {
        self.current_client().0.default_namespace().to_owned()
    }

    /// Sends a request and returns the answer. Refusals are errors.
    pub(super) async fn request_json(&self, call: &RepeatableRequest) -> Result<Value, Error> {
        let answer = self.request_bytes(call).await?;
        // `parse` is compiled once, in the crate that reads JSON.
        str::from_utf8(&answer).ok().and_then(|text| text.parse().ok()).ok_or_else(not_json)
    }

    /// Sends a request and returns the answer as it is.
    pub(super) async fn request_bytes(&self, call: &RepeatableRequest) -> Result<Bytes, Error> {
        let sent = Mutex::new(None);
        let Some(first_answer) = self.first_answer else { return self.send_with_retries(call, &sent).await };
        let begun = Instant::now();
        let mut work = std::pin::pin!(self.send_with_retries(call, &sent));
        loop {
            if let Ok(answer) = timeout(SILENCE_POLL_INTERVAL.min(first_answer), &mut work).await {
                return answer;
            }
            let answered = *self.server.answered.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = *sent.lock().unwrap_or_else(PoisonError::into_inner);
            let (since, limit) = match (answered, sent) {
                (None, _) => (begun, first_answer),
                // It was slow, asks to be left alone for a while, or waits for its slot.
                (Some(_), None) => continue,
                (Some(answered), Some(sent)) if self.is_interrupted() => (answered.max(sent), first_answer),
                (Some(answered), Some(sent)) => (answered.max(sent), MAX_SILENCE),
            };
            if since.elapsed() >= first_answer {
                self.release_slot();
            }
            if since.elapsed() >= limit {
                return Err(Error::Unreachable(format!("no answer within {} s", limit.as_secs())));
            }
        }
    }

    /// Limits the time of some work with the cluster, which begins when it takes a slot of those that are worked on at the
    /// same time. Until then, each request has its own limits.
    pub(super) async fn limit_work_time<T>(
        &self,
        time: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut has_slot = self.server.has_slot.subscribe();
        let expired = async {
            // The sender is as old as the server.
            let _ = has_slot.wait_for(|has_slot| *has_slot).await;
            sleep(time).await;
        };
        tokio::select! {
            done = work => done,
            () = expired => Err(Error::timed_out(time)),
        }
    }

    /// Lets another cluster have the slot of this one, which takes one again with its next answer.
    pub(super) fn release_slot(&self) {
        // A request that holds the lock is about to take a slot.
        if let Ok(mut cluster_slot) = self.server.cluster_slot.try_lock() {
            *cluster_slot = None;
        }
    }

    /// Takes a slot, unless this cluster has one.
    async fn acquire_slot(&self) -> Result<(), AttemptError> {
        let mut cluster_slot = self.server.cluster_slot.lock().await;
        if cluster_slot.is_none() {
            *cluster_slot = Some(self.server.cluster_slots.clone().acquire_owned().await.map_err(closed)?);
        }
        self.server.has_slot.send_replace(true);
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|is_interrupted| is_interrupted())
    }

    /// Notes that the server answers.
    fn note_answer(&self) {
        *self.server.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Sends a request until it is answered. While an answer is missing, `sent` says since when.
    async fn send_with_retries(
        &self,
        call: &RepeatableRequest,
        sent: &Mutex<Option<Instant>>,
    ) -> Result<Bytes, Error> {
        if call.holds_ciphertext {
            return Err(Error::Ciphertext);
        }
        let dry = (self.dry_run && call.is_write()).then(|| call.clone().with_dry_run());
        let call = dry.as_ref().unwrap_or(call);
        let begun = Instant::now();
        let mut wait = FIRST_RETRY_PAUSE;
        let mut attempt = 1;
        let mut renewed = false;
        loop {
            let (client, age) = self.current_client();
            let (error, pause, most) = match self.attempt_request(&client, call, sent).await {
                Ok(answer) => return Ok(answer),
                Err(AttemptError::Permanent(error)) => return Err(error),
                Err(AttemptError::Unauthorized(error)) if renewed => return Err(error),
                Err(AttemptError::Unauthorized(_)) => {
                    renewed = true;
                    self.renew_client(age).await?;
                    continue;
                }
                Err(AttemptError::Retryable(error)) => (error, wait, MAX_ATTEMPTS),
                Err(AttemptError::RetryAfter(error, retry_after)) => {
                    (error, retry_after, MAX_ATTEMPTS_IF_BUSY)
                }
            };
            if attempt == most || begun.elapsed() + pause > REQUEST_TIMEOUT {
                return Err(error.with_attempts(attempt));
            }
            sleep(pause).await;
            wait *= 2;
            attempt += 1;
        }
    }

    /// Sends a request and returns the answer, or `None` where the object does not exist.
    pub(super) async fn request_optional(&self, call: &RepeatableRequest) -> Result<Option<Value>, Error> {
        match self.request_json(call).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Refused(refusal)) if refusal.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request once and returns the status and the text of the answer.
    pub(super) async fn request_text(&self, call: &RepeatableRequest) -> Result<(u16, String), Error> {
        match send_once(&self.current_client().0, call, || self.note_answer()).await {
            Ok((code, _, bytes)) => Ok((code.as_u16(), String::from_utf8_lossy(&bytes).into_owned())),
            Err(
                AttemptError::Permanent(error)
                | AttemptError::Retryable(error)
                | AttemptError::RetryAfter(error, _)
                | AttemptError::Unauthorized(error),
            ) => Err(error),
        }
    }

    /// Streams the answer of a watch.
    pub(super) async fn request_watch(&self, call: &RepeatableRequest) -> Result<WatchEvents, WatchFailure> {
        let request = call.to_request().map_err(|_| WatchFailure::default())?;
        let answer = self.current_client().0.send(request).await.map_err(|_| WatchFailure::default())?;
        if !answer.status().is_success() {
            return Err(WatchFailure { code: Some(answer.status().as_u16()) });
        }
        Ok(WatchEvents { body: answer.into_body(), text: BytesMut::new(), searched: 0 })
    }

    fn current_client(&self) -> (kube::Client, u32) {
        self.server.inner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Renews the credentials, unless another request has done so.
    async fn renew_client(&self, age: u32) -> Result<(), Error> {
        let _one = self.server.renewing.lock().await;
        if self.current_client().1 == age {
            let client = self.server.factory.make_client().await?;
            *self.server.inner.lock().unwrap_or_else(PoisonError::into_inner) = (client, age + 1);
        }
        Ok(())
    }

    async fn attempt_request(
        &self,
        client: &kube::Client,
        call: &RepeatableRequest,
        sent: &Mutex<Option<Instant>>,
    ) -> Result<Bytes, AttemptError> {
        let _slot = self.server.request_slots.acquire().await.map_err(closed)?;
        let quiet = *self.server.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        sleep_until(quiet).await;
        if self.fence.as_ref().is_some_and(|may_write| call.is_write() && !may_write()) {
            let why = "another process may lead by now: nothing more is written to the cluster";
            return Err(AttemptError::Permanent(Error::Access(why.to_owned())));
        }
        sent.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        let answer = send_once(client, call, || self.note_answer()).await;
        if let Some((answers, server)) = &self.answers {
            answers.count_answer(*server, answer.as_ref().ok().map(|(code, ..)| *code));
        }
        let (code, headers, bytes) = answer?;
        self.note_answer();
        *sent.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let refused = if code.is_success() { None } else { serde_json::from_slice(&bytes).ok() };
        let status: Value = refused.unwrap_or_default();
        if code != StatusCode::UNAUTHORIZED && !is_repeatable(code, &status, call) {
            self.acquire_slot().await?;
        }
        if code.is_success() {
            return Ok(bytes);
        }
        let error = Error::Refused(StatusError::from_answer(code, &status, call.secret));
        if code == StatusCode::UNAUTHORIZED {
            return Err(AttemptError::Unauthorized(error));
        }
        if !is_repeatable(code, &status, call) {
            return Err(AttemptError::Permanent(error));
        }
        let Some(wait) = retry_after(&headers) else { return Err(AttemptError::Retryable(error)) };
        if code == StatusCode::TOO_MANY_REQUESTS {
            // It is about all requests to this server.
            let mut quiet = self.server.quiet.lock().unwrap_or_else(PoisonError::into_inner);
            *quiet = (*quiet).max(Instant::now() + wait);
        }
        Err(AttemptError::RetryAfter(error, wait))
    }
}

/// The semaphores are never closed.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `map_err` asks for")]
fn closed(error: tokio::sync::AcquireError) -> AttemptError {
    AttemptError::Permanent(Error::Unreachable(error.to_string()))
}

/// Why a watch cannot go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchFailure {
    /// The code of the answer; `None` without an answer of an API server.
    pub(super) code: Option<u16>,
}

/// The events of a watch, one a line, as they arrive.
pub(super) struct WatchEvents {
    body: Body,
    /// What has arrived and was not read.
    text: BytesMut,
    /// How much of it has no end of a line.
    searched: usize,
}

impl WatchEvents {
    /// The next event; `None` at the end. What has arrived is kept if the caller stops to wait.
    pub(super) async fn next_event<T: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<WatchEvent<T>>, WatchFailure> {
        loop {
            if let Some(line) = self.take_line() {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return parse_event(&line).map(Some);
            }
            if self.text.len() > MAX_EVENT_BYTES {
                return Err(WatchFailure::default());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(more) = frame.into_data() {
                        self.text.extend_from_slice(&more);
                    }
                }
                Some(Err(_)) => return Err(WatchFailure::default()),
                None => return Ok(None),
            }
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let ends = self.text.iter().skip(self.searched).position(|byte| *byte == b'\n');
        let Some(end) = ends else {
            self.searched = self.text.len();
            return None;
        };
        let line = self.text.split_to(self.searched + end + 1);
        self.searched = 0;
        Some(line)
    }
}

/// Reads a line of a watch: an event, or a `Status`.
fn parse_event<T: DeserializeOwned>(line: &[u8]) -> Result<WatchEvent<T>, WatchFailure> {
    serde_json::from_slice(line).map_err(|_| {
        let status: Value = serde_json::from_slice(line).unwrap_or_default();
        WatchFailure { code: status["code"].as_u64().and_then(|code| code.try_into().ok()) }
    })
}

/// Why an answer cannot be that of an API server.
pub(super) fn not_json() -> Error {
    Error::Unreachable("the answer is not JSON: is this an API server?".to_owned())
}

fn late_answer(what: &str, time: Duration) -> AttemptError {
    AttemptError::Retryable(Error::Unreachable(format!("{what} within {} s", time.as_secs())))
}

async fn send_once(
    client: &kube::Client,
    call: &RepeatableRequest,
    note_answer: impl Fn(),
) -> Result<(StatusCode, HeaderMap, Bytes), AttemptError> {
    let request = call.to_request().map_err(AttemptError::Permanent)?;
    let response = match timeout(RESPONSE_TIMEOUT, client.send(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            return Err(match RequestError::from(error) {
                RequestError::Permanent(why) => AttemptError::Permanent(Error::Access(why)),
                RequestError::Retryable(why) => AttemptError::Retryable(Error::Unreachable(why)),
            });
        }
        Err(_) => return Err(late_answer("no answer", RESPONSE_TIMEOUT)),
    };
    note_answer();
    let (parts, body) = response.into_parts();
    let body = body.map_frame(|frame| {
        note_answer();
        frame
    });
    match timeout(BODY_TIMEOUT, Limited::new(body, call.max_bytes).collect()).await {
        Ok(Ok(body)) => Ok((parts.status, parts.headers, body.to_bytes())),
        // Another attempt would take as long and end alike.
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(AttemptError::Permanent(Error::Unreachable(
            format!("an answer has more than {} MiB, the limit", call.max_bytes >> 20),
        ))),
        Ok(Err(error)) => {
            Err(AttemptError::Retryable(Error::Unreachable(super::answer::format_chain(error.as_ref()))))
        }
        Err(_) => Err(late_answer("the answer did not arrive", BODY_TIMEOUT)),
    }
}

/// The pause that the server asks for. A date in place of a number of seconds is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let wait = text.trim().parse().ok().map(Duration::from_secs)?;
    Some(wait.clamp(FIRST_RETRY_PAUSE, MAX_RETRY_PAUSE))
}

fn is_repeatable(code: StatusCode, status: &Value, call: &RepeatableRequest) -> bool {
    match code.as_u16() {
        429 | 503 | 504 => true,
        // API servers learn of a changed definition a moment after it is stored.
        500 => call.until_served && status_message(status).contains("failed to create typed patch object"),
        404 => call.until_served && status.pointer("/details/name").is_none(),
        // The ServiceAccounts of a namespace are created a moment after it.
        403 => call.until_served && status_message(status).contains("error looking up service account"),
        _ => false,
    }
}

fn status_message(status: &Value) -> &str {
    status.get("message").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::path::ApiPath;

    #[test]
    fn only_busy_servers_are_asked_again() {
        let again = |code: u16, status: Value, call: &RepeatableRequest| {
            is_repeatable(StatusCode::from_u16(code).unwrap(), &status, call)
        };
        let call = RepeatableRequest::get(
            ApiPath::from_version("v1").in_namespace("a").join("configmaps").join("b"),
        );
        for (code, expected) in
            [(429, true), (503, true), (504, true), (500, false), (409, false), (404, false)]
        {
            assert_eq!(again(code, Value::Null, &call), expected, "{code}");
        }
        let awaited = call.clone().until_served();
        assert!(again(404, Value::Null, &awaited), "a kind that is not served yet");
        let old = json!({"message": "failed to create typed patch object: .spec.new: field not declared in schema"});
        assert!(
            again(500, old.clone(), &awaited) && !again(500, old, &call),
            "a schema that is not in force yet"
        );
        let early = "pods \"a\" is forbidden: error looking up service account shop/default: not found";
        assert!(again(403, json!({"message": early}), &awaited) && !again(403, json!({}), &awaited));
        assert!(!again(404, json!({"details": {"name": "shop"}}), &awaited), "a namespace that is not there");
    }

    #[tokio::test]
    async fn events_are_read_line_by_line_and_have_a_limit() {
        let events = |text: String| WatchEvents {
            body: Body::from(text.into_bytes()),
            text: BytesMut::new(),
            searched: 0,
        };
        let event = r#"{"type": "ADDED", "object": {"a": 1}}"#;
        let mut read = events(format!("{event}\n\n{event}\n{{\"code\": 410}}\n"));
        for _ in 0..2 {
            let next: Option<WatchEvent<Value>> = read.next_event().await.unwrap();
            assert!(matches!(next, Some(WatchEvent::Added(item)) if item["a"] == 1));
        }
        let expired = read.next_event::<Value>().await.unwrap_err();
        assert_eq!(expired.code, Some(410));
        assert!(read.next_event::<Value>().await.unwrap().is_none());
        let mut endless = events("a".repeat(MAX_EVENT_BYTES + 1));
        assert_eq!(endless.next_event::<Value>().await.unwrap_err(), WatchFailure::default());
    }

    #[test]
    fn servers_are_obeyed_within_reason() {
        let parse = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(parse("3"), Some(Duration::from_secs(3)));
        assert_eq!(parse("0"), Some(FIRST_RETRY_PAUSE));
        assert_eq!(parse("86400"), Some(MAX_RETRY_PAUSE));
        assert_eq!(parse("Fri, 31 Dec 1999 23:59:59 GMT"), None);
    }
}
