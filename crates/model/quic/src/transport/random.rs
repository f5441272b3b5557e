//! Random bytes and connection ids from a seeded generator: the library's own draw from the
//! system's.

use std::time::Duration;

use anabranch_net::Dice;
use noq_proto::{ConnectionId, ConnectionIdGenerator};

/// Length of a connection id, bytes: as the library's.
const ID_BYTES: usize = 8;

/// Random bytes.
pub(super) fn random_bytes<const N: usize>(dice: &mut Dice) -> [u8; N] {
    std::array::from_fn(|_| (dice.uniform() * 256.0) as u8)
}

/// Random connection ids.
#[derive(Clone, Debug)]
pub(super) struct ConnectionIds(Dice);

impl ConnectionIds {
    /// A generator with a seed from `dice`.
    pub fn new(dice: &mut Dice) -> ConnectionIds {
        ConnectionIds(Dice::new(u64::from_le_bytes(random_bytes(dice))))
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&random_bytes::<ID_BYTES>(&mut self.0))
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
