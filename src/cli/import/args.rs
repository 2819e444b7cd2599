//! The arguments of `federate import --context`: which objects of which cluster, and where they go.

use std::path::PathBuf;

use clap::Args;

use crate::cli::members::Inventoried;

/// Which objects of which cluster, and where they go.
#[cfg_attr(not(feature = "live"), allow(dead_code, reason = "no cluster is reached"))]
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// The objects to read from --context: KIND/NAME, KIND NAME…, or KINDS for all of them
    ///
    /// Kinds are named as for kubectl (deploy, deployments.apps, …), several with commas: deploy,svc/web.
    #[arg(value_name = "KIND/NAME", requires = "context")]
    pub(super) objects: Vec<String>,

    /// The kubeconfig context of the cluster to read from
    #[arg(long, value_name = "CTX", conflicts_with = "files", requires = "objects")]
    pub(super) context: Option<String>,

    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE", requires = "context")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Read as this user
    #[arg(long, value_name = "USER", requires = "context")]
    pub(super) as_user: Option<String>,

    /// Read as a member of this group
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    pub(super) as_groups: Vec<String>,

    /// The namespace to read from [default: the context's]
    #[arg(long, short, value_name = "NAMESPACE", requires = "context", conflicts_with = "all_namespaces")]
    pub(super) namespace: Option<String>,

    /// Read from all namespaces
    #[arg(long, short = 'A', requires = "context")]
    pub(super) all_namespaces: bool,

    /// Only objects with such labels, as for kubectl: app=web,tier!=db
    #[arg(long, short = 'l', value_name = "SELECTOR", requires = "context")]
    pub(super) selector: Option<String>,

    /// The repo to write into
    #[arg(long, value_name = "DIR", default_value = ".", requires = "context")]
    pub(super) repo: PathBuf,

    /// Leave out what an API server fills in again (but not replicas)
    #[arg(long, requires = "context")]
    pub(super) minimal: bool,

    /// Make objects that the repo has already what runs; their other labels and annotations of control
    /// planes stay
    #[arg(long, requires = "context")]
    pub(super) update: bool,

    /// Take objects of other tools (Helm, Argo CD, Flux, apply sets), too
    #[arg(long, requires = "context")]
    pub(super) force: bool,

    /// Write nothing; print the objects as YAML, each with the file that it would go to
    #[arg(long, requires = "context")]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) inventory: Inventoried,
}
