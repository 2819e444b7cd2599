//! HTTP clients for servers that an untrusted source names.
//!
//! Facts: the stack of `kube`'s own client, whose connector cannot be chosen.

use std::error::Error as StdError;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use percent_encoding::percent_decode_str;
use tower::{BoxError, Service, ServiceBuilder};

use crate::connector::CheckedConnector;
use crate::{AddressError, AddressPolicy};

/// Why there is no client for a server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server must not be connected to.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] kube::Error),
}

/// A client for a server. Each connection is to an address that the policy allows, or to the proxy of the environment, which is
/// the operator's. Nothing is sent yet.
///
/// # Errors
///
/// If the host must not be connected to, or the configuration is not valid.
pub fn build_client(config: Config, policy: AddressPolicy) -> Result<Client, ClientError> {
    policy.check_host(config.cluster_url.host().unwrap_or_default())?;
    if policy == AddressPolicy::Any || config.proxy_url.as_ref().is_some_and(is_proxy_of_environment) {
        return Ok(Client::try_from(config)?);
    }
    let connector = CheckedConnector::new(policy);
    let Some(proxy) = config.proxy_url.clone() else { return build_with(connector, &config) };
    match proxy.scheme_str() {
        Some("socks5") => build_with(SocksV5::new(proxy, connector), &config),
        Some("http") => build_with(with_credentials(Tunnel::new(proxy.clone(), connector), &proxy), &config),
        Some("https") => {
            let connector = config.rustls_https_connector_with_connector(connector)?;
            build_with(with_credentials(Tunnel::new(proxy.clone(), connector), &proxy), &config)
        }
        _ => Err(kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy) }.into()),
    }
}

/// The refusal of an address among the causes of an error.
pub fn find_refusal<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e AddressError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<AddressError>() {
            return Some(refusal);
        }
        cause = error.source();
    }
    None
}

/// Whether a proxy is the one of the environment.
fn is_proxy_of_environment(proxy: &Uri) -> bool {
    let names = ["HTTPS_PROXY", "https_proxy"];
    let values = names.iter().filter_map(|name| std::env::var(name).ok());
    values.filter_map(|value| value.parse::<Uri>().ok()).any(|of_environment| of_environment == *proxy)
}

/// A tunnel with the credentials in the address of its proxy.
fn with_credentials<C>(tunnel: Tunnel<C>, proxy: &Uri) -> Tunnel<C> {
    let user = proxy.authority().and_then(|authority| authority.as_str().split_once('@'));
    let Some((user, _)) = user else { return tunnel };
    let plain: Vec<u8> = percent_decode_str(user).collect();
    match HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(plain))) {
        Ok(mut value) => {
            value.set_sensitive(true);
            tunnel.with_auth(value)
        }
        Err(_) => tunnel,
    }
}

/// A client whose connections a connector makes, with TLS on top where the server asks for it.
fn build_with<H>(connector: H, config: &Config) -> Result<Client, ClientError>
where
    H: Service<Uri> + Clone + Send + Sync + 'static,
    H::Response: legacy::connect::Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    H::Future: Send + 'static,
    H::Error: Into<BoxError>,
{
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}
