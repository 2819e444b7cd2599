//! Connects to servers after a check of each address to which a name leads.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::{BoxError, Service};

use crate::AddressPolicy;

type PendingResult<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Resolves names, and refuses those that lead to an address that must not be connected to.
#[derive(Clone)]
pub(crate) struct CheckedResolver {
    resolver: GaiResolver,
    policy: AddressPolicy,
}

impl Service<Name> for CheckedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = PendingResult<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.resolver.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (host, policy) = (name.as_str().to_owned(), self.policy);
        let found = self.resolver.call(name);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = found.await?.collect();
            for address in &addresses {
                policy.check_address(&host, address.ip())?;
            }
            Ok(addresses.into_iter())
        })
    }
}

/// Connects by TCP. Hosts that are addresses, which are not resolved, are checked, too.
#[derive(Clone)]
pub(crate) struct CheckedConnector {
    http: HttpConnector<CheckedResolver>,
    policy: AddressPolicy,
}

impl CheckedConnector {
    pub(crate) fn new(policy: AddressPolicy) -> Self {
        let mut http =
            HttpConnector::new_with_resolver(CheckedResolver { resolver: GaiResolver::new(), policy });
        http.enforce_http(false);
        Self { http, policy }
    }
}

impl Service<Uri> for CheckedConnector {
    type Response = <HttpConnector as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = PendingResult<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let checked = self.policy.check_host(address.host().unwrap_or_default());
        let connected = checked.map(|()| self.http.call(address));
        Box::pin(async move { Ok(connected?.await?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AddressError, LocalAddress, find_refusal};

    /// A name that leads to this machine when it is connected to, whatever it led to before.
    #[tokio::test]
    async fn a_name_is_checked_when_it_is_resolved() {
        let mut resolver = CheckedResolver { resolver: GaiResolver::new(), policy: AddressPolicy::NotLocal };
        let error = resolver.call("localhost".parse().unwrap()).await.err().unwrap();
        let refusal = find_refusal(&*error);
        assert!(
            matches!(refusal, Some(AddressError::Local { class: LocalAddress::Loopback, .. })),
            "{error}"
        );
    }

    #[tokio::test]
    async fn nothing_connects_to_a_local_address() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let refused = CheckedConnector::new(AddressPolicy::NotLocal).call(address.clone()).await;
        assert!(find_refusal(&*refused.err().unwrap()).is_some());
        assert!(CheckedConnector::new(AddressPolicy::Any).call(address).await.is_ok());
    }
}
