//! How a control plane reaches a member cluster, according to its inventory object, in a common form for all
//! dialects. The credentials are in Secrets on the control plane's host.

/// The connection details of a cluster's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The address: a URL, or a host with an optional port.
    pub endpoint: String,
    /// The Secret with the credentials.
    pub secret: SecretName,
    /// The keys of the credentials in the Secret.
    pub credentials: CredentialKeys,
    /// How the server's certificate is verified.
    pub authority: Authority,
    /// The Secret whose `token` may impersonate other users, if the control plane has one.
    pub impersonator: Option<SecretName>,
    /// The proxy.
    pub proxy: Option<String>,
}

/// A Secret on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The keys of a Secret that contain credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKeys {
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

/// How a server's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Not verified: the inventory disables verification.
    Unverified,
    /// With the certificates under this key of the Secret, as PEM.
    Secret(&'static str),
    /// With these certificates: PEM in base64.
    Bundle(String),
    /// With the system's certificates.
    System,
}
