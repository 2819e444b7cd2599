//! How clusters are reached, by the arguments about that.

use std::path::Path;

use crate::cli::access::AccessArgs;
use federate_live::{Access, HubAccess};
use federate_session::Session;

impl AccessArgs {
    /// The context given with `--hub-context`.
    pub(super) fn hub_context(&self) -> Option<&str> {
        self.hub_context.as_deref()
    }

    /// How the hub is reached.
    pub(super) fn build_hub_access(&self) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), timeout: self.timeout, ..Access::default() }
    }

    /// The path given with `--kubeconfig`.
    pub(super) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// The connection details: the flags, the contexts in federate.yaml, and the repo's inventory.
    pub(super) fn build_access(&self, session: &Session) -> Access {
        let hub = self.hub_context.as_ref().map(|context| HubAccess {
            context: context.clone(),
            inventory: session.inventory_objects(),
            user: None,
        });
        let contexts = session.repo().config.contexts.clone();
        Access { contexts, hub, ..self.without_repo() }
    }

    /// The connection details of the flags alone.
    pub(super) fn without_repo(&self) -> Access {
        Access { user: self.user.clone(), groups: self.groups.clone(), ..self.build_hub_access() }
    }
}
