//! Credentials of a source, by the keys that Flux's Secrets have, as `git` takes them: in its environment and in files
//! that only this user can read. Arguments never hold them: every process could read those.
//!
//! Facts: the Secrets of Flux's `GitRepository`; git-config(1) (`GIT_CONFIG_COUNT`, `http.*`); `ssh_config`(5).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;

use federate_http_client::AddressPolicy;
use federate_live::path::percent_encoded;
use k8s_openapi::ByteString;

use crate::private_files::PrivateFile;
use crate::source::server::{CheckedServer, GitServer};

/// The keys of a Secret.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// Credentials for `git`; their files exist as long as this does.
#[derive(Debug, Default)]
pub struct GitCredentials {
    variables: Vec<(String, OsString)>,
    /// Settings of git's configuration.
    settings: Vec<(String, String)>,
    files: Vec<PrivateFile>,
}

impl GitCredentials {
    /// The credentials for an address, and the proxy on the way. What both lead to must be among the `addresses`, and git connects to
    /// nothing else.
    pub fn for_url(
        url: &str,
        secret: Option<&SecretData>,
        proxy: Option<&SecretData>,
        addresses: AddressPolicy,
    ) -> Result<Self, String> {
        let mut credentials = Self::default();
        let server = match addresses {
            AddressPolicy::Any => None,
            AddressPolicy::NotLocal => {
                Some(resolve_server(GitServer::parse(url)?, addresses, proxy.is_some())?)
            }
        };
        let ssh_options = server.as_ref().map(CheckedServer::format_ssh_options).unwrap_or_default();
        let protocols = if is_loopback(url) { "http" } else { "https:ssh" };
        credentials.variables.push(("GIT_ALLOW_PROTOCOL".to_owned(), protocols.into()));
        if let Some(keys) = secret {
            if url.starts_with("http://") || url.starts_with("https://") {
                credentials.add_http(url, keys)?;
            } else {
                credentials.add_ssh(keys, &ssh_options)?;
            }
        } else if !ssh_options.is_empty() {
            let ssh = std::env::var("GIT_SSH_COMMAND").unwrap_or_else(|_| "ssh".to_owned());
            credentials.set_ssh_command(&ssh, &ssh_options);
        }
        credentials.pin_server(server.as_ref());
        if let Some(keys) = proxy {
            credentials.add_proxy(keys, addresses)?;
        }
        Ok(credentials)
    }

    /// The variables of the environment with all credentials, and the rule that holds without any, too: a server must not lead requests
    /// to others that only this machine can reach.
    pub fn env_variables(&self) -> Vec<(String, OsString)> {
        let mut all = self.variables.clone();
        let redirects = ("http.followRedirects".to_owned(), "false".to_owned());
        let settings: Vec<&(String, String)> = self.settings.iter().chain([&redirects]).collect();
        // Settings that the environment has stay.
        let first = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse::<usize>().ok());
        let first = first.unwrap_or(0);
        for (at, (key, value)) in (first..).zip(&settings) {
            all.push((format!("GIT_CONFIG_KEY_{at}"), key.into()));
            all.push((format!("GIT_CONFIG_VALUE_{at}"), value.into()));
        }
        all.push(("GIT_CONFIG_COUNT".to_owned(), (first + settings.len()).to_string().into()));
        all
    }

    fn set_config(&mut self, key: &str, value: impl Into<String>) {
        self.settings.push((key.to_owned(), value.into()));
    }

    fn add_http(&mut self, url: &str, keys: &SecretData) -> Result<(), String> {
        let username = read_text_key(keys, "username")?;
        let password = read_text_key(keys, "password")?;
        let token = read_text_key(keys, "bearerToken")?;
        let authorization = match (token, username, password) {
            (Some(token), ..) => Some(format!("Bearer {token}")),
            (None, Some(username), Some(password)) => {
                let pair = ByteString(format!("{username}:{password}").into_bytes());
                let pair = serde_json::to_value(pair).ok().and_then(|value| Some(value.as_str()?.to_owned()));
                Some(format!("Basic {}", pair.unwrap_or_default()))
            }
            (None, None, None) => None,
            _ => return Err("the Secret of the source has only one of `username` and `password`".to_owned()),
        };
        if let Some(authorization) = authorization {
            if url.starts_with("http://") && !is_loopback(url) {
                return Err("credentials are not sent over plain http: name the source by https".to_owned());
            }
            self.set_config("http.extraHeader", format!("Authorization: {authorization}"));
            self.set_config("credential.helper", "");
        }
        if let Some(authority) = keys.get("ca.crt").or_else(|| keys.get("caFile")) {
            let path = self.write_file(authority)?;
            // The variable goes before settings, and may be set for this process.
            self.variables.push(("GIT_SSL_CAINFO".to_owned(), path.into()));
        }
        Ok(())
    }

    /// Has git's HTTP client connect to the addresses that were checked.
    fn pin_server(&mut self, server: Option<&CheckedServer>) {
        if let Some(resolution) = server.and_then(CheckedServer::format_resolution) {
            self.set_config("http.curloptResolve", resolution);
        }
    }

    fn set_ssh_command(&mut self, ssh: &str, options: &str) {
        self.variables.push(("GIT_SSH_COMMAND".to_owned(), format!("{ssh}{options}").into()));
        self.variables.push(("GIT_SSH_VARIANT".to_owned(), "ssh".into()));
    }

    fn add_ssh(&mut self, keys: &SecretData, options: &str) -> Result<(), String> {
        let Some(identity) = keys.get("identity") else {
            return Err("the Secret of the source has no `identity`".to_owned());
        };
        let Some(hosts) = keys.get("known_hosts") else {
            return Err(
                "the Secret of the source has no `known_hosts`, so that the server's key cannot be verified"
                    .to_owned(),
            );
        };
        let mut identity = identity.clone();
        if !identity.ends_with(b"\n") {
            identity.push(b'\n');
        }
        let (identity, hosts) = (self.write_file(&identity)?, self.write_file(hosts)?);
        let command = format!(
            "ssh -F /dev/null -i '{identity}' -o IdentitiesOnly=yes -o IdentityAgent=none \
             -o UserKnownHostsFile='{hosts}' -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"
        );
        self.set_ssh_command(&command, options);
        if let Some(password) = keys.get("password") {
            self.add_askpass(password)?;
        }
        Ok(())
    }

    /// Gives ssh the password of the key without a terminal.
    fn add_askpass(&mut self, password: &[u8]) -> Result<(), String> {
        let secret = self.write_file(password)?;
        let script = self.write_file(format!("#!/bin/sh\nexec cat '{secret}'\n").as_bytes())?;
        let runs = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&script, runs).map_err(|error| error.to_string())?;
        self.variables.push(("SSH_ASKPASS".to_owned(), script.into()));
        self.variables.push(("SSH_ASKPASS_REQUIRE".to_owned(), "force".into()));
        Ok(())
    }

    fn add_proxy(&mut self, keys: &SecretData, addresses: AddressPolicy) -> Result<(), String> {
        let address = proxy_address(keys)?;
        if addresses == AddressPolicy::NotLocal {
            let server = GitServer::parse_proxy(&address)
                .and_then(|server| resolve_server(server, addresses, false))
                .map_err(|why| format!("the proxy: {why}"))?;
            self.pin_server(Some(&server));
        }
        self.set_config("http.proxy", address);
        Ok(())
    }

    fn write_file(&mut self, contents: &[u8]) -> Result<String, String> {
        let file = PrivateFile::new(contents).map_err(|error| format!("a file for credentials: {error}"))?;
        let path = file.path().to_string_lossy().into_owned();
        self.files.push(file);
        Ok(path)
    }
}

fn resolve_server(
    server: GitServer,
    addresses: AddressPolicy,
    has_proxy: bool,
) -> Result<CheckedServer, String> {
    server.resolve(addresses, has_proxy).map_err(|refusal| refusal.to_string())
}

/// The address of a proxy, with its credentials.
pub(crate) fn proxy_address(keys: &SecretData) -> Result<String, String> {
    let address = read_text_key(keys, "address")?.ok_or("the Secret of the proxy has no `address`")?;
    let Some((scheme, rest)) = address.split_once("://") else {
        return Err("the `address` of the proxy is not a URL".to_owned());
    };
    Ok(match (read_text_key(keys, "username")?, read_text_key(keys, "password")?) {
        (Some(username), Some(password)) => {
            format!("{scheme}://{}:{}@{rest}", percent_encoded(&username), percent_encoded(&password))
        }
        _ => address.clone(),
    })
}

/// A key as text of one line.
pub(crate) fn read_text_key(keys: &SecretData, key: &str) -> Result<Option<String>, String> {
    let Some(bytes) = keys.get(key) else { return Ok(None) };
    let text = std::str::from_utf8(bytes).map(|text| text.trim_end_matches(['\n', '\r']));
    let plain = text.ok().filter(|text| !text.contains(|c: char| c.is_control()));
    plain
        .map(|text| Some(text.to_owned()))
        .ok_or_else(|| format!("`{key}` in the Secret is not a line of text"))
}

/// Whether an address is that of an http server on this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    let authority = url.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or_default());
    authority.and_then(|authority| authority.split_once(':')).is_some_and(|(host, port)| {
        matches!(host, "127.0.0.1" | "localhost") && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(pairs: &[(&str, &str)]) -> SecretData {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
    }

    fn for_url(
        url: &str,
        secret: Option<&SecretData>,
        proxy: Option<&SecretData>,
    ) -> Result<GitCredentials, String> {
        GitCredentials::for_url(url, secret, proxy, AddressPolicy::Any)
    }

    fn setting(credentials: &GitCredentials, key: &str) -> Option<String> {
        credentials.settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    #[test]
    fn credentials_are_headers_that_are_sent_nowhere_else() {
        for made in [GitCredentials::default(), for_url("https://example.com/r", None, None).unwrap()] {
            let variables = made.env_variables();
            let value =
                |name: &str| variables.iter().find(|(known, _)| known == name).unwrap().1.to_str().unwrap();
            assert_eq!(
                [value("GIT_CONFIG_KEY_0"), value("GIT_CONFIG_VALUE_0")],
                ["http.followRedirects", "false"]
            );
        }
        let made = for_url("https://example.com/r", None, None).unwrap();
        assert!(made.env_variables().contains(&("GIT_ALLOW_PROTOCOL".to_owned(), "https:ssh".into())));
        let basic = keys(&[("username", "u"), ("password", "p\n")]);
        let made = for_url("https://example.com/r", Some(&basic), None).unwrap();
        assert_eq!(setting(&made, "http.extraHeader").unwrap(), "Authorization: Basic dTpw");
        let bearer = keys(&[("bearerToken", "t")]);
        let made = for_url("https://example.com/r", Some(&bearer), None).unwrap();
        assert_eq!(setting(&made, "http.extraHeader").unwrap(), "Authorization: Bearer t");
        assert!(for_url("http://example.com/r", Some(&bearer), None).is_err(), "in the clear");
        let injected = keys(&[("bearerToken", "t\r\nX: y")]);
        assert!(for_url("https://example.com/r", Some(&injected), None).is_err());
        assert!(for_url("https://example.com/r", Some(&keys(&[("username", "u")])), None).is_err());
    }

    #[test]
    fn ssh_believes_only_the_hosts_it_is_given() {
        let key = keys(&[("identity", "KEY"), ("known_hosts", "HOST"), ("password", "s3cret")]);
        let made = for_url("git@example.com:r.git", Some(&key), None).unwrap();
        let variables = made.env_variables();
        let command = variables.iter().find(|(name, _)| name == "GIT_SSH_COMMAND").unwrap();
        assert!(command.1.to_string_lossy().contains("StrictHostKeyChecking=yes"));
        assert!(!format!("{variables:?}").contains("s3cret"), "the password is in a file");
        assert!(for_url("ssh://h/r", Some(&keys(&[("identity", "KEY")])), None).is_err());
    }

    #[test]
    fn proxies_are_given_with_their_credentials() {
        let proxy = keys(&[("address", "http://proxy:3128"), ("username", "u@d"), ("password", "p")]);
        let made = for_url("https://example.com/r", None, Some(&proxy)).unwrap();
        assert_eq!(setting(&made, "http.proxy").unwrap(), "http://u%40d:p@proxy:3128");
    }

    #[test]
    fn git_is_given_the_addresses_that_were_checked() {
        let of = |url: &str, proxy: Option<&SecretData>| {
            GitCredentials::for_url(url, None, proxy, AddressPolicy::NotLocal)
        };
        let made = of("https://192.0.2.1/r", None).unwrap();
        assert_eq!(setting(&made, "http.curloptResolve"), None, "an address leads nowhere else");
        let made = of("ssh://git@192.0.2.1:2222/r", None).unwrap();
        let variables = made.env_variables();
        let command = variables.iter().find(|(name, _)| name == "GIT_SSH_COMMAND").unwrap();
        let expected = " -o HostName=192.0.2.1 -o HostKeyAlias='[192.0.2.1]:2222'";
        assert!(command.1.to_string_lossy().ends_with(expected), "{command:?}");
        let key = keys(&[("identity", "KEY"), ("known_hosts", "HOST")]);
        let made =
            GitCredentials::for_url("git@192.0.2.1:r", Some(&key), None, AddressPolicy::NotLocal).unwrap();
        let variables = made.env_variables();
        let command = variables.iter().find(|(name, _)| name == "GIT_SSH_COMMAND").unwrap();
        assert!(
            command.1.to_string_lossy().contains("StrictHostKeyChecking=yes -o HostName=192.0.2.1"),
            "{command:?}"
        );
        let proxy = keys(&[("address", "http://localhost:3128")]);
        let refused = of("https://192.0.2.1/r", Some(&proxy)).unwrap_err();
        assert!(refused.starts_with("the proxy: `localhost` leads to 127.0.0.1"), "{refused}");
        for url in ["https://localhost/r", "https://127.1/r", "ssh://git@[::1]/r", "git@localhost:r"] {
            assert!(
                of(url, None).unwrap_err().contains("may not lead there") || url.contains("127.1"),
                "{url}"
            );
        }
    }
}
