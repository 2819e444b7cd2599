//! Through which contexts of a kubeconfig clusters are reached, and which of them a repo may choose.

use std::collections::BTreeMap;

use federate_kubernetes::Origin;
use federate_kubernetes::pointer::escape;
use federate_live::MemberContext;
use federate_repo::Locator;
use federate_yaml::Position;

use crate::Session;

/// The contexts that a repo may name for its clusters, below `contexts` of its configuration. Whoever can change the
/// configuration could otherwise choose where its objects are applied, and with which of the user's credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RepoContexts {
    /// None: a cluster is reached through the context with its own name.
    #[default]
    None,
    /// These.
    Listed(Vec<String>),
    /// All of the kubeconfig.
    All,
}

impl RepoContexts {
    fn allows_context(&self, context: &str) -> bool {
        match self {
            Self::None => false,
            Self::Listed(names) => names.iter().any(|name| name == context),
            Self::All => true,
        }
    }
}

impl Session {
    /// The contexts that the repo names for its clusters, or why they are not used. `has_hub` says that clusters without a named
    /// context are reached by their inventory objects; where they are not, a context with the cluster's own name is no choice.
    pub fn member_contexts(&self, allowed: &RepoContexts, has_hub: bool) -> BTreeMap<String, MemberContext> {
        let repo = self.repo();
        let origin = Origin { file: repo.config_path().into(), document: 0, item: None, line: 1 };
        let mut locator = Locator::new(repo);
        let mut contexts = BTreeMap::new();
        for (cluster, context) in &repo.config.contexts {
            let is_default = !has_hub && cluster == context;
            let chosen = if is_default || allowed.allows_context(context) {
                MemberContext::Named(context.clone())
            } else {
                let Position { line, column } =
                    locator.locate_value(&origin, &format!("/contexts/{}", escape(cluster)));
                MemberContext::Refused(format!(
                    "{}:{line}:{column} names the context `{context}` of the kubeconfig for it, and a repo does not \
                     choose which contexts are used: --contexts-from-repo={context} allows this one",
                    origin.file
                ))
            };
            contexts.insert(cluster.clone(), chosen);
        }
        contexts
    }
}
