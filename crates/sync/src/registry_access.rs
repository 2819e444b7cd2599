//! How a registry is reached: the credentials, and the proxy on the way.
//!
//! Facts: Secrets of the type `kubernetes.io/dockerconfigjson`, whose key `.dockerconfigjson` is docker's `config.json`.

use federate_registry::{ArtifactAddress, Credentials, parse_docker_config};
use http::Uri;

use crate::source::credentials::SecretData;

/// The key of docker's configuration in a Secret.
const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// How a registry is reached.
pub struct RegistryAccess {
    /// The credentials.
    pub credentials: Credentials,
    /// The proxy for servers that are not on this machine.
    pub proxy: Option<Uri>,
    /// What to do if the registry does not accept the credentials.
    pub remedy: String,
}

impl RegistryAccess {
    /// Access without credentials. `remedy` says where they can be named.
    pub fn anonymous(remedy: &str, proxy: Option<Uri>) -> Self {
        Self { credentials: Credentials::Anonymous, proxy, remedy: remedy.to_owned() }
    }

    /// Access with the credentials for an address in a Secret, of that name. Programs that it names are not run.
    pub fn from_secret(
        name: &str,
        keys: &SecretData,
        address: &ArtifactAddress,
        proxy: Option<Uri>,
    ) -> Result<Self, String> {
        let config = keys.get(DOCKER_CONFIG_KEY).ok_or_else(|| {
            format!(
                "the Secret {name} has no `{DOCKER_CONFIG_KEY}`: `kubectl create secret docker-registry` creates one that has"
            )
        })?;
        let credentials = parse_docker_config(config, address)
            .map_err(|why| format!("`{DOCKER_CONFIG_KEY}` in the Secret {name} cannot be read: {why}"))?;
        let credentials = credentials
            .ok_or_else(|| format!("the Secret {name} has no credentials for {}", address.host()))?;
        Ok(Self { credentials, proxy, remedy: format!("check the Secret {name}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> ArtifactAddress {
        ArtifactAddress::parse("oci://registry.example.com/acme/fleet").unwrap()
    }

    fn read(config: &str) -> Result<Credentials, String> {
        let keys = SecretData::from([(DOCKER_CONFIG_KEY.to_owned(), config.as_bytes().to_vec())]);
        RegistryAccess::from_secret("shop/registry", &keys, &address(), None).map(|access| access.credentials)
    }

    #[test]
    fn secrets_hold_dockers_configuration() {
        let config = r#"{"auths": {"https://registry.example.com/v1/": {"auth": "dXNlcjpodW50ZXIy"}}}"#;
        let user = Credentials::Basic { user: "user".to_owned(), password: "hunter2".to_owned() };
        assert_eq!(read(config), Ok(user));
        let absent =
            RegistryAccess::from_secret("shop/git", &SecretData::new(), &address(), None).err().unwrap();
        assert!(absent.contains("the Secret shop/git has no `.dockerconfigjson`"), "{absent}");
        for (config, why) in [
            (
                r#"{"auths": {"other.example.com": {"auth": "dXNlcjpodW50ZXIy"}}}"#,
                "no credentials for registry",
            ),
            (r#"{"auths": {"registry.example.com": {"auth": "hunter2"}}}"#, "is not valid"),
            ("{", "line 1, column 1"),
            // A program of the Secret's author is not run.
            (r#"{"credHelpers": {"registry.example.com": "evil"}, "credsStore": "evil"}"#, "no credentials"),
        ] {
            let error = read(config).unwrap_err();
            assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
        }
    }
}
