//! The data of a stream at both ends: what is still to be written, and what has arrived.

use std::collections::BTreeMap;

use bytes::Bytes;
use noq_proto::{Connection, Dir, ReadError, StreamId};

/// Data is written in pieces of at most this size, bytes.
const PIECE: usize = 1 << 16;

/// The data of every stream, again and again, so that the receiver can check what it reads.
static DATA: [u8; PIECE] = data();

const fn data() -> [u8; PIECE] {
    let mut bytes = [0; PIECE];
    let mut i = 0;
    while i < PIECE {
        bytes[i] = ((i as u32).wrapping_mul(2_654_435_761) >> 24) as u8; // Knuth's hash
        i += 1;
    }
    bytes
}

/// The data of a stream from `offset` on, up to the end of a piece.
fn data_from(offset: u64) -> &'static [u8] {
    &DATA[offset as usize % PIECE..]
}

/// Checks the data read at `offset`.
///
/// # Panics
/// If it is not what was written there.
fn check(mut offset: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let expected = data_from(offset);
        let (read, rest) = bytes.split_at(bytes.len().min(expected.len()));
        assert!(
            read == &expected[..read.len()],
            "a fault of the QUIC library: data was changed at {offset}"
        );
        offset += read.len() as u64;
        bytes = rest;
    }
}

/// The sender's stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    id: StreamId,
    written: u64,
    /// Bytes to be written; `None`: without limit.
    unwritten: Option<u64>,
    finished: bool,
}

impl Outgoing {
    /// Opens a stream for that many bytes; `None` before the handshake is complete.
    pub fn open(connection: &mut Connection, bytes: Option<u64>) -> Option<Outgoing> {
        let id = connection.streams().open(Dir::Uni)?;
        Some(Outgoing {
            id,
            written: 0,
            unwritten: bytes,
            finished: false,
        })
    }

    /// There are more bytes to be written.
    pub fn append(&mut self, bytes: u64) {
        self.unwritten = self.unwritten.map(|unwritten| unwritten + bytes);
    }

    /// Writes as much as the library takes, and unless the stream goes on its end after the last
    /// byte.
    pub fn fill(&mut self, connection: &mut Connection, goes_on: bool) {
        let mut stream = connection.send_stream(self.id);
        while self.unwritten != Some(0) {
            let data = data_from(self.written);
            let left = self.unwritten.unwrap_or(u64::MAX).min(data.len() as u64);
            let mut pieces = [Bytes::from_static(&data[..left as usize])];
            let Ok(written) = stream.write_chunks(&mut &mut pieces[..]) else {
                return; // blocked by a window
            };
            self.written += written as u64;
            if let Some(left) = &mut self.unwritten {
                *left -= written as u64;
            }
        }
        if !self.finished && !goes_on {
            self.finished = stream.finish().is_ok();
        }
    }

    /// Ends the stream; what has not arrived is not sent again.
    pub fn reset(self, connection: &mut Connection) {
        // Fails only if the stream is over.
        let _ = connection.send_stream(self.id).reset(0u32.into());
    }
}

/// The receiver's streams. Data is read as it arrives, so that each byte is known to have arrived
/// first with the datagram that was just received; its order is restored here.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    open: Vec<(StreamId, InOrder)>,
}

/// Bytes that a datagram brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// For the first time.
    pub first: u64,
    /// Now in order with all before them, some of which arrived earlier.
    pub in_order: u64,
}

impl Incoming {
    /// Reads all that has arrived.
    pub fn read(&mut self, connection: &mut Connection) -> Arrived {
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.open.push((id, InOrder::default()));
        }
        let mut arrived = Arrived::default();
        self.open
            .retain_mut(|(id, order)| !read(connection, *id, order, &mut arrived));
        arrived
    }
}

/// Reads one stream; whether it is over.
fn read(
    connection: &mut Connection,
    id: StreamId,
    order: &mut InOrder,
    arrived: &mut Arrived,
) -> bool {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(false) else {
        return true;
    };
    let over = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                check(chunk.offset, &chunk.bytes);
                let bytes = chunk.bytes.len() as u64;
                arrived.first += bytes;
                arrived.in_order += order.add(chunk.offset, bytes);
            }
            Ok(None) | Err(ReadError::Reset(_)) => break true,
            Err(ReadError::Blocked) => break false,
        }
    };
    // Window updates leave with the next datagram, which is polled for in any case.
    let _ = chunks.finalize();
    over
}

/// Restores the order of ranges of bytes that do not overlap.
#[derive(Debug, Default)]
struct InOrder {
    /// All below this has arrived.
    next: u64,
    /// First byte and end of what arrived beyond.
    later: BTreeMap<u64, u64>,
}

impl InOrder {
    /// Adds a range; gives how many bytes are now in order that were not.
    fn add(&mut self, offset: u64, bytes: u64) -> u64 {
        let before = self.next;
        self.later.insert(offset, offset + bytes);
        while let Some(entry) = self.later.first_entry()
            && *entry.key() == self.next
        {
            self.next = entry.remove();
        }
        self.next - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_data_is_found() {
        let offset = PIECE as u64 - 2;
        let mut data = [data_from(offset), &data_from(0)[..3]].concat();
        check(offset, &data);
        data[4] ^= 1;
        assert!(std::panic::catch_unwind(|| check(offset, &data)).is_err());
    }

    #[test]
    fn bytes_are_in_order_once_all_before_them_have_arrived() {
        let mut order = InOrder::default();
        assert_eq!(order.add(10, 10), 0);
        assert_eq!(order.add(30, 5), 0);
        assert_eq!(order.add(0, 10), 20);
        assert_eq!(order.add(20, 10), 15);
        assert!(order.later.is_empty());
    }
}
