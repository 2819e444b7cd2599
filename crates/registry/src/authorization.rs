//! What a registry asks for with status 401: a password, or a token from the server that it names.
//!
//! Facts: RFC 7235 (`WWW-Authenticate`); the token authentication of docker's registry, with a password or an identity token.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde::Deserialize;

use crate::credentials::Credentials;
use crate::transport::{Call, NoResponse, Transport};

/// The largest answer of a server of tokens, in bytes.
const MAX_TOKEN_BYTES: usize = 1 << 20;

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password.
    Basic,
    /// A token.
    Bearer {
        /// The server of tokens.
        realm: String,
        /// The registry, as that server names it.
        service: Option<String>,
        /// What the token is for.
        scope: Option<String>,
    },
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl Challenge {
    /// Reads the challenge of an answer. Tokens are preferred.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let mut challenges: Vec<Self> = texts.filter_map(Self::parse).collect();
        challenges.sort_by_key(|challenge| *challenge == Self::Basic);
        challenges.into_iter().next()
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parse_parameters(rest);
        let find = |name: &str| {
            parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        Some(Self::Bearer { realm: find("realm")?, service: find("service"), scope: find("scope") })
    }

    /// The value of `Authorization` that answers the challenge; `None` if the credentials do not suffice. An error says why
    /// there is no token.
    pub(crate) async fn authorize(
        &self,
        transport: &Transport,
        credentials: &Credentials,
        scope: &str,
    ) -> Result<Option<HeaderValue>, NoResponse> {
        let (realm, service, asked) = match self {
            Self::Basic => return Ok(basic_header(credentials)),
            Self::Bearer { realm, service, scope } => (realm, service, scope),
        };
        let scope = asked.as_deref().unwrap_or(scope);
        let call = token_call(realm, service.as_deref(), scope, credentials)?;
        let answer = transport.send(&call, MAX_TOKEN_BYTES).await?;
        if answer.status == http::StatusCode::UNAUTHORIZED || answer.status == http::StatusCode::FORBIDDEN {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(format!("the server of its tokens answers {}", answer.status).into());
        }
        let answer: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| "the server of its tokens answers what is not a token".to_owned())?;
        let token = answer.token.or(answer.access_token);
        let token = token.ok_or_else(|| "the server of its tokens answers without a token".to_owned())?;
        let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| "the server of its tokens answers what is not a token".to_owned())?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// The request for a token.
fn token_call(
    realm: &str,
    service: Option<&str>,
    scope: &str,
    credentials: &Credentials,
) -> Result<Call, String> {
    let mut query = format!("scope={}", encode_query(scope));
    if let Some(service) = service {
        query.push_str(&format!("&service={}", encode_query(service)));
    }
    let mut headers = HeaderMap::new();
    let invalid = |_| "it names a server of tokens that is not valid".to_owned();
    if let Credentials::IdentityToken(token) = credentials {
        let body = format!(
            "grant_type=refresh_token&client_id=federate&refresh_token={}&{query}",
            encode_query(token)
        );
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let address: Uri = realm.parse().map_err(invalid)?;
        return Ok(Call { method: Method::POST, address, headers, body: Bytes::from(body) });
    }
    if let Some(header) = basic_header(credentials) {
        headers.insert(AUTHORIZATION, header);
    }
    let separator = if realm.contains('?') { '&' } else { '?' };
    let address: Uri = format!("{realm}{separator}{query}").parse().map_err(invalid)?;
    Ok(Call { method: Method::GET, address, headers, body: Bytes::new() })
}

fn basic_header(credentials: &Credentials) -> Option<HeaderValue> {
    let Credentials::Basic { user, password } = credentials else { return None };
    let text = BASE64_STANDARD.encode(format!("{user}:{password}"));
    let mut header = HeaderValue::from_str(&format!("Basic {text}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// The parameters of a challenge: `key="value"` or `key=value`, with commas between them.
fn parse_parameters(text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut rest = text.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            let mut value = String::new();
            let mut characters = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((at, c)) = characters.next() {
                match c {
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    '\\' => value.extend(characters.next().map(|(_, c)| c)),
                    c => value.push(c),
                }
            }
            (value, quoted.get(end..).unwrap_or_default())
        } else {
            let end = after.find(',').unwrap_or(after.len());
            (after.get(..end).unwrap_or_default().trim().to_owned(), after.get(end..).unwrap_or_default())
        };
        parameters.push((key.trim().to_owned(), value));
        rest = after.trim_start_matches([',', ' ']);
    }
    parameters
}

/// A value of a query.
fn encode_query(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~:/,".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let text = r#"Bearer realm="https://auth.example.com/token?x=1",service="registry.example.com",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example.com/token?x=1".to_owned(),
            service: Some("registry.example.com".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(Challenge::parse(text), Some(expected));
        let mut headers = HeaderMap::new();
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"x\""));
        assert_eq!(Challenge::from_headers(&headers), Some(Challenge::Basic));
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("bearer realm=https://a/t"));
        assert!(matches!(Challenge::from_headers(&headers), Some(Challenge::Bearer { .. })));
        for odd in ["Bearer", "Bearer realm", "Bearer realm=\"", "Negotiate", "", "Bearer =,=,\"\\"] {
            let _ = Challenge::parse(odd);
        }
    }

    #[test]
    fn tokens_are_asked_for_with_what_is_known() {
        let basic = Credentials::Basic { user: "u".to_owned(), password: "p".to_owned() };
        let call = token_call("https://a/t?x=1", Some("r e"), "repository:a:pull", &basic).unwrap();
        assert_eq!(call.address, "https://a/t?x=1&scope=repository:a:pull&service=r%20e");
        assert!(call.headers.contains_key(AUTHORIZATION));
        let identity = Credentials::IdentityToken("t&t".to_owned());
        let call = token_call("https://a/t", None, "s", &identity).unwrap();
        assert_eq!(
            (call.method, &*call.body),
            (Method::POST, &b"grant_type=refresh_token&client_id=federate&refresh_token=t%26t&scope=s"[..])
        );
        assert!(token_call("not a url", None, "s", &basic).is_err());
    }
}
