//! An HTTP server for few clients, over hyper: how many connections there may be and for how long, and who may ask.
//!
//! The loop serves health, metrics, its status page and webhooks with it, and `federate serve` its page. What an address
//! answers is a [`HandleRequest`].

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

mod access;

pub use access::{AccessToken, has_foreign_origin, is_same_text, names_loopback};

/// How long a client may take for its request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many connections there may be at a time, and how many of one client.
const MAX_CONNECTIONS: usize = 64;
const MAX_CONNECTIONS_PER_CLIENT: usize = 16;

/// Answers the requests to an address.
pub trait HandleRequest: Send + Sync + 'static {
    /// How long a connection may take from its first byte to its last.
    const CONNECTION_TIMEOUT: Duration = REQUEST_TIMEOUT.saturating_mul(2);

    /// The answer to a request. It is dropped if the client goes away.
    fn handle_request(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// The connections of each client.
type Clients = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// One of the connections of a client, as long as it exists.
struct ConnectionPermit {
    clients: Clients,
    client: IpAddr,
}

impl ConnectionPermit {
    /// A place for one more connection; `None` if the client has enough of them.
    fn try_acquire(clients: &Clients, client: IpAddr) -> Option<Self> {
        let mut all = clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(client).or_default();
        if *count >= MAX_CONNECTIONS_PER_CLIENT {
            return None;
        }
        *count += 1;
        drop(all);
        Some(Self { clients: clients.clone(), client })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut all = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.client);
            }
        }
    }
}

/// Answers all connections to an address. On loopback, only requests that name it so are answered.
pub async fn accept_connections<H: HandleRequest>(bound: TcpListener, handler: Arc<H>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let clients = Clients::default();
    let is_loopback = bound.local_addr().is_ok_and(|address| address.ip().is_loopback());
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, client)) = bound.accept().await else {
            // For example, too many files are open: try again a moment later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(client) = ConnectionPermit::try_acquire(&clients, client.ip()) else { continue };
        let handler = handler.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let handler = handler.clone();
                async move {
                    if is_loopback && !names_loopback(request.headers().get(HOST)) {
                        let text = "this server is named localhost\n";
                        return Ok::<_, Infallible>(build_response(StatusCode::MISDIRECTED_REQUEST, text));
                    }
                    Ok(handler.handle_request(request).await)
                }
            });
            let server = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_TIMEOUT)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A client that is too slow is disconnected.
            let _ = tokio::time::timeout(H::CONNECTION_TIMEOUT, server).await;
            drop((place, client));
        });
    }
}

/// The body of a request; `None` if it is larger than `most` bytes, or too slow.
pub async fn read_body(body: Incoming, most: usize) -> Option<Bytes> {
    let read = Limited::new(body, most).collect();
    Some(tokio::time::timeout(REQUEST_TIMEOUT, read).await.ok()?.ok()?.to_bytes())
}

/// An answer with text.
pub fn build_response(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_does_not_take_the_places_of_others() {
        let clients = Clients::default();
        let (one, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let acquire = |client| ConnectionPermit::try_acquire(&clients, client);
        let mut all: Vec<_> = (0..MAX_CONNECTIONS_PER_CLIENT).filter_map(|_| acquire(one)).collect();
        assert!(all.len() == MAX_CONNECTIONS_PER_CLIENT && MAX_CONNECTIONS > MAX_CONNECTIONS_PER_CLIENT);
        assert!(acquire(one).is_none() && acquire(other).is_some());
        all.pop();
        assert!(acquire(one).is_some());
        drop(all);
        assert!(clients.lock().unwrap().is_empty());
    }
}
