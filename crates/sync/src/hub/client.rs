//! Requests to the API server, as blocking calls with a time limit.

use std::path::Path;
use std::time::Duration;

use futures_util::TryStreamExt;
use http::{Method, Request, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::runtime::Runtime;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a watch lasts until it is begun anew.
const WATCH: Duration = Duration::from_secs(240);

/// A patch in steps.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
/// A whole object.
pub(crate) const JSON: &str = "application/json";

/// Why the API server did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to it.
    #[error("cannot reach the API server of the Syncs: {0}")]
    Access(String),
    /// It did not answer.
    #[error("the API server of the Syncs does not answer: {0}")]
    Unreachable(String),
    /// It refused.
    #[error("the API server of the Syncs refuses: {message}")]
    Refused {
        /// The HTTP status code.
        code: u16,
        /// What it said.
        message: String,
    },
}

impl Error {
    /// Whether the object is not there.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// Whether somebody else changed the object meanwhile, or made it.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }

    /// Whether the version that a watch began at is no longer known.
    pub(crate) fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { code: 410, .. })
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused { code: status.code, message: status.message.clone() },
            error => Self::Unreachable(error.to_string()),
        }
    }
}

/// The API server that holds Sync objects.
pub struct Hub {
    runtime: Runtime,
    client: kube::Client,
}

impl Hub {
    /// Reaches it by a context of a kubeconfig, or from the pod that this runs in.
    pub fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, Error> {
        let access = |error: &dyn std::fmt::Display| Error::Access(error.to_string());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| access(&error))?;
        let client = runtime.block_on(async {
            let mut config = match (kubeconfig, context) {
                (None, None) => kube::Config::infer().await.map_err(|error| access(&error))?,
                (path, context) => {
                    let read = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
                    // What a parser says quotes the line, with the credentials on it.
                    let read = read.map_err(|_| Error::Access("the kubeconfig cannot be read".to_owned()))?;
                    let options =
                        KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
                    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
                    config.map_err(|error| access(&error))?
                }
            };
            config.connect_timeout = Some(Duration::from_secs(10));
            kube::Client::try_from(config).map_err(Error::from)
        })?;
        Ok(Self { runtime, client })
    }

    /// The namespace of the context, or of the pod.
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// An object, or a list; `None` where there is nothing of that name.
    pub(crate) fn find(&self, path: &str) -> Result<Option<Value>, Error> {
        match self.send(&Method::GET, path, JSON, None) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A request, and what is answered.
    pub(crate) fn send(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        let request = request(method, path, content_type, body)?;
        self.runtime.block_on(async {
            match tokio::time::timeout(PATIENCE, self.client.request::<Value>(request)).await {
                Ok(answer) => answer.map_err(Error::from),
                Err(_) => Err(Error::Unreachable(format!("no answer within {} s", PATIENCE.as_secs()))),
            }
        })
    }

    /// Watches a list from a version on, until the server ends the watch. `changed` is given each object with
    /// whether it is gone, and returns whether to go on. Returns the version that the watch has come to.
    pub(crate) fn watch(
        &self,
        path: &str,
        version: &str,
        mut changed: impl FnMut(Value, bool) -> bool,
    ) -> Result<String, Error> {
        let seconds = WATCH.as_secs();
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!(
            "{path}{separator}watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}"
        );
        let request = request(&Method::GET, &path, JSON, None)?;
        self.runtime.block_on(async {
            let mut version = version.to_owned();
            let events = self.client.request_events::<Value>(request).await?;
            let mut events = std::pin::pin!(events);
            let next = || tokio::time::Instant::now() + WATCH + PATIENCE;
            // A server that has gone away without a word is not waited for.
            while let Ok(event) = tokio::time::timeout_at(next(), events.try_next()).await {
                let (object, gone) = match event? {
                    None => return Ok(version),
                    Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
                    Some(WatchEvent::Deleted(object)) => (object, true),
                    Some(WatchEvent::Bookmark(mark)) => {
                        version = mark.metadata.resource_version;
                        continue;
                    }
                    Some(WatchEvent::Error(status)) => return Err(kube::Error::Api(status).into()),
                };
                if let Some(at) = object["metadata"]["resourceVersion"].as_str() {
                    at.clone_into(&mut version);
                }
                if !changed(object, gone) {
                    return Ok(version);
                }
            }
            Ok(version)
        })
    }
}

fn request(
    method: &Method,
    path: &str,
    content_type: &str,
    body: Option<&Value>,
) -> Result<Request<Vec<u8>>, Error> {
    let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, JSON)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::USER_AGENT, concat!("federate-sync/", env!("CARGO_PKG_VERSION")));
    request.body(bytes).map_err(|error| Error::Access(error.to_string()))
}
