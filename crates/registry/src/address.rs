//! Addresses of artifacts: `oci://HOST/REPOSITORY[:TAG]`, with `{cluster}` for the name of a cluster.

use std::fmt;

/// The placeholder for a cluster's name.
const CLUSTER_PLACEHOLDER: &str = "{cluster}";

/// The longest name of a repository together with its host, as most registries have it.
const MAX_NAME_LENGTH: usize = 255;

/// The longest tag.
const MAX_TAG_LENGTH: usize = 128;

/// The host under which Docker Hub is named, and that of its registry.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// The address of an artifact, or of the artifacts of all clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArtifactAddress {
    host: String,
    repository: String,
    tag: Option<String>,
}

/// Why an address is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{address}` is not the address of an artifact: {why}; write it as oci://HOST/REPOSITORY or oci://HOST/REPOSITORY:TAG"
)]
pub struct InvalidAddress {
    /// The address, without credentials.
    address: String,
    /// The reason.
    why: String,
}

/// An address without what stands before its last `@`, unless that is the one of a digest. A password may contain slashes.
fn hide_credentials(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((before, digest)) if digest.starts_with("sha256:") => {
            format!("{}@{digest}", hide_credentials(before))
        }
        Some((_, rest)) => format!("oci://{rest}"),
        None => text.to_owned(),
    }
}

impl ArtifactAddress {
    /// Parses an address.
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let rest = text.strip_prefix("oci://");
        let shown = hide_credentials(text);
        let invalid = |why: &str| InvalidAddress { address: shown.clone(), why: why.to_owned() };
        let rest = rest.ok_or_else(|| invalid("it does not begin with oci://"))?;
        let (host, name) = rest.split_once('/').ok_or_else(|| invalid("it has no repository"))?;
        if shown != text {
            return Err(invalid("it must not contain credentials (`docker login` stores them)"));
        }
        if !is_host(host) {
            return Err(invalid("its host is not valid"));
        }
        let (repository, tag) = match name.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (name, None),
        };
        if repository.contains('@') {
            return Err(invalid("a digest cannot be given"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid("its tag is not valid"));
        }
        let address =
            Self { host: host.to_owned(), repository: repository.to_owned(), tag: tag.map(str::to_owned) };
        let example = repository.replace(CLUSTER_PLACEHOLDER, "c");
        if example.is_empty() || !example.split('/').all(is_component) {
            return Err(invalid(
                "names of repositories consist of lower-case letters, digits, and `.`, `_`, `-` between them",
            ));
        }
        Ok(address)
    }

    /// The host, with its port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host and port to which requests go.
    pub(crate) fn server(&self) -> &str {
        if self.host == DOCKER_HUB.0 { DOCKER_HUB.1 } else { &self.host }
    }

    /// The repository.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Whether the registry is on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback_host(&self.host)
    }

    /// The address of a cluster's artifact: with its name in the place of `{cluster}`, or as a last part.
    pub fn for_cluster(&self, cluster: &str) -> Result<Self, InvalidAddress> {
        let repository = if self.repository.contains(CLUSTER_PLACEHOLDER) {
            self.repository.replace(CLUSTER_PLACEHOLDER, cluster)
        } else {
            format!("{}/{cluster}", self.repository)
        };
        let address = Self { host: self.host.clone(), repository, tag: None };
        let why = if !address.repository.split('/').all(is_component) {
            "no repository can be named like that cluster"
        } else if address.host.len() + address.repository.len() >= MAX_NAME_LENGTH {
            "it is too long"
        } else {
            return Ok(address);
        };
        Err(InvalidAddress { address: address.to_string(), why: why.to_owned() })
    }
}

impl fmt::Display for ArtifactAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oci://{}/{}", self.host, self.repository)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))
    }
}

/// Whether a text can be a tag.
pub fn is_tag(text: &str) -> bool {
    text.len() <= MAX_TAG_LENGTH
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Whether a text can be a part of a repository's name: words of lower-case letters and digits with one dot, one or two
/// underscores, or dashes between them.
fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let words = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let mut separators = words.filter(|separator| !separator.is_empty());
    text.bytes().next().is_some_and(is_word)
        && text.bytes().last().is_some_and(is_word)
        && separators.all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, "")) => (name, None),
            Some((name, port)) => (name, Some(port.strip_prefix(':').unwrap_or_default())),
            None => return false,
        },
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let is_name = if text.starts_with('[') {
        name.parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        name.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    };
    is_name && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Whether a host with or without a port is this machine.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_a_repository_and_perhaps_a_tag() {
        let address =
            ArtifactAddress::parse("oci://registry.example.com:443/acme/fleet/{cluster}:v1.2").unwrap();
        assert_eq!(
            (address.host(), address.repository(), address.tag()),
            ("registry.example.com:443", "acme/fleet/{cluster}", Some("v1.2"))
        );
        assert_eq!(
            address.for_cluster("m1").unwrap().to_string(),
            "oci://registry.example.com:443/acme/fleet/m1"
        );
        let plain = ArtifactAddress::parse("oci://registry.example.com/acme/fleet").unwrap();
        assert_eq!(plain.for_cluster("eu.west--1").unwrap().repository(), "acme/fleet/eu.west--1");
        for name in ["M1", "a..b", "-a", "a/b/../c", "a b", ""] {
            assert!(plain.for_cluster(name).is_err(), "{name}");
        }
        for wrong in [
            "registry.example.com/a",
            "oci://registry.example.com",
            "oci://registry.example.com/",
            "oci:///a",
            "oci://h/a:b:c",
            "oci://h/A",
            "oci://h/a@sha256:0",
            "oci://h:x/a",
            "oci://[::g]/a",
            "oci://h/a:",
            "https://h/a",
        ] {
            assert!(ArtifactAddress::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_shown() {
        let error =
            ArtifactAddress::parse("oci://user:hunter2@registry.example.com/a").unwrap_err().to_string();
        assert!(
            error.contains("`oci://registry.example.com/a`")
                && error.contains("docker login")
                && !error.contains("hunter2"),
            "{error}"
        );
        for address in [
            "oci://user:hunter2/x@registry.example.com/a",
            "oci://user:12/hunter2@registry.example.com/a@sha256:0",
            "https://user:hunter2@registry.example.com/a",
            "user:hunter2@registry.example.com/a",
        ] {
            let error = ArtifactAddress::parse(address).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn this_machine_has_many_names() {
        for (host, is_loopback) in [
            ("localhost:5000", true),
            ("127.0.0.1", true),
            ("127.1.2.3:1", true),
            ("[::1]:5000", true),
            ("localhost.example.com", false),
            ("10.0.0.1", false),
            ("registry.example.com", false),
        ] {
            assert_eq!(is_loopback_host(host), is_loopback, "{host}");
        }
    }
}
