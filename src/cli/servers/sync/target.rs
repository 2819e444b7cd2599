//! Which Sync object is meant, and the API server that holds it.

use std::path::PathBuf;

use clap::Args;

use super::to_command_error;
use crate::cli::CommandError;
use federate_sync::counters::MetricCounters;
use federate_sync::hub::HubClient;
use federate_sync_api::NamespacedName;

/// The API server that holds the Sync objects.
#[derive(Debug, Args)]
pub(super) struct HubArgs {
    /// The namespace [default: that of the context]
    #[arg(long, short)]
    pub(super) namespace: Option<String>,

    /// The kubeconfig context of the API server that holds the Sync objects
    #[arg(long, value_name = "CONTEXT")]
    pub(super) context: Option<String>,

    /// The kubeconfig file [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
}

/// A Sync object.
#[derive(Debug, Args)]
pub(super) struct SyncTarget {
    /// The name of the Sync object
    pub(super) name: String,

    #[command(flatten)]
    pub(super) hub: HubArgs,
}

impl HubArgs {
    /// Connects to the API server.
    pub(super) fn connect_hub(&self) -> Result<HubClient, CommandError> {
        let connected = HubClient::connect(
            self.kubeconfig.as_deref(),
            self.context.as_deref(),
            &MetricCounters::default(),
        );
        connected.map_err(to_command_error)
    }

    /// The namespace that is named, or that of the context.
    pub(super) fn find_namespace(&self, hub: &HubClient) -> String {
        self.namespace.clone().unwrap_or_else(|| hub.default_namespace().to_owned())
    }
}

impl SyncTarget {
    /// Connects to the API server. Returns it with the name of the Sync.
    pub(super) fn connect_hub(&self) -> Result<(HubClient, NamespacedName), CommandError> {
        let hub = self.hub.connect_hub()?;
        let namespace = self.hub.find_namespace(&hub);
        Ok((hub, NamespacedName { name: self.name.clone(), namespace }))
    }
}
