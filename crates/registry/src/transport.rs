//! Requests over HTTP: one connection pool per server, time limits, limited answers, and errors without secrets.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use federate_kubernetes::display_text::shorten_line;
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;

use federate_http_client::{AddressPolicy, ClientError, build_client, find_refusal};

use crate::address::is_loopback_host;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a request may take, with its bytes in both directions.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(10);
/// The most characters of an answer that an error shows.
const MAX_SHOWN_CHARS: usize = 200;

/// Why a registry did not do what it was asked. Messages contain no credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No answer.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// The registry.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// The credentials are missing or not accepted.
    #[error("{host} does not let federate {what}{}: `docker login {host}` stores credentials", shown_text(.said))]
    Unauthorized {
        /// The registry.
        host: String,
        /// A verb and its object.
        what: String,
        /// What the registry said.
        said: String,
    },
    /// Any other answer that was not expected.
    #[error("{host} cannot {what}: it answers {status}{}", shown_text(.said))]
    Refused {
        /// The registry.
        host: String,
        /// A verb and its object.
        what: String,
        /// The status.
        status: StatusCode,
        /// What the registry said.
        said: String,
    },
    /// The answer is not what it should be.
    #[error("{host} cannot be trusted with what it answers to a request to {what}: {why}")]
    Invalid {
        /// The registry.
        host: String,
        /// A verb and its object.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// Requests without TLS go to this machine only.
    #[error(
        "--plain-http is for registries on this machine, and {0} is another one: it must be reached with TLS"
    )]
    NotLoopback(String),
}

fn shown_text(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}

/// How registries are reached.
#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// Whether the registry, which must be on this machine, is reached without TLS.
    pub plain_http: bool,
    /// The proxy for servers that are not on this machine.
    pub proxy: Option<Uri>,
    /// The addresses at which the registry may be, and those to which it leads.
    pub addresses: AddressPolicy,
}

/// A request. It can be sent again.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) address: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
pub(crate) struct NoResponse {
    pub(crate) why: String,
    /// Whether the same request will not be answered later either.
    pub(crate) is_final: bool,
}

impl From<String> for NoResponse {
    fn from(why: String) -> Self {
        Self { why, is_final: false }
    }
}

impl NoResponse {
    fn lasting(why: &str) -> Self {
        Self { why: why.to_owned(), is_final: true }
    }
}

/// An answer, read in full.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Connections to servers.
pub(crate) struct Transport {
    options: RegistryOptions,
    clients: Mutex<BTreeMap<String, kube::Client>>,
}

impl Transport {
    pub(crate) fn new(options: RegistryOptions) -> Self {
        Self { options, clients: Mutex::default() }
    }

    /// Sends a request once.
    pub(crate) async fn send(&self, call: &Call, max_bytes: usize) -> Result<Answer, NoResponse> {
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(call, max_bytes)).await;
        answer.unwrap_or_else(|_| {
            let minutes = REQUEST_TIMEOUT.as_secs() / 60;
            Err(NoResponse::lasting(&format!("it takes more than {minutes} minutes")))
        })
    }

    async fn exchange(&self, call: &Call, max_bytes: usize) -> Result<Answer, NoResponse> {
        let server = server_of(&call.address)
            .ok_or_else(|| NoResponse::lasting("it names an address that is not valid"))?;
        let host = call.address.host().unwrap_or_default();
        let is_plain = call.address.scheme_str() != Some("https");
        if is_plain && !(self.options.plain_http && is_loopback_host(host)) {
            return Err(NoResponse::lasting("it leads to a server without TLS"));
        }
        let client = self.client_for(&server)?;
        let path = call.address.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder().method(call.method.clone()).uri(path);
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&call.headers);
        }
        let request = request.body(Body::from(call.body.to_vec())).map_err(|error| error.to_string())?;
        let answer = client.send(request).await.map_err(|error| match find_refusal(&error) {
            Some(refusal) => NoResponse::lasting(&refusal.to_string()),
            None => innermost_cause(&error).into(),
        })?;
        let (parts, body) = answer.into_parts();
        let body = match Limited::new(body, max_bytes).collect().await {
            Ok(body) => body,
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(NoResponse::lasting(&format!("its answer is larger than {max_bytes} bytes")));
            }
            Err(error) => return Err(innermost_cause(&*error).into()),
        };
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    fn client_for(&self, server: &str) -> Result<kube::Client, NoResponse> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(server) {
            return Ok(client.clone());
        }
        let address: Uri = server.parse().map_err(|_| NoResponse::lasting("its address is not valid"))?;
        let is_loopback = address.host().is_some_and(is_loopback_host);
        let mut config = kube::Config::new(address);
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(IDLE_TIMEOUT);
        config.write_timeout = Some(IDLE_TIMEOUT);
        config.default_retry = false;
        config.proxy_url = self.options.proxy.clone().filter(|_| !is_loopback);
        let client = build_client(config, self.options.addresses).map_err(|error| match &error {
            ClientError::Address(refusal) => NoResponse::lasting(&refusal.to_string()),
            // Its text has the address of the proxy, which may hold a password.
            ClientError::Config(
                kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. },
            ) => NoResponse::lasting("a proxy is reached by http, https or socks5 only"),
            ClientError::Config(_) => NoResponse::from(innermost_cause(&error)),
        })?;
        clients.insert(server.to_owned(), client.clone());
        Ok(client)
    }
}

/// Scheme, host and port of an address, written in one way: in lower case, without the port that the scheme implies.
pub(crate) fn server_of(address: &Uri) -> Option<String> {
    let authority = address.authority().map(http::uri::Authority::as_str)?;
    if authority.contains('@') {
        return None;
    }
    let (scheme, authority) = (address.scheme_str()?, authority.to_ascii_lowercase());
    let implied = if scheme == "https" { ":443" } else { ":80" };
    Some(format!("{scheme}://{}", authority.strip_suffix(implied).unwrap_or(&authority)))
}

/// The message of the error at the bottom of a chain, which names the cause.
fn innermost_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    clean_text(&cause.to_string())
}

/// A text of a server as a message may show it: one line of limited length.
pub(crate) fn clean_text(text: &str) -> String {
    shorten_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_SHOWN_CHARS)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_registry_leads_to_no_local_address_where_that_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        for (address, plain_http) in [("https://localhost", false), ("http://127.0.0.1", true)] {
            let options = RegistryOptions { plain_http, proxy: None, addresses: AddressPolicy::NotLocal };
            let call = Call {
                method: Method::GET,
                address: format!("{address}:{port}/v2/").parse().unwrap(),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            };
            let refused = runtime.block_on(Transport::new(options).send(&call, 1)).err().unwrap();
            assert!(refused.is_final && refused.why.contains("a Sync may not lead there"), "{}", refused.why);
        }
        assert!(listener.accept().is_err(), "nothing has connected");
    }
}
