//! The HTTP servers of the loop, each on an address of its own: health, metrics, the status page, webhooks.
//!
//! A webhook only says that a source may have changed; the next poll finds out. One that is forged or sent again costs
//! a poll. Its path is `/hook/` and a digest of token, name and namespace, as Flux makes it.
//!
//! Facts: Flux's notification controller (Receiver: `X-Signature`, paths), GitHub's `X-Hub-Signature-256`, GitLab's
//! `X-Gitlab-Token` and its signing tokens, which follow the Standard Webhooks specification (`webhook-signature`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use bytes::Bytes;
use federate_http_server::{HandleRequest, accept_connections, build_response, is_same_text, read_body};
use federate_sync_api::NamespacedName;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use k8s_openapi::ByteString;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::events::LoopEvent;
use crate::page::StatusPage;
use crate::telemetry::Telemetry;

/// How large the body of a webhook may be.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The addresses to listen on.
#[derive(Debug, Default)]
pub struct ListenAddresses {
    /// For `/healthz` and `/readyz`.
    pub health: Option<SocketAddr>,
    /// For `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// For the status page.
    pub status: Option<SocketAddr>,
    /// For webhooks, with their token.
    pub webhooks: Option<(SocketAddr, String)>,
}

/// What an address serves.
#[derive(Clone, Debug)]
enum Service {
    Health,
    Metrics,
    Status,
    /// With their token.
    Webhooks(String),
}

struct Listener {
    service: Service,
    telemetry: Arc<Telemetry>,
    events: Sender<LoopEvent>,
}

impl ListenAddresses {
    fn into_services(self) -> Vec<(SocketAddr, Service)> {
        let own = [
            (self.health, Service::Health),
            (self.metrics, Service::Metrics),
            (self.status, Service::Status),
        ];
        let own = own.into_iter().filter_map(|(address, service)| Some((address?, service)));
        own.chain(self.webhooks.map(|(address, token)| (address, Service::Webhooks(token)))).collect()
    }
}

impl Service {
    fn name(&self) -> &'static str {
        match self {
            Self::Health => "health checks",
            Self::Metrics => "metrics",
            Self::Status => "the status page",
            Self::Webhooks(_) => "webhooks",
        }
    }
}

/// Listens in a thread, also to the signals that ask the process to end.
pub fn start_listeners(
    addresses: ListenAddresses,
    telemetry: &Arc<Telemetry>,
    events: Sender<LoopEvent>,
) -> std::io::Result<()> {
    // Health is answered while a page is made.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listeners: std::io::Result<Vec<_>> = addresses
        .into_services()
        .into_iter()
        .map(|(address, service)| {
            let bound = runtime.block_on(TcpListener::bind(address));
            let bound = bound
                .map_err(|e| std::io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
            let (telemetry, events) = (telemetry.clone(), events.clone());
            Ok((bound, Listener { service, telemetry, events }))
        })
        .collect();
    let listeners = listeners?;
    let (mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            for (bound, listener) in listeners {
                if let Ok(address) = bound.local_addr() {
                    tracing::info!(%address, "listening for {}", listener.service.name());
                }
                tokio::spawn(accept_connections(bound, Arc::new(listener)));
            }
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                // The loop may have ended.
                if events.send(LoopEvent::End).is_err() {
                    return;
                }
            }
        });
    });
    Ok(())
}

/// An answer that no cache keeps and no other page frames.
fn build_document(text: String, content_type: &'static str, policy: &'static str) -> Response<Full<Bytes>> {
    let mut response = build_response(StatusCode::OK, text);
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The page. Its own policy, in its head, allows its script and its style; the header says what a head cannot.
fn build_page(page: &StatusPage) -> Response<Full<Bytes>> {
    match page.to_html() {
        Ok(html) => build_document(html, "text/html; charset=utf-8", "frame-ancestors 'none'"),
        Err(error) => {
            build_response(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the page: {error}\n"))
        }
    }
}

impl HandleRequest for Listener {
    async fn handle_request(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if let Service::Webhooks(token) = &self.service {
            return self.handle_webhook(token, request).await;
        }
        if request.method() != Method::GET {
            return build_response(StatusCode::METHOD_NOT_ALLOWED, "GET is expected\n");
        }
        let Telemetry { metrics, page } = &*self.telemetry;
        match (&self.service, request.uri().path()) {
            (Service::Health, "/healthz") => build_response(StatusCode::OK, "ok\n"),
            (Service::Health, "/readyz") => match metrics.unseen_syncs().as_slice() {
                [] => build_response(StatusCode::OK, "ok\n"),
                unseen => {
                    let text = format!("no round has ended of {}\n", unseen.join(", "));
                    build_response(StatusCode::SERVICE_UNAVAILABLE, text)
                }
            },
            (Service::Metrics, "/metrics") => build_response(StatusCode::OK, metrics.encode_text()),
            (Service::Status, "/") => build_page(page),
            (Service::Status, "/syncs") => {
                let policy = "default-src 'none'; frame-ancestors 'none'";
                build_document(page.to_json(), "application/json", policy)
            }
            _ => build_response(StatusCode::NOT_FOUND, "not found\n"),
        }
    }
}

impl Listener {
    async fn handle_webhook(&self, token: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::POST {
            return build_response(StatusCode::METHOD_NOT_ALLOWED, "POST is expected\n");
        }
        let (head, body) = request.into_parts();
        let Some(body) = read_body(body, MAX_BODY_BYTES).await else {
            return build_response(StatusCode::PAYLOAD_TOO_LARGE, "too large, or too slow\n");
        };
        let webhook = Webhook { path: head.uri.path(), headers: &head.headers, body: &body };
        if !webhook.is_genuine(token) {
            return build_response(StatusCode::UNAUTHORIZED, "no good signature\n");
        }
        let known = self.telemetry.metrics.sync_names().into_iter().find(|name| {
            let (namespace, name) = name.split_once('/').unwrap_or_default();
            webhook.is_for_sync(
                &NamespacedName { name: name.to_owned(), namespace: namespace.to_owned() },
                token,
            )
        });
        let Some(name) = known else { return build_response(StatusCode::NOT_FOUND, "not found\n") };
        tracing::info!(sync = name, "a webhook asks for a round");
        // The process may be about to end.
        let _ = self.events.send(LoopEvent::Source(name));
        build_response(StatusCode::OK, "")
    }
}

/// The path of a Sync's webhook.
pub fn hook_path(token: &str, sync: &NamespacedName) -> String {
    let digest = Sha256::digest(format!("{token}{}{}", sync.name, sync.namespace));
    digest.iter().fold("/hook/".to_owned(), |path, byte| path + &format!("{byte:02x}"))
}

/// A received webhook.
#[derive(Clone, Copy, Debug)]
pub struct Webhook<'r> {
    /// The path of the request.
    pub path: &'r str,
    /// The headers, one of which has the signature.
    pub headers: &'r HeaderMap,
    /// The body, which is signed and not read.
    pub body: &'r [u8],
}

impl Webhook<'_> {
    /// Whether the sender knows the token. Digests are compared, in constant time.
    pub fn is_genuine(&self, token: &str) -> bool {
        let key = token.as_bytes();
        let signature = self.find_header("x-hub-signature-256").or_else(|| self.find_header("x-signature"));
        if let Some(signature) = signature {
            let digest = signature.strip_prefix("sha256=").and_then(from_hex);
            return compute_hmac(key, self.body)
                .zip(digest)
                .is_some_and(|(mac, digest)| mac.verify_slice(&digest).is_ok());
        }
        if let Some(signatures) = self.find_header("webhook-signature") {
            let (Some(id), Some(time)) =
                (self.find_header("webhook-id"), self.find_header("webhook-timestamp"))
            else {
                return false;
            };
            let text = [id.as_bytes(), b".", time.as_bytes(), b".", self.body].concat();
            let key = token.strip_prefix("whsec_").and_then(from_base64);
            let key = key.as_deref().unwrap_or(token.as_bytes());
            let mut digests = signatures.split(' ').filter_map(|one| from_base64(one.strip_prefix("v1,")?));
            return digests
                .any(|digest| compute_hmac(key, &text).is_some_and(|mac| mac.verify_slice(&digest).is_ok()));
        }
        self.find_header("x-gitlab-token").is_some_and(|sent| is_same_text(sent, token))
    }

    fn find_header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the path is that of a Sync.
    pub fn is_for_sync(&self, sync: &NamespacedName, token: &str) -> bool {
        self.path == hook_path(token, sync)
    }
}

fn compute_hmac(key: &[u8], text: &[u8]) -> Option<Hmac<Sha256>> {
    // Keys may have any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text);
    Some(mac)
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    serde_json::from_value::<ByteString>(text.into()).ok().map(|bytes| bytes.0)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn genuine(name: &'static str, value: &str, body: &[u8]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        Webhook { path: "/", headers: &headers, body }.is_genuine("It's a Secret to Everybody")
    }

    /// The example in GitHub's documentation.
    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn only_senders_that_know_the_token_are_genuine() {
        assert!(genuine("x-hub-signature-256", SIGNATURE, b"Hello, World!"));
        assert!(genuine("x-signature", SIGNATURE, b"Hello, World!"));
        assert!(!genuine("x-hub-signature-256", SIGNATURE, b"Hello, World"));
        assert!(!genuine("x-hub-signature-256", &SIGNATURE[..SIGNATURE.len() - 2], b"Hello, World!"));
        assert!(!genuine("x-hub-signature-256", "sha256=", b"Hello, World!"));
        assert!(!genuine("x-hub-signature-256", "sha256=äb", b"Hello, World!"));
        assert!(genuine("x-gitlab-token", "It's a Secret to Everybody", b""));
        assert!(!genuine("x-gitlab-token", "It's a Secret to Everybod", b""));
        let signed = |token: &str, signature: &'static str, time: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("webhook-signature", signature.parse().unwrap());
            headers.insert("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap());
            headers.insert("webhook-timestamp", time.parse().unwrap());
            Webhook { path: "/", headers: &headers, body: br#"{"test": 2432232314}"# }.is_genuine(token)
        };
        // The example of the Standard Webhooks specification.
        let token = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signature = "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert!(signed(token, signature, "1614265330"));
        assert!(!signed(token, signature, "1614265331"), "the time is signed, too");
        assert!(!signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", signature, "1614265330"));
        assert!(!signed(token, "v1,AAAA v2,= v1a,", "1614265330"));
        assert!(!genuine("x-other", "It's a Secret to Everybody", b""));
        assert!(!Webhook { path: "/", headers: &HeaderMap::new(), body: b"" }.is_genuine(""));
    }
}
