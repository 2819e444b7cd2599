//! The ways to the clusters: contexts of a kubeconfig, or the pod that this runs in.
//!
//! Certificates are verified unless the kubeconfig says otherwise.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::Error;
use super::client::{Client, credentials};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// How clusters are reached.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig; without it that of the environment, or `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// The contexts of clusters whose context has another name.
    pub contexts: BTreeMap<String, String>,
    /// As whom to act.
    pub user: Option<String>,
    /// As a member of which groups.
    pub groups: Vec<String>,
}

/// An [`Access`] whose files have been read.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    access: Access,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    File(Box<Kubeconfig>),
    /// The pod's own cluster.
    Pod,
}

impl Access {
    /// Reads the files. Without a kubeconfig the cluster that this runs in is the only one that can be
    /// reached, so there must be only one that is `wanted`.
    pub(super) fn read(&self, wanted: usize) -> Result<Ways, Error> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let source = match read {
            Ok(kubeconfig) => Source::File(Box::new(kubeconfig)),
            Err(error) if self.kubeconfig.is_some() || !is_missing(&error) => {
                return Err(Error::Access(format!("the kubeconfig: {error}")));
            }
            Err(_) if Config::incluster().is_err() => {
                return Err(Error::Access("there is no kubeconfig: name one with --kubeconfig".to_owned()));
            }
            Err(_) if wanted > 1 => {
                return Err(Error::Access(format!(
                    "without a kubeconfig only the cluster that this runs in can be reached, but {wanted} are \
                     wanted: name one with --cluster, or a kubeconfig with --kubeconfig"
                )));
            }
            Err(_) => Source::Pod,
        };
        Ok(Ways { access: self.clone(), source })
    }
}

fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.kind() == std::io::ErrorKind::NotFound,
        KubeconfigError::FindPath => true,
        _ => false,
    }
}

impl Ways {
    /// The API server of a cluster.
    pub(super) async fn to(&self, cluster: &str) -> Result<Client, Error> {
        let mut config = self.config(cluster).await?;
        config.connect_timeout = Some(CONNECT);
        // Requests are repeated here, where the server's wishes are known.
        config.default_retry = false;
        if let Some(user) = &self.access.user {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !self.access.groups.is_empty() {
            config.auth_info.impersonate_groups = Some(self.access.groups.clone());
        }
        let client = kube::Client::try_from(config).map_err(|error| match &error {
            kube::Error::Auth(error) => Error::Access(credentials(error)),
            error => Error::Access(error.to_string()),
        })?;
        Ok(Client::new(client))
    }

    /// The names of the contexts; none where no kubeconfig leads anywhere.
    pub(super) fn contexts(&self) -> Vec<&str> {
        match &self.source {
            Source::File(kubeconfig) => kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect(),
            Source::Pod => Vec::new(),
        }
    }

    async fn config(&self, cluster: &str) -> Result<Config, Error> {
        let kubeconfig = match &self.source {
            Source::File(kubeconfig) => kubeconfig,
            Source::Pod => return Config::incluster().map_err(|e| Error::Access(e.to_string())),
        };
        let context = self.access.contexts.get(cluster).map_or(cluster, String::as_str);
        if !kubeconfig.contexts.iter().any(|named| named.name == context) {
            return Err(Error::Access(format!(
                "the kubeconfig has no context `{context}`; name the cluster's context below `contexts` in \
                 federate.yaml"
            )));
        }
        let options = KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
        Config::from_custom_kubeconfig((**kubeconfig).clone(), &options)
            .await
            .map_err(|e| Error::Access(format!("the context `{context}` of the kubeconfig: {e}")))
    }
}
