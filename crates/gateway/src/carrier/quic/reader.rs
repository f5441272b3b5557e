//! Reads a stream whose data arrives over paths with different delays.
//!
//! Data is taken from the library as it arrives and put in order here. The library keeps every
//! datagram of a stream that was not read as a piece of its own, and closes the connection beyond
//! 1024 pieces (quinn-rs/quinn issue 2809); and with ordered reads a slow path could delay no more
//! than its stream window, which must therefore be small.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use noq::{Chunk, ReadError, RecvStream, UnorderedRecvStream};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::carrier::Incoming;

/// How often a reader whose data is not read looks whether the stream was reset.
const LOOK: Duration = Duration::from_secs(1);

/// Data of one stream that may wait for earlier data, bytes.
const PER_STREAM: usize = 16 << 20;

/// Data of all streams of a tunnel that waits for earlier data.
#[derive(Debug)]
pub(super) struct Waiting {
    bytes: AtomicUsize,
    most: usize,
}

impl Waiting {
    /// Up to about this many bytes.
    pub fn new(most: usize) -> Waiting {
        Waiting {
            bytes: AtomicUsize::new(0),
            most,
        }
    }
}

/// A stream's data in order.
pub(super) struct Reader {
    stream: UnorderedRecvStream,
    order: Order,
    is_over: bool,
    /// Cause of the end of data. The library reports it once, and an end of stream afterwards.
    failure: Option<ReadError>,
    /// When to look again whether the stream was reset.
    look: Option<Pin<Box<Sleep>>>,
}

impl Reader {
    /// Reads this stream, of which nothing was read yet.
    pub fn new(stream: RecvStream, waiting: Arc<Waiting>) -> Reader {
        Reader {
            stream: stream.into_unordered(),
            order: Order::new(waiting),
            is_over: false,
            failure: None,
            look: None,
        }
    }

    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<Chunk>, ReadError>> {
        // A new future each time: it registers the task and has no state of its own.
        pin!(self.stream.read_chunk(most)).poll(cx)
    }
}

impl Incoming for Reader {
    /// Looks from time to time while there is unread data, which the library does not tell apart
    /// from news.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if let Some(look) = &mut self.look {
                ready!(look.as_mut().poll(cx));
                self.look = None;
            }
            match &self.failure {
                Some(ReadError::Reset(_)) => return Poll::Ready(ErrorKind::ConnectionReset.into()),
                Some(_) => return Poll::Pending,
                None if self.is_over => return Poll::Pending,
                None => {}
            }
            match ready!(self.poll_chunk(cx, 0)) {
                Ok(Some(_)) => self.look = Some(Box::pin(sleep(LOOK))),
                Ok(None) => self.is_over = true,
                Err(failure) => self.failure = Some(failure),
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
        let before = buf.filled().len();
        loop {
            this.order.take(buf);
            if buf.remaining() == 0 || this.is_over {
                return Poll::Ready(Ok(()));
            }
            let has_data = buf.filled().len() > before;
            match &this.failure {
                Some(_) if has_data => return Poll::Ready(Ok(())),
                Some(failure) => return Poll::Ready(Err(failure.clone().into())),
                None => {}
            }
            match this.poll_chunk(cx, this.order.room()) {
                Poll::Pending if has_data => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Some(chunk))) => this.order.add(chunk.offset, chunk.bytes),
                Poll::Ready(Ok(None)) => this.is_over = true,
                Poll::Ready(Err(failure)) => this.failure = Some(failure),
            }
        }
    }
}

/// Puts pieces of a stream in order.
struct Order {
    /// The position of the next byte in order.
    next: u64,
    /// What is in order.
    front: Bytes,
    /// What waits for earlier data, by position.
    later: BTreeMap<u64, Bytes>,
    /// Bytes in `later`.
    bytes: usize,
    waiting: Arc<Waiting>,
}

impl Order {
    fn new(waiting: Arc<Waiting>) -> Order {
        Order {
            next: 0,
            front: Bytes::new(),
            later: BTreeMap::new(),
            bytes: 0,
            waiting,
        }
    }

    /// How much may be read next. The library gives the earliest data first, so a single byte
    /// shows whether the data that is waited for has arrived.
    fn room(&self) -> usize {
        let all = self.waiting.bytes.load(Ordering::Relaxed);
        let is_full = self.bytes >= PER_STREAM || self.bytes > 0 && all >= self.waiting.most;
        if is_full { 1 } else { usize::MAX }
    }

    /// Adds a piece that does not overlap others, when nothing is in order.
    fn add(&mut self, offset: u64, piece: Bytes) {
        if offset == self.next {
            self.next += piece.len() as u64;
            self.front = piece;
        } else {
            self.bytes += piece.len();
            self.waiting.bytes.fetch_add(piece.len(), Ordering::Relaxed);
            self.later.insert(offset, piece);
        }
    }

    /// Moves what is in order into `buf`, as far as it has room.
    fn take(&mut self, buf: &mut ReadBuf<'_>) {
        while buf.remaining() > 0 && (self.front.has_remaining() || self.advance()) {
            let taken = self.front.split_to(self.front.len().min(buf.remaining()));
            buf.put_slice(&taken);
        }
    }

    fn advance(&mut self) -> bool {
        let Some(piece) = self.later.remove(&self.next) else {
            return false;
        };
        self.release(piece.len());
        self.next += piece.len() as u64;
        self.front = piece;
        true
    }

    fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(order: &mut Order, room: usize) -> Vec<u8> {
        let mut bytes = vec![0; room];
        let mut buf = ReadBuf::new(&mut bytes);
        order.take(&mut buf);
        buf.filled().to_vec()
    }

    #[test]
    fn pieces_are_put_in_order_and_what_waits_is_bounded() {
        let waiting = Arc::new(Waiting::new(5));
        let mut order = Order::new(waiting.clone());
        order.add(3, Bytes::from_static(b"def"));
        assert_eq!(order.room(), usize::MAX);
        order.add(8, Bytes::from_static(b"ij"));
        assert_eq!(order.room(), 1);
        assert!(taken(&mut order, 9).is_empty());
        // Another stream, of which nothing waits, may read.
        assert_eq!(Order::new(waiting.clone()).room(), usize::MAX);
        order.add(0, Bytes::from_static(b"a"));
        assert_eq!(taken(&mut order, 9), b"a");
        order.add(1, Bytes::from_static(b"bc"));
        assert_eq!(taken(&mut order, 4), b"bcde");
        assert_eq!(taken(&mut order, 4), b"f");
        assert_eq!(waiting.bytes.load(Ordering::Relaxed), 2);
        drop(order);
        assert_eq!(waiting.bytes.load(Ordering::Relaxed), 0);
    }
}
