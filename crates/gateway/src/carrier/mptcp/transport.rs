//! TLS below yamux: puts headers and bodies of frames into common records, reads the socket in
//! large pieces, and sees which streams' data is written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::allowance::Allowance;
use super::core::Core;
use super::pong::Pong;
use super::stream::turns;

/// The data of a TLS record, bytes: more would be written as two.
const RECORD: usize = 16 << 10;

/// What is collected before it is written, bytes.
const COLLECTED: usize = 12 << 10;

/// What is read from the socket at once, bytes: TLS by itself reads 4096.
const READ: usize = 64 << 10;

/// The socket below TLS.
pub type Socket = BufReader<TcpStream>;

/// Prepares a connected socket for TLS.
pub fn buffered(stream: TcpStream) -> Socket {
    BufReader::with_capacity(READ, stream)
}

/// The stream of datagrams and messages: the first that `near` opens.
const CONTROL_STREAM: u32 = 1;

/// The transport of one tunnel. Clones are the same one: yamux owns one, its task flushes the
/// other.
#[derive(Clone)]
pub struct Transport(Arc<Mutex<Inner>>);

struct Inner {
    tls: TlsStream<Socket>,
    /// Small frames, and headers of others, that are not written to `tls` yet.
    pending: Vec<u8>,
    written: usize,
    frames: Frames,
    /// Payload passed since the last call of `take_progress`.
    has_progress: bool,
    /// Data was received since the last call of `take_received`.
    has_received: bool,
    core: Arc<Core>,
    allowance: Allowance,
    pong: Pong,
}

impl Transport {
    pub fn new(mut tls: TlsStream<Socket>, core: Arc<Core>) -> Transport {
        match &mut tls {
            TlsStream::Client(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
            TlsStream::Server(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
        }
        Transport(Arc::new(Mutex::new(Inner {
            tls,
            pending: Vec::with_capacity(COLLECTED),
            written: 0,
            frames: Frames::default(),
            has_progress: false,
            has_received: false,
            core,
            allowance: Allowance::new(),
            pong: Pong::new(),
        })))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Inner) -> R) -> R {
        act(&mut self.0.lock().expect("no holder panics"))
    }

    /// Whether payload of streams has passed since the last call, so that they have new turns.
    pub fn take_progress(&self) -> bool {
        self.with(|inner| std::mem::take(&mut inner.has_progress))
    }

    /// Whether data was received since the last call.
    pub fn take_received(&self) -> bool {
        self.with(|inner| std::mem::take(&mut inner.has_received))
    }

    /// Writes everything to the socket.
    pub fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|inner| {
            if inner.frames.between()
                && let Poll::Ready(pong) = inner.pong.poll(cx)
            {
                inner.pending.extend(pong);
            }
            if !inner.pending.is_empty() {
                ready!(inner.poll_write(cx, &[]))?;
            }
            Pin::new(&mut inner.tls).poll_flush(cx)
        })
    }
}

impl Inner {
    /// Writes what is pending, and these bytes behind it, in the same records; how many of these.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            // What is left of a record would leave room for a part of the next one only.
            ready!(Pin::new(&mut self.tls).poll_flush(cx))?;
            ready!(self.allowance.poll(&self.core, cx));
            let rest = &self.pending[self.written..];
            let parts = [IoSlice::new(rest), IoSlice::new(bytes)];
            let taken = ready!(Pin::new(&mut self.tls).poll_write_vectored(cx, &parts))?;
            self.allowance.take(taken);
            if taken < rest.len() {
                self.written += taken;
                continue;
            }
            let of_these = taken - rest.len();
            self.pending.clear();
            self.written = 0;
            if of_these > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(of_these));
            }
        }
    }

    /// Accounts for the frames whose headers are in these bytes.
    fn count(&mut self, bytes: &[u8]) {
        for payload in self.frames.payloads(bytes) {
            // The first byte says what the rest is.
            self.core.account.settle(payload - 1);
            self.core.account.turns.add_permits(turns(payload));
            self.has_progress = true;
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|inner| {
            let mut buffer = ReadBuf::new(bytes);
            ready!(Pin::new(&mut inner.tls).poll_read(cx, &mut buffer))?;
            inner.has_received = true;
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|inner| {
            if inner.frames.between()
                && let Some(pong) = Pong::answer(bytes)
            {
                inner.pending.extend(inner.pong.hold(pong).iter().flatten());
                return Poll::Ready(Ok(bytes.len()));
            }
            let taken = if inner.pending.len() + bytes.len() <= COLLECTED {
                inner.pending.extend_from_slice(bytes);
                bytes.len()
            } else {
                ready!(inner.poll_write(cx, bytes))?
            };
            inner.count(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        })
    }

    /// Does nothing: yamux would flush after each frame. Its task calls
    /// [`poll_drain`](Transport::poll_drain) when there is no other frame.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|inner| Pin::new(&mut inner.tls).poll_shutdown(cx))
    }
}

/// Finds the data frames in what yamux writes.
#[derive(Default)]
struct Frames {
    header: Vec<u8>,
    body: usize,
}

impl Frames {
    /// Whether the next byte begins a frame.
    fn between(&self) -> bool {
        self.header.is_empty() && self.body == 0
    }

    /// Payload sizes, bytes, of the data frames whose headers these bytes complete; frames of the
    /// control stream are left out.
    fn payloads<'a>(&'a mut self, mut bytes: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        std::iter::from_fn(move || {
            loop {
                let skipped = self.body.min(bytes.len());
                self.body -= skipped;
                bytes = &bytes[skipped..];
                let missing = 12 - self.header.len();
                if bytes.len() < missing {
                    self.header.extend_from_slice(bytes);
                    bytes = &[];
                    return None;
                }
                self.header.extend_from_slice(&bytes[..missing]);
                bytes = &bytes[missing..];
                // Version, type (0 is data), flags, stream and length.
                let header: [u8; 12] = self.header.as_slice().try_into().expect("12 bytes");
                self.header.clear();
                let [_, kind, _, _, s0, s1, s2, s3, l0, l1, l2, l3] = header;
                if kind != 0 {
                    continue;
                }
                self.body = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
                let stream = u32::from_be_bytes([s0, s1, s2, s3]);
                if self.body > 0 && stream != CONTROL_STREAM {
                    return Some(self.body);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u8, length: u8, body: &[u8]) -> Vec<u8> {
        let header = [0, kind, 0, 0, 0, 0, 0, stream, 0, 0, 0, length];
        [&header[..], body].concat()
    }

    #[test]
    fn payloads_are_found_however_the_bytes_are_cut() {
        let bytes = [
            frame(0, 1, 3, b"abc"), // of the control stream
            frame(0, 3, 5, b"defgh"),
            frame(1, 3, 200, b""), // a window update of 200
            frame(0, 5, 0, b""),   // a reset
            frame(0, 5, 1, b"i"),
        ]
        .concat();
        for size in 1..=bytes.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                found.extend(frames.payloads(piece));
            }
            assert_eq!(found, [5, 1], "in pieces of {size}");
        }
    }
}
