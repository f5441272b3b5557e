//! TCP options in the order in which Linux writes them, padded to words.

use crate::keys::Key;

/// The end of all options, which fills the last word, and an option that does nothing.
const END: u8 = 0;
const NOP: u8 = 1;
/// The kind of Multipath TCP's options, and the subtypes that are used (RFC 8684, section 8).
const MPTCP: u8 = 30;
const CAPABLE: u8 = 0;
const JOIN: u8 = 1;
const DSS: u8 = 2;
/// Version 1, and the flag of HMAC-SHA256.
const VERSION: u8 = 1;
const SHA256: u8 = 1;
/// Bits of a data sequence signal: there is a mapping, and a data acknowledgement of 4 octets.
const HAS_MAPPING: u8 = 4;
const HAS_ACK: u8 = 1;
/// The bytes of options that a header has room for.
const MOST: usize = 40;

/// The options of one header.
#[derive(Debug, Default)]
pub(crate) struct Options(Vec<u8>);

impl Options {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds what a SYN has: the largest segment, window scale, and whether SACK is permitted.
    pub fn syn(mut self, mss: u16, scale: u8, selective: bool) -> Options {
        self.0.extend([2, 4]);
        self.0.extend(mss.to_be_bytes());
        self.0.extend([NOP, 3, 3, scale]);
        if selective {
            self.0.extend([NOP, NOP, 4, 2]);
        }
        self
    }

    /// Adds the sender's clock, and the last that it has seen of the other end's (RFC 7323).
    pub fn timestamps(mut self, value: u32, echo: u32) -> Options {
        self.0.extend([NOP, NOP, 8, 10]);
        self.0.extend(value.to_be_bytes());
        self.0.extend(echo.to_be_bytes());
        self
    }

    /// Adds as many of the blocks as there is room for.
    pub fn sack(mut self, blocks: &[(u32, u32)]) -> Options {
        let room = (MOST - self.0.len()).saturating_sub(4) / 8;
        let blocks = &blocks[..blocks.len().min(room)];
        if !blocks.is_empty() {
            self.0.extend([NOP, NOP, 5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                self.0.extend(start.to_be_bytes());
                self.0.extend(end.to_be_bytes());
            }
        }
        self
    }

    /// Adds MP_CAPABLE with the keys known so far, and of the first data with its length.
    pub fn capable(self, keys: &[Key], data: Option<u16>) -> Options {
        let mut content = vec![CAPABLE << 4 | VERSION, SHA256];
        content.extend(keys.iter().flat_map(|key| key.0));
        content.extend(data.iter().flat_map(|bytes| bytes.to_be_bytes()));
        self.mptcp(&content)
    }

    /// Adds MP_JOIN of a SYN: the connection's token and a nonce.
    pub fn join(self, address: u8, token: u32, nonce: u32) -> Options {
        let content = [token, nonce].map(u32::to_be_bytes).concat();
        self.mptcp(&[&[JOIN << 4, address][..], &content].concat())
    }

    /// Adds MP_JOIN of a SYN's answer.
    pub fn join_answer(self, address: u8, hmac: [u8; 32], nonce: u32) -> Options {
        let nonce = nonce.to_be_bytes();
        self.mptcp(&[&[JOIN << 4, address], &hmac[..8], &nonce[..]].concat())
    }

    /// Adds MP_JOIN of the third packet.
    pub fn join_end(self, hmac: [u8; 32]) -> Options {
        self.mptcp(&[&[JOIN << 4, 0], &hmac[..20]].concat())
    }

    /// Adds a data acknowledgement.
    pub fn data_ack(self, ack: u32) -> Options {
        self.mptcp(&[&[DSS << 4, HAS_ACK], &ack.to_be_bytes()[..]].concat())
    }

    /// Adds a data acknowledgement, and the mapping of the segment's bytes to data.
    pub fn mapping(self, ack: u32, data: u32, subflow: u32, bytes: u16) -> Options {
        let numbers = [ack, data, subflow].map(u32::to_be_bytes).concat();
        let flags = [DSS << 4, HAS_ACK | HAS_MAPPING];
        self.mptcp(&[&flags[..], &numbers, &bytes.to_be_bytes()].concat())
    }

    fn mptcp(mut self, content: &[u8]) -> Options {
        self.0.extend([MPTCP, 2 + content.len() as u8]);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(4), END);
        debug_assert!(self.0.len() <= MOST);
        self
    }
}
