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

/// Why an inventory object does not say how its cluster is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// No object of its kind contains connection details that federate can use; the text says so.
    #[error("{0}")]
    NoDetails(&'static str),
    /// A field has no value.
    #[error("its {kind} has no {field}")]
    MissingField {
        /// The kind of the inventory object.
        kind: &'static str,
        /// The path of the field.
        field: &'static str,
    },
    /// The agent in the cluster connects to the control plane, which has no credentials.
    #[error("its {kind} has no spec.secretRef (its agent pulls, and lent no credentials)")]
    PullMode {
        /// The kind of the inventory object.
        kind: &'static str,
    },
    /// The object asks for what federate does not do.
    #[error("its {kind} {why}")]
    Unsupported {
        /// The kind of the inventory object.
        kind: &'static str,
        /// What it asks for, and why federate does not do it.
        why: &'static str,
    },
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
