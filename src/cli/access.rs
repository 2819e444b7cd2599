//! Arguments about the ways to member clusters, shared by every command that reaches them.

use std::path::PathBuf;

use clap::Args;

/// How clusters are reached.
#[cfg_attr(not(feature = "live"), allow(dead_code, reason = "no cluster is reached"))]
#[derive(Debug, Args)]
pub(super) struct AccessArgs {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Act as this user
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,

    /// Act as a member of this group
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
}

#[cfg(feature = "live")]
impl AccessArgs {
    /// The ways to clusters, with the contexts that federate.yaml names.
    pub(super) fn access(&self, config: &crate::repo::config::Config) -> crate::live::Access {
        crate::live::Access {
            kubeconfig: self.kubeconfig.clone(),
            contexts: config.contexts.clone(),
            user: self.user.clone(),
            groups: self.groups.clone(),
        }
    }
}
