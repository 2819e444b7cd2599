//! Connection details of a member cluster, in a common form into which each dialect converts its inventory objects.
//! The credentials are in Secrets on the control plane's host cluster.

/// The connection details for a cluster's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The address: a URL, or a host with or without a port.
    pub endpoint: String,
    /// The Secret that holds the credentials.
    pub secret: SecretName,
    /// The keys of the credentials in the Secret.
    pub credentials: Credentials,
    /// The certificate authority of the server.
    pub authority: Authority,
    /// The Secret whose `token` is allowed to impersonate, if the control plane has one.
    pub impersonator: Option<SecretName>,
    /// The proxy, if any.
    pub proxy: Option<String>,
}

/// A Secret on the host cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The keys of a Secret that hold credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The key of a bearer token.
    Token(&'static str),
    /// A client certificate and its private key, as PEM.
    Certificate {
        /// The key of the certificate.
        certificate: &'static str,
        /// The key of the private key.
        key: &'static str,
    },
}

/// The certificate authority of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// None: the inventory object disables the verification of the certificate.
    Nobody,
    /// The key of the Secret with the certificates, as PEM.
    Secret(&'static str),
    /// The certificates, as PEM in base64.
    Bundle(String),
    /// The certificate authorities that the system trusts.
    System,
}
