//! The arguments of `federate import --context`: which objects to read from which cluster, and where to write
//! them.

use std::path::PathBuf;

use clap::Args;

use crate::cli::members::ApplySetArgs;
use crate::cli::selection::SelectionArgs;

/// Which objects to read from which cluster, and where to write them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for reading from a cluster")]
pub(in crate::cli) struct LiveArgs {
    /// The objects to read from --context: KIND/NAME, KIND NAME…, or KINDS for all of them
    ///
    /// Kinds are named as in kubectl (deploy, deployments.apps, …), several with commas: deploy,svc/web.
    #[arg(value_name = "KIND/NAME", requires = "context", help_heading = None::<&str>)]
    pub(in crate::cli) objects: Vec<String>,

    /// The kubeconfig context of the cluster to read from
    #[arg(long, value_name = "CTX", conflicts_with = "files", requires = "objects")]
    pub(in crate::cli) context: Option<String>,

    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE", requires = "context")]
    pub(in crate::cli) kubeconfig: Option<PathBuf>,

    /// Impersonate this user
    #[arg(long, value_name = "USER", requires = "context", hide_short_help = true)]
    pub(in crate::cli) as_user: Option<String>,

    /// Impersonate a member of this group
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user", hide_short_help = true)]
    pub(in crate::cli) as_groups: Vec<String>,

    /// The namespace to read from [default: the context's]
    #[arg(long, short, value_name = "NAMESPACE", requires = "context", conflicts_with = "all_namespaces")]
    pub(in crate::cli) namespace: Option<String>,

    /// Read from all namespaces
    #[arg(long, short = 'A', requires = "context")]
    pub(in crate::cli) all_namespaces: bool,

    /// Only read objects with these labels, as in kubectl: app=web,tier!=db
    #[arg(long, short = 'l', value_name = "SELECTOR", requires = "context")]
    pub(in crate::cli) selector: Option<String>,

    /// The repo to write into
    #[arg(long, value_name = "DIR", default_value = ".", requires = "context")]
    pub(in crate::cli) repo: PathBuf,

    /// Leave out fields that an API server sets again, except replicas
    #[arg(long, requires = "context")]
    pub(in crate::cli) minimal: bool,

    /// Set objects that are already in the repo to their live state
    ///
    /// Their other labels, and the annotations of control planes, stay unchanged.
    #[arg(long, requires = "context")]
    pub(in crate::cli) update: bool,

    /// Also import objects that other tools manage (Helm, Argo CD, Flux, ApplySets)
    #[arg(long, requires = "context")]
    pub(in crate::cli) force: bool,

    /// Write nothing; print each object as YAML with the path of its file
    #[arg(long, requires = "context")]
    pub(in crate::cli) dry_run: bool,

    #[command(flatten)]
    pub(in crate::cli) selection: SelectionArgs,

    #[command(flatten)]
    pub(in crate::cli) apply_set: ApplySetArgs,
}
