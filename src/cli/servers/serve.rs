//! `federate serve`

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::drift_reader::{DriftReader, DriftSource};
use super::explorer::{
    AnswerForm, DiffQuestion, ExplainQuestion, Explorer, NoAnswer, Question, ScenarioQuestion,
};
use crate::cli::access::AccessArgs;
use crate::cli::members::ApplySetArgs;
use crate::cli::settings::RepoArgs;
use crate::cli::{CommandError, Exit, print_notice, print_unchanged};
use federate_http_server::{
    AccessToken, HandleRequest, accept_connections, build_response, has_foreign_origin, read_body,
};
use federate_report::page::{PageView, format_empty_page, write_refusal};

/// How large a scenario may be.
const MAX_BODY_BYTES: usize = 1 << 16;

/// How long a page waits for a change before it asks again.
const POLL_TIMEOUT: Duration = Duration::from_secs(25);

/// Show the plan of a repo as a live page, and try the loss of a cluster
///
/// Serves the page of `plan -o html` on loopback, and prints its address. The page follows the files of the repo, explains any
/// object, compares with a revision, and shows what happens if clusters are lost, tainted or resized: the effects that `federate
/// whatif` prints. Another page has the findings of `check`, and with --drift, a third one what differs in the clusters. Neither the
/// repo nor a cluster is changed.
///
/// Every question must carry the token of the printed address, as `Authorization: Bearer TOKEN`. The page keeps the token to itself:
/// without it, the server has an empty page for everyone. SIGTERM and SIGINT end the command with exit code 0.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct ServeCommand {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Serve a page of drift, too: what differs in the clusters, which are reached as with `drift` and only read
    ///
    /// The clusters are compared when the page is opened, each minute while it is open, and when the repo changes. --observed DIR
    /// compares with a dump.
    #[arg(long)]
    drift: bool,

    #[command(flatten)]
    args: RepoArgs,

    #[command(flatten)]
    apply_set: ApplySetArgs,

    #[command(flatten)]
    access: AccessArgs,
}

const EXAMPLES: &str = "\
Examples:
  federate serve examples/repo
  federate serve examples/kubefed --drift --observed examples/kubefed/live
  federate serve examples/lost-region --snapshot examples/lost-region/snapshot --port 8080";

impl ServeCommand {
    pub(super) fn run(self) -> Result<Exit, CommandError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let bound = runtime.block_on(TcpListener::bind(address));
        let bound =
            bound.map_err(|error| CommandError::Failed(format!("cannot listen on {address}: {error}")))?;
        let port = bound.local_addr()?.port();
        let token = AccessToken::generate()?;
        let quiet = self.args.quiet;
        let args = Arc::new(self.args);
        let explorer = Explorer::start(args.clone(), self.drift)?;
        let source = DriftSource { args, access: self.access, apply_set: self.apply_set };
        let drift = self.drift.then(|| DriftReader::start(source)).transpose()?;
        // Before anyone reads the address and can ask for the end.
        let (mut terminate, mut interrupt) = {
            let _inside = runtime.enter();
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
        };
        // A browser sends what follows `#` to no server.
        print_unchanged(&format!("http://127.0.0.1:{port}/#token={}\n", token.as_text()))?;
        if !quiet {
            print_notice(
                "open this address in a browser; who has it can read the repo. Ctrl-C ends the server\n",
            );
        }
        runtime.block_on(async {
            let server = accept_connections(bound, Arc::new(PageServer { explorer, drift, token }));
            tokio::select! {
                () = server => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            Ok(Exit::Clean)
        })
    }
}

/// Serves the page, and what it asks for.
struct PageServer {
    explorer: Explorer,
    drift: Option<DriftReader>,
    token: AccessToken,
}

/// What a request asks for.
enum Asked {
    Answer(Question, AnswerForm),
    Drift(AnswerForm),
    /// The state after this one.
    State(Option<u64>),
}

/// Why a request is refused, with a line that says what is right.
struct Refusal(StatusCode, String);

impl HandleRequest for PageServer {
    // A large repo is planned in this time.
    const CONNECTION_TIMEOUT: Duration = Duration::from_mins(5);

    async fn handle_request(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let wants_page = accepts_page(request.headers());
        let answered = match (self.check_access(&request), find_empty_page(&request)) {
            (Ok(true), _) => self.answer_request(request).await,
            (Ok(false), Some(view)) => {
                Ok(build_page(build_response(StatusCode::OK, format_empty_page(view))))
            }
            (Ok(false), None) => Err(Refusal(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong: open the address that `federate serve` has printed"
                    .to_owned(),
            )),
            (Err(refusal), _) => Err(refusal),
        };
        let mut response = match answered {
            Ok(response) => response,
            Err(Refusal(status, why)) if wants_page => {
                with_type(build_response(status, write_refusal(&why)), "text/html; charset=utf-8")
            }
            Err(Refusal(status, why)) => build_response(status, format!("{why}\n")),
        };
        let headers = response.headers_mut();
        for (name, value) in [
            (CACHE_CONTROL, "no-store"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/plain; charset=utf-8"));
        headers
            .entry(CONTENT_SECURITY_POLICY)
            .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
        response
    }
}

impl PageServer {
    /// Whether a request carries the token. Its host was checked before.
    fn check_access(&self, request: &Request<Incoming>) -> Result<bool, Refusal> {
        if has_foreign_origin(request.headers()) {
            let why = "a page of another server asks".to_owned();
            return Err(Refusal(StatusCode::FORBIDDEN, why));
        }
        Ok(self.token.is_carried(request.headers()))
    }

    async fn answer_request(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
        match read_request(request).await? {
            Asked::State(known) => {
                let next = tokio::time::timeout(POLL_TIMEOUT, self.explorer.next_state(known)).await;
                let state =
                    next.map(|state| serde_json::json!({"number": state.number, "error": state.error}));
                let state = state.unwrap_or_else(|_| serde_json::json!({"number": known, "unchanged": true}));
                Ok(with_type(build_response(StatusCode::OK, state.to_string()), "application/json"))
            }
            Asked::Answer(question, form) => build_answer(self.explorer.ask(question, form).await, form),
            Asked::Drift(form) => {
                let Some(drift) = &self.drift else {
                    let why = "there is no page of drift: start `federate serve` with --drift";
                    return Err(Refusal(StatusCode::NOT_FOUND, why.to_owned()));
                };
                build_answer(drift.ask(self.explorer.state_number(), form).await, form)
            }
        }
    }
}

/// The page that a browser opens before it has the token: it has nothing of the repo, and asks for that with the token.
fn find_empty_page(request: &Request<Incoming>) -> Option<PageView> {
    let opens = request.method() == Method::GET && !request.headers().contains_key(AUTHORIZATION);
    let views = [("/", PageView::Placements), ("/check", PageView::Check), ("/drift", PageView::Drift)];
    views.into_iter().find(|(path, _)| opens && *path == request.uri().path()).map(|(_, view)| view)
}

/// The response with an answer.
fn build_answer(
    answer: Result<Arc<str>, NoAnswer>,
    form: AnswerForm,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let text = answer.map_err(|error| match error {
        NoAnswer::Refused(why) => Refusal(StatusCode::UNPROCESSABLE_ENTITY, why),
        NoAnswer::Busy => {
            Refusal(StatusCode::SERVICE_UNAVAILABLE, "too many questions wait: ask again".to_owned())
        }
        NoAnswer::Ended => Refusal(StatusCode::SERVICE_UNAVAILABLE, "the server is about to end".to_owned()),
    })?;
    let response = build_response(StatusCode::OK, Bytes::from_owner(AnswerText(text)));
    Ok(match form {
        AnswerForm::Json => with_type(response, "application/json"),
        AnswerForm::Page => build_page(response),
    })
}

/// The text of an answer, which others may have, too.
struct AnswerText(Arc<str>);

impl AsRef<[u8]> for AnswerText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn with_type(mut response: Response<Full<Bytes>>, content_type: &'static str) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A page. Its own policy, in its head, allows its script and its style; this one says what a head cannot.
fn build_page(response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    let mut response = with_type(response, "text/html; charset=utf-8");
    let policy = HeaderValue::from_static("frame-ancestors 'none'");
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    response
}

/// Whether a client wants a page; others get JSON.
fn accepts_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// What a request asks for, and in which form.
async fn read_request(request: Request<Incoming>) -> Result<Asked, Refusal> {
    let (head, body) = request.into_parts();
    let form = if accepts_page(&head.headers) { AnswerForm::Page } else { AnswerForm::Json };
    let is_read = head.method == Method::GET;
    let query = Query(head.uri.query().unwrap_or_default());
    let question = match head.uri.path() {
        "/" if is_read => return Ok(Asked::Answer(Question::Plan, AnswerForm::Page)),
        "/api/state" if is_read => {
            return Ok(Asked::State(query.get("after").and_then(|number| number.parse().ok())));
        }
        "/api/plan" if is_read => Question::Plan,
        "/api/clusters" if is_read => return Ok(Asked::Answer(Question::Clusters, AnswerForm::Json)),
        "/check" if is_read => return Ok(Asked::Answer(Question::Check, AnswerForm::Page)),
        "/api/check" if is_read => Question::Check,
        "/drift" if is_read => return Ok(Asked::Drift(AnswerForm::Page)),
        "/api/drift" if is_read => return Ok(Asked::Drift(form)),
        "/api/explain" if is_read => {
            let asked = ExplainQuestion {
                object: query.get("object").unwrap_or_default(),
                namespace: query.get("namespace"),
            };
            return Ok(Asked::Answer(Question::Explain(asked), AnswerForm::Json));
        }
        "/api/diff" if is_read => {
            Question::Diff(DiffQuestion { from: query.get("from"), to: query.get("to") })
        }
        "/api/whatif" if head.method == Method::POST => {
            let media = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            if media.is_none_or(|media| media.split(';').next() != Some("application/json")) {
                let why = "a scenario is `application/json`".to_owned();
                return Err(Refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
            }
            let Some(body) = read_body(body, MAX_BODY_BYTES).await else {
                let why = format!("the scenario is larger than {MAX_BODY_BYTES} bytes, or comes too slowly");
                return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, why));
            };
            Question::WhatIf(parse_body::<ScenarioQuestion>(&body)?)
        }
        "/api/whatif" => {
            return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "POST is expected".to_owned()));
        }
        _ if !is_read => {
            return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "GET is expected".to_owned()));
        }
        _ => return Err(Refusal(StatusCode::NOT_FOUND, "not found".to_owned())),
    };
    Ok(Asked::Answer(question, form))
}

fn parse_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let why = format!(
            "the scenario is not understood: {error}; write `{{\"events\": {{\"lose\": [\"eu-1\"]}}}}`"
        );
        Refusal(StatusCode::BAD_REQUEST, why)
    })
}

/// The query of an address.
struct Query<'q>(&'q str);

impl Query<'_> {
    /// The value of a name, decoded.
    fn get(&self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| decode_value(value))
    }
}

/// A value of a query: `%xx` is a byte, and `+` a space.
fn decode_value(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|code| *first == b'%' && code.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query("object=Deployment%2Fshop%2Fweb&namespace=a+b%zz&token=");
        assert_eq!(query.get("object").as_deref(), Some("Deployment/shop/web"));
        assert_eq!(query.get("namespace").as_deref(), Some("a b%zz"));
        assert_eq!(query.get("token").as_deref(), Some(""));
        assert_eq!(query.get("other"), None);
        assert_eq!(decode_value("%"), "%");
    }
}
