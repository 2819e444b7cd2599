//! Faults on demand.

use std::time::Duration;

use federate_apiserver_model::ApiError;

use super::http::{ApiRequest, Body, Response};

/// A fault of the next requests of a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// `*` for any.
    pub verb: String,
    /// Only requests whose path with its query contains this.
    pub path: String,
    /// The number of requests that it affects.
    pub times: usize,
    pub what: FaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// 429 with `Retry-After`, as text.
    TooMany { seconds: u32 },
    /// An answer with this code and a Status without details.
    Status(u16),
    /// 422 with this message, as a webhook or a policy refuses an object.
    Refusal(String),
    /// 409, as if another client had changed the object.
    Conflict,
    /// The answer comes late.
    Slow(Duration),
    /// The connection ends without an answer, and nothing was done.
    Drop,
    /// The connection ends without an answer after the request was carried out.
    Lose,
    /// 401, as if the credentials had expired.
    Stranger,
    /// A watch ends with 410.
    Gone,
    /// 200 with this text, in which `NUMBER` stands for how often the fault is still to come.
    Answer(String),
}

impl InjectedFault {
    pub fn new(verb: &str, what: FaultKind) -> Self {
        Self { verb: verb.to_owned(), path: String::new(), times: 1, what }
    }

    #[must_use]
    pub fn with_times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    #[must_use]
    pub fn on_path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }
}

#[derive(Debug, Default)]
pub struct Faults(Vec<InjectedFault>);

/// Stands for a connection that ends without an answer.
pub const DROPPED: u16 = 0;

impl Faults {
    pub fn add_fault(&mut self, fault: InjectedFault) {
        self.0.push(fault);
    }

    fn take_fault(
        &mut self,
        verb: &str,
        request: &ApiRequest,
        fits: impl Fn(&FaultKind) -> bool,
    ) -> Option<FaultKind> {
        if self.0.is_empty() {
            return None;
        }
        let path = request.path_and_query();
        let at = self.0.iter().position(|fault| {
            (fault.verb == "*" || fault.verb == verb) && path.contains(&fault.path) && fits(&fault.what)
        })?;
        self.0[at].times -= 1;
        let left = self.0[at].times;
        let what = if left == 0 { self.0.remove(at).what } else { self.0[at].what.clone() };
        Some(match what {
            FaultKind::Answer(text) => FaultKind::Answer(text.replace("NUMBER", &left.to_string())),
            what => what,
        })
    }

    /// The delay of an answer.
    pub fn take_delay(&mut self, verb: &str, request: &ApiRequest) -> Option<Duration> {
        match self.take_fault(verb, request, |what| matches!(what, FaultKind::Slow(_)))? {
            FaultKind::Slow(time) => Some(time),
            _ => None,
        }
    }

    /// Whether the answer is lost.
    pub fn is_answer_lost(&mut self, verb: &str, request: &ApiRequest) -> bool {
        self.take_fault(verb, request, |what| *what == FaultKind::Lose).is_some()
    }

    /// The faulty answer.
    pub fn next_failure(&mut self, verb: &str, request: &ApiRequest) -> Option<Response> {
        let what =
            self.take_fault(verb, request, |what| !matches!(what, FaultKind::Slow(_) | FaultKind::Lose))?;
        Some(match what {
            FaultKind::TooMany { seconds } => {
                Response::from_text(429, "Too many requests, please try again later.\n")
                    .with_header("Retry-After", &seconds.to_string())
            }
            FaultKind::Status(code) => {
                let reason = match code {
                    503 => "ServiceUnavailable",
                    504 => "Timeout",
                    _ => "InternalError",
                };
                ApiError::new(code, reason, "the server is out of order on demand").into()
            }
            FaultKind::Refusal(message) => ApiError::new(422, "Invalid", message).into(),
            FaultKind::Conflict => {
                let message = "Operation cannot be fulfilled: the object has been modified; please apply your changes \
                               to the latest version and try again";
                ApiError::new(409, "Conflict", message).into()
            }
            FaultKind::Drop => Response::from_text(DROPPED, ""),
            FaultKind::Gone => ApiError::new(410, "Expired", "too old resource version: 1 (2)").into(),
            FaultKind::Stranger => ApiError::new(401, "Unauthorized", "Unauthorized").into(),
            FaultKind::Answer(text) => {
                let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
                Response { status: 200, headers, body: Body::Text(text) }
            }
            FaultKind::Slow(_) | FaultKind::Lose => return None,
        })
    }
}
