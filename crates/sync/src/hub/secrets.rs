//! The Secrets that a Sync names: credentials of its source, and connections to member clusters.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use http::Uri;
use k8s_openapi::ByteString;

use federate_live::path::ApiPath;
use federate_live::{Access, HubAccess as Inventory, Kubeconfig};
use federate_registry::ArtifactAddress;
use federate_session::{RepoContexts, Session};
use federate_sync_api::SecretRef;

use super::{HubClient, Tenancy};
use crate::environment::{CredentialsError, MemberAccess};
use crate::private_files::PrivateFile;
use crate::registry_access::RegistryAccess;
use crate::source::credentials::{GitCredentials, SecretData};
use crate::source::github_app;
use crate::sync_files::ValidSync;

/// The keys of a Secret under which a kubeconfig is, as Flux looks for them.
const KUBECONFIG_KEYS: [&str; 2] = ["value", "value.yaml"];
/// The context of the pod's own cluster in a kubeconfig that is written here.
const POD_CONTEXT: &str = "pod";
/// The folder with a pod's own credentials.
const SERVICE_ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl HubClient {
    /// The keys of a Secret beside a Sync. They are read as the Sync's `ServiceAccount`, if it has one.
    pub fn read_secret(
        &self,
        valid_sync: &ValidSync,
        name: &str,
        tenancy: &Tenancy,
    ) -> Result<SecretData, CredentialsError> {
        let namespace = &valid_sync.object.metadata.namespace;
        let user = tenancy.user_for(&valid_sync.object);
        let path = ApiPath::from_version("v1").in_namespace(namespace).join("secrets").join(name);
        let found = self
            .find_object_as(user.as_ref(), &path)
            .map_err(|error| CredentialsError::Unreadable {
                secret: format!("{namespace}/{name}"),
                error: Box::new(error),
            })?
            .ok_or_else(|| CredentialsError::Missing(format!("{namespace}/{name}")))?;
        let data: BTreeMap<String, ByteString> =
            serde_json::from_value(found["data"].clone()).unwrap_or_default();
        Ok(data.into_iter().map(|(key, value)| (key, value.0)).collect())
    }

    /// The credentials of a Sync's source.
    pub fn source_credentials(
        &self,
        valid_sync: &ValidSync,
        tenancy: &Tenancy,
    ) -> Result<GitCredentials, CredentialsError> {
        let source = &valid_sync.object.spec.source;
        let proxy = self.read_named_secret(valid_sync, source.proxy_secret_ref.as_ref(), tenancy)?;
        let mut secret = self.read_named_secret(valid_sync, source.secret_ref.as_ref(), tenancy)?;
        if let Some(keys) = secret.as_ref().filter(|keys| github_app::is_app(keys)) {
            secret =
                Some(self.app_credentials(&source.url, keys, proxy.as_ref(), tenancy.address_policy())?);
        }
        Ok(GitCredentials::for_url(&source.url, secret.as_ref(), proxy.as_ref(), tenancy.address_policy())?)
    }

    /// How the registry is reached to which a Sync pushes: by the Secret that it names, or without credentials.
    pub fn registry_access(
        &self,
        valid_sync: &ValidSync,
        address: &ArtifactAddress,
        proxy: Option<Uri>,
        tenancy: &Tenancy,
    ) -> Result<RegistryAccess, CredentialsError> {
        let secret = valid_sync.object.spec.push.as_ref().and_then(|push| push.secret_ref.as_ref());
        let Some(secret) = secret else {
            return Ok(RegistryAccess::anonymous(
                "name a Secret of the type kubernetes.io/dockerconfigjson in `push.secretRef`",
                proxy,
            ));
        };
        let keys = self.read_secret(valid_sync, &secret.name, tenancy)?;
        let name = format!("{}/{}", valid_sync.object.metadata.namespace, secret.name);
        Ok(RegistryAccess::from_secret(&name, &keys, address, proxy)?)
    }

    /// The keys that may sign, as `verify.secretRef` names them.
    pub fn allowed_signers(
        &self,
        valid_sync: &ValidSync,
        tenancy: &Tenancy,
    ) -> Result<Option<SecretData>, CredentialsError> {
        let verify = valid_sync.object.spec.source.verify.as_ref();
        let secret = verify.and_then(|verify| verify.secret_ref.as_ref());
        self.read_named_secret(valid_sync, secret, tenancy)
    }

    fn read_named_secret(
        &self,
        valid_sync: &ValidSync,
        secret: Option<&SecretRef>,
        tenancy: &Tenancy,
    ) -> Result<Option<SecretData>, CredentialsError> {
        secret.map(|secret| self.read_secret(valid_sync, &secret.name, tenancy)).transpose()
    }

    /// The keys of the Secret with a Sync's kubeconfig. While the Sync is being deleted, those that were read last count if the
    /// Secret cannot be read any more.
    fn kubeconfig_keys(
        &self,
        valid_sync: &ValidSync,
        name: &str,
        tenancy: &Tenancy,
    ) -> Result<SecretData, CredentialsError> {
        let sync = valid_sync.object.full_name();
        let read = self.read_secret(valid_sync, name, tenancy);
        let mut known = self.kubeconfigs.lock().unwrap_or_else(PoisonError::into_inner);
        match (read, known.get(&sync)) {
            (Ok(keys), _) => {
                known.insert(sync, keys.clone());
                Ok(keys)
            }
            (Err(_), Some(keys)) if valid_sync.object.is_deleting() => Ok(keys.clone()),
            (Err(why), _) => Err(why),
        }
    }

    /// How a Sync's clusters are reached. `base` comes from the command line; `context` leads to this API server.
    pub fn member_access(
        &self,
        valid_sync: &ValidSync,
        session: &Session,
        mut base: Access,
        context: Option<&str>,
        tenancy: &Tenancy,
    ) -> Result<MemberAccess, CredentialsError> {
        let sync = &valid_sync.object;
        // Syncs were checked when they were read; this is the last place before credentials are used.
        tenancy.check_sync(sync).map_err(|(_, message)| message)?;
        base.addresses = tenancy.address_policy();
        let user = tenancy.user_for(sync);
        if let Some(user) = &user {
            (base.user, base.groups) = (Some(user.name.clone()), user.groups.clone());
        }
        if let Some(hub) = &mut base.hub {
            hub.user = user.as_ref().map(|user| user.name.clone());
        }
        let mut kept = Vec::new();
        if let Some(kube_config) = &sync.spec.kube_config {
            let secret = &kube_config.secret_ref;
            let keys = self.kubeconfig_keys(valid_sync, &secret.name, tenancy)?;
            let named = secret.key.as_deref();
            let text = named.into_iter().chain(KUBECONFIG_KEYS).find_map(|key| keys.get(key));
            let text = text.ok_or_else(|| {
                format!("the Secret {}/{} has no key `value`", sync.metadata.namespace, secret.name)
            })?;
            // Whoever writes the Sync has put these contexts into its Secret.
            base.contexts = session.member_contexts(&RepoContexts::All, true);
            base.given = Some(Kubeconfig::self_contained(text).map_err(|error| {
                format!("the Secret {}/{}: {error}", sync.metadata.namespace, secret.name)
            })?);
        }
        if sync.spec.hub.is_some() {
            let context = if let Some(context) = context {
                context.to_owned()
            } else {
                let file = PrivateFile::new(build_pod_kubeconfig()?.as_bytes())
                    .map_err(|error| error.to_string())?;
                base.kubeconfig = Some(file.path().to_owned());
                kept.push(file);
                POD_CONTEXT.to_owned()
            };
            let user = user.map(|user| user.name);
            base.hub = Some(Inventory { context, inventory: session.inventory_objects(), user });
        }
        Ok(MemberAccess { access: base, files: kept })
    }
}

/// A kubeconfig for the cluster that this runs in.
fn build_pod_kubeconfig() -> Result<String, String> {
    let (Ok(host), Ok(port)) =
        (std::env::var("KUBERNETES_SERVICE_HOST"), std::env::var("KUBERNETES_SERVICE_PORT"))
    else {
        return Err("`spec.hub` needs a pod, or --context".to_owned());
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": POD_CONTEXT,
        "clusters": [{"name": POD_CONTEXT, "cluster": {
            "server": format!("https://{host}:{port}"), "certificate-authority": format!("{SERVICE_ACCOUNT_FOLDER}/ca.crt"),
        }}],
        "users": [{"name": POD_CONTEXT, "user": {"tokenFile": format!("{SERVICE_ACCOUNT_FOLDER}/token")}}],
        "contexts": [{"name": POD_CONTEXT, "context": {"cluster": POD_CONTEXT, "user": POD_CONTEXT}}],
    });
    Ok(config.to_string())
}
