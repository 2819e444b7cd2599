//! The addresses that `federate sync` listens on.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::to_command_error;
use crate::cli::CommandError;
use federate_sync::http_server::ListenAddresses;

/// Arguments about addresses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for observing the loop")]
pub(super) struct ListenArgs {
    /// Serve /healthz and /readyz on this address (127.0.0.1:9440)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    listen: Option<SocketAddr>,

    /// Serve /metrics for Prometheus on this address (127.0.0.1:8080)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    metrics_listen: Option<SocketAddr>,

    /// Serve a status page on this address (127.0.0.1:9441)
    ///
    /// The page shows each cluster that is not ready, with the reason; /syncs is the same as JSON. It names objects of
    /// all namespaces and has no authentication: listen on loopback, and use `kubectl port-forward`.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    status_listen: Option<SocketAddr>,

    /// Accept webhooks on this address; each starts a reconciliation
    ///
    /// Those of GitHub, GitLab, and others that sign with HMAC are supported.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once", requires = "webhook_token")]
    webhook_listen: Option<SocketAddr>,

    /// The file with the webhook token
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    webhook_token: Option<PathBuf>,
}

impl ListenArgs {
    pub(super) fn listen_addresses(&self) -> Result<ListenAddresses, CommandError> {
        Ok(ListenAddresses {
            health: self.listen,
            metrics: self.metrics_listen,
            status: self.status_listen,
            webhooks: self.webhook_listen.zip(self.read_token()?),
        })
    }

    /// Reads the webhook token.
    fn read_token(&self) -> Result<Option<String>, CommandError> {
        let Some(file) = &self.webhook_token else { return Ok(None) };
        let text = std::fs::read_to_string(file)
            .map_err(|e| to_command_error(format!("{}: {e}", file.display())))?;
        match text.trim() {
            "" => Err(to_command_error(format!("{}: the webhook token is empty", file.display()))),
            token => Ok(Some(token.to_owned())),
        }
    }
}
