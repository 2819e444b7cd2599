//! The proxy for an API server: the one that the cluster's entry in the kubeconfig names, or else that of the
//! environment.
//!
//! Facts: Kubernetes clients prefer `proxy-url`, and otherwise take `HTTPS_PROXY` unless `NO_PROXY` excepts the server.
//! They never use a proxy of the environment for servers on the same machine.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::Kubeconfig;

use super::Error;

/// The proxy to a server, for a context of a kubeconfig.
pub(super) fn find_proxy(kubeconfig: &Kubeconfig, context: &str, server: &Uri) -> Result<Option<Uri>, Error> {
    if let Some(url) = find_context_proxy(kubeconfig, context) {
        return parse_proxy(&url).map(Some);
    }
    let environment = ["HTTPS_PROXY", "https_proxy"];
    let url = environment.iter().find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()));
    match url {
        Some(url) if !is_near(server) && Matcher::from_env().intercept(server).is_some() => {
            parse_proxy(&url).map(Some)
        }
        _ => Ok(None),
    }
}

fn parse_proxy(url: &str) -> Result<Uri, Error> {
    // The address may contain a password, and is not quoted.
    url.parse().map_err(|error| Error::Access(format!("the proxy's address: {error}")))
}

fn find_context_proxy(kubeconfig: &Kubeconfig, context: &str) -> Option<String> {
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

fn is_near(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
