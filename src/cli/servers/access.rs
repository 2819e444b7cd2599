//! How clusters are reached, by the arguments about that.

use std::path::Path;

use crate::cli::access::{AccessArgs, ContextArgs};
use federate_live::{Access, HubAccess};
use federate_session::{RepoContexts, Session};

impl ContextArgs {
    /// The contexts that a repo may choose.
    pub(in crate::cli::servers) fn repo_contexts(&self) -> RepoContexts {
        match self.contexts_from_repo.as_deref() {
            None => RepoContexts::None,
            Some([]) => RepoContexts::All,
            Some(names) => RepoContexts::Listed(names.to_vec()),
        }
    }
}

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

    /// The connection details: the flags, the contexts that federate.yaml may choose, and the repo's inventory.
    pub(super) fn build_access(&self, session: &Session) -> Access {
        self.build_sync_access(session, false)
    }

    /// The same for a Sync. `has_hub` says that the Sync itself names the control plane by which clusters are reached.
    pub(super) fn build_sync_access(&self, session: &Session, has_hub: bool) -> Access {
        let hub = self.hub_context.as_ref().map(|context| HubAccess {
            context: context.clone(),
            inventory: session.inventory_objects(),
            user: None,
        });
        let contexts = session.member_contexts(&self.contexts.repo_contexts(), has_hub || hub.is_some());
        Access { contexts, hub, ..self.without_repo() }
    }

    /// The connection details of the flags alone.
    pub(super) fn without_repo(&self) -> Access {
        Access { user: self.user.clone(), groups: self.groups.clone(), ..self.build_hub_access() }
    }
}
