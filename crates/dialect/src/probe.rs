//! The health probe of a member cluster: the answer of its API server to `GET /healthz`, and the conditions
//! that control planes derive from it.

use federate_kubernetes::object::value_at;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The answer of a member's API server to `GET /healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Healthz {
    /// There was no answer: the client's error.
    Unreachable(String),
    /// The server answered.
    Answered {
        /// The HTTP status code.
        code: u16,
        /// The body.
        body: String,
    },
}

impl Healthz {
    /// Why the request failed: no answer, or an HTTP error.
    pub fn describe_failure(&self) -> Option<String> {
        match self {
            Self::Unreachable(why) => Some(why.clone()),
            Self::Answered { code: 200..=206, .. } => None,
            Self::Answered { code, body } => Some(http_error(*code, body)),
        }
    }

    /// Whether the body is `ok`, in any case and without blanks.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Answered { body, .. } if body.eq_ignore_ascii_case("ok"))
    }
}

/// An HTTP error in the words of Kubernetes' client library.
fn http_error(code: u16, body: &str) -> String {
    match code {
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => format!("unknown: {body}"),
        404 => "the server could not find the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing \
                the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({body:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// A condition in the status of an inventory object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterCondition {
    /// Its type, e.g. `Ready`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason in one word.
    pub reason: String,
    /// The reason in a sentence.
    pub message: String,
    /// When it was last probed, where the control plane records that.
    pub last_probe_time: Option<Timestamp>,
    /// When `status` last changed.
    pub last_transition_time: Option<Timestamp>,
}

impl ClusterCondition {
    /// Reads a condition. Missing fields are empty.
    pub fn from_value(value: &Value) -> Self {
        let [kind, status, reason, message] = ["type", "status", "reason", "message"]
            .map(|key| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
        let [last_probe_time, last_transition_time] =
            ["lastProbeTime", "lastTransitionTime"].map(|key| value.get(key)?.as_str()?.parse().ok());
        Self { kind, status, reason, message, last_probe_time, last_transition_time }
    }

    /// The conditions below `status` of an inventory object, in their order.
    pub fn read_all(object: &Value) -> Vec<Self> {
        let list = value_at(object, &["status", "conditions"]).and_then(Value::as_array);
        list.into_iter().flatten().map(Self::from_value).collect()
    }

    /// The condition as it is written in `status`.
    pub fn to_value(&self) -> Value {
        let times =
            [("lastProbeTime", self.last_probe_time), ("lastTransitionTime", self.last_transition_time)];
        let mut map: Map<String, Value> = times
            .into_iter()
            .filter_map(|(key, time)| Some((key.to_owned(), time?.to_string().into())))
            .collect();
        let texts = [
            ("message", &self.message),
            ("reason", &self.reason),
            ("status", &self.status),
            ("type", &self.kind),
        ];
        map.extend(texts.map(|(key, text)| (key.to_owned(), text.as_str().into())));
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_error_is_a_failure_in_the_words_of_the_client_library() {
        let answer = |code, body: &str| Healthz::Answered { code, body: body.to_owned() };
        assert_eq!(answer(200, "not ok").describe_failure(), None);
        assert!(answer(200, "OK").is_ok() && !answer(200, "ok\n").is_ok());
        assert_eq!(
            answer(500, "etcd failed").describe_failure().as_deref(),
            Some("an error on the server (\"etcd failed\") has prevented the request from succeeding")
        );
    }
}
