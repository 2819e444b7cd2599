//! The server of a git address, and the addresses that the git of a Sync may connect to.
//!
//! `git` resolves names itself, and a name may lead elsewhere a moment after it was checked. So git is given the addresses that
//! were checked: for https by a setting of its HTTP client, for ssh by an option of that program.
//!
//! Facts: git-config(1) (`http.curloptResolve`, since git 2.37), curl's `--resolve`; `ssh_config`(5) (`HostName`, `HostKeyAlias`).

use std::net::IpAddr;

use federate_http_client::{AddressError, AddressPolicy};
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Http,
    Ssh,
}

/// The server that a git address, or the address of a proxy, names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitServer {
    transport: Transport,
    host: String,
    port: u16,
}

/// The server of a source with the addresses that were checked.
#[derive(Debug)]
pub(crate) struct CheckedServer {
    server: GitServer,
    /// None if a proxy resolves the name.
    addresses: Vec<IpAddr>,
}

impl GitServer {
    /// Reads the server of `scheme://user@host:port/path` or `user@host:path`. What programs could read in different ways is refused.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let unclear = || {
            "its server is not a plain name or address: write it as `https://host/path` or `ssh://user@host/path`"
                .to_owned()
        };
        let (transport, authority, port) = match url.split_once("://") {
            Some((scheme, rest)) => {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let (transport, port) = match scheme {
                    "https" => (Transport::Http, 443),
                    "http" => (Transport::Http, 80),
                    "ssh" => (Transport::Ssh, 22),
                    // The default of curl for a proxy of any other kind.
                    _ => (Transport::Http, 1080),
                };
                (transport, authority, port)
            }
            None => (Transport::Ssh, url.split_once(':').ok_or_else(unclear)?.0, 22),
        };
        let (user, host) = authority.split_once('@').unwrap_or(("", authority));
        // Some programs take it for a slash, which ends the server.
        if user.contains('\\') {
            return Err(unclear());
        }
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| unclear())?),
            _ => (host, port),
        };
        let is_plain = |host: &str| host.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = bracketed.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
        if host.is_empty() || host.starts_with('-') || host.ends_with('.') || !(is_plain(host) || is_address)
        {
            return Err(unclear());
        }
        Ok(Self { transport, host: bracketed.unwrap_or(host).to_ascii_lowercase(), port })
    }

    /// Reads the server of a proxy. Without a port, curl takes 1080 for all but those of https.
    pub(crate) fn parse_proxy(address: &str) -> Result<Self, String> {
        match address.strip_prefix("http://") {
            Some(rest) => Self::parse(&format!("socks5://{rest}")),
            None => Self::parse(address),
        }
    }

    /// Checks the host as far as its text tells.
    pub(crate) fn check_host(&self, policy: AddressPolicy) -> Result<(), AddressError> {
        policy.check_host(&self.host)
    }

    /// Resolves the server. With a proxy on the way, that may have to do it.
    pub(crate) fn resolve(
        self,
        policy: AddressPolicy,
        has_proxy: bool,
    ) -> Result<CheckedServer, AddressError> {
        let addresses = match policy.resolve_host(&self.host) {
            Err(AddressError::Unresolved { .. }) if has_proxy || self.has_environment_proxy() => Vec::new(),
            addresses => addresses?,
        };
        Ok(CheckedServer { server: self, addresses })
    }

    /// Whether the environment names a proxy for it, which is the operator's.
    fn has_environment_proxy(&self) -> bool {
        let address = format!("https://{}:{}/", self.host, self.port).parse::<Uri>();
        let is_http = self.transport == Transport::Http;
        is_http && address.is_ok_and(|address| Matcher::from_env().intercept(&address).is_some())
    }
}

impl CheckedServer {
    /// The value of `http.curloptResolve` by which git connects to no other address; `None` if there is none to name.
    pub(crate) fn format_resolution(&self) -> Option<String> {
        let GitServer { transport, host, port } = &self.server;
        let is_name = host.parse::<IpAddr>().is_err();
        let addresses: Vec<String> = self.addresses.iter().map(format_address).collect();
        (*transport == Transport::Http && is_name && !addresses.is_empty())
            .then(|| format!("{host}:{port}:{}", addresses.join(",")))
    }

    /// The options by which ssh connects to no other address, and still looks for the key of the host by its name; empty for
    /// other transports.
    pub(crate) fn format_ssh_options(&self) -> String {
        let GitServer { transport, host, port } = &self.server;
        let Some(address) = self.addresses.first().filter(|_| *transport == Transport::Ssh) else {
            return String::new();
        };
        // So are the names in `known_hosts`.
        let alias = if *port == 22 { host.clone() } else { format!("[{host}]:{port}") };
        format!(" -o HostName={address} -o HostKeyAlias='{alias}'")
    }
}

fn format_address(address: &IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Option<(Transport, String, u16)> {
        GitServer::parse(url).ok().map(|server| (server.transport, server.host, server.port))
    }

    #[test]
    fn servers_are_read_as_git_reads_them() {
        let http = |host: &str, port| Some((Transport::Http, host.to_owned(), port));
        let ssh = |host: &str, port| Some((Transport::Ssh, host.to_owned(), port));
        for (url, expected) in [
            ("https://git.example.com/r", http("git.example.com", 443)),
            ("https://u:p@GIT.example.com:8443/r", http("git.example.com", 8443)),
            ("https://[2001:db8::1]:8443/r", http("2001:db8::1", 8443)),
            ("https://[2001:db8::1]/r", http("2001:db8::1", 443)),
            ("http://127.0.0.1:80/r", http("127.0.0.1", 80)),
            ("ssh://git@git.example.com/r", ssh("git.example.com", 22)),
            ("ssh://git@git.example.com:2222/r", ssh("git.example.com", 2222)),
            ("git@git.example.com:a/r.git", ssh("git.example.com", 22)),
            ("socks5h://proxy", http("proxy", 1080)),
        ] {
            assert_eq!(parse(url), expected, "{url}");
        }
        assert_eq!(GitServer::parse_proxy("http://u:p@proxy").map(|server| server.port), Ok(1080));
        assert_eq!(GitServer::parse_proxy("https://proxy:3128").map(|server| server.port), Ok(3128));
        for unclear in [
            "https://a@b@c/r",
            "https://127.0.0%2e1/r",
            "https://git.example.com\\@evil.example.com/r",
            "https://git.example.com./r",
            "https:///r",
            "https://[::1/r",
            "https://h:port/r",
            "ssh://[git@host:22]/r",
            "ssh://-oProxyCommand=x/r",
            "a@b@c:r",
            "nothing",
        ] {
            assert_eq!(parse(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn git_connects_to_the_addresses_that_were_checked() {
        let checked = |url: &str, addresses: &[&str]| CheckedServer {
            server: GitServer::parse(url).unwrap(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        let https = checked("https://git.example.com/r", &["192.0.2.1", "2001:db8::1"]);
        assert_eq!(https.format_resolution().unwrap(), "git.example.com:443:192.0.2.1,[2001:db8::1]");
        assert_eq!(https.format_ssh_options(), "");
        assert_eq!(checked("https://192.0.2.1/r", &["192.0.2.1"]).format_resolution(), None);
        let ssh = checked("git@git.example.com:r", &["192.0.2.1", "192.0.2.2"]);
        assert_eq!(ssh.format_resolution(), None);
        assert_eq!(ssh.format_ssh_options(), " -o HostName=192.0.2.1 -o HostKeyAlias='git.example.com'");
        let ssh = checked("ssh://git.example.com:2222/r", &["2001:db8::1"]);
        assert_eq!(
            ssh.format_ssh_options(),
            " -o HostName=2001:db8::1 -o HostKeyAlias='[git.example.com]:2222'"
        );
    }
}
