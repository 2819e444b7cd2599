//! Reads and writes the blobs, manifests and tags of a registry. Requests that fail for a while are repeated.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::address::ArtifactAddress;
use crate::authorization::Challenge;
use crate::credentials::Credentials;
use crate::transport::{Answer, Call, Error, NoResponse, RegistryOptions, Transport, clean_text, server_of};

/// How many times a request is made.
const MAX_ATTEMPTS: u32 = 5;
/// The longest that a registry may ask to wait.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How many redirects of a blob are followed.
const MAX_REDIRECTS: u32 = 3;
/// The largest manifest, in bytes: what registries accept.
const MAX_MANIFEST_BYTES: usize = 4 << 20;
/// The largest answer that is only looked at, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The media type of image manifests.
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// What a registry answers with, if it has it.
const ACCEPTED_TYPES: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, */*";

/// A registry, asked with the credentials for its host. Only one host gets them.
pub struct Registry {
    host: String,
    server: String,
    credentials: Credentials,
    transport: Transport,
    /// The values of `Authorization`, by repository.
    authorizations: Mutex<BTreeMap<String, HeaderValue>>,
}

/// A manifest as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedManifest {
    /// The digest of its bytes.
    pub digest: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Registry {
    /// The registry of an address. Nothing is asked yet.
    pub fn new(
        address: &ArtifactAddress,
        credentials: Credentials,
        options: RegistryOptions,
    ) -> Result<Self, Error> {
        if options.plain_http && !address.is_loopback() {
            return Err(Error::NotLoopback(address.host().to_owned()));
        }
        let scheme = if options.plain_http { "http" } else { "https" };
        Ok(Self {
            host: address.host().to_owned(),
            server: format!("{scheme}://{}", address.server()),
            credentials,
            transport: Transport::new(options),
            authorizations: Mutex::default(),
        })
    }

    /// Whether the registry has a blob.
    pub async fn has_blob(&self, repository: &str, digest: &str) -> Result<bool, Error> {
        let what = format!("look for a blob of {repository}");
        let call = self.call(Method::HEAD, &format!("/v2/{repository}/blobs/{digest}"), &what)?;
        let answer = self.request(repository, &call, MAX_ANSWER_BYTES, &what).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(false),
            // The blob is on another server.
            status if status.is_success() || status.is_redirection() => Ok(true),
            _ => Err(self.refusal(&answer, &what)),
        }
    }

    /// Sends a blob. An upload that is cut off starts again.
    pub async fn push_blob(&self, repository: &str, digest: &str, bytes: Bytes) -> Result<(), Error> {
        let what = format!("take a blob of {repository}");
        let mut attempt = 1;
        loop {
            let begin = self.call(Method::POST, &format!("/v2/{repository}/blobs/uploads/"), &what)?;
            let begun = self.request(repository, &begin, MAX_ANSWER_BYTES, &what).await?;
            if begun.status != StatusCode::ACCEPTED {
                return Err(self.refusal(&begun, &what));
            }
            let location = begun.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let location = location.and_then(|location| resolve_location(&begin.address, location));
            let location = location.ok_or_else(|| self.invalid(&what, "it names no place for uploads"))?;
            let separator = if location.contains('?') { '&' } else { '?' };
            let address: Uri = format!("{location}{separator}digest={digest}")
                .parse()
                .map_err(|_| self.invalid(&what, "it names no place for uploads"))?;
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            let upload = Call { method: Method::PUT, address, headers, body: bytes.clone() };
            let sent = self.send_authorized(repository, &upload, MAX_ANSWER_BYTES).await;
            let wait = match &sent {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) if !is_transient(answer.status) && !is_lost_upload(answer.status) => {
                    return Err(self.refusal(answer, &what));
                }
                Ok(answer) => wait_before(attempt, Some(&answer.headers)),
                Err(_) => wait_before(attempt, None),
            };
            let is_final = sent.as_ref().is_err_and(|error| error.is_final);
            if attempt == MAX_ATTEMPTS || is_final {
                return Err(match sent {
                    Ok(answer) => self.refusal(&answer, &what),
                    Err(error) => self.failure(error, &what),
                });
            }
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// Reads a blob of at most `max_bytes`, from another server if the registry says so, and checks its digest.
    pub async fn fetch_blob(&self, repository: &str, digest: &str, max_bytes: usize) -> Result<Bytes, Error> {
        let what = format!("read a blob of {repository}");
        let mut call = self.call(Method::GET, &format!("/v2/{repository}/blobs/{digest}"), &what)?;
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.request(repository, &call, max_bytes, &what).await?;
            if answer.status.is_redirection() {
                let location = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok());
                let location = location.and_then(|location| resolve_location(&call.address, location));
                let address = location.and_then(|location| location.parse().ok());
                call.address =
                    address.ok_or_else(|| self.invalid(&what, "it leads to an address that is not valid"))?;
                continue;
            }
            if !answer.status.is_success() {
                return Err(self.refusal(&answer, &what));
            }
            if compute_digest(&answer.body) != digest {
                return Err(self.invalid(&what, "its bytes do not have the digest"));
            }
            return Ok(answer.body);
        }
        Err(self.invalid(&what, "it leads from address to address"))
    }

    /// Reads the manifest of a tag or digest; `None` if the registry does not have it.
    pub async fn fetch_manifest(
        &self,
        repository: &str,
        reference: &str,
    ) -> Result<Option<FetchedManifest>, Error> {
        let what = format!("read {reference} of {repository}");
        let mut call = self.call(Method::GET, &format!("/v2/{repository}/manifests/{reference}"), &what)?;
        call.headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED_TYPES));
        let answer = self.request(repository, &call, MAX_MANIFEST_BYTES, &what).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(self.refusal(&answer, &what));
        }
        let digest = compute_digest(&answer.body);
        if reference.starts_with("sha256:") && reference != digest {
            return Err(self.invalid(&what, "its bytes do not have the digest"));
        }
        Ok(Some(FetchedManifest { digest, bytes: answer.body.to_vec() }))
    }

    /// Stores a manifest under a tag or its digest.
    pub async fn push_manifest(&self, repository: &str, reference: &str, bytes: &[u8]) -> Result<(), Error> {
        let what = format!("store {reference} of {repository}");
        let mut call = self.call(Method::PUT, &format!("/v2/{repository}/manifests/{reference}"), &what)?;
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static(MANIFEST_TYPE));
        call.body = Bytes::copy_from_slice(bytes);
        let answer = self.request(repository, &call, MAX_ANSWER_BYTES, &what).await?;
        if answer.status.is_success() { Ok(()) } else { Err(self.refusal(&answer, &what)) }
    }

    fn call(&self, method: Method, path: &str, what: &str) -> Result<Call, Error> {
        let address = format!("{}{path}", self.server).parse();
        let address = address.map_err(|_| self.invalid(what, "its address is not valid"))?;
        Ok(Call { method, address, headers: HeaderMap::new(), body: Bytes::new() })
    }

    /// Sends a request, and again if the registry is busy or does not answer.
    async fn request(
        &self,
        repository: &str,
        call: &Call,
        max_bytes: usize,
        what: &str,
    ) -> Result<Answer, Error> {
        let mut attempt = 1;
        loop {
            let answer = self.send_authorized(repository, call, max_bytes).await;
            let wait = match &answer {
                Ok(answer) if !is_transient(answer.status) => None,
                Ok(answer) => Some(wait_before(attempt, Some(&answer.headers))),
                Err(error) if error.is_final => None,
                Err(_) => Some(wait_before(attempt, None)),
            };
            match (answer, wait.filter(|_| attempt < MAX_ATTEMPTS)) {
                (Ok(answer), None) if is_transient(answer.status) => return Err(self.refusal(&answer, what)),
                (Ok(answer), None) => return Ok(answer),
                (Err(error), None) => return Err(self.failure(error, what)),
                (_, Some(wait)) => tokio::time::sleep(wait).await,
            }
            attempt += 1;
        }
    }

    /// Sends a request, and again with what the registry asks for. Other servers get no credentials.
    async fn send_authorized(
        &self,
        repository: &str,
        call: &Call,
        max_bytes: usize,
    ) -> Result<Answer, NoResponse> {
        let agent = HeaderValue::from_static(concat!("federate/", env!("CARGO_PKG_VERSION")));
        let mut call = call.clone();
        call.headers.insert(USER_AGENT, agent);
        if server_of(&call.address).as_deref() != Some(self.server.as_str()) {
            return self.transport.send(&call, max_bytes).await;
        }
        if let Some(header) = self.lock_authorizations().get(repository) {
            call.headers.insert(AUTHORIZATION, header.clone());
        }
        let answer = self.transport.send(&call, max_bytes).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let Some(challenge) = Challenge::from_headers(&answer.headers) else { return Ok(answer) };
        let scope = format!("repository:{repository}:pull,push");
        let Some(header) = challenge.authorize(&self.transport, &self.credentials, &scope).await? else {
            return Ok(answer);
        };
        self.lock_authorizations().insert(repository.to_owned(), header.clone());
        call.headers.insert(AUTHORIZATION, header);
        self.transport.send(&call, max_bytes).await
    }

    fn lock_authorizations(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, HeaderValue>> {
        self.authorizations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self, answer: &Answer, what: &str) -> Error {
        let (host, what, status) = (self.host.clone(), what.to_owned(), answer.status);
        let said = read_message(&answer.body);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Error::Unauthorized { host, what, said },
            _ => Error::Refused { host, what, status, said },
        }
    }

    fn failure(&self, error: NoResponse, what: &str) -> Error {
        match error {
            NoResponse { why, is_final: false } => Error::Unreachable { host: self.host.clone(), why },
            NoResponse { why, is_final: true } => self.invalid(what, &why),
        }
    }

    fn invalid(&self, what: &str, why: &str) -> Error {
        Error::Invalid { host: self.host.clone(), what: what.to_owned(), why: why.to_owned() }
    }
}

/// An address that may be relative to that of the request.
fn resolve_location(from: &Uri, location: &str) -> Option<String> {
    if location.starts_with("https://") || location.starts_with("http://") {
        return Some(location.to_owned());
    }
    if !location.starts_with('/') {
        return None;
    }
    Some(format!("{}{location}", server_of(from)?))
}

/// Whether the same request may succeed later.
fn is_transient(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error()
}

/// Whether an upload must begin again.
fn is_lost_upload(status: StatusCode) -> bool {
    status == StatusCode::NOT_FOUND || status == StatusCode::RANGE_NOT_SATISFIABLE
}

/// How long to wait after an attempt: what the registry asks for, or more each time.
fn wait_before(attempt: u32, headers: Option<&HeaderMap>) -> Duration {
    let text = |name: HeaderName| headers?.get(name)?.to_str().ok()?.trim().parse().ok();
    let asked = text(RETRY_AFTER).map(Duration::from_secs);
    asked.unwrap_or_else(|| Duration::from_millis(200 << attempt)).min(MAX_WAIT)
}

/// The message in an answer of a registry.
fn read_message(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let errors = answer["errors"].as_array().into_iter().flatten();
    let messages = errors.filter_map(|error| error["message"].as_str().or_else(|| error["code"].as_str()));
    clean_text(&messages.collect::<Vec<_>>().join("; "))
}

/// The digest of bytes as registries write it.
fn compute_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_say_how_long_to_wait() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
        assert_eq!(wait_before(1, Some(&headers)), Duration::from_secs(2));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("86400"));
        assert_eq!(wait_before(1, Some(&headers)), MAX_WAIT);
        assert!(wait_before(1, None) < wait_before(2, None));
    }

    #[test]
    fn messages_of_registries_are_one_short_line() {
        let body = br#"{"errors": [{"code": "DENIED", "message": "no\n\u001b[31mway"}, {"code": "X"}]}"#;
        assert_eq!(read_message(body), "no \\u{1b}[31mway; X");
        assert_eq!(read_message(b"<html>"), "");
    }

    #[test]
    fn only_this_machine_is_reached_without_tls() {
        let options = || RegistryOptions { plain_http: true, ..RegistryOptions::default() };
        let registry = |address: &str| {
            Registry::new(&ArtifactAddress::parse(address).unwrap(), Credentials::Anonymous, options())
        };
        assert!(registry("oci://127.0.0.1:5000/a").is_ok());
        assert!(matches!(registry("oci://10.0.0.1:5000/a").err(), Some(Error::NotLoopback(_))));
    }
}
