//! Arguments that say how to reach member clusters, shared by every command that connects to them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// How to reach member clusters.
#[cfg_attr(not(feature = "live"), allow(dead_code, reason = "no command connects to a cluster"))]
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster access options")]
pub(super) struct AccessArgs {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Reach member clusters with the addresses and credentials of the control plane in this context
    ///
    /// federate reads the inventory objects and Secrets on the hub for addresses and credentials, as the
    /// control plane does. A repo whose inventory names other addresses or Secrets is refused. Clusters
    /// listed under `contexts` in federate.yaml are still reached through those contexts.
    #[arg(long, value_name = "CONTEXT")]
    hub_context: Option<String>,

    /// Give up on a cluster after this time (90s, 5m); other clusters are not affected [default: 10m, and the time of --wait]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, hide_short_help = true)]
    timeout: Option<Duration>,

    /// Impersonate this user in the clusters
    #[arg(long = "as", value_name = "USER", hide_short_help = true)]
    user: Option<String>,

    /// Impersonate a member of this group
    #[arg(long = "as-group", value_name = "GROUP", requires = "user", hide_short_help = true)]
    groups: Vec<String>,
}

impl AccessArgs {
    /// Whether `--hub-context` is given.
    pub(super) fn has_hub(&self) -> bool {
        self.hub_context.is_some()
    }
}

#[cfg(feature = "live")]
impl AccessArgs {
    /// The context given with `--hub-context`.
    pub(super) fn hub_context(&self) -> Option<&str> {
        self.hub_context.as_deref()
    }

    /// How the hub is reached.
    pub(super) fn of_hub(&self) -> federate_live::Access {
        federate_live::Access {
            kubeconfig: self.kubeconfig.clone(),
            timeout: self.timeout,
            ..federate_live::Access::default()
        }
    }

    /// The path given with `--kubeconfig`.
    pub(super) fn kubeconfig(&self) -> Option<&std::path::Path> {
        self.kubeconfig.as_deref()
    }

    /// The connection details: the flags, the contexts in federate.yaml, and the repo's inventory.
    pub(super) fn build_access(&self, session: &federate_session::Session) -> federate_live::Access {
        let hub = self.hub_context.as_ref().map(|context| federate_live::HubAccess {
            context: context.clone(),
            inventory: session.inventory_objects(),
            user: None,
        });
        let contexts = session.repo().config.contexts.clone();
        federate_live::Access { contexts, hub, ..self.without_repo() }
    }

    /// The connection details of the flags alone.
    pub(super) fn without_repo(&self) -> federate_live::Access {
        federate_live::Access { user: self.user.clone(), groups: self.groups.clone(), ..self.of_hub() }
    }
}

/// Parses a duration such as `90s` or `5m`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|e| format!("{e}"))?;
    Duration::try_from(parsed).map_err(|_| "a duration cannot be negative".to_owned())
}
