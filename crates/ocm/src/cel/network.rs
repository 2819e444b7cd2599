//! Addresses, networks and URLs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// The address as it is written.
    pub(super) address: IpAddr,
    /// The bits that its addresses share.
    pub(super) length: u8,
}

/// Parses an address. Addresses of version 4 in the notation of version 6, and those with a zone, are errors.
pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        other => Some(other),
    }
}

impl Network {
    /// Parses a range such as `10.0.0.0/8`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let address = parse_address(address)?;
        let is_padded = length.len() > 1 && length.starts_with('0');
        let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length: u8 = length.parse().ok().filter(|_| is_number && !is_padded)?;
        (length <= if address.is_ipv4() { 32 } else { 128 }).then_some(Self { address, length })
    }

    /// Whether an address is in the range.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        mask(address, self.length) == mask(self.address, self.length)
            && address.is_ipv4() == self.address.is_ipv4()
    }

    /// Whether all addresses of another range are in the range.
    pub(super) fn contains_network(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The range with the bits of its addresses cleared.
    pub(super) fn masked(&self) -> Self {
        Self { address: mask(self.address, self.length), length: self.length }
    }
}

/// Whether an address is that of one link.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Whether an address is that of several hosts of one link.
pub(super) fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

/// Whether an address is that of one host beyond its link. Private ones are among them.
pub(super) fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local(address)
        || is_broadcast)
}

/// An address whose bits after the first `length` are cleared.
fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

/// A URL with a scheme and a host. Others, and rare forms, are not known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedUrl {
    pub(super) text: String,
    pub(super) scheme: String,
    /// With the port.
    pub(super) host: String,
    pub(super) hostname: String,
    pub(super) port: String,
    pub(super) path: String,
}

impl ParsedUrl {
    /// Parses a plain URL. `Err` if the form is not known here, and `Ok(None)` if it is no URL.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, ()> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte));
        if !is_plain {
            return Err(());
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            // Only an absolute path is a URL without a scheme.
            return if text.contains(':') || text.starts_with("//") { Err(()) } else { Ok(None) };
        };
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (hostname, port) = host.split_once(':').unwrap_or((host, ""));
        let has_port = host.contains(':');
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        if !is_scheme
            || host.is_empty()
            || hostname.is_empty()
            || hostname.contains(':')
            || port.contains(':')
        {
            return Err(());
        }
        if has_port && (!is_port || port.is_empty()) {
            return Err(());
        }
        Ok(Some(Self {
            text: text.to_owned(),
            scheme: scheme.to_lowercase(),
            host: host.to_owned(),
            hostname: hostname.to_owned(),
            port: port.to_owned(),
            path: path.to_owned(),
        }))
    }
}
