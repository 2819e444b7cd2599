//! How clusters are reached: by contexts of a kubeconfig, by their inventory objects, or as the pod that federate runs
//! in.
//!
//! Certificates are verified unless the kubeconfig or the inventory says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use kube::config::{self as kube_config, ExecInteractiveMode, KubeConfigOptions, KubeconfigError};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use super::answer::RequestError;
use super::client::{Client, ClientFactory};
use super::counts::{AnswerCounts, ServerRole};
use super::hub::{self, HubAccess};
use super::kubeconfig::Kubeconfig;
use super::path::ApiPath;
use super::request::RepeatableRequest;
use super::{Error, proxy};
use federate_http_client::{AddressPolicy, ClientError};

/// How long it may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a credential plugin may take, which may prompt the user.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_mins(2);
/// The number of clusters that are worked on at a time, unless [`Access::at_once`] says otherwise.
const DEFAULT_CONCURRENCY: usize = 16;

/// What to do about a cluster that has no context of its name.
const CONTEXT_HINT: &str = "; name the cluster's context below `contexts` in federate.yaml, and allow it with \
                            --contexts-from-repo";

/// How clusters are reached.
#[derive(Clone, Default)]
pub struct Access {
    /// The kubeconfig; without it that of the environment, or `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// A kubeconfig that is not a file, in place of it.
    pub given: Option<Kubeconfig>,
    /// The contexts of clusters whose context has another name.
    pub contexts: BTreeMap<String, MemberContext>,
    /// The inventory, for clusters that have no context above.
    pub hub: Option<HubAccess>,
    /// The user to impersonate in the clusters.
    pub user: Option<String>,
    /// The groups to impersonate.
    pub groups: Vec<String>,
    /// The time limit for everything that is done in a cluster.
    pub timeout: Option<Duration>,
    /// How long a cluster may take to answer for the first time: one that hangs is given up, and does not delay others.
    pub first_answer: Option<Duration>,
    /// The number of clusters that are worked on at a time: the objects of all of them are in memory.
    pub at_once: Option<usize>,
    /// Counts the answers of API servers.
    pub answers: Option<Arc<AnswerCounts>>,
    /// The addresses at which clusters may be, if the kubeconfig is a given one, or their inventory names them.
    pub addresses: AddressPolicy,
}

/// How a cluster is reached.
struct MemberConfig {
    config: Config,
    addresses: AddressPolicy,
}

/// The context of a cluster whose context has another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberContext {
    /// The cluster is reached through this context.
    Named(String),
    /// A context was named by who may not choose it, so that the cluster is not reached. The text says why.
    Refused(String),
}

/// An [`Access`] whose files have been read.
pub(super) struct Connections {
    access: Access,
    source: Arc<KubeconfigSource>,
    /// The hub, or why it cannot be reached; connected to once for all clusters.
    hub: OnceCell<Result<Client, Error>>,
    cluster_slots: Arc<Semaphore>,
}

pub(super) enum KubeconfigSource {
    File(Box<kube_config::Kubeconfig>),
    /// The pod's own cluster.
    Pod,
}

impl Access {
    /// The address of a cluster's API server. With a `Hub`, that is asked; nothing is sent to the cluster.
    pub async fn find_address(&self, cluster: &str) -> Result<String, Error> {
        Ok(self.open_connections(1)?.member_config(cluster).await?.config.cluster_url.to_string())
    }

    /// The names of the contexts of the kubeconfig.
    ///
    /// # Errors
    ///
    /// If the kubeconfig cannot be read.
    pub fn context_names(&self) -> Result<BTreeSet<String>, Error> {
        let connections = self.open_connections(1)?;
        Ok(connections.context_names().into_iter().map(str::to_owned).collect())
    }

    /// The number of clusters that are worked on at a time.
    pub(super) fn clusters_at_once(&self) -> usize {
        self.at_once.unwrap_or(DEFAULT_CONCURRENCY)
    }

    /// Reads the files. Without a kubeconfig only the cluster that federate runs in can be reached, so that `clusters`,
    /// the number of clusters, must be 1.
    pub(super) fn open_connections(&self, clusters: usize) -> Result<Arc<Connections>, Error> {
        let read = match (&self.given, &self.kubeconfig) {
            (Some(given), _) => Ok(given.0.clone()),
            (None, Some(path)) => kube_config::Kubeconfig::read_from(path),
            (None, None) => kube_config::Kubeconfig::read(),
        };
        let source = match read {
            Ok(kubeconfig) => KubeconfigSource::File(Box::new(kubeconfig)),
            // The parser's message quotes the line with the credentials.
            Err(KubeconfigError::Parse(_)) => {
                let why = "the kubeconfig is not valid; what is wrong is not shown, because it holds credentials \
                           (`kubectl config view` shows it)";
                return Err(Error::Access(why.to_owned()));
            }
            Err(error) if self.kubeconfig.is_some() || !is_missing(&error) => {
                return Err(Error::Access(format!("the kubeconfig {}", describe_error(&error))));
            }
            Err(_) if self.hub.is_some() => {
                return Err(Error::Access(
                    "no kubeconfig found, and --hub-context names a context of it: name the file with --kubeconfig"
                        .to_owned(),
                ));
            }
            Err(_) => pod_source(clusters)?,
        };
        Ok(Arc::new(Connections {
            access: self.clone(),
            source: Arc::new(source),
            hub: OnceCell::new(),
            cluster_slots: Arc::new(Semaphore::new(self.clusters_at_once())),
        }))
    }
}

/// The pod's own cluster, if this runs in a pod.
fn pod_source(clusters: usize) -> Result<KubeconfigSource, Error> {
    let name_one = "name the file with --kubeconfig";
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        return Err(Error::Access(format!(
            "no kubeconfig found in $KUBECONFIG or ~/.kube/config: {name_one}"
        )));
    }
    if let Err(error) = Config::incluster() {
        let why = format!("no kubeconfig found, and the pod's own credentials fail ({error}): {name_one}");
        return Err(Error::Access(why));
    }
    if clusters > 1 {
        return Err(Error::Access(format!(
            "without a kubeconfig only the cluster that this runs in can be reached, but {clusters} are \
             needed: choose one with --cluster, or {name_one}"
        )));
    }
    Ok(KubeconfigSource::Pod)
}

/// What is wrong with a kubeconfig, without its text: the parser's message quotes the line with the credentials.
fn describe_error(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!("is not valid at line {}, column {}", at.line(), at.column()),
            None => "is not valid".to_owned(),
        },
        error => format!("cannot be used: {error}"),
    }
}

fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.kind() == std::io::ErrorKind::NotFound,
        KubeconfigError::FindPath => true,
        _ => false,
    }
}

/// Connects to a member cluster.
struct MemberFactory {
    connections: Arc<Connections>,
    cluster: String,
}

/// Connects to the hub.
struct HubFactory {
    source: Arc<KubeconfigSource>,
    context: String,
    /// The user to impersonate.
    user: Option<String>,
}

impl ClientFactory for MemberFactory {
    fn make_client(&self) -> Pin<Box<dyn Future<Output = Result<kube::Client, Error>> + Send + '_>> {
        Box::pin(async {
            let MemberConfig { mut config, addresses } =
                self.connections.member_config(&self.cluster).await?;
            let access = &self.connections.access;
            if let Some(user) = &access.user {
                config.auth_info.impersonate = Some(user.clone());
            }
            if !access.groups.is_empty() {
                config.auth_info.impersonate_groups = Some(access.groups.clone());
            }
            build_client(config, addresses).await
        })
    }
}

impl ClientFactory for HubFactory {
    fn make_client(&self) -> Pin<Box<dyn Future<Output = Result<kube::Client, Error>> + Send + '_>> {
        Box::pin(async {
            let mut config = self.source.context_config(&self.context, "").await?;
            if let Some(user) = &self.user {
                // The API server knows the groups of a ServiceAccount; to name them takes more rights.
                config.auth_info.impersonate = Some(user.clone());
            }
            // Whoever runs federate has named it.
            build_client(config, AddressPolicy::Any).await
        })
    }
}

/// The API server of a cluster.
pub(super) async fn connect_member(connections: &Arc<Connections>, cluster: &str) -> Result<Client, Error> {
    let factory = MemberFactory { connections: connections.clone(), cluster: cluster.to_owned() };
    let client = Client::new(factory, connections.cluster_slots.clone()).await?;
    let client = client.with_first_answer(connections.access.first_answer);
    Ok(client.with_answer_counts(connections.access.answers.clone(), ServerRole::Member))
}

/// The API server of a hub.
pub(super) async fn connect_hub(connections: &Arc<Connections>, context: &str) -> Result<Client, Error> {
    let user = connections.access.hub.as_ref().and_then(|hub| hub.user.clone());
    let factory = HubFactory { source: connections.source.clone(), context: context.to_owned(), user };
    let client = Client::new(factory, Arc::new(Semaphore::new(1))).await?;
    Ok(client.with_answer_counts(connections.access.answers.clone(), ServerRole::Hub))
}

/// The same, without counting towards the limit of clusters that are worked on at a time.
pub(super) async fn connect_dedicated(
    connections: &Arc<Connections>,
    cluster: &str,
) -> Result<Client, Error> {
    let factory = MemberFactory { connections: connections.clone(), cluster: cluster.to_owned() };
    let client = Client::new(factory, Arc::new(Semaphore::new(1))).await?;
    Ok(client.with_answer_counts(connections.access.answers.clone(), ServerRole::Member))
}

impl KubeconfigSource {
    /// The configuration of a context of the kubeconfig; `help` says what to do if there is none.
    async fn context_config(&self, context: &str, help: &str) -> Result<Config, Error> {
        let Self::File(kubeconfig) = self else {
            return Err(Error::Access("there is no kubeconfig".to_owned()));
        };
        if !kubeconfig.contexts.iter().any(|named| named.name == context) {
            return Err(Error::Access(format!("the kubeconfig has no context `{context}`{help}")));
        }
        let read = build_config(kubeconfig, context).await;
        read.map_err(|why| Error::Access(format!("the context `{context}` of the kubeconfig: {why}")))
    }
}

impl Connections {
    /// The time limit for everything that is done in a cluster.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.access.timeout
    }

    /// The names of the contexts; none without a kubeconfig.
    pub(super) fn context_names(&self) -> Vec<&str> {
        match &*self.source {
            KubeconfigSource::File(kubeconfig) => {
                kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect()
            }
            KubeconfigSource::Pod => Vec::new(),
        }
    }

    async fn member_config(&self, cluster: &str) -> Result<MemberConfig, Error> {
        let context = match self.access.contexts.get(cluster) {
            Some(MemberContext::Refused(why)) => return Err(Error::Access(why.clone())),
            Some(MemberContext::Named(context)) => Some(context),
            None => None,
        };
        let is_named_by_others = self.access.given.is_some();
        let (config, is_named_by_others) = match (&*self.source, &self.access.hub) {
            (KubeconfigSource::Pod, _) => {
                (Config::incluster().map_err(|e| Error::Access(e.to_string()))?, is_named_by_others)
            }
            (KubeconfigSource::File(_), Some(hub)) if context.is_none() => {
                (self.by_inventory(hub, cluster).await?, true)
            }
            _ => {
                let name = context.map_or(cluster, String::as_str);
                (self.source.context_config(name, CONTEXT_HINT).await?, is_named_by_others)
            }
        };
        // A kubeconfig of whoever runs federate may lead anywhere.
        let addresses = if is_named_by_others { self.access.addresses } else { AddressPolicy::Any };
        Ok(MemberConfig { config, addresses })
    }

    async fn by_inventory(&self, hub: &HubAccess, cluster: &str) -> Result<Config, Error> {
        let listed =
            hub.inventory.get(cluster).ok_or_else(|| unknown_connection("it is not in the inventory"))?;
        let client = self.hub.get_or_init(|| self.connect_hub(hub)).await.as_ref().map_err(Clone::clone)?;
        let connection = hub::read_connection(client, listed)
            .await
            .map_err(|error| unknown_connection(&error.to_string()))?;
        let kubeconfig = hub::build_kubeconfig(client, &connection, self.access.user.is_some()).await?;
        let read = build_config(&kubeconfig, hub::INVENTORY_CONTEXT).await;
        read.map_err(|why| Error::Access(format!("the inventory object and the Secret on the hub: {why}")))
    }

    /// Connects to the hub, and returns its client once it has answered.
    async fn connect_hub(&self, hub: &HubAccess) -> Result<Client, Error> {
        let (source, context, user) = (self.source.clone(), hub.context.clone(), hub.user.clone());
        let factory = HubFactory { source, context, user };
        // It does not take the slot of a cluster.
        let connected = match Client::new(factory, Arc::new(Semaphore::new(1))).await {
            Ok(client) => {
                let client = client.with_answer_counts(self.access.answers.clone(), ServerRole::Hub);
                match client.request_json(&RepeatableRequest::get(ApiPath::new(["version"]))).await {
                    Ok(_) | Err(Error::Refused(_)) => Ok(client),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        connected.map_err(|error| Error::Access(format!("the hub (`{}`): {error}", hub.context)))
    }
}

fn unknown_connection(why: &str) -> Error {
    Error::Access(format!(
        "{why}; name a context of the kubeconfig for it below `contexts` in federate.yaml, and allow it with \
         --contexts-from-repo"
    ))
}

async fn build_config(kubeconfig: &kube_config::Kubeconfig, context: &str) -> Result<Config, String> {
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
    let read = Config::from_custom_kubeconfig(select_context(kubeconfig, context), &options).await;
    let mut config = read.map_err(|error| error.to_string())?;
    config.proxy_url =
        proxy::find_proxy(kubeconfig, context, &config.cluster_url).map_err(|error| error.to_string())?;
    Ok(config)
}

/// One context of a kubeconfig: there may be thousands.
fn select_context(kubeconfig: &kube_config::Kubeconfig, context: &str) -> kube_config::Kubeconfig {
    let contexts = kubeconfig.contexts.iter().find(|named| named.name == context).cloned();
    let (cluster, user) = match contexts.as_ref().and_then(|named| named.context.as_ref()) {
        Some(context) => (Some(&context.cluster), context.user.as_ref()),
        None => (None, None),
    };
    let clusters = kubeconfig.clusters.iter().find(|named| Some(&named.name) == cluster).cloned();
    let auth_infos = kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == user).cloned();
    kube_config::Kubeconfig {
        contexts: contexts.into_iter().collect(),
        clusters: clusters.into_iter().collect(),
        auth_infos: auth_infos.into_iter().collect(),
        ..kube_config::Kubeconfig::default()
    }
}

/// A client for a server. Nothing is sent yet, but credential plugins have run.
async fn build_client(mut config: Config, addresses: AddressPolicy) -> Result<kube::Client, Error> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // `Client` repeats requests, because it knows when the server asks for that.
    config.default_retry = false;
    if let Some(exec) = &mut config.auth_info.exec
        && exec.interactive_mode != Some(ExecInteractiveMode::Always)
        && !std::io::stdin().is_terminal()
    {
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    // Nothing can interrupt a credential plugin, but it need not be waited for. The client needs the runtime, too.
    let runtime = tokio::runtime::Handle::current();
    let made = tokio::task::spawn_blocking(move || {
        let _entered = runtime.enter();
        federate_http_client::build_client(config, addresses)
    });
    match timeout(CREDENTIALS_TIMEOUT, made).await {
        Ok(Ok(Ok(client))) => Ok(client),
        Ok(Ok(Err(ClientError::Address(refusal)))) => Err(Error::Access(refusal.to_string())),
        Ok(Ok(Err(ClientError::Config(error)))) => match RequestError::from(error) {
            RequestError::Retryable(why) | RequestError::Permanent(why) => Err(Error::Access(why)),
        },
        Ok(Err(error)) => Err(Error::Access(error.to_string())),
        Err(_) => Err(Error::Access(format!(
            "the kubeconfig's command for credentials gave none within {} s",
            CREDENTIALS_TIMEOUT.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What a request to a cluster at an address says, if the kubeconfig is that of a Secret.
    fn ask_given(server: &str, addresses: AddressPolicy) -> String {
        let kubeconfig = format!(
            "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\ncontexts: [{{name: m1, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\n"
        );
        let given = Some(Kubeconfig::self_contained(kubeconfig.as_bytes()).unwrap());
        let access = Access { given, addresses, ..Access::default() };
        let connections = access.open_connections(1).unwrap();
        let runtime = crate::runtime::build_runtime().unwrap();
        let asked = runtime.block_on(async {
            let client = connect_member(&connections, "m1").await?;
            let client = client.with_first_answer(Some(Duration::from_secs(1)));
            client.request_json(&RepeatableRequest::get(ApiPath::new(["version"]))).await
        });
        runtime.shutdown_background();
        asked.unwrap_err().to_string()
    }

    #[test]
    fn a_given_kubeconfig_leads_to_no_local_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let said = ask_given(&format!("https://{host}:{port}"), AddressPolicy::NotLocal);
            assert!(said.contains("a Sync may not lead there"), "{host}: {said}");
        }
        assert!(listener.accept().is_err(), "nothing has connected");
        ask_given(&format!("https://127.0.0.1:{port}"), AddressPolicy::Any);
        assert!(listener.accept().is_ok(), "whoever runs federate may");
    }
}
