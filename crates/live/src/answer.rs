//! The messages of refusals and of requests without an answer. They never contain the value of a Secret, nor a
//! credential.

use federate_http_client::find_refusal;
use federate_kubernetes::display_text::shorten_line;
use federate_kubernetes::object::field_text;
use http::StatusCode;
use kube::client::AuthError;
use serde_json::Value;

/// The most characters of a message that are kept: it may be the server of a stranger.
const MAX_MESSAGE_CHARACTERS: usize = 2_000;
/// The most characters of a reason that are kept, which is one word.
const MAX_REASON_CHARACTERS: usize = 100;

/// A refusal of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusError {
    /// The HTTP status.
    pub code: u16,
    /// The reason, one word; empty where the server gives none.
    pub reason: String,
    /// The message; without values where they could be those of a Secret.
    pub message: String,
}

impl StatusError {
    /// Reads an answer. `secret` is set where the server's message may contain values of a Secret, or what SOPS encrypted.
    pub(super) fn from_answer(code: StatusCode, status: &Value, secret: bool) -> Self {
        let harmless = matches!(code.as_u16(), 401 | 403 | 404);
        let message = match (secret && !harmless, field_text(status, "message")) {
            (true, _) => describe_invalid_fields(status),
            // What is not a Status of an API server is not shown: whoever names the address of a cluster could read the
            // answers of other servers with it.
            (false, _) if status.get("kind").is_none_or(|kind| kind != "Status") => String::new(),
            (false, message) => match status.get("details").and_then(Value::as_object) {
                Some(details) => federate_apiserver_model::shorten_message(message, details),
                None => message.to_owned(),
            },
        };
        let message = if message.is_empty() { format!("HTTP {code}") } else { message };
        let reason = shorten_line(field_text(status, "reason"), MAX_REASON_CHARACTERS);
        Self { code: code.as_u16(), reason, message: shorten_line(&message, MAX_MESSAGE_CHARACTERS) }
    }

    /// Whether the object or the resource does not exist.
    pub(super) fn is_absent(&self) -> bool {
        self.code == 404
    }

    /// Whether the request behind a refused dry run would be refused as well, whatever else the run does: the object
    /// is invalid, or changes an immutable field. Missing rights, webhooks, policies and ports may be available by
    /// then.
    pub(super) fn is_final(&self) -> bool {
        let message = &self.message;
        match self.code {
            400 => true,
            422 => !message.contains("ValidatingAdmissionPolicy") && !message.contains("already allocated"),
            // It does not fit the schema.
            500 => message.contains("failed to create typed patch object"),
            _ => false,
        }
    }

    /// Whether another client has changed the object.
    pub(super) fn is_conflict(&self) -> bool {
        self.code == 409
    }
}

/// The invalid fields, without their values, which servers repeat.
fn describe_invalid_fields(status: &Value) -> String {
    let causes = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    let fields: Vec<&str> = causes.filter_map(|cause| cause.get("field")?.as_str()).collect();
    let reason = status.get("reason").and_then(Value::as_str).unwrap_or("refused");
    if fields.is_empty() {
        return format!("{reason} (the server's message may contain secret values and is not shown)");
    }
    format!("{reason} at {} (values are not shown)", fields.join(", "))
}

/// Why a request has no answer.
pub(super) enum RequestError {
    /// Another attempt may succeed.
    Retryable(String),
    /// Another attempt would fail as well.
    Permanent(String),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Auth(error) => Self::Permanent(describe_credential_error(error)),
            // Errors of middlewares, such as failed credential plugins.
            kube::Error::Service(error) => match error.downcast_ref::<AuthError>() {
                Some(error) => Self::Permanent(describe_credential_error(error)),
                None => classify_failure(error.as_ref()),
            },
            kube::Error::ProxyProtocolUnsupported { proxy_url, .. } => {
                let scheme = proxy_url.scheme_str().unwrap_or_default();
                Self::Permanent(format!("a proxy is reached by http, https or socks5, not by `{scheme}`"))
            }
            error => classify_failure(error),
        }
    }
}

/// A certificate that is not trusted is not trusted the next time, and an address that is refused is refused again.
fn classify_failure(error: &(dyn std::error::Error + 'static)) -> RequestError {
    if let Some(refusal) = find_refusal(error) {
        return RequestError::Permanent(refusal.to_string());
    }
    let why = format_chain(error);
    if why.contains("invalid peer certificate") {
        RequestError::Permanent(why)
    } else {
        RequestError::Retryable(why)
    }
}

/// The output of a credential plugin may be credentials, and so may its arguments and environment: none of them is
/// quoted.
fn describe_credential_error(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let status = out.status;
            format!("the kubeconfig's command for credentials failed ({status}); its output is not shown")
        }
        AuthError::AuthExecStart(error) => {
            format!("the kubeconfig's command for credentials does not start: {error}")
        }
        AuthError::AuthExecParse(_) => {
            "the kubeconfig's command for credentials prints no ExecCredential".to_owned()
        }
        AuthError::ReadTokenFile(error, path) => {
            format!("the token cannot be read from {}: {error}", path.display())
        }
        _ => "the kubeconfig's credentials cannot be used".to_owned(),
    }
}

/// An error with its causes, each once.
pub(super) fn format_chain(error: &(dyn std::error::Error + 'static)) -> String {
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
    fn a_message_is_one_line_that_can_be_seen_and_has_a_limit() {
        let long = "x".repeat(100_000);
        let status = json!({"kind": "Status", "reason": "a\u{1b}[2J", "message": format!("no\n\u{202e}way\u{1b}]52;c;eA==\u{7} {long}")});
        let error = StatusError::from_answer(StatusCode::FORBIDDEN, &status, false);
        assert!(error.message.starts_with("no \\u{202e}way\\u{1b}]52;c;eA==\\u{7} xxx"), "{}", error.message);
        assert!(error.message.chars().count() < 2_100 && error.message.ends_with('…'));
        assert_eq!(error.reason, "a\\u{1b}[2J");
    }

    #[test]
    fn messages_about_a_secret_are_not_repeated() {
        let status = json!({
            "kind": "Status", "reason": "Invalid", "message": "Secret \"s\" is invalid: data[k]: Invalid value: \"hunter2\"",
            "details": {"causes": [{"field": "data[k]", "message": "Invalid value: \"hunter2\""}]},
        });
        let fault = |secret: bool| {
            StatusError::from_answer(StatusCode::UNPROCESSABLE_ENTITY, &status, secret).message
        };
        assert_eq!(fault(true), "Invalid at data[k] (values are not shown)");
        assert!(fault(false).contains("hunter2"));
    }
}
