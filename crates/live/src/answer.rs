//! What is told of answers that are refusals, and of requests without an answer: never the value of a
//! Secret, never a credential.

use http::StatusCode;
use kube::client::AuthError;
use serde_json::Value;

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
    /// Reads an answer. `secret` is set where the server's words may hold values of a Secret.
    pub(super) fn read(code: StatusCode, status: &Value, body: &[u8], secret: bool) -> Self {
        let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or_default();
        let harmless = matches!(code.as_u16(), 401 | 403 | 404);
        let message = match (secret && !harmless, text("message")) {
            (true, _) => withheld(status),
            (false, "") => String::from_utf8_lossy(body).trim().chars().take(300).collect(),
            (false, message) => message.to_owned(),
        };
        let message = if message.is_empty() { format!("HTTP {code}") } else { message };
        Self { code: code.as_u16(), reason: text("reason").to_owned(), message }
    }

    /// Whether there is no such object or resource.
    pub(super) fn is_absent(&self) -> bool {
        self.code == 404
    }

    /// Whether a refused dry run would be refused as well when it is sent, whatever else the run does: the object is
    /// wrong, or changes what cannot be changed. Rights, webhooks, policies and free ports may be there by then.
    pub(super) fn is_final(&self) -> bool {
        let says = |words: &str| self.message.contains(words);
        match self.code {
            400 => true,
            422 => !says("ValidatingAdmissionPolicy") && !says("already allocated"),
            // It does not fit the schema.
            500 => says("failed to create typed patch object"),
            _ => false,
        }
    }

    /// Whether somebody else was faster.
    pub(super) fn is_conflict(&self) -> bool {
        self.code == 409
    }
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
pub(super) enum Fault {
    /// It may go better the next time.
    Broken(String),
    /// It will not.
    Lasting(String),
}

impl From<kube::Error> for Fault {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Auth(error) => Self::Lasting(credentials(error)),
            // What middlewares answer: credentials that cannot be had, too.
            kube::Error::Service(error) => match error.downcast_ref::<AuthError>() {
                Some(error) => Self::Lasting(credentials(error)),
                None => told(chain(error.as_ref())),
            },
            kube::Error::ProxyProtocolUnsupported { proxy_url, .. } => {
                let scheme = proxy_url.scheme_str().unwrap_or_default();
                Self::Lasting(format!("a proxy is reached by http, https or socks5, not by `{scheme}`"))
            }
            error => told(chain(error)),
        }
    }
}

/// A certificate that is not trusted stays so.
fn told(why: String) -> Fault {
    if why.contains("invalid peer certificate") { Fault::Lasting(why) } else { Fault::Broken(why) }
}

/// What a command for credentials printed may be credentials, and so may be its arguments and environment:
/// none of them is repeated.
fn credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let status = out.status;
            format!("the kubeconfig's command for credentials failed ({status}); what it says is not shown")
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
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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
    fn what_a_server_says_of_a_secret_is_not_repeated() {
        let status = json!({
            "reason": "Invalid", "message": "Secret \"s\" is invalid: data[k]: Invalid value: \"hunter2\"",
            "details": {"causes": [{"field": "data[k]", "message": "Invalid value: \"hunter2\""}]},
        });
        let told =
            |secret: bool| Refusal::read(StatusCode::UNPROCESSABLE_ENTITY, &status, b"", secret).message;
        assert_eq!(told(true), "Invalid at data[k] (values are not shown)");
        assert!(told(false).contains("hunter2"));
    }
}
