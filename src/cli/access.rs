//! Arguments that say how to reach member clusters, shared by every command that connects to them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// How to reach member clusters.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster access options")]
pub(super) struct AccessArgs {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Reach member clusters with the addresses and credentials of the control plane in this context
    ///
    /// federate reads the inventory objects and Secrets on the hub for addresses and credentials, as the
    /// control plane does. A repo whose inventory names other addresses or Secrets is refused.
    #[arg(long, value_name = "CONTEXT")]
    pub(super) hub_context: Option<String>,

    #[command(flatten)]
    pub(super) contexts: ContextArgs,

    /// Give up on a cluster after this time (90s, 5m); other clusters are not affected [default: 10m, and the time of --wait]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, hide_short_help = true)]
    pub(super) timeout: Option<Duration>,

    /// Impersonate this user in the clusters
    #[arg(long = "as", value_name = "USER", hide_short_help = true)]
    pub(super) user: Option<String>,

    /// Impersonate a member of this group
    #[arg(long = "as-group", value_name = "GROUP", requires = "user", hide_short_help = true)]
    pub(super) groups: Vec<String>,
}

/// Which contexts a repo may choose.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster access options")]
pub(super) struct ContextArgs {
    /// Let federate.yaml choose, under `contexts`, through which of these contexts of the kubeconfig a cluster is
    /// reached; without a list, through any
    ///
    /// By default, a cluster is reached through the context with its own name, or with --hub-context as its control
    /// plane does, and a repo that names another context for it is refused: whoever can change the repo could
    /// otherwise have its objects applied elsewhere.
    #[arg(
        long,
        value_name = "CONTEXT",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(super) contexts_from_repo: Option<Vec<String>>,
}

impl AccessArgs {
    /// Whether `--hub-context` is given.
    pub(super) fn has_hub(&self) -> bool {
        self.hub_context.is_some()
    }
}

/// Parses a duration such as `90s` or `5m`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.parse().map_err(|e| format!("{e}"))?;
    Duration::try_from(parsed).map_err(|_| "a duration cannot be negative".to_owned())
}
