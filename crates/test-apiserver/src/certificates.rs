//! The certificates of a fleet: its authority, its servers, its administrator.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig, crypto};

/// Why certificates cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A certificate or a key cannot be made.
    #[error("making a certificate: {0}")]
    Generation(#[from] rcgen::Error),
    /// The key of the server has a form that TLS does not take.
    #[error("the key of the server: {0}")]
    Key(&'static str),
    /// The verifier of clients refuses the authority.
    #[error("the authority of clients: {0}")]
    Verifier(#[from] VerifierBuilderError),
    /// The configuration of TLS is refused.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

pub struct Certificates {
    /// The authority, as PEM.
    pub authority: String,
    /// The administrator's certificate and key, as PEM.
    pub client: String,
    pub client_key: String,
    pub server: Arc<ServerConfig>,
}

impl Certificates {
    pub fn generate() -> Result<Self, CertificateError> {
        let mut params = certificate_params("federate test authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let (server_key, client_key) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut params = certificate_params("kube-apiserver", &["127.0.0.1", "localhost"])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server = params.signed_by(&server_key, &authority)?;
        let mut params = certificate_params("admin", &[])?;
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client = params.signed_by(&client_key, &authority)?;
        let key = PrivateKeyDer::try_from(server_key.serialize_der()).map_err(CertificateError::Key)?;
        Ok(Self {
            server: Arc::new(server_config(authority.der(), server.der(), key)?),
            authority: authority.pem(),
            client: client.pem(),
            client_key: client_key.serialize_pem(),
        })
    }

    /// The certificate of another authority.
    pub fn foreign_certificate() -> Result<String, CertificateError> {
        let mut params = certificate_params("another authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(params.self_signed(&KeyPair::generate()?)?.pem())
    }
}

fn certificate_params(name: &str, hosts: &[&str]) -> Result<CertificateParams, rcgen::Error> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// Clients may show a certificate; one of the authority's is that of the administrator.
fn server_config(
    authority: &CertificateDer<'_>,
    server: &CertificateDer<'_>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, CertificateError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone().into_owned())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.clone().into_owned()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
