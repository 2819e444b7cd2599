//! The credentials that docker has for a registry: in its `config.json`, or from the helper that it names.
//!
//! Facts: `auths`, `credsStore` and `credHelpers` of docker's configuration; the protocol of docker-credential-helpers
//! (`docker-credential-NAME get`, the host on standard input, JSON on standard output).

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::address::ArtifactAddress;

/// The largest configuration that is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// The key under which docker stores the credentials of Docker Hub.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";

/// The user name under which helpers return an identity token.
const TOKEN_USER: &str = "<token>";

/// Who asks a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials.
    Anonymous,
    /// A user with a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that is exchanged for others.
    IdentityToken(String),
}

/// Shows no secrets.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic",
            Self::IdentityToken(_) => "IdentityToken",
        })
    }
}

/// Why credentials cannot be read. Messages do not show what was read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The configuration cannot be read.
    #[error("cannot read docker's configuration {path}: {why}")]
    Config {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The helper fails.
    #[error(
        "docker's configuration {path} names the helper `{helper}` for {host}, and it {why}: install it, or log in again \
         with `docker login {host}`"
    )]
    Helper {
        /// The file.
        path: String,
        /// The program.
        helper: String,
        /// The registry.
        host: String,
        /// What it does.
        why: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: BTreeMap<String, StoredLogin>,
    creds_store: String,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct StoredLogin {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

#[derive(Deserialize)]
struct HelperAnswer {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

/// The credentials for an address in `folder`, docker's configuration folder. Without any, requests are anonymous.
pub fn find_credentials(folder: Option<&Path>, address: &ArtifactAddress) -> Result<Credentials, LoginError> {
    let host = address.host();
    let Some(folder) = folder else { return Ok(Credentials::Anonymous) };
    let path = folder.join("config.json");
    let shown = path.display().to_string();
    let invalid = |why: &dyn fmt::Display| LoginError::Config { path: shown.clone(), why: why.to_string() };
    match fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Credentials::Anonymous),
        Err(error) => return Err(invalid(&error)),
        Ok(metadata) if metadata.len() > MAX_CONFIG_BYTES => return Err(invalid(&"it is too large")),
        Ok(_) => {}
    }
    let text = fs::read(&path).map_err(|error| invalid(&error))?;
    let config = DockerConfig::parse(&text).map_err(|why| invalid(&why))?;
    let key = key_of_host(host);
    let helper = config.cred_helpers.get(host).or_else(|| config.cred_helpers.get(key));
    let helper = helper.or_else(|| Some(&config.creds_store).filter(|helper| !helper.is_empty()));
    if let Some(helper) = helper {
        let name = format!("docker-credential-{helper}");
        let answer = ask_helper(helper, key).map_err(|why| LoginError::Helper {
            path: shown.clone(),
            helper: name,
            host: host.to_owned(),
            why,
        })?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
    let found = config.find_login(address).map_err(|why| invalid(&why))?;
    Ok(found.unwrap_or(Credentials::Anonymous))
}

/// The credentials for an address in the text of docker's configuration, if it has some. Helpers that it names are not run. An
/// error does not show what was read.
pub fn parse_docker_config(text: &[u8], address: &ArtifactAddress) -> Result<Option<Credentials>, String> {
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err("it is too large".to_owned());
    }
    DockerConfig::parse(text)?.find_login(address)
}

/// The key under which docker stores the credentials for a host.
fn key_of_host(host: &str) -> &str {
    if host == "docker.io" { DOCKER_HUB_KEY } else { host }
}

impl DockerConfig {
    fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text)
            .map_err(|error| format!("line {}, column {}: it is not valid", error.line(), error.column()))
    }

    /// The credentials that are in the configuration itself: those of the longest path that the repository is below.
    fn find_login(&self, address: &ArtifactAddress) -> Result<Option<Credentials>, String> {
        let host = address.host();
        let found = self
            .auths
            .iter()
            .filter_map(|(key, login)| Some((find_depth(key, address)?, login)))
            .max_by_key(|(depth, _)| *depth);
        let Some((_, login)) = found else { return Ok(None) };
        read_login(login).map(Some).ok_or_else(|| format!("the entry of {host} in `auths` is not valid"))
    }
}

/// The length of the path of a key such as `host`, `https://host/v1/` or `host/acme` that an address is below; `None` if it is
/// another registry's, or another repository's.
fn find_depth(key: &str, address: &ArtifactAddress) -> Option<usize> {
    if key == key_of_host(address.host()) {
        return Some(0);
    }
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.trim_end_matches('/');
    // Old versions of docker write that of the registry's protocol.
    let path = if ["v1", "v2"].contains(&path) { "" } else { path };
    let below = address.repository().strip_prefix(path)?;
    let is_below = path.is_empty() || below.is_empty() || below.starts_with('/');
    (host == address.host() && is_below).then_some(path.len())
}

/// An entry of `auths`; `None` if it cannot be read. An empty one only says that a credential helper has the login.
fn read_login(login: &StoredLogin) -> Option<Credentials> {
    if !login.identitytoken.is_empty() {
        return Some(Credentials::IdentityToken(login.identitytoken.clone()));
    }
    if !login.auth.is_empty() {
        let text = BASE64_STANDARD.decode(login.auth.trim()).ok()?;
        let text = String::from_utf8(text).ok()?;
        let (user, password) = text.split_once(':')?;
        let password = password.trim_end_matches('\0').to_owned();
        return Some(Credentials::Basic { user: user.to_owned(), password });
    }
    if login.username.is_empty() {
        return Some(Credentials::Anonymous);
    }
    Some(Credentials::Basic { user: login.username.clone(), password: login.password.clone() })
}

/// Asks a helper; `None` if it has nothing for the registry. An error says what the helper does.
fn ask_helper(helper: &str, key: &str) -> Result<Option<Credentials>, String> {
    let is_plain = helper.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_plain {
        return Err("has a name that no program has".to_owned());
    }
    let mut command = Command::new(format!("docker-credential-{helper}"));
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot be started ({error})"))?;
    if let Some(mut input) = child.stdin.take() {
        // A helper may end without reading.
        let _ = input.write_all(key.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("cannot be read ({error})"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
        return if said.contains("credentials not found") { Ok(None) } else { Err("fails".to_owned()) };
    }
    let answer: HelperAnswer =
        serde_json::from_slice(&output.stdout).map_err(|_| "answers what is not JSON".to_owned())?;
    Ok(Some(match answer.username.as_str() {
        TOKEN_USER => Credentials::IdentityToken(answer.secret),
        _ => Credentials::Basic { user: answer.username, password: answer.secret },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(config: &str, host: &str) -> Result<Credentials, LoginError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config).unwrap();
        find_credentials(Some(folder.path()), &address(host))
    }

    fn address(host: &str) -> ArtifactAddress {
        ArtifactAddress::parse(&format!("oci://{host}/acme/fleet")).unwrap()
    }

    fn basic(user: &str, password: &str) -> Credentials {
        Credentials::Basic { user: user.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn credentials_are_those_of_the_host() {
        // `a:b:c` and `d:e`
        let config = r#"{"auths": {"registry.example.com": {"auth": "YTpiOmM="}, "https://index.docker.io/v1/": {"auth": "ZDpl"},
            "https://old.example.com/v2/": {"username": "u", "password": "p"}, "token.example.com": {"identitytoken": "t"},
            "empty.example.com": {}}}"#;
        assert_eq!(find(config, "registry.example.com").unwrap(), basic("a", "b:c"));
        assert_eq!(find(config, "docker.io").unwrap(), basic("d", "e"));
        assert_eq!(find(config, "old.example.com").unwrap(), basic("u", "p"));
        assert_eq!(find(config, "token.example.com").unwrap(), Credentials::IdentityToken("t".to_owned()));
        for none in ["empty.example.com", "example.com", "registry.example.com:443", "io"] {
            assert_eq!(find(config, none).unwrap(), Credentials::Anonymous, "{none}");
        }
        let nowhere = tempfile::tempdir().unwrap();
        assert_eq!(
            find_credentials(Some(nowhere.path()), &address("registry.example.com")).unwrap(),
            Credentials::Anonymous
        );
    }

    #[test]
    fn the_longest_path_that_the_repository_is_below_counts() {
        let logins = |keys: &[&str]| {
            let rows = keys.iter().map(|key| format!(r#""{key}": {{"username": "{key}", "password": "p"}}"#));
            format!(r#"{{"auths": {{{}}}}}"#, rows.collect::<Vec<_>>().join(", "))
        };
        let (host, acme, fleet) = ("r.example.com", "r.example.com/acme", "r.example.com/acme/fleet");
        let others = ["r.example.com/acm", "r.example.com/acme/fleet/m1", "r.example.com/other"];
        for (keys, user) in [(vec![host, acme, fleet], fleet), (vec![acme, host], acme), (vec![host], host)] {
            let config = logins(&[&keys[..], &others].concat());
            assert_eq!(find(&config, host).unwrap(), basic(user, "p"));
        }
        assert_eq!(find(&logins(&others), host).unwrap(), Credentials::Anonymous);
    }

    #[test]
    fn messages_show_no_secrets() {
        let broken =
            find(r#"{"auths": {"registry.example.com": {"auth": "hunter2"}}}"#, "registry.example.com")
                .unwrap_err()
                .to_string();
        assert!(
            broken.contains("the entry of registry.example.com") && !broken.contains("hunter2"),
            "{broken}"
        );
        let broken = find(r#"{"auths": {"registry.example.com": "hunter2"}}"#, "registry.example.com")
            .unwrap_err()
            .to_string();
        assert!(broken.contains("line 1") && !broken.contains("hunter2"), "{broken}");
        assert_eq!(format!("{:?}", basic("a", "hunter2")), "Basic");
        let helper =
            find(r#"{"credHelpers": {"registry.example.com": "no-such-helper"}}"#, "registry.example.com")
                .unwrap_err()
                .to_string();
        assert!(
            helper.contains(
                "`docker-credential-no-such-helper` for registry.example.com, and it cannot be started"
            ),
            "{helper}"
        );
        let helper = find(r#"{"credsStore": "../evil"}"#, "registry.example.com").unwrap_err().to_string();
        assert!(helper.contains("a name that no program has"), "{helper}");
        assert_eq!(
            find(r#"{"credHelpers": {"registry.example.com": "x"}}"#, "quay.io").unwrap(),
            Credentials::Anonymous
        );
    }
}
