//! TLS 1.3 with a certificate that never changes.

use std::sync::Arc;

use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::crypto::{ClientConfig, ServerConfig};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use rustls::{RootCertStore, client::Resumption};

/// The name in the certificate.
pub(super) const RECEIVER: &str = "receiver";

/// Self-signed with Ed25519, whose signatures have constant length, unlike ECDSA's: the handshake
/// of every run then has datagrams of the same sizes. It protects nothing.
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.der");
const KEY: &[u8] = include_bytes!("tls/key.der");

/// The TLS configurations of both ends, shared by all connections of a run.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(super) sender: Arc<dyn ClientConfig>,
    pub(super) receiver: Arc<dyn ServerConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Both configurations. No session is resumed: each connection makes a full handshake.
    pub fn new() -> Tls {
        Tls {
            sender: Arc::new(sender()),
            receiver: Arc::new(receiver()),
        }
    }
}

fn sender() -> QuicClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(CERTIFICATE))
        .expect("the certificate of this crate is valid");
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.try_into().expect("the provider has AES-128-GCM")
}

fn receiver() -> QuicServerConfig {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
        .expect("the key of this crate is that of its certificate");
    config.send_tls13_tickets = 0;
    config.try_into().expect("the provider has AES-128-GCM")
}
