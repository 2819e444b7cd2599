//! The certificates of a fleet: its authority, its servers, its administrator.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};

pub struct Certificates {
    /// The authority, as PEM.
    pub authority: String,
    /// The administrator's certificate and key, as PEM.
    pub client: String,
    pub client_key: String,
    pub server: Arc<ServerConfig>,
}

impl Certificates {
    pub fn new() -> Self {
        let mut params = certificate_params("federate test authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let (server_key, client_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = certificate_params("kube-apiserver", &["127.0.0.1", "localhost"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server = params.signed_by(&server_key, &authority).unwrap();
        let mut params = certificate_params("admin", &[]);
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client = params.signed_by(&client_key, &authority).unwrap();
        let key = PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
        Self {
            server: Arc::new(server_config(authority.der(), server.der(), key)),
            authority: authority.pem(),
            client: client.pem(),
            client_key: client_key.serialize_pem(),
        }
    }

    /// The certificate of another authority.
    pub fn foreign_certificate() -> String {
        let mut params = certificate_params("somebody else", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }
}

fn certificate_params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Clients may show a certificate; one of the authority's is that of the administrator.
fn server_config(
    authority: &CertificateDer<'_>,
    server: &CertificateDer<'_>,
    key: PrivateKeyDer<'static>,
) -> ServerConfig {
    let provider = Arc::new(crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone().into_owned()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.clone().into_owned()], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}
