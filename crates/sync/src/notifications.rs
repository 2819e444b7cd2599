//! Notifications: how reconciliations end, for webhooks, Slack, and the statuses of commits.
//!
//! Facts: `Provider` and `Event` of Flux's notification controller (`generic-hmac` signs with `X-Signature:
//! sha256=…`); incoming webhooks of Slack; the APIs for commit statuses of GitHub and GitLab.

use std::time::Duration;

use federate_http_client::{AddressPolicy, find_refusal};
use federate_sync_api::status::SyncReason;
use federate_sync_api::{Notification, NotificationType};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::environment::{CredentialsError, SyncServices};
use crate::source::credentials::SecretData;
use crate::sync_files::ValidSync;
use crate::uri::{describe_failure, parse_uri};

/// How long one attempt may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a notification is sent.
const MAX_ATTEMPTS: u32 = 3;
/// Characters of a description that GitHub accepts.
const MAX_DESCRIPTION_LENGTH: usize = 140;

/// What is sent.
struct NotificationMessage {
    address: Uri,
    headers: Vec<(HeaderName, String)>,
    body: Value,
}

/// The outcome of a reconciliation.
struct OutcomeNotification<'n> {
    sync: String,
    reason: SyncReason,
    text: &'n str,
    revision: Option<&'n str>,
}

/// Sends an outcome to all that the Sync names, in a thread. Failures are logged, and change nothing else.
pub(crate) fn send_notifications(
    valid_sync: &ValidSync,
    services: &dyn SyncServices,
    reason: SyncReason,
    text: &str,
    revision: Option<&str>,
) {
    let sync = valid_sync.object.full_name();
    let news = OutcomeNotification { sync: sync.clone(), reason, text, revision };
    let mut messages = Vec::new();
    for notification in &valid_sync.object.spec.notifications {
        match build_message(valid_sync, services, notification, &news) {
            Ok(message) => messages.extend(message),
            Err(why) => tracing::warn!(sync, %why, "a notification cannot be sent"),
        }
    }
    if messages.is_empty() {
        return;
    }
    let addresses = services.address_policy();
    std::thread::spawn(move || {
        for message in messages {
            // Addresses of webhooks are credentials.
            let host = message.address.host().unwrap_or_default().to_owned();
            if let Err(why) = deliver_message(&message, addresses) {
                tracing::warn!(sync, host, why, "a notification was not accepted");
            }
        }
    });
}

/// A key of a Secret as text, without white space around it.
fn trimmed_key<'k>(keys: &'k SecretData, name: &str) -> Option<&'k str> {
    keys.get(name).and_then(|value| std::str::from_utf8(value).ok()).map(str::trim)
}

/// The message about an outcome; `None` if the service does not take it.
fn build_message(
    valid_sync: &ValidSync,
    services: &dyn SyncServices,
    notification: &Notification,
    news: &OutcomeNotification<'_>,
) -> Result<Option<NotificationMessage>, CredentialsError> {
    let secret = notification.secret_ref.as_ref();
    let keys =
        secret.map(|secret| services.read_secret(valid_sync, &secret.name)).transpose()?.unwrap_or_default();
    let address = notification.address.as_deref().or_else(|| trimmed_key(&keys, "address"));
    let address = parse_uri(address.ok_or("there is no `address`".to_owned())?)?;
    let token = trimmed_key(&keys, "token").ok_or("the Secret has no key `token`".to_owned());
    let json = (header::CONTENT_TYPE, "application/json".to_owned());
    Ok(match notification.r#type {
        NotificationType::Generic => {
            Some(NotificationMessage { address, headers: vec![json], body: news.flux_event() })
        }
        NotificationType::GenericHmac => {
            let body = news.flux_event();
            let signature = sign_body(token?, body.to_string().as_bytes());
            let headers = vec![json, (HeaderName::from_static("x-signature"), signature)];
            Some(NotificationMessage { address, headers, body })
        }
        NotificationType::Slack => {
            let body = json!({"text": format!("*{}* {}: {}", news.sync, news.reason.name(), news.text)});
            Some(NotificationMessage { address, headers: vec![json], body })
        }
        NotificationType::Github => {
            let Some(commit) = news.find_commit() else { return Ok(None) };
            let address = github_statuses_uri(&address, commit)?;
            let headers = vec![json, (header::AUTHORIZATION, format!("Bearer {}", token?))];
            let body = json!({"state": news.choose_state(["pending", "success", "failure"]),
                "context": news.status_context(), "description": news.short_description()});
            Some(NotificationMessage { address, headers, body })
        }
        NotificationType::Gitlab => {
            let Some(commit) = news.find_commit() else { return Ok(None) };
            let project = repository_path(&address).replace('/', "%2F");
            let address = with_path(&address, &format!("/api/v4/projects/{project}/statuses/{commit}"))?;
            let headers = vec![json, (HeaderName::from_static("private-token"), token?.to_owned())];
            let body = json!({"state": news.choose_state(["running", "success", "failed"]),
                "name": news.status_context(), "description": news.short_description()});
            Some(NotificationMessage { address, headers, body })
        }
    })
}

impl OutcomeNotification<'_> {
    /// An `Event` as Flux writes it.
    fn flux_event(&self) -> Value {
        let (namespace, name) = self.sync.split_once('/').unwrap_or_default();
        let fails = !matches!(self.reason, SyncReason::ReconciliationSucceeded | SyncReason::Progressing);
        json!({
            "involvedObject": {
                "apiVersion": "federate.dev/v1alpha1", "kind": "Sync", "namespace": namespace, "name": name,
            },
            "severity": if fails { "error" } else { "info" },
            "timestamp": format!("{:.0}", Timestamp::now()),
            "message": self.text,
            "reason": self.reason.name(),
            "metadata": {"revision": self.revision},
            "reportingController": "federate-sync",
        })
    }

    /// The commit of the revision, which may follow the name of a reference.
    fn find_commit(&self) -> Option<&str> {
        let commit = self.revision?.rsplit_once("sha1:")?.1;
        commit.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(commit)
    }

    fn choose_state<'s>(&self, [pending, success, failure]: [&'s str; 3]) -> &'s str {
        match self.reason {
            SyncReason::Progressing => pending,
            SyncReason::ReconciliationSucceeded => success,
            _ => failure,
        }
    }

    fn status_context(&self) -> String {
        format!("federate/{}", self.sync)
    }

    fn short_description(&self) -> String {
        self.text.chars().take(MAX_DESCRIPTION_LENGTH).collect()
    }
}

/// The same server at another path.
fn with_path(address: &Uri, path: &str) -> Result<Uri, String> {
    let mut parts = address.clone().into_parts();
    parts.path_and_query = path.parse().ok();
    Uri::from_parts(parts).map_err(|error| error.to_string())
}

/// The repository of an address, without `.git`.
fn repository_path(address: &Uri) -> String {
    let path = address.path().trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path).to_owned()
}

fn github_statuses_uri(address: &Uri, commit: &str) -> Result<Uri, String> {
    let path = format!("/repos/{}/statuses/{commit}", repository_path(address));
    if address.host() == Some("github.com") {
        return with_path(&Uri::from_static("https://api.github.com/"), &path);
    }
    with_path(address, &format!("/api/v3{path}"))
}

fn sign_body(token: &str, body: &[u8]) -> String {
    // Keys may have any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(token.as_bytes()) else { return String::new() };
    mac.update(body);
    let digits = mac.finalize().into_bytes();
    digits.iter().fold("sha256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Sends a message, and again if the server does not answer or is busy.
fn deliver_message(message: &NotificationMessage, addresses: AddressPolicy) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let server = with_path(&message.address, "/")?;
        let mut config = kube::Config::new(server);
        (config.connect_timeout, config.read_timeout) = (Some(REQUEST_TIMEOUT), Some(REQUEST_TIMEOUT));
        let client =
            federate_http_client::build_client(config, addresses).map_err(|error| error.to_string())?;
        let mut attempt = 1;
        loop {
            let why = match tokio::time::timeout(REQUEST_TIMEOUT, client.send(message.to_request()?)).await {
                Ok(Ok(answer)) if answer.status().is_success() => return Ok(()),
                Ok(Ok(answer)) if !is_busy(answer.status()) => {
                    return Err(format!("the server answers {}", answer.status()));
                }
                Ok(Ok(answer)) => format!("the server answers {}", answer.status()),
                Ok(Err(error)) if find_refusal(&error).is_some() => return Err(describe_failure(&error)),
                Ok(Err(error)) => describe_failure(&error),
                Err(_) => "the server does not answer".to_owned(),
            };
            if attempt == MAX_ATTEMPTS {
                return Err(why);
            }
            tokio::time::sleep(Duration::from_secs(1 << attempt)).await;
            attempt += 1;
        }
    })
}

fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

impl NotificationMessage {
    fn to_request(&self) -> Result<Request<Body>, String> {
        let path = self.address.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::post(path);
        for (name, value) in &self.headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| "the token is not valid".to_owned())?;
            value.set_sensitive(*name != header::CONTENT_TYPE);
            request = request.header(name, value);
        }
        let agent = concat!("federate-sync/", env!("CARGO_PKG_VERSION"));
        let body = Body::from(self.body.to_string().into_bytes());
        request.header(header::USER_AGENT, agent).body(body).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_about_the_commit_of_a_repository() {
        let statuses =
            |address: &str| github_statuses_uri(&parse_uri(address).unwrap(), "abc").unwrap().to_string();
        assert_eq!(
            statuses("https://github.com/shop/deploy.git"),
            "https://api.github.com/repos/shop/deploy/statuses/abc"
        );
        assert_eq!(
            statuses("https://git.example.com/shop/deploy"),
            "https://git.example.com/api/v3/repos/shop/deploy/statuses/abc"
        );
        let news = |revision| OutcomeNotification {
            sync: "a/b".to_owned(),
            reason: SyncReason::Progressing,
            text: "",
            revision,
        };
        assert_eq!(news(Some("main@sha1:0af")).find_commit(), Some("0af"));
        assert_eq!(news(Some("sha256:0af")).find_commit(), None);
    }

    #[test]
    fn no_message_is_sent_to_a_local_address_where_that_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let address = parse_uri(&format!("http://{host}:{port}/hook")).unwrap();
            let message = NotificationMessage { address, headers: Vec::new(), body: Value::Null };
            let refused = deliver_message(&message, AddressPolicy::NotLocal).unwrap_err();
            assert!(refused.contains("a Sync may not lead there"), "{refused}");
        }
        assert!(listener.accept().is_err(), "nothing has connected");
    }

    #[test]
    fn messages_are_signed() {
        // The second test case of RFC 4231.
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign_body("Jefe", b"what do ya want for nothing?"), expected);
    }
}
