//! With whose credentials the Syncs of a namespace reach clusters.
//!
//! A Sync's own credentials are the Secrets of its namespace. Everything else belongs to others: federate's own kubeconfig or
//! `ServiceAccount`, and the control plane's Secrets, with which `hub` leads to every member. For these, federate acts as a
//! `ServiceAccount` of the Sync's namespace, towards the hub and in the members, so that a Sync can do what its account may.
//! Only for namespaces that the operator trusts, it acts as itself.
//!
//! Facts: "Multi-tenancy lockdown" of the Flux documentation (`--default-service-account`, `--no-cross-namespace-refs`).

use std::collections::BTreeSet;

use federate_http_client::AddressPolicy;
use federate_sync_api::{InventorySource, Sync};

use super::client::ImpersonatedUser;

/// What the operator permits Syncs.
#[derive(Clone, Debug, Default)]
pub struct Tenancy {
    /// The `ServiceAccount` that federate acts as for a Sync that names none.
    pub default_account: Option<String>,
    /// Whether Syncs may not name objects of other namespaces.
    pub within_namespaces: bool,
    /// The namespaces whose Syncs may use credentials that are not theirs without a `ServiceAccount`.
    pub trusted: BTreeSet<String>,
    /// Whether Syncs may name servers at addresses that are local to the loop.
    pub allows_local_addresses: bool,
}

impl Tenancy {
    /// The addresses at which the servers that Syncs name may be.
    pub fn address_policy(&self) -> AddressPolicy {
        if self.allows_local_addresses { AddressPolicy::Any } else { AddressPolicy::NotLocal }
    }

    /// The user that federate acts as for a Sync; `None` for itself.
    pub(super) fn user_for(&self, sync: &Sync) -> Option<ImpersonatedUser> {
        let spec = &sync.spec;
        let default = self.default_account.as_deref().filter(|_| !spec.without_impersonation);
        let account = spec.service_account_name.as_deref().or(default)?;
        Some(ImpersonatedUser::for_service_account(&sync.metadata.namespace, account))
    }

    /// Checks whether a Sync may do what it asks for; the error has the pointer of the field.
    pub(super) fn check_sync(&self, sync: &Sync) -> Result<(), (&'static str, String)> {
        let (spec, namespace) = (&sync.spec, &sync.metadata.namespace);
        let mut named = spec.depends_on.iter().filter_map(|on| on.namespace.as_ref());
        if let Some(other) = named.find(|other| *other != namespace).filter(|_| self.within_namespaces) {
            let message =
                format!("the namespace `{other}` is another one, which --no-cross-namespace-refs refuses");
            return Err(("/spec/dependsOn", message));
        }
        if spec.kube_config.is_some() && spec.hub.is_some() {
            return Err(("/spec/hub", "name either `kubeConfig` or `hub`".to_owned()));
        }
        if self.trusted.contains(namespace) {
            return Ok(());
        }
        let remedy = "an operator can permit it for a namespace with --trusted-namespaces";
        if spec.without_impersonation {
            let message =
                format!("Syncs of the namespace `{namespace}` may not act as federate itself; {remedy}");
            return Err(("/spec/withoutImpersonation", message));
        }
        if !reaches_clusters(sync) || spec.kube_config.is_some() || self.user_for(sync).is_some() {
            return Ok(());
        }
        let whose = match spec.hub {
            Some(_) => "the control plane's Secrets (`hub`)",
            None => "federate's own credentials (there is no `kubeConfig`)",
        };
        let message = format!(
            "the clusters would be reached with {whose}, which do not belong to the Sync: name the ServiceAccount of its \
             namespace to act as; {remedy}"
        );
        Err(("/spec/serviceAccountName", message))
    }
}

/// Whether reconciliations of a Sync send requests to clusters.
fn reaches_clusters(sync: &Sync) -> bool {
    let spec = &sync.spec;
    let reads = spec.inventory != InventorySource::Repo || spec.hub.is_some();
    spec.apply.is_some() || spec.looks_for_drift() || reads
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sync(more: &Value) -> Sync {
        let mut spec = json!({"source": {"url": "https://git.example.com/r.git"}, "interval": "1m"});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let object = json!({"apiVersion": "federate.dev/v1alpha1", "kind": "Sync",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        Sync::parse(object).unwrap()
    }

    #[test]
    fn credentials_of_others_need_an_account_or_a_trusted_namespace() {
        let strict = Tenancy::default();
        let lenient = Tenancy { trusted: ["shop".to_owned()].into(), ..Tenancy::default() };
        let locked = Tenancy { default_account: Some("default".to_owned()), ..Tenancy::default() };
        let commit = json!({"commit": {"branch": "rendered"}});
        let own = json!({"apply": {}, "kubeConfig": {"secretRef": {"name": "members"}}});
        let account = json!({"apply": {}, "hub": {}, "serviceAccountName": "deployer"});
        for spec in [&commit, &own, &account] {
            for tenancy in [&strict, &lenient, &locked] {
                assert!(tenancy.check_sync(&sync(spec)).is_ok(), "{spec}");
            }
        }
        for spec in [
            json!({"apply": {}}),
            json!({"apply": {}, "hub": {}}),
            json!({"hub": {}}),
            json!({"drift": {"mode": "correct"}}),
            json!({"commit": {"branch": "rendered"}, "inventory": "hub", "hub": {}}),
            json!({"commit": {"branch": "rendered"}, "inventory": "members"}),
        ] {
            let (pointer, message) = strict.check_sync(&sync(&spec)).unwrap_err();
            assert_eq!(pointer, "/spec/serviceAccountName", "{spec}: {message}");
            assert!(
                lenient.check_sync(&sync(&spec)).is_ok() && locked.check_sync(&sync(&spec)).is_ok(),
                "{spec}"
            );
        }
        let itself = sync(&json!({"apply": {}, "hub": {}, "withoutImpersonation": true}));
        assert!(
            strict.check_sync(&itself).is_err()
                && locked.check_sync(&itself).is_err()
                && lenient.check_sync(&itself).is_ok()
        );
        let both = json!({"apply": {}, "hub": {}, "kubeConfig": {"secretRef": {"name": "members"}}});
        assert_eq!(lenient.check_sync(&sync(&both)).unwrap_err().0, "/spec/hub");
    }

    #[test]
    fn federate_acts_as_the_account_of_the_namespace() {
        let locked = Tenancy {
            default_account: Some("default".to_owned()),
            trusted: ["shop".to_owned()].into(),
            ..Tenancy::default()
        };
        let name = |spec: &Value| locked.user_for(&sync(spec)).map(|user| user.name);
        assert_eq!(name(&json!({"apply": {}})).as_deref(), Some("system:serviceaccount:shop:default"));
        let named = json!({"apply": {}, "serviceAccountName": "deployer"});
        assert_eq!(name(&named).as_deref(), Some("system:serviceaccount:shop:deployer"));
        assert_eq!(name(&json!({"apply": {}, "withoutImpersonation": true})), None);
    }
}
