//! Keys of Multipath TCP and what follows from them (RFC 8684, section 3): random-looking, and the
//! same in every run.

use ring::digest::{SHA256, digest};
use ring::hmac;

/// The key of one end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(pub [u8; 8]);

impl Key {
    /// The 32 highest bits of the key's hash, which name the connection.
    pub fn token(self) -> u32 {
        u32::from_be_bytes(part(&self.hash(), 0))
    }

    /// The 64 lowest bits of the key's hash: the number of the octet before the first of data.
    pub fn initial_data_sequence(self) -> u64 {
        u64::from_be_bytes(part(&self.hash(), 24))
    }

    fn hash(self) -> [u8; 32] {
        hash(&[&self.0])
    }
}

/// The HMAC by which an end shows that it has both keys: its own and nonce first (section 3.2).
pub(crate) fn hmac(keys: [Key; 2], nonces: [u32; 2]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &[keys[0].0, keys[1].0].concat());
    let message = nonces.map(u32::to_be_bytes).concat();
    part(hmac::sign(&key, &message).as_ref(), 0)
}

/// A number that looks random, by what it is for.
pub(crate) fn random<const N: usize>(purpose: &str, numbers: &[u64]) -> [u8; N] {
    let numbers: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    part(&hash(&[purpose.as_bytes(), &numbers]), 0)
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    part(digest(&SHA256, &parts.concat()).as_ref(), 0)
}

fn part<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    bytes[from..from + N].try_into().expect("as many bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of eight zero bytes, by another program (`head -c8 /dev/zero | sha256sum`):
    /// af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc
    #[test]
    fn token_and_first_number_are_the_ends_of_the_hash() {
        let key = Key([0; 8]);
        assert_eq!(key.token(), 0xaf55_70f5);
        assert_eq!(key.initial_data_sequence(), 0xe5b2_328d_e0e8_3dfc);
    }
}
