//! TLS below yamux: coalesces frames into records and sees which streams' data is written.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use futures_util::io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::allowance::Allowance;
use super::core::Core;
use super::pong::Pong;
use super::stream::turns;

/// Frames are collected up to this size, bytes: with one more frame of a turn they fit into a TLS
/// record, 16384.
const RECORD: usize = 12 << 10;

/// The stream of datagrams and messages: the first that `near` opens.
const CONTROL_STREAM: u32 = 1;

/// The transport of one tunnel. Clones are the same one: yamux owns one, its task flushes the
/// other.
#[derive(Clone)]
pub struct Transport(Arc<Mutex<Inner>>);

struct Inner {
    tls: TlsStream<TcpStream>,
    /// Not written to `tls` yet.
    pending: Vec<u8>,
    written: usize,
    frames: Frames,
    core: Arc<Core>,
    allowance: Allowance,
    pong: Pong,
}

impl Transport {
    pub fn new(mut tls: TlsStream<TcpStream>, core: Arc<Core>) -> Transport {
        match &mut tls {
            TlsStream::Client(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
            TlsStream::Server(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
        }
        Transport(Arc::new(Mutex::new(Inner {
            tls,
            pending: Vec::with_capacity(2 * RECORD),
            written: 0,
            frames: Frames::default(),
            core,
            allowance: Allowance::new(),
            pong: Pong::new(),
        })))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Inner) -> R) -> R {
        act(&mut self.0.lock().expect("no holder panics"))
    }

    /// Writes everything to the socket.
    pub fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|inner| {
            if inner.frames.between()
                && let Poll::Ready(pong) = inner.pong.poll(cx)
            {
                inner.pending.extend(pong);
            }
            ready!(inner.poll_empty(cx))?;
            Pin::new(&mut inner.tls).poll_flush(cx)
        })
    }
}

impl Inner {
    /// Moves the collected frames to TLS.
    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.pending.len() {
            ready!(self.allowance.poll(&self.core, cx));
            let rest = &self.pending[self.written..];
            let written = ready!(Pin::new(&mut self.tls).poll_write(cx, rest))?;
            self.allowance.take(written);
            self.written += written;
        }
        self.pending.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
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
            inner.core.has_received();
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
            if inner.pending.len() >= RECORD {
                ready!(inner.poll_empty(cx))?;
            }
            if inner.frames.between()
                && let Some(pong) = Pong::answer(bytes)
            {
                inner.pending.extend(inner.pong.hold(pong).iter().flatten());
                return Poll::Ready(Ok(bytes.len()));
            }
            inner.pending.extend_from_slice(bytes);
            for payload in inner.frames.payloads(bytes) {
                // The first byte says what the rest is.
                inner.core.account.settle(payload - 1);
                inner.core.account.turns.add_permits(turns(payload));
            }
            Poll::Ready(Ok(bytes.len()))
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

    /// The payloads, bytes, of the data frames whose headers these bytes complete; without those of
    /// the control stream.
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
