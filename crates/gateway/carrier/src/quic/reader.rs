//! Users' end of a stream from the peer, whose data arrives over paths with different delays.
//!
//! Data is taken from the library as it arrives, copied if it must wait, and put in order here. A
//! piece of the library's keeps the whole batch of datagrams that the system has received at once;
//! beyond 1024 pieces of a stream the library closes the connection (quinn-rs/quinn issue 2809);
//! and with ordered reads a slow path could delay no more than its stream window, which must
//! therefore be small. [`Credit`] bounds what waits here.
//!
//! Beyond a small hole, and while pieces are small, data stays in the library until the hole is
//! filled: noq-proto 1.4.0 discards what fills many holes at once if data beyond them was taken
//! (`Assembler::defragment`).

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::credit::Credit;
use super::library::{Failure, Pieces};
use crate::Incoming;
use crate::window::{FIRST, Read, stalled};

/// Size of the blocks in which data in order waits, bytes.
const BLOCK: usize = 4 << 10;

/// Least mean size of the pieces that wait for earlier data when there are most of them, bytes.
/// Each takes about 100 bytes more.
const PIECE: usize = 1 << 10;

/// Size of a hole, or mean size of pieces, below which what is beyond stays in the library, bytes.
const SMALL: u64 = 256;

/// Number of pieces that wait for earlier data in all streams of a tunnel.
#[derive(Debug)]
pub(super) struct Waiting {
    pieces: AtomicUsize,
    most: usize,
}

impl Waiting {
    /// A limit for a buffer of this size.
    pub fn new(buffer_bytes: usize) -> Waiting {
        Waiting {
            pieces: AtomicUsize::new(0),
            most: buffer_bytes / PIECE,
        }
    }
}

/// Data of a stream, in order.
pub(super) struct Reader {
    stream: Pieces,
    order: Order,
    credit: Arc<Credit>,
    /// Position up to which the peer may send.
    limit: u64,
    /// Mean size of the last pieces, bytes.
    mean: u64,
    /// Last report to the windows.
    told: Read,
    /// Ready when the stream is to be reset because it was not read.
    stalled: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
    /// Cause of the end of data. The library reports it once, and an end of stream afterwards.
    failure: Option<Failure>,
}

impl Reader {
    /// A reader of this stream, of which nothing was read yet.
    pub fn new(stream: Pieces, credit: Arc<Credit>, waiting: Arc<Waiting>) -> Reader {
        Reader {
            order: Order::new(waiting),
            stalled: Box::pin(credit.open_incoming(stream.id())),
            stream,
            credit,
            limit: FIRST,
            mean: SMALL,
            told: Read::default(),
            is_over: false,
            failure: None,
        }
    }

    /// Moves data that is in order into `buf`; pending if there is none yet.
    fn poll_fill(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            self.order.take(buf);
            if buf.remaining() == 0 || self.is_over {
                return Poll::Ready(Ok(()));
            }
            let has_data = buf.filled().len() > before;
            match &self.failure {
                Some(_) if has_data => return Poll::Ready(Ok(())),
                Some(failure) => return Poll::Ready(Err(failure.clone().into())),
                None => {}
            }
            if self.poll_arrived(cx, buf).is_pending() {
                return match has_data {
                    true => Poll::Ready(Ok(())),
                    false => Poll::Pending,
                };
            }
        }
    }

    /// Takes what has arrived next from the library, as far as possible into `buf`.
    fn poll_arrived(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<()> {
        let (next, mean) = (self.order.next, self.mean);
        let stays = |at| at > next && (mean < SMALL || at - next < SMALL);
        match ready!(self.stream.poll_next(cx, stays)) {
            Ok(Some((at, piece))) => {
                self.mean = (7 * mean + piece.len() as u64) / 8;
                if !self.order.add(at, &piece, self.limit, buf) {
                    self.failure = Some(Failure::beyond());
                }
            }
            Ok(None) => self.is_over = true,
            Err(failure) => self.failure = Some(failure),
        }
        Poll::Ready(())
    }

    /// Reports taken and waiting data to the windows.
    fn tell(&mut self, taken: usize, is_pending: bool) {
        let ahead = self.order.bytes as u64;
        let read = Read {
            taken: taken as u64,
            ahead,
            waits: self.order.is_empty() && (is_pending || self.is_over || self.failure.is_some()),
        };
        if read.taken > 0 || read != self.told {
            self.told = Read { taken: 0, ..read };
            self.limit = self
                .credit
                .read(self.stream.id(), read)
                .unwrap_or(self.limit);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let id = self.stream.id();
        self.credit.close_incoming(id, self.is_over);
    }
}

impl Incoming for Reader {
    fn belongs_to(&mut self, client: u64) {
        self.credit.belongs_to(self.stream.id(), client);
    }

    /// Takes what arrives from the library meanwhile.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.stalled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(stalled());
        }
        loop {
            match &self.failure {
                Some(failure) if failure.is_reset() => {
                    return Poll::Ready(ErrorKind::ConnectionReset.into());
                }
                Some(_) => return Poll::Pending,
                None if self.is_over => return Poll::Pending,
                None => ready!(self.poll_arrived(cx, &mut ReadBuf::new(&mut []))),
            }
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.stalled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(stalled()));
        }
        let before = buf.filled().len();
        let filled = this.poll_fill(cx, buf);
        this.tell(buf.filled().len() - before, filled.is_pending());
        filled
    }
}

/// Pieces of a stream, put in order.
pub(super) struct Order {
    /// Position of the next byte in order.
    next: u64,
    /// Data in order that nobody has taken.
    unread: VecDeque<BytesMut>,
    /// Data that waits for earlier data, by position.
    later: BTreeMap<u64, Box<[u8]>>,
    /// Size of `later`, bytes.
    bytes: usize,
    waiting: Arc<Waiting>,
}

impl Order {
    /// A stream of which nothing was received yet.
    pub fn new(waiting: Arc<Waiting>) -> Order {
        Order {
            next: 0,
            unread: VecDeque::new(),
            later: BTreeMap::new(),
            bytes: 0,
            waiting,
        }
    }

    /// Adds a piece that does not overlap others, if it is the next one as far as possible into
    /// `buf`. Returns `false` if it is beyond the limit or too many pieces wait in the tunnel.
    pub fn add(&mut self, offset: u64, piece: &[u8], limit: u64, buf: &mut ReadBuf<'_>) -> bool {
        if offset + piece.len() as u64 > limit {
            return false;
        }
        if offset != self.next {
            self.bytes += piece.len();
            self.later.insert(offset, piece.into());
            return self.waiting.pieces.fetch_add(1, Ordering::Relaxed) < self.waiting.most;
        }
        let room = if self.unread.is_empty() {
            buf.remaining()
        } else {
            0
        };
        let (taken, rest) = piece.split_at(piece.len().min(room));
        buf.put_slice(taken);
        self.append(rest);
        self.next += piece.len() as u64;
        while let Some(piece) = self.later.remove(&self.next) {
            self.bytes -= piece.len();
            self.waiting.pieces.fetch_sub(1, Ordering::Relaxed);
            self.append(&piece);
            self.next += piece.len() as u64;
        }
        true
    }

    /// Copies data behind that which is unread.
    fn append(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let has_room = |block: &BytesMut| block.len() < block.capacity();
            if !self.unread.back().is_some_and(has_room) {
                self.unread.push_back(BytesMut::with_capacity(BLOCK));
            }
            let last = self.unread.back_mut().expect("it was added");
            let room = last.capacity() - last.len();
            let (now, rest) = data.split_at(data.len().min(room));
            last.extend_from_slice(now);
            data = rest;
        }
    }

    /// Whether nothing waits, in order or not.
    fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.later.is_empty()
    }

    /// Bytes and pieces that wait for earlier data.
    pub fn waiting(&self) -> (usize, usize) {
        (self.bytes, self.later.len())
    }

    /// Moves data in order into `buf`, as far as there is room.
    pub fn take(&mut self, buf: &mut ReadBuf<'_>) {
        while buf.remaining() > 0
            && let Some(block) = self.unread.front_mut()
        {
            let taken = block.len().min(buf.remaining());
            buf.put_slice(&block[..taken]);
            block.advance(taken);
            if block.is_empty() {
                self.unread.pop_front();
            }
        }
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        let pieces = self.later.len();
        self.waiting.pieces.fetch_sub(pieces, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::Instant;

    use crate::window::Windows;

    use super::*;

    fn taken(order: &mut Order, room: usize) -> Vec<u8> {
        let mut bytes = vec![0; room];
        let mut buf = ReadBuf::new(&mut bytes);
        order.take(&mut buf);
        buf.filled().to_vec()
    }

    #[test]
    fn pieces_are_put_in_order_and_their_number_is_bounded() {
        let waiting = Arc::new(Waiting::new(2 * PIECE));
        let mut order = Order::new(waiting.clone());
        let add = |order: &mut Order, offset, piece: &[u8]| {
            order.add(offset, piece, 10, &mut ReadBuf::new(&mut []))
        };
        assert!(add(&mut order, 3, b"def"));
        assert!(!add(&mut order, 8, b"ijk"));
        assert!(add(&mut order, 8, b"ij"));
        assert!(taken(&mut order, 9).is_empty());
        // Two pieces may wait in the tunnel.
        assert!(!add(&mut Order::new(waiting.clone()), 1, b"x"));
        assert!(add(&mut order, 0, b"a"));
        assert_eq!(taken(&mut order, 9), b"a");
        assert!(add(&mut order, 1, b"bc"));
        assert_eq!(taken(&mut order, 4), b"bcde");
        assert_eq!(taken(&mut order, 4), b"f");
        assert_eq!(order.bytes, 2);
        assert_eq!(waiting.pieces.load(Ordering::Relaxed), 1);
        drop(order);
        assert_eq!(waiting.pieces.load(Ordering::Relaxed), 0);
    }

    proptest! {
        /// A peer that never sends the first byte fills no more than the limit that the windows of
        /// an unread stream reach, in no more pieces than a tunnel may have.
        #[test]
        fn a_hole_is_bounded(
            pieces in prop::collection::vec((0_u64..1000, 1_usize..1000), 1..2000),
        ) {
            let mut windows = Windows::new(1 << 20);
            windows.open(0, Instant::now());
            let waiting = Arc::new(Waiting::new(1 << 20));
            let mut order = Order::new(waiting.clone());
            let (mut limit, mut offset) = (FIRST, 1);
            for (gap, length) in pieces {
                offset += gap;
                let nowhere = &mut ReadBuf::new(&mut []);
                if !order.add(offset, &vec![0; length], limit, nowhere) {
                    break;
                }
                offset += length as u64;
                let ahead = order.bytes as u64;
                let read = Read { ahead, ..Read::default() };
                limit = windows.read(0, read, Instant::now()).unwrap_or(limit);
                prop_assert!(limit <= FIRST + (1 << 20));
                prop_assert!(ahead < limit);
                prop_assert!(order.later.len() <= waiting.most);
            }
        }
    }
}
