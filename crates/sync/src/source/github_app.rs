//! Tokens of GitHub Apps, by the keys that Flux's Secrets have: `githubAppID`, `githubAppInstallationID`,
//! `githubAppPrivateKey`, and `githubAppBaseURL` for GitHub Enterprise Server.
//!
//! A token of an installation lasts an hour; it is kept until a few minutes before its end.
//!
//! Facts: "Generating a JSON Web Token (JWT) for a GitHub App" and "Generating an installation access token" of GitHub's
//! documentation: the JWT is signed with RS256 and lasts ten minutes at most; the token is the password of the user
//! `x-access-token`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use federate_http_client::AddressPolicy;
use federate_sync_api::record::compute_digest;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Limited};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use kube::client::Body;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use serde_json::json;

use crate::source::credentials::{SecretData, proxy_address, read_text_key};
use crate::uri::{describe_failure, parse_uri};

/// The API of github.com.
const GITHUB_API: &str = "https://api.github.com";
/// The size of an answer; a token has a few hundred bytes, and the permissions of the App.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long before its end a token is replaced.
const RENEWAL_MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// How long a token lasts.
const TOKEN_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Clocks may differ by this much.
const CLOCK_SKEW_SECONDS: i64 = 60;
/// How long a JWT lasts, in seconds.
const JWT_LIFETIME_SECONDS: i64 = 540;

/// The tokens that are valid, by the digest of the credentials that they were given for.
#[derive(Default)]
pub(crate) struct InstallationTokens(Mutex<BTreeMap<String, InstallationToken>>);

#[derive(Clone, Deserialize)]
struct InstallationToken {
    token: String,
    expires_at: Timestamp,
}

/// Whether a Secret has the credentials of a GitHub App.
pub(crate) fn is_app(keys: &SecretData) -> bool {
    keys.keys().any(|key| key.starts_with("githubApp"))
}

impl InstallationTokens {
    /// The credentials of an installation, as those of a user.
    pub(crate) async fn installation_credentials(
        &self,
        url: &str,
        keys: &SecretData,
        proxy: Option<&SecretData>,
        addresses: AddressPolicy,
    ) -> Result<SecretData, String> {
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err("the credentials of a GitHub App are for https: name the source by https".to_owned());
        }
        let parts = keys.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_slice()]);
        let key = compute_digest(parts);
        let now = Timestamp::now();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        // If more is left than a token lasts, the clock was set back.
        let valid = known.filter(|known| {
            let left = known.expires_at.duration_since(now);
            left > RENEWAL_MARGIN && left <= TOKEN_LIFETIME + RENEWAL_MARGIN
        });
        let token = match valid {
            Some(token) => token,
            None => request_token(keys, proxy, now, addresses)
                .await
                .map_err(|why| format!("the GitHub App: {why}"))?,
        };
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, token| token.expires_at > now);
        let password = token.token.clone().into_bytes();
        tokens.insert(key, token);
        let mut plain = SecretData::from([
            ("username".to_owned(), b"x-access-token".to_vec()),
            ("password".to_owned(), password),
        ]);
        plain.extend(keys.get("ca.crt").map(|authority| ("ca.crt".to_owned(), authority.clone())));
        Ok(plain)
    }
}

fn require_key(keys: &SecretData, key: &str) -> Result<String, String> {
    read_text_key(keys, key)?.ok_or_else(|| format!("the Secret has no key `{key}`"))
}

/// Asks GitHub for a token.
async fn request_token(
    keys: &SecretData,
    proxy: Option<&SecretData>,
    now: Timestamp,
    addresses: AddressPolicy,
) -> Result<InstallationToken, String> {
    let app = require_key(keys, "githubAppID")?;
    let installation = require_key(keys, "githubAppInstallationID")?;
    if !installation.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("`githubAppInstallationID` is not a number".to_owned());
    }
    let key = keys.get("githubAppPrivateKey").ok_or("the Secret has no key `githubAppPrivateKey`")?;
    let bearer = sign_jwt(&app, key, now.as_second())?;
    let base = read_text_key(keys, "githubAppBaseURL")?.unwrap_or_else(|| GITHUB_API.to_owned());
    let base = parse_uri(base.trim_end_matches('/')).map_err(|why| format!("`githubAppBaseURL`: {why}"))?;
    let folder = base.path().trim_end_matches('/');
    let path = format!("{folder}/app/installations/{installation}/access_tokens");
    let mut bearer = http::HeaderValue::from_str(&format!("Bearer {bearer}")).map_err(|e| e.to_string())?;
    bearer.set_sensitive(true);
    let request = Request::post(path)
        .header(header::AUTHORIZATION, bearer)
        .header(header::ACCEPT, "application/vnd.github+json")
        .header(header::USER_AGENT, concat!("federate-sync/", env!("CARGO_PKG_VERSION")))
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let client = build_client(&base, keys, proxy, addresses)?;
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, async {
        let answer = client.send(request).await.map_err(|error| describe_failure(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|_| "the server's answer is cut off, or too long".to_owned())?.to_bytes();
        Ok::<_, String>((status, body))
    });
    let (status, body) = answer.await.map_err(|_| "the server does not answer".to_owned())??;
    if !status.is_success() {
        // Its text is not shown: whoever names the server could read the answers of others with it.
        return Err(format!("the server refuses a token: {status}"));
    }
    serde_json::from_slice(&body).map_err(|_| "the server's answer has no token".to_owned())
}

fn build_client(
    base: &Uri,
    keys: &SecretData,
    proxy: Option<&SecretData>,
    addresses: AddressPolicy,
) -> Result<kube::Client, String> {
    let mut parts = base.clone().into_parts();
    parts.path_and_query = "/".parse().ok();
    let mut config = kube::Config::new(Uri::from_parts(parts).map_err(|error| error.to_string())?);
    (config.connect_timeout, config.read_timeout) = (Some(REQUEST_TIMEOUT), Some(REQUEST_TIMEOUT));
    if let Some(authority) = keys.get("ca.crt") {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authority).collect();
        let read = read.map_err(|_| "`ca.crt` in the Secret is not a certificate".to_owned())?;
        config.root_cert = Some(read.into_iter().map(|certificate| certificate.to_vec()).collect());
    }
    if let Some(proxy) = proxy {
        let address = proxy_address(proxy)?;
        let address = address.parse().map_err(|_| "the `address` of the proxy is not a URL".to_owned())?;
        config.proxy_url = Some(address);
    }
    federate_http_client::build_client(config, addresses).map_err(|error| error.to_string())
}

/// A JWT of an App.
fn sign_jwt(app: &str, key: &[u8], now: i64) -> Result<String, String> {
    let pair = match PrivateKeyDer::from_pem_slice(key) {
        Ok(PrivateKeyDer::Pkcs1(key)) => RsaKeyPair::from_der(key.secret_pkcs1_der()).ok(),
        Ok(PrivateKeyDer::Pkcs8(key)) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).ok(),
        _ => None,
    };
    let pair = pair.ok_or("`githubAppPrivateKey` is not an RSA key in PEM")?;
    let header = json!({"alg": "RS256", "typ": "JWT"}).to_string();
    let claims =
        json!({"iat": now - CLOCK_SKEW_SECONDS, "exp": now + JWT_LIFETIME_SECONDS, "iss": app}).to_string();
    let signed = format!("{}.{}", encode_base64url(header.as_bytes()), encode_base64url(claims.as_bytes()));
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| "the JWT cannot be signed".to_owned())?;
    Ok(format!("{signed}.{}", encode_base64url(&signature)))
}

fn encode_base64url(bytes: &[u8]) -> String {
    let text = serde_json::to_value(ByteString(bytes.to_vec())).unwrap_or_default();
    text.as_str().unwrap_or_default().trim_end_matches('=').replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_asked_for_at_no_local_address_where_that_is_refused() {
        let base = parse_uri("http://localhost:80/api").unwrap();
        let refused = build_client(&base, &SecretData::new(), None, AddressPolicy::NotLocal).err().unwrap();
        assert!(refused.contains("a Sync may not lead there"), "{refused}");
    }

    #[test]
    fn what_is_wrong_with_a_key_is_said_without_it() {
        let why =
            sign_jwt("1", b"-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0\n-----END RSA PRIVATE KEY-----\n", 0);
        assert_eq!(why.unwrap_err(), "`githubAppPrivateKey` is not an RSA key in PEM");
        assert_eq!(encode_base64url(&[0xfb, 0xff, 0xfe, 0x01]), "-__-AQ");
    }
}
