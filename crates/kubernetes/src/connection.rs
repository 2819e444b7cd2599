//! How a control plane reaches a member cluster, by what the cluster's inventory object says, in one shape
//! for all dialects. The credentials lie in Secrets on the control plane's host.

/// The way to a cluster's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its address: a URL, or a host with or without a port.
    pub endpoint: String,
    /// The Secret that holds the credentials.
    pub secret: SecretName,
    /// Where in the Secret they are.
    pub credentials: Credentials,
    /// Who vouches for the server.
    pub authority: Authority,
    /// The Secret whose `token` may act as somebody else, where the control plane keeps one for that.
    pub impersonator: Option<SecretName>,
    /// The proxy on the way.
    pub proxy: Option<String>,
}

/// A Secret on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The keys of a Secret that hold credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A bearer token.
    Token(&'static str),
    /// A client certificate and its private key, as PEM.
    Certificate {
        /// The key of the certificate.
        certificate: &'static str,
        /// The key of the private key.
        key: &'static str,
    },
}

/// Who vouches for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Nobody: the inventory says that the certificate is not to be verified.
    Nobody,
    /// The certificates under this key of the Secret, as PEM.
    Secret(&'static str),
    /// These certificates: PEM in base64.
    Bundle(String),
    /// Whoever the system trusts.
    System,
}
