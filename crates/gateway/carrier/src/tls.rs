//! TLS 1.3 with mutual authentication by pinned raw public keys (RFC 7250). There is no other mode.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, ServerConfig, SignatureScheme,
};

use crate::failure::UnknownKey;
use crate::keys::{KeyPair, PublicKey};

/// The protocol between the gateways (ALPN).
pub const PROTOCOL: &[u8] = b"anabranch/1";

/// Server name in a handshake, without meaning because keys are pinned.
pub const SERVER_NAME: &str = "anabranch";

/// Own key and accepted ones. Handshakes read them, so that a change needs no restart; established
/// tunnels stay.
#[derive(Debug)]
pub struct Identity {
    provider: Arc<CryptoProvider>,
    keys: RwLock<Keys>,
}

#[derive(Debug)]
struct Keys {
    own: Arc<CertifiedKey>,
    peers: Vec<PublicKey>,
}

impl Identity {
    /// An identity with this key, which accepts these peers.
    pub fn new(own: &KeyPair, peers: Vec<PublicKey>) -> Arc<Identity> {
        Arc::new(Identity {
            provider: Arc::new(ring::default_provider()),
            keys: RwLock::new(Keys {
                own: own.certified(),
                peers,
            }),
        })
    }

    /// Replaces the keys, for handshakes from now on.
    pub fn replace(&self, own: &KeyPair, peers: Vec<PublicKey>) {
        *self.keys.write() = Keys {
            own: own.certified(),
            peers,
        };
    }

    /// Whether a peer with this key is accepted.
    pub fn accepts(&self, peer: &PublicKey) -> bool {
        let keys = self.keys.read();
        keys.peers.contains(peer)
    }

    /// A secret that depends on the own private key and this label alone: a signature, which is
    /// deterministic for Ed25519, of a text that no handshake signs.
    pub(crate) fn derive(&self, label: &[u8]) -> Result<Vec<u8>, Error> {
        let own = self.own();
        let signer = own.key.choose_scheme(&[SignatureScheme::ED25519]);
        let signer = signer.ok_or(Error::General("not an Ed25519 key".to_owned()))?;
        signer.sign(label)
    }

    fn own(&self) -> Arc<CertifiedKey> {
        self.keys.read().own.clone()
    }

    /// The configuration of `near`. Nothing is resumed: every tunnel proves the keys.
    pub fn client(self: &Arc<Identity>) -> ClientConfig {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned(self.clone())))
            .with_client_cert_resolver(Arc::new(Pinned(self.clone())));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        config
    }

    /// The configuration of `far`.
    pub fn server(self: &Arc<Identity>) -> ServerConfig {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has TLS 1.3")
            .with_client_cert_verifier(Arc::new(Pinned(self.clone())))
            .with_cert_resolver(Arc::new(Pinned(self.clone())));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.send_tls13_tickets = 0;
        config
    }
}

/// The peer's key in a handshake, where TLS has certificates.
pub fn peer_key(certificates: &[CertificateDer<'_>]) -> Result<PublicKey, Error> {
    let [key] = certificates else {
        return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
    };
    PublicKey::from_der(key).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

/// Presents the own key and accepts the pinned ones.
#[derive(Debug)]
struct Pinned(Arc<Identity>);

impl Pinned {
    fn verify(&self, key: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let key = peer_key(std::slice::from_ref(key))?;
        if !more.is_empty() || !self.0.accepts(&key) {
            let unknown = OtherError(Arc::new(UnknownKey(key)));
            return Err(CertificateError::Other(unknown).into());
        }
        Ok(())
    }

    fn verify_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(key.as_ref()),
            signed,
            &self.0.provider.signature_verification_algorithms,
        )
    }

    fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(key, more)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Pinned::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        more: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(key, more)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Pinned::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ResolvesClientCert for Pinned {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.own())
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for Pinned {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.own())
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use super::*;

    /// Completes a handshake in memory. Returns the peer's key as the server sees it.
    fn handshake(near: &Arc<Identity>, far: &Arc<Identity>) -> Result<PublicKey, Error> {
        let name = ServerName::try_from(SERVER_NAME).expect("a name");
        let mut client = ClientConnection::new(Arc::new(near.client()), name)?;
        let mut server = ServerConnection::new(Arc::new(far.server()))?;
        for _ in 0..10 {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("in memory");
            server.read_tls(&mut &*bytes).expect("in memory");
            server.process_new_packets()?;
            bytes.clear();
            server.write_tls(&mut bytes).expect("in memory");
            client.read_tls(&mut &*bytes).expect("in memory");
            client.process_new_packets()?;
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        peer_key(server.peer_certificates().unwrap_or_default())
    }

    #[test]
    fn only_pinned_keys_shake_hands_and_keys_are_replaced_at_run_time() {
        let pair = || KeyPair::generate().expect("random numbers");
        let (a, b, other) = (pair(), pair(), pair());
        let near = Identity::new(&a, vec![b.public().clone()]);
        let far = Identity::new(&b, vec![a.public().clone()]);
        assert_eq!(handshake(&near, &far).as_ref(), Ok(a.public()));
        // Another client, another server, nobody pinned.
        let stranger = Identity::new(&other, vec![b.public().clone()]);
        let refused = handshake(&stranger, &far).expect_err("an unknown key");
        // Over QUIC this text is sent to the peer.
        assert_eq!(
            refused.to_string(),
            "invalid peer certificate: Other(OtherError(unknown key))"
        );
        let impostor = Identity::new(&other, vec![a.public().clone()]);
        assert!(handshake(&near, &impostor).is_err());
        assert!(handshake(&near, &Identity::new(&b, vec![])).is_err());
        // Rotation: far accepts both, near changes, far drops the old key.
        far.replace(&b, vec![a.public().clone(), other.public().clone()]);
        near.replace(&other, vec![b.public().clone()]);
        assert_eq!(handshake(&near, &far).as_ref(), Ok(other.public()));
        far.replace(&b, vec![other.public().clone()]);
        near.replace(&a, vec![b.public().clone()]);
        assert!(handshake(&near, &far).is_err());
    }
}
