//! The data of a stream at both ends: what is still to be written, and what has arrived.

use std::collections::BTreeMap;

use bytes::Bytes;
use noq_proto::{Connection, Dir, ReadError, StreamId};

/// Data is written in pieces of this size, bytes.
const PIECE: usize = 1 << 16;

static ZEROS: [u8; PIECE] = [0; PIECE];

/// The sender's stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    id: StreamId,
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
            unwritten: bytes,
            finished: false,
        })
    }

    /// Writes as much as the library takes, and the end of the stream after the last byte.
    pub fn fill(&mut self, connection: &mut Connection) {
        let mut stream = connection.send_stream(self.id);
        while self.unwritten != Some(0) {
            let piece = self
                .unwritten
                .map_or(PIECE, |left| PIECE.min(left as usize));
            let mut pieces = [Bytes::from_static(&ZEROS[..piece])];
            let Ok(written) = stream.write_chunks(&mut &mut pieces[..]) else {
                return; // blocked by a window
            };
            if let Some(left) = &mut self.unwritten {
                *left -= written as u64;
            }
        }
        if !self.finished {
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
    fn bytes_are_in_order_once_all_before_them_have_arrived() {
        let mut order = InOrder::default();
        assert_eq!(order.add(10, 10), 0);
        assert_eq!(order.add(30, 5), 0);
        assert_eq!(order.add(0, 10), 20);
        assert_eq!(order.add(20, 10), 15);
        assert!(order.later.is_empty());
    }
}
