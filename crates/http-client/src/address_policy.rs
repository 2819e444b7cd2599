//! Which addresses may be connected to.
//!
//! The author of a Sync names servers, and the loop connects to them from its own pod. What listens there on loopback, what only
//! this machine reaches, such as the metadata service of a cloud, and the pod itself are not meant for its author. Private
//! ranges stay allowed: member clusters are there.
//!
//! Facts: RFC 6890 (special-purpose addresses), RFC 4291 2.5.5 and RFC 6052 (addresses of IPv4 in those of IPv6); the
//! metadata services of clouds; a socket binds only to the addresses of its machine.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// The addresses at which clouds serve metadata and credentials to their machines, besides link-local ones.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254);

/// The prefixes of addresses of IPv6 that stand for one of IPv4 in their last 32 bits: mapped, compatible, and translated ones.
const EMBEDDING_PREFIXES: [[u16; 6]; 4] =
    [[0, 0, 0, 0, 0, 0xffff], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0xffff, 0], [0x64, 0xff9b, 0, 0, 0, 0]];

/// Which addresses may be connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Every address: whoever names it may do what this process may.
    #[default]
    Any,
    /// Every address that is not local to this machine.
    NotLocal,
}

/// What makes an address local to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// The machine itself.
    Loopback,
    /// No address, which systems take for loopback.
    Unspecified,
    /// The link of the machine.
    LinkLocal,
    /// The metadata service of a cloud.
    Metadata,
    /// An address of one of the machine's interfaces.
    Own,
}

/// Why a host may not be connected to, or has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Its address is local.
    #[error(
        "`{host}`{} is {class}: a Sync may not lead there; an operator can permit it with --allow-local-addresses",
        led_to(.host, .address)
    )]
    Local {
        /// The host as it was named.
        host: String,
        /// The address.
        address: IpAddr,
        /// What it is.
        class: LocalAddress,
    },
    /// It looks like an address, and programs do not agree on which.
    #[error(
        "`{0}` is neither a name nor an address in its usual form: write an address of IPv4 as four decimal numbers"
    )]
    Ambiguous(String),
    /// The name has no address.
    #[error("the name `{host}` cannot be resolved: {why}")]
    Unresolved {
        /// The host.
        host: String,
        /// What the resolver says.
        why: String,
    },
}

/// `, which leads to ADDRESS,` where a host is a name.
fn led_to(host: &str, address: &IpAddr) -> String {
    if parse_address(host).is_some() { String::new() } else { format!(" leads to {address}, which") }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Unspecified => "the unspecified address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a cloud's metadata service",
            Self::Own => "an address of this machine",
        })
    }
}

/// What makes an address local, whatever machine this is.
pub fn classify_address(address: IpAddr) -> Option<LocalAddress> {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) if address.is_unspecified() => Some(LocalAddress::Unspecified),
        IpAddr::V6(address) if address.is_loopback() => Some(LocalAddress::Loopback),
        IpAddr::V6(address) if address.is_unicast_link_local() => Some(LocalAddress::LinkLocal),
        IpAddr::V6(METADATA_V6) => Some(LocalAddress::Metadata),
        IpAddr::V6(address) => find_embedded(address).and_then(classify_v4),
    }
}

fn classify_v4(address: Ipv4Addr) -> Option<LocalAddress> {
    match address.octets() {
        [127, ..] => Some(LocalAddress::Loopback),
        [0, ..] => Some(LocalAddress::Unspecified),
        [169, 254, ..] => Some(LocalAddress::LinkLocal),
        _ => METADATA_V4.contains(&address).then_some(LocalAddress::Metadata),
    }
}

/// The address of IPv4 that one of IPv6 stands for.
fn find_embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let [.., high, low] = segments;
    let embeds = EMBEDDING_PREFIXES.iter().any(|prefix| segments.starts_with(prefix));
    embeds.then(|| Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
}

/// Whether an interface of this machine has an address. Nothing is sent.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// A host that is an address; one of IPv6 may have brackets, and a zone, which does not count.
fn parse_address(host: &str) -> Option<IpAddr> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    plain.split('%').next().unwrap_or_default().parse().ok()
}

/// Whether a host is a number in another form than an address: programs read `127.1`, `0x7f000001` and `2130706433` as loopback.
fn is_numeric(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let digits = last.strip_prefix("0x").or(last.strip_prefix("0X"));
    match digits {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Whether a name is that of this machine for resolvers, whatever servers of names say (RFC 6761).
fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

impl AddressPolicy {
    /// Checks a host as far as its text tells: an address, or a name of this machine. Nothing is resolved.
    ///
    /// # Errors
    ///
    /// If it must not be connected to.
    pub fn check_host(self, host: &str) -> Result<(), AddressError> {
        if self == Self::Any {
            return Ok(());
        }
        match parse_address(host) {
            Some(address) => self.check_address(host, address),
            None if is_numeric(host) => Err(AddressError::Ambiguous(host.to_owned())),
            None if is_localhost(host) => {
                let address = Ipv4Addr::LOCALHOST.into();
                Err(AddressError::Local { host: host.to_owned(), address, class: LocalAddress::Loopback })
            }
            None => Ok(()),
        }
    }

    /// Checks an address to which a host leads.
    ///
    /// # Errors
    ///
    /// If it must not be connected to.
    pub fn check_address(self, host: &str, address: IpAddr) -> Result<(), AddressError> {
        if self == Self::Any {
            return Ok(());
        }
        match classify_address(address).or_else(|| is_own(address).then_some(LocalAddress::Own)) {
            None => Ok(()),
            Some(class) => Err(AddressError::Local { host: host.to_owned(), address, class }),
        }
    }

    /// The addresses of a host, for a program that is to connect to one of them.
    ///
    /// # Errors
    ///
    /// If it has none, or one that must not be connected to.
    pub fn resolve_host(self, host: &str) -> Result<Vec<IpAddr>, AddressError> {
        self.check_host(host)?;
        if let Some(address) = parse_address(host) {
            return Ok(vec![address]);
        }
        let found: io::Result<Vec<SocketAddr>> = (host, 0).to_socket_addrs().map(Iterator::collect);
        let found = found
            .map_err(|error| AddressError::Unresolved { host: host.to_owned(), why: error.to_string() })?;
        let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        for address in &addresses {
            self.check_address(host, *address)?;
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(address: &str) -> Option<LocalAddress> {
        classify_address(address.parse().unwrap())
    }

    #[test]
    fn addresses_of_this_machine_are_local_in_every_form() {
        for (address, expected) in [
            ("127.0.0.1", LocalAddress::Loopback),
            ("127.255.255.254", LocalAddress::Loopback),
            ("::1", LocalAddress::Loopback),
            ("::ffff:127.0.0.1", LocalAddress::Loopback),
            ("::127.0.0.1", LocalAddress::Loopback),
            ("::ffff:0:127.0.0.1", LocalAddress::Loopback),
            ("64:ff9b::7f00:1", LocalAddress::Loopback),
            ("0.0.0.0", LocalAddress::Unspecified),
            ("0.1.2.3", LocalAddress::Unspecified),
            ("::", LocalAddress::Unspecified),
            ("::ffff:0.0.0.0", LocalAddress::Unspecified),
            ("169.254.169.254", LocalAddress::LinkLocal),
            ("169.254.0.0", LocalAddress::LinkLocal),
            ("fe80::1", LocalAddress::LinkLocal),
            ("febf::1", LocalAddress::LinkLocal),
            ("::ffff:169.254.169.254", LocalAddress::LinkLocal),
            ("64:ff9b::a9fe:a9fe", LocalAddress::LinkLocal),
            ("100.100.100.200", LocalAddress::Metadata),
            ("168.63.129.16", LocalAddress::Metadata),
            ("fd00:ec2::254", LocalAddress::Metadata),
        ] {
            assert_eq!(class(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn private_and_public_addresses_are_not_local() {
        for address in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "192.0.2.1",
            "1.0.0.0",
            "fd00::1",
            "fec0::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(class(address), None, "{address}");
        }
    }

    #[test]
    fn hosts_are_checked_by_their_text() {
        let policy = AddressPolicy::NotLocal;
        for host in [
            "127.0.0.1",
            "[::1]",
            "::1",
            "[fe80::1%25eth0]",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "127.0.0.1.",
            "0177.0.0.1",
            "1.2.3.4.5",
        ] {
            assert!(policy.check_host(host).is_err(), "{host}");
            assert_eq!(AddressPolicy::Any.check_host(host), Ok(()), "{host}");
        }
        for host in [
            "git.example.com",
            "10.0.0.1",
            "[2001:db8::1]",
            "1.2.3.example",
            "localhost.example.com",
            "0x.example",
        ] {
            assert_eq!(policy.check_host(host), Ok(()), "{host}");
        }
    }

    #[test]
    fn refusals_say_what_an_address_is() {
        let policy = AddressPolicy::NotLocal;
        let refused = |host: &str, address: &str| {
            policy.check_address(host, address.parse().unwrap()).unwrap_err().to_string()
        };
        assert_eq!(
            refused("git.example.com", "127.0.0.1"),
            "`git.example.com` leads to 127.0.0.1, which is a loopback address: a Sync may not lead there; an operator can permit it \
             with --allow-local-addresses"
        );
        assert!(refused("[::1]", "::1").starts_with("`[::1]` is a loopback address: a Sync may not"));
    }

    #[test]
    fn names_that_lead_here_are_refused() {
        let error = AddressPolicy::NotLocal.resolve_host("localhost").unwrap_err();
        assert!(matches!(error, AddressError::Local { class: LocalAddress::Loopback, .. }), "{error}");
        assert!(AddressPolicy::Any.resolve_host("localhost").unwrap().iter().all(IpAddr::is_loopback));
    }

    /// The addresses of interfaces; loopback stands for them, because tests know no other address that each machine has.
    #[test]
    fn an_address_of_an_interface_is_own() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own("192.0.2.1".parse().unwrap()), "an address for documentation");
    }
}
