//! Key pairs: Ed25519, private in a PEM file, public as base64 of its SubjectPublicKeyInfo.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use tempfile::NamedTempFile;

/// A public key as a DER SubjectPublicKeyInfo; written as base64.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey(Vec<u8>);

/// Head of the SubjectPublicKeyInfo of every Ed25519 key (RFC 8410, section 4); 32 bytes follow.
const ED25519: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

impl PublicKey {
    /// The key in this SubjectPublicKeyInfo; `None` if it is no Ed25519 key.
    pub fn from_der(der: &[u8]) -> Option<PublicKey> {
        (der.len() == ED25519.len() + 32 && der.starts_with(&ED25519))
            .then(|| PublicKey(der.to_vec()))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<PublicKey> {
        let der = STANDARD.decode(text).ok();
        der.and_then(|der| PublicKey::from_der(&der))
            .with_context(|| format!("{text:?} is no public key; keygen prints one"))
    }
}

/// Creates a file that only its owner may read: with the whole content, or not at all.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    // A temporary file has mode 0600.
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    File::open(folder)?.sync_all()
}

/// A private key and its public key.
#[derive(Clone)]
pub struct KeyPair {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public)
    }
}

impl KeyPair {
    /// A new pair, from the system's random numbers.
    pub fn generate() -> anyhow::Result<KeyPair> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let pkcs8 = pkcs8.ok().context("the system has no random numbers")?;
        KeyPair::from_pkcs8(pkcs8.as_ref().to_vec())
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> anyhow::Result<KeyPair> {
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&*pkcs8))?;
        let public = key.public_key();
        let public = public.and_then(|spki| PublicKey::from_der(&spki));
        let public = public.context("this is no Ed25519 key")?;
        Ok(KeyPair { pkcs8, public })
    }

    /// Reads the key that [`write`](KeyPair::write) wrote.
    pub fn read(path: &Path) -> anyhow::Result<KeyPair> {
        use std::os::unix::fs::PermissionsExt;
        let shown = path.display();
        let metadata = std::fs::metadata(path).with_context(|| format!("{shown}: the key"))?;
        if metadata.permissions().mode() & 0o077 != 0 {
            bail!("{shown}: others than its owner may read this key; chmod 600 {shown}");
        }
        let key = PrivateKeyDer::from_pem_file(path);
        let PrivateKeyDer::Pkcs8(key) = key.with_context(|| format!("{shown}: the key"))? else {
            bail!("{shown}: this is no PKCS #8 key; anabranch-gateway keygen writes one");
        };
        KeyPair::from_pkcs8(key.secret_pkcs8_der().to_vec())
            .with_context(|| format!("{shown}: anabranch-gateway keygen writes a key"))
    }

    /// Writes the private key to a new file that only its owner may read.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let base64 = STANDARD.encode(&self.pkcs8);
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{base64}\n-----END PRIVATE KEY-----\n");
        write_new(path, pem.as_bytes()).with_context(|| format!("{}: not written", path.display()))
    }

    /// The public key, for the peer's configuration.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The pair as rustls uses it.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&*self.pkcs8));
        let key = key.expect("it was read before");
        let certificate = CertificateDer::from(self.public.0.clone());
        Arc::new(CertifiedKey::new(vec![certificate], key))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_never_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("near.key");
        let pair = KeyPair::generate().expect("random numbers");
        pair.write(&path).expect("a new file");
        assert_eq!(KeyPair::read(&path).expect("a key").public(), pair.public());
        let again = pair.write(&path).expect_err("it exists");
        assert!(again.to_string().contains("near.key"), "{again}");
        let written = pair.public().to_string().parse::<PublicKey>();
        assert_eq!(&written.expect("a key"), pair.public());
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("near.key");
        let pair = KeyPair::generate().expect("random numbers");
        pair.write(&path).expect("a new file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("own file");
        let error = KeyPair::read(&path).expect_err("others may read it");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
}
