//! A stream: a connection of the kernel of its own, with TLS, and then another stream in the same
//! connection, which keeps its congestion windows.
//!
//! A half is a sequence of chunks, a length (2 bytes) and so many bytes each, and ends with a chunk
//! of length 0. A connection that is dropped before both halves have ended is reset. The kernel
//! orders nothing between connections.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_sockets::{Subflow, unacknowledged_bytes};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::net::{RecvFlags, connect_unspec, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

// Import circle with `core`: a tunnel counts and ends its connections, which tell it what they do.
use super::core::Core;
use super::paths::subflows;
use super::socket::{self, Tls};
use crate::window::stalled;
use crate::{Incoming, Outgoing, Stream};

/// Least and longest time between two looks at whether the end is acknowledged.
const LOOKS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// Halves of a link.
const READ: usize = 0;
const WRITTEN: usize = 1;

/// Largest chunk, bytes: several TLS records, which the kernel takes at once and so sends over one
/// path. What is beyond MPTCP_SEND_BURST_SIZE, 65 428 bytes with TLS' headers, might take another
/// one.
const CHUNK: usize = 65_000;

/// Size of a chunk's length, bytes.
const HEADER: usize = 2;

/// Time in which the paths send what a connection has given them, at most; and least data of that,
/// bytes. The kernel gives a path much more, and what a dead path had comes after it.
const AHEAD: f64 = 0.05;
const LEAST: f64 = 16e3;

/// Size of a segment, bytes, about.
const SEGMENT: f64 = 1400.0;

/// Least and longest time between two looks at that.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(25)];

/// A connection that has joined a tunnel.
pub struct Link {
    tls: Mutex<Tls>,
    pub socket: Arc<TcpStream>,
    core: Arc<Core>,
    pub number: u64,
    /// Cancelled when the tunnel is closed, or this connection is to be reset.
    pub lost: CancellationToken,
    pub is_stalled: AtomicBool,
    /// Whether something was read or written since the paths were last looked at.
    pub has_moved: AtomicBool,
    /// Whether the peer's half, and the own one, have ended.
    halves: [AtomicBool; 2],
    /// Number of halves that their user has dropped.
    dropped: AtomicUsize,
}

impl Link {
    /// Adds a connection to a tunnel.
    ///
    /// # Errors
    /// If the tunnel is closed, or has as many as it may have.
    pub fn new(mut tls: Tls, core: &Arc<Core>) -> anyhow::Result<Arc<Link>> {
        let most = Some(HEADER + CHUNK);
        match &mut tls {
            Tls::Client(tls) => tls.get_mut().1.set_buffer_limit(most),
            Tls::Server(tls) => tls.get_mut().1.set_buffer_limit(most),
        }
        let socket = socket::of(&tls);
        socket::raise_receive_buffer(&socket);
        let lost = core.lost.child_token();
        let number = core.enter()?;
        let link = Arc::new(Link {
            tls: Mutex::new(tls),
            socket,
            core: core.clone(),
            number,
            lost,
            is_stalled: AtomicBool::new(false),
            has_moved: AtomicBool::new(true),
            halves: [true; 2].map(AtomicBool::new),
            dropped: AtomicUsize::new(0),
        });
        core.watch(number, &link);
        Ok(link)
    }

    /// Whether nothing has happened to a connection that waits for its use.
    pub fn is_fresh(&self) -> bool {
        let mut byte = [0; 1];
        let peeked = recv(
            &*self.socket,
            &mut byte[..],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        peeked.is_err_and(|error| error == rustix::io::Errno::AGAIN)
    }

    /// Answers a connection that has joined.
    pub async fn welcome(&self) -> io::Result<()> {
        poll_fn(|cx| Pin::new(&mut *self.tls.lock()).poll_write(cx, &[0])).await?;
        poll_fn(|cx| Pin::new(&mut *self.tls.lock()).poll_flush(cx)).await
    }

    /// Waits for a stream of the peer. Returns the length of its first chunk.
    pub async fn begun(&self) -> io::Result<usize> {
        let mut header = [0; HEADER];
        let mut read = 0;
        poll_fn(|cx| self.poll_header(&mut header, &mut read, cx)).await
    }

    /// Reads the rest of a chunk's length.
    fn poll_header(
        &self,
        header: &mut [u8; HEADER],
        read: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        while *read < HEADER {
            let mut buffer = ReadBuf::new(&mut header[*read..]);
            ready!(self.poll_read(&mut buffer, cx))?;
            match buffer.filled().len() {
                0 => return Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
                bytes => *read += bytes,
            }
        }
        *read = 0;
        Poll::Ready(Ok(u16::from_be_bytes(*header).into()))
    }

    /// Lets the connection carry another stream once both users have dropped the present one, if
    /// that has ended.
    fn release(self: &Arc<Link>) {
        let is_last = self.dropped.fetch_add(1, Ordering::AcqRel) == 1;
        if is_last && self.is_over() {
            self.core.recycle(self.clone());
        }
    }

    fn poll_read(&self, buffer: &mut ReadBuf<'_>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.tls.lock()).poll_read(cx, buffer)
    }

    fn end(&self, half: usize) {
        self.halves[half].store(true, Ordering::Relaxed);
    }

    fn has_ended(&self, half: usize) -> bool {
        self.halves[half].load(Ordering::Relaxed)
    }

    /// The error of a half whose connection has failed.
    fn error(&self) -> io::Error {
        match self.is_stalled.load(Ordering::Relaxed) {
            true => stalled(),
            false => ErrorKind::ConnectionReset.into(),
        }
    }

    /// Whether both halves have ended.
    pub fn is_over(&self) -> bool {
        self.has_ended(READ) && self.has_ended(WRITTEN)
    }

    /// Ends the connection, which carries no stream.
    pub fn give_up(&self) {
        self.core.retire(self.number, Some(&self.socket));
        self.lost.cancel();
    }

    /// Ends the connection by a reset, with what it has not sent.
    pub fn reset(&self) {
        self.core.retire(self.number, Some(&self.socket));
        let _ = connect_unspec(&*self.socket);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        match self.is_over() {
            true => self.core.retire(self.number, Some(&self.socket)),
            false => self.reset(),
        }
    }
}

/// Both ends of the next stream of a connection. `begun` is the length of the first chunk, if that
/// has arrived.
pub fn stream(link: &Arc<Link>, begun: Option<usize>) -> Stream {
    let halves = link.halves.iter();
    halves.for_each(|half| half.store(false, Ordering::Relaxed));
    link.dropped.store(0, Ordering::Release);
    if begun == Some(0) {
        link.end(READ);
    }
    Stream {
        reader: Box::new(Reader {
            header: [0; HEADER],
            read: 0,
            missing: begun.unwrap_or(0),
            failure: Failure::new(link),
            link: link.clone(),
        }),
        writer: Box::new(Writer {
            failure: Failure::new(link),
            link: link.clone(),
            shutdown: Shutdown::No,
            pause: None,
        }),
    }
}

/// Notice of a failure, which is taken without reading or writing.
struct Failure {
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
    socket: Arc<TcpStream>,
    failed: Option<BoxFuture<'static, ()>>,
    has_failed: bool,
}

impl Failure {
    fn new(link: &Link) -> Failure {
        Failure {
            lost: Box::pin(link.lost.clone().cancelled_owned()),
            socket: link.socket.clone(),
            failed: None,
            has_failed: false,
        }
    }

    /// Ready when the tunnel is closed.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.lost.as_mut().poll(cx)
    }

    /// Ready when the tunnel is closed or the peer has reset the connection.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_failed || self.poll_lost(cx).is_ready() {
            return Poll::Ready(());
        }
        let socket = &self.socket;
        let failed = self.failed.get_or_insert_with(|| {
            let socket = socket.clone();
            let failed = async move { drop(socket.ready(Interest::ERROR).await) };
            failed.boxed()
        });
        self.has_failed = failed.as_mut().poll(cx).is_ready();
        match self.has_failed {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

struct Reader {
    /// Length of the next chunk, as far as it has arrived.
    header: [u8; HEADER],
    read: usize,
    /// Bytes of the present chunk that are left.
    missing: usize,
    failure: Failure,
    link: Arc<Link>,
}

impl Reader {
    /// Reads from the present chunk, or the length of the next one.
    fn poll_once(
        &mut self,
        buffer: &mut ReadBuf<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.missing == 0 {
            let link = self.link.clone();
            self.missing = ready!(link.poll_header(&mut self.header, &mut self.read, cx))?;
            if self.missing == 0 {
                link.end(READ);
                return Poll::Ready(Ok(()));
            }
        }
        let most = self.missing.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(self.link.poll_read(&mut part, cx))?;
        let bytes = part.filled().len();
        if bytes == 0 {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        buffer.advance(bytes);
        self.missing -= bytes;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        // A read takes all that has arrived.
        while buffer.remaining() > 0 && !self.link.has_ended(READ) {
            match self.poll_once(buffer, cx) {
                Poll::Ready(Ok(())) => {}
                _ if buffer.filled().len() > before => break,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(self.link.error())),
                Poll::Pending => {
                    ready!(self.failure.poll_lost(cx));
                    return Poll::Ready(Err(self.link.error()));
                }
            }
        }
        self.link.has_moved.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl Incoming for Reader {
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.link.has_ended(READ) {
            return Poll::Pending;
        }
        ready!(self.failure.poll(cx));
        Poll::Ready(self.link.error())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.link.has_ended(READ) && !self.link.has_ended(WRITTEN) {
            self.link.reset();
        }
        self.link.release();
    }
}

/// Most data that these paths of a connection send in time, bytes.
///
/// # Errors
/// If they have as much: the time until half of it is sent.
fn room(subflows: &[Subflow]) -> Result<usize, Duration> {
    // Data of a path that does not answer is sent over others.
    let answer = |it: &&Subflow| it.open && it.rtt_us > 0 && it.backoff == 0;
    let rate = |it: &Subflow| f64::from(it.window) * SEGMENT / (f64::from(it.rtt_us) * 1e-6);
    let rate: f64 = subflows.iter().filter(answer).map(rate).sum();
    let most = (AHEAD * rate).max(LEAST);
    let unsent = subflows.iter().filter(answer);
    let unsent: f64 = unsent.map(|it| f64::from(it.unsent)).sum();
    if unsent < most {
        return Ok(most as usize);
    }
    let pause = Duration::from_secs_f64((unsent - most / 2.0) / rate);
    Err(pause.clamp(PAUSES[0], PAUSES[1]))
}

struct Writer {
    failure: Failure,
    link: Arc<Link>,
    shutdown: Shutdown,
    /// Pause until the next look at what the paths have.
    pause: Option<Pin<Box<Sleep>>>,
}

enum Shutdown {
    No,
    /// The end is being written.
    Flushing,
    /// The kernel has the end; pause and time of the next look at whether it is acknowledged.
    Sent(Duration, Pin<Box<Sleep>>),
}

impl Writer {
    /// Writes a chunk, once the one before is written.
    fn poll_chunk(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_pin().poll_flush(cx))?;
        let length = u16::try_from(bytes.len()).expect("at most a chunk");
        let header = length.to_be_bytes();
        let parts = [&header[..], bytes].map(IoSlice::new);
        let written = Pin::new(&mut *self.link.tls.lock()).poll_write_vectored(cx, &parts);
        match ready!(written) {
            Ok(written) if written == HEADER + bytes.len() => Poll::Ready(Ok(())),
            _ => Poll::Ready(Err(self.link.error())),
        }
    }

    fn as_pin(&mut self) -> Pin<&mut Self> {
        Pin::new(self)
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let room = match subflows(&self.link.socket) {
                Ok((true, subflows)) => room(&subflows),
                _ => Ok(usize::MAX),
            };
            match room {
                Ok(room) => break room,
                Err(pause) => self.pause = Some(Box::pin(sleep(pause))),
            }
        };
        let bytes = &bytes[..bytes.len().min(CHUNK).min(room)];
        ready!(self.poll_chunk(bytes, cx))?;
        self.link.core.accepted(bytes.len());
        self.link.has_moved.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failure.poll_lost(cx).is_ready() {
            return Poll::Ready(Err(self.link.error()));
        }
        let flushed = ready!(Pin::new(&mut *self.link.tls.lock()).poll_flush(cx));
        Poll::Ready(flushed.map_err(|_| self.link.error()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.shutdown {
                Shutdown::No => {
                    ready!(self.poll_chunk(&[], cx))?;
                    self.shutdown = Shutdown::Flushing;
                }
                Shutdown::Flushing => {
                    ready!(self.as_mut().poll_flush(cx))?;
                    self.link.has_moved.store(true, Ordering::Relaxed);
                    self.shutdown = Shutdown::Sent(LOOKS[0], Box::pin(sleep(Duration::ZERO)));
                }
                Shutdown::Sent(pause, look) => {
                    ready!(look.as_mut().poll(cx));
                    look.as_mut().reset(Instant::now() + *pause);
                    *pause = (2 * *pause).min(LOOKS[1]);
                    match unacknowledged_bytes(&*self.link.socket) {
                        Ok(0) => {
                            self.link.end(WRITTEN);
                            return Poll::Ready(Ok(()));
                        }
                        Ok(_) if self.failure.poll(cx).is_pending() => {}
                        _ => return Poll::Ready(Err(self.link.error())),
                    }
                }
            }
        }
    }
}

impl Outgoing for Writer {
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        ready!(self.failure.poll(cx));
        Poll::Ready(self.link.error())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.link.has_ended(WRITTEN) {
            self.link.reset();
        }
        self.link.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_given_what_it_sends_in_50_ms() {
        let path = |window, unsent, backoff| Subflow {
            open: true,
            rtt_us: 140_000,
            window,
            unsent,
            backoff,
            ..Subflow::default()
        };
        // 100 packets of 1400 bytes in 140 ms are 1 MB/s, so 50 kB.
        assert_eq!(room(&[path(100, 49_000, 0)]), Ok(50_000));
        let ms = Duration::from_millis;
        // 30 kB more than half of it take 30 ms, and the longest pause is 25.
        assert_eq!(room(&[path(50, 0, 0), path(50, 55_000, 0)]), Err(ms(25)));
        // A slow one is given 16 kB: as many at 100 kB/s take longer than a pause.
        assert_eq!(room(&[path(10, 0, 0)]), Ok(16_000));
        assert_eq!(room(&[path(10, 16_000, 0)]), Err(ms(25)));
        // Data of a dead path stops no other.
        assert_eq!(room(&[path(100, 0, 0), path(100, 400_000, 1)]), Ok(50_000));
    }
}
