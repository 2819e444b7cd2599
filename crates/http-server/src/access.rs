//! Who may ask: the name by which a server is reached, the page that asks, and the token.

use std::fmt::Write as _;
use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderValue, ORIGIN};
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

/// A random token that every request must carry: as a cookie, or as `Authorization: Bearer`.
pub struct AccessToken {
    token: String,
    cookie: String,
}

impl AccessToken {
    /// A new token. Cookies of one name are sent to all ports of a host, so the name has the port.
    ///
    /// # Errors
    ///
    /// If the operating system has no random bytes.
    pub fn generate(port: u16) -> std::io::Result<Self> {
        let mut bytes = [0_u8; 24];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        let mut token = String::new();
        for byte in bytes {
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Self { token, cookie: format!("federate-{port}") })
    }

    /// The token, for the address that is printed once.
    pub fn as_text(&self) -> &str {
        &self.token
    }

    /// Whether a request carries the token in its headers.
    pub fn is_carried(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if bearer.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|sent| self.is_token(sent)) {
            return true;
        }
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.is_token(value))
    }

    /// Whether the query of an address has the token, as `token=TOKEN`.
    pub fn is_in_query(&self, query: &str) -> bool {
        query.split('&').any(|pair| pair.strip_prefix("token=").is_some_and(|sent| self.is_token(sent)))
    }

    /// Whether a text is the token.
    fn is_token(&self, sent: &str) -> bool {
        is_same_text(sent, &self.token)
    }

    /// The value of `Set-Cookie` that makes a browser carry the token, and no script read it.
    pub fn format_cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token)
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
    fn a_request_carries_the_token_in_a_cookie_or_a_header() {
        let token = AccessToken::generate(4000).unwrap();
        let text = token.as_text().to_owned();
        assert!(text.len() == 48 && AccessToken::generate(4000).unwrap().as_text() != text);
        for (name, value, carries) in [
            ("authorization", format!("Bearer {text}"), true),
            ("authorization", format!("Bearer {}", &text[1..]), false),
            ("authorization", text.clone(), false),
            ("cookie", format!("a=b; federate-4000={text}"), true),
            ("cookie", format!("federate-4001={text}"), false),
            ("cookie", format!("federate-4000={text}x"), false),
            ("cookie", String::new(), false),
        ] {
            assert_eq!(token.is_carried(&headers(&[(name, &value)])), carries, "{name}: {value}");
        }
        assert!(token.is_in_query(&format!("a=1&token={text}")) && !token.is_in_query("token="));
        assert!(!token.is_carried(&HeaderMap::new()));
    }
}
