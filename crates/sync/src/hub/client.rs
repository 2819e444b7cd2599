//! Requests to the API server, as blocking calls with a time limit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::TryStreamExt;
use http::{HeaderValue, Method, Request, Response, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::runtime::Runtime;
use tower::util::MapResultLayer;

use federate_http_client::AddressPolicy;
use federate_live::path::ApiPath;
use federate_live::{AnswerCounts, ServerRole};
use federate_sync_api::NamespacedName;

use crate::counters::MetricCounters;
use crate::source::credentials::SecretData;
use crate::source::github_app::InstallationTokens;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a watch lasts until it is started again.
const WATCH_TIMEOUT: Duration = Duration::from_mins(4);

/// A patch in steps.
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
/// A whole object.
pub(crate) const JSON: &str = "application/json";

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be reached.
    #[error("cannot reach the API server of the Syncs: {0}")]
    Access(String),
    /// It did not answer.
    #[error("the API server of the Syncs does not answer: {0}")]
    Unreachable(String),
    /// What a record says may not be carried out.
    #[error(
        "the last valid spec, which the record of the Sync keeps, may not be carried out: {0}; with `deletionPolicy: Orphan`, the \
         objects in member clusters stay, and the Sync is deleted"
    )]
    NotPermitted(String),
    /// It refused.
    #[error("the API server of the Syncs refuses: {message}")]
    Refused {
        /// The HTTP status code.
        code: u16,
        /// The message.
        message: String,
    },
}

impl Error {
    /// Whether the object does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// Whether another client has changed or created the object meanwhile.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }

    /// Whether the version that a watch started at is too old.
    pub(crate) fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { code: 410, .. })
    }
}

/// The API server does not know the kind.
pub(super) fn not_served() -> Error {
    let why = "it does not serve Syncs: apply deploy/crds/syncs.federate.dev.yaml, or run `kubectl apply -k deploy/sync`";
    Error::Access(why.to_owned())
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused { code: status.code, message: status.message.clone() },
            error => Self::Unreachable(error.to_string()),
        }
    }
}

/// Whom federate acts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImpersonatedUser {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl ImpersonatedUser {
    /// The `ServiceAccount` of a namespace.
    pub(crate) fn for_service_account(namespace: &str, name: &str) -> Self {
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ];
        Self { name: format!("system:serviceaccount:{namespace}:{name}"), groups: groups.into() }
    }
}

/// The API server that holds Sync objects.
pub struct HubClient {
    runtime: Runtime,
    client: kube::Client,
    /// The tokens of GitHub Apps.
    tokens: InstallationTokens,
    /// The kubeconfigs that Syncs have used last, by namespace and name: a Sync that is deleted with its namespace may outlive
    /// its Secret.
    pub(super) kubeconfigs: Mutex<BTreeMap<String, SecretData>>,
    /// The Lease that this process has taken.
    pub(super) lease: OnceLock<NamespacedName>,
    answers: Arc<AnswerCounts>,
}

/// The path of a Sync object.
pub(super) fn sync_path(metadata: &NamespacedName) -> ApiPath {
    let syncs =
        ApiPath::from_version("federate.dev/v1alpha1").in_namespace(&metadata.namespace).join("syncs");
    syncs.join(&metadata.name)
}

impl HubClient {
    /// Connects by a context of a kubeconfig, or from the pod that this runs in. Answers are counted.
    pub fn connect(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        tally: &MetricCounters,
    ) -> Result<Self, Error> {
        let answers = tally.answers();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Error::Access(error.to_string()))?;
        let client = runtime.block_on(async {
            let mut config = match (kubeconfig, context) {
                (None, None) => {
                    kube::Config::infer().await.map_err(|error| Error::Access(error.to_string()))?
                }
                (path, context) => {
                    let read = path.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
                    // The parser's message quotes the line, with the credentials on it.
                    let read = read.map_err(|_| Error::Access("the kubeconfig cannot be read".to_owned()))?;
                    let options =
                        KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
                    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
                    config.map_err(|error| Error::Access(error.to_string()))?
                }
            };
            config.connect_timeout = Some(Duration::from_secs(10));
            let builder = kube::client::ClientBuilder::try_from(config).map_err(Error::from)?;
            let counter = MapResultLayer::new(move |answer: Result<Response<_>, _>| {
                answers.count_answer(ServerRole::Hub, answer.as_ref().ok().map(Response::status));
                answer
            });
            Ok::<_, Error>(builder.with_layer(&counter).build())
        })?;
        Ok(Self {
            runtime,
            client,
            tokens: InstallationTokens::default(),
            kubeconfigs: Mutex::default(),
            lease: OnceLock::new(),
            answers: tally.answers(),
        })
    }

    /// The credentials of a GitHub App as those of a user.
    pub(crate) fn app_credentials(
        &self,
        url: &str,
        keys: &SecretData,
        proxy: Option<&SecretData>,
        addresses: AddressPolicy,
    ) -> Result<SecretData, String> {
        self.runtime.block_on(self.tokens.installation_credentials(url, keys, proxy, addresses))
    }

    /// The namespace of the context, or of the pod.
    pub fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// An object, or a list; `None` if it does not exist.
    pub(crate) fn find_object(&self, path: &ApiPath) -> Result<Option<Value>, Error> {
        self.find_object_as(None, path)
    }

    /// The same as another user; as oneself if there is none.
    pub(crate) fn find_object_as(
        &self,
        user: Option<&ImpersonatedUser>,
        path: &ApiPath,
    ) -> Result<Option<Value>, Error> {
        let mut request = build_request(&Method::GET, path, JSON, None)?;
        if let Some(ImpersonatedUser { name, .. }) = user {
            // The API server knows the groups of a ServiceAccount; to name them takes more rights.
            let name = HeaderValue::from_str(name).map_err(|error| Error::Access(error.to_string()))?;
            request.headers_mut().insert("impersonate-user", name);
        }
        match self.execute_request(request) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request and returns the answer.
    pub(crate) fn send_request(
        &self,
        method: &Method,
        path: &ApiPath,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        self.execute_request(build_request(method, path, content_type, body)?)
    }

    fn execute_request(&self, request: Request<Vec<u8>>) -> Result<Value, Error> {
        self.runtime.block_on(async {
            if let Ok(answer) =
                tokio::time::timeout(REQUEST_TIMEOUT, self.client.request::<Value>(request)).await
            {
                return answer.map_err(Error::from);
            }
            self.answers.count_answer(ServerRole::Hub, None);
            Err(Error::Unreachable(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())))
        })
    }

    /// Watches a list from a version on, until the server ends the watch. `changed` is called with each object
    /// and whether it was deleted, and returns whether to go on. Returns the last version.
    pub(crate) fn watch_list(
        &self,
        path: &ApiPath,
        version: &str,
        mut changed: impl FnMut(Value, bool) -> bool,
    ) -> Result<String, Error> {
        let path = path.clone().with_query("watch", "1").with_query("allowWatchBookmarks", "true");
        let path = path.with_query("timeoutSeconds", &WATCH_TIMEOUT.as_secs().to_string());
        let path = path.with_query("resourceVersion", version);
        let request = build_request(&Method::GET, &path, JSON, None)?;
        self.runtime.block_on(async {
            let mut version = version.to_owned();
            let events = self.client.request_events::<Value>(request).await?;
            let mut events = std::pin::pin!(events);
            let silence = WATCH_TIMEOUT + REQUEST_TIMEOUT;
            // A server that is gone without a word ends the watch, too.
            while let Ok(event) = tokio::time::timeout(silence, events.try_next()).await {
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

fn build_request(
    method: &Method,
    path: &ApiPath,
    content_type: &str,
    body: Option<&Value>,
) -> Result<Request<Vec<u8>>, Error> {
    let bytes = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let uri = path.to_uri().map_err(|error| Error::Access(error.to_string()))?;
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::ACCEPT, JSON)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::USER_AGENT, concat!("federate-sync/", env!("CARGO_PKG_VERSION")));
    request.body(bytes).map_err(|error| Error::Access(error.to_string()))
}
