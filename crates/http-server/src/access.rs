//! Who may ask: the name by which a server is reached, the page that asks, and the token.

use std::fmt::Write as _;
use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use sha2::Sha256;

/// Whether a request to a server on loopback names it. A page in a browser can reach it by a name of its own that leads to this
/// address, and would read what it answers.
pub fn names_loopback(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host.and_then(|host| host.to_str().ok()) else { return false };
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Whether a page of another server asks. Programs that are not browsers name no origin.
pub fn has_foreign_origin(headers: &HeaderMap) -> bool {
    let [origin, host] = [ORIGIN, HOST]
        .map(|name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default());
    headers.contains_key(ORIGIN) && origin.strip_prefix("http://") != Some(host)
}

/// Whether two texts are the same, in a time that does not tell where they differ.
pub fn is_same_text(one: &str, other: &str) -> bool {
    // Digests with a key are compared in constant time.
    let [one, other] = [one, other].map(|text| {
        Hmac::<Sha256>::new_from_slice(b"compare").ok().map(|mac| mac.chain_update(text.as_bytes()))
    });
    one.zip(other).is_some_and(|(one, other)| one.verify(&other.finalize().into_bytes()).is_ok())
}

/// A random token that every request must carry, as `Authorization: Bearer`. It is no cookie: a browser sends those to the servers on
/// all ports of a host.
pub struct AccessToken(String);

impl AccessToken {
    /// A new token.
    ///
    /// # Errors
    ///
    /// If the operating system has no random bytes.
    pub fn generate() -> std::io::Result<Self> {
        let mut bytes = [0_u8; 24];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        let mut token = String::new();
        for byte in bytes {
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Self(token))
    }

    /// The token, for the address that is printed once.
    pub fn as_text(&self) -> &str {
        &self.0
    }

    /// Whether a request carries the token.
    pub fn is_carried(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        bearer.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|sent| is_same_text(sent, &self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_loopback_has_no_other_name() {
        let named = |host: &str| names_loopback(Some(&host.parse().unwrap()));
        assert!(
            named("localhost:9441") && named("127.0.0.1:9441") && named("[::1]:9441") && named("LOCALHOST")
        );
        for host in
            ["evil.example.com:9441", "localhost.evil.example.com", "127.0.0.1.nip.io", "", "10.0.0.1"]
        {
            assert!(!named(host), "{host}");
        }
        assert!(!names_loopback(None));
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_the_own_page_may_ask() {
        let foreign =
            |origin: &str| has_foreign_origin(&headers(&[("host", "127.0.0.1:4000"), ("origin", origin)]));
        assert!(!foreign("http://127.0.0.1:4000"));
        for origin in [
            "null",
            "http://127.0.0.1:4001",
            "https://127.0.0.1:4000",
            "http://localhost:4000",
            "https://evil.example",
            "",
        ] {
            assert!(foreign(origin), "{origin}");
        }
        assert!(!has_foreign_origin(&headers(&[("host", "127.0.0.1:4000")])));
        assert!(has_foreign_origin(&headers(&[("origin", "http://127.0.0.1:4000")])));
    }

    #[test]
    fn a_request_carries_the_token_in_a_header_and_in_no_cookie() {
        let token = AccessToken::generate().unwrap();
        let text = token.as_text().to_owned();
        assert!(text.len() == 48 && AccessToken::generate().unwrap().as_text() != text);
        for (name, value, carries) in [
            ("authorization", format!("Bearer {text}"), true),
            ("authorization", format!("Bearer {}", &text[1..]), false),
            ("authorization", text.clone(), false),
            ("cookie", format!("token={text}"), false),
            ("cookie", format!("federate-4000={text}"), false),
        ] {
            assert_eq!(token.is_carried(&headers(&[(name, &value)])), carries, "{name}: {value}");
        }
        assert!(!token.is_carried(&HeaderMap::new()));
    }
}
