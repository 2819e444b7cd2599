//! Arguments about how member clusters are reached, shared by all commands that reach them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// How clusters are reached.
#[cfg_attr(not(feature = "live"), allow(dead_code, reason = "no cluster is reached"))]
#[derive(Debug, Args)]
pub(super) struct AccessArgs {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Reach clusters as their control plane does: by the inventory objects and Secrets on its host
    ///
    /// CONTEXT is the context of the host in the kubeconfig. The inventory objects on the host name the addresses and
    /// Secrets; a repo that names others is refused. Clusters that `contexts` in federate.yaml names are reached by
    /// those contexts all the same.
    #[arg(long, value_name = "CONTEXT")]
    hub_context: Option<String>,

    /// Give up on a cluster after this time (90s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    /// Impersonate this user in the clusters
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,

    /// Impersonate this group
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
}

#[cfg(feature = "live")]
impl AccessArgs {
    /// The kubeconfig, if one is named.
    pub(super) fn kubeconfig(&self) -> Option<&std::path::Path> {
        self.kubeconfig.as_deref()
    }

    /// How clusters are reached, with the contexts that federate.yaml names and with what the inventory knows.
    pub(super) fn access(&self, session: &federate_session::Session) -> federate_live::Access {
        let hub = |context: &String| federate_live::Hub {
            context: context.clone(),
            inventory: session.inventory_objects(),
        };
        federate_live::Access {
            kubeconfig: self.kubeconfig.clone(),
            contexts: session.repo().config.contexts.clone(),
            hub: self.hub_context.as_ref().map(hub),
            user: self.user.clone(),
            groups: self.groups.clone(),
            timeout: self.timeout,
        }
    }
}

/// Parses a duration such as `90s` or `5m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|e| format!("{e}"))?;
    Duration::try_from(parsed).map_err(|_| "it is negative".to_owned())
}
