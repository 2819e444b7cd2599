//! Which Sync object is meant, and the API server that holds it.

use std::path::PathBuf;

use clap::Args;

use super::failed;
use crate::cli::Fault;
use federate_sync::hub::Hub;
use federate_sync::tally::Tally;
use federate_sync_api::Metadata;

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
pub(super) struct Target {
    /// The name of the Sync object
    pub(super) name: String,

    #[command(flatten)]
    pub(super) hub: HubArgs,
}

impl HubArgs {
    /// Connects to the API server.
    pub(super) fn connect(&self) -> Result<Hub, Fault> {
        let connected = Hub::connect(self.kubeconfig.as_deref(), self.context.as_deref(), &Tally::default());
        connected.map_err(failed)
    }

    /// The namespace that is named, or that of the context.
    pub(super) fn find_namespace(&self, hub: &Hub) -> String {
        self.namespace.clone().unwrap_or_else(|| hub.namespace().to_owned())
    }
}

impl Target {
    /// Connects to the API server. Returns it with the name of the Sync.
    pub(super) fn connect(&self) -> Result<(Hub, Metadata), Fault> {
        let hub = self.hub.connect()?;
        let namespace = self.hub.find_namespace(&hub);
        Ok((hub, Metadata { name: self.name.clone(), namespace }))
    }
}
