//! A stream: a connection of the kernel of its own, with TLS.
//!
//! Each half ends with `close_notify` and FIN. A connection that is dropped before both halves have
//! ended is reset. The kernel bounds what waits in either direction, and orders nothing between
//! connections.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_sockets::unacknowledged_bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::net::{RecvFlags, connect_unspec, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Tls;
use super::core::Core;
use crate::window::stalled;
use crate::{Incoming, Outgoing, Stream};

/// Least and longest time between two looks at whether the end is acknowledged.
const LOOKS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// Halves of a link.
const READ: usize = 0;
const WRITTEN: usize = 1;

/// Data of a TLS record, bytes.
const RECORD: usize = 16 << 10;

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
}

impl Link {
    /// Adds a connection to a tunnel.
    ///
    /// # Errors
    /// If the tunnel is closed, or has as many as it may have.
    pub fn new(mut tls: Tls, core: &Arc<Core>) -> anyhow::Result<Arc<Link>> {
        // A rest of a record would leave room for only a part of the next.
        match &mut tls {
            Tls::Client(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
            Tls::Server(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
        }
        let socket = super::socket_of(&tls);
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
            halves: Default::default(),
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

    /// Waits for the peer's first byte, and takes it; `None` if there is none before the end.
    pub async fn first(&self) -> io::Result<Option<u8>> {
        let mut byte = [0; 1];
        poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut byte);
            ready!(self.poll_read(&mut buffer, cx))?;
            Poll::Ready(Ok(buffer.filled().first().copied()))
        })
        .await
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

    /// Ends the connection by a reset, with what it has not sent.
    pub fn reset(&self) {
        self.core.retire(self.number, Some(&self.socket));
        let _ = connect_unspec(&*self.socket);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        match self.has_ended(READ) && self.has_ended(WRITTEN) {
            true => self.core.retire(self.number, Some(&self.socket)),
            false => self.reset(),
        }
    }
}

/// Both ends of a connection, for a user. `first` is what was read of it already.
pub fn stream(link: &Arc<Link>, first: Option<u8>) -> Stream {
    Stream {
        reader: Box::new(Reader {
            first,
            failure: Failure::new(link),
            link: link.clone(),
        }),
        writer: Box::new(Writer {
            failure: Failure::new(link),
            link: link.clone(),
            shutdown: Shutdown::No,
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
    first: Option<u8>,
    failure: Failure,
    link: Arc<Link>,
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        if let Some(first) = this.first.take_if(|_| buffer.remaining() > 0) {
            buffer.put_slice(&[first]);
        }
        // A read takes all records that have arrived.
        while buffer.remaining() > 0 {
            let filled = buffer.filled().len();
            match this.link.poll_read(buffer, cx) {
                Poll::Ready(Ok(())) if buffer.filled().len() > filled => {}
                Poll::Ready(Ok(())) => {
                    this.link.end(READ);
                    break;
                }
                _ if filled > before => break,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(this.link.error())),
                Poll::Pending => {
                    ready!(this.failure.poll_lost(cx));
                    return Poll::Ready(Err(this.link.error()));
                }
            }
        }
        this.link.has_moved.store(true, Ordering::Relaxed);
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
    }
}

struct Writer {
    failure: Failure,
    link: Arc<Link>,
    shutdown: Shutdown,
}

enum Shutdown {
    No,
    /// The kernel has the end; pause and time of the next look at whether it is acknowledged.
    Sent(Duration, Pin<Box<Sleep>>),
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.failure.poll_lost(cx).is_ready() {
            return Poll::Ready(Err(this.link.error()));
        }
        let written = ready!(Pin::new(&mut *this.link.tls.lock()).poll_write(cx, bytes));
        let written = written.map_err(|_| this.link.error())?;
        this.link.core.accepted(written);
        this.link.has_moved.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.failure.poll_lost(cx).is_ready() {
            return Poll::Ready(Err(this.link.error()));
        }
        let flushed = ready!(Pin::new(&mut *this.link.tls.lock()).poll_flush(cx));
        Poll::Ready(flushed.map_err(|_| this.link.error()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.shutdown {
                Shutdown::No => {
                    let ended = Pin::new(&mut *this.link.tls.lock()).poll_shutdown(cx);
                    match ended {
                        Poll::Pending => {
                            ready!(this.failure.poll_lost(cx));
                            return Poll::Ready(Err(this.link.error()));
                        }
                        Poll::Ready(ended) => ended.map_err(|_| this.link.error())?,
                    }
                    this.link.has_moved.store(true, Ordering::Relaxed);
                    this.shutdown = Shutdown::Sent(LOOKS[0], Box::pin(sleep(Duration::ZERO)));
                }
                Shutdown::Sent(pause, look) => {
                    match unacknowledged_bytes(&*this.link.socket) {
                        Ok(0) => {
                            this.link.end(WRITTEN);
                            return Poll::Ready(Ok(()));
                        }
                        Ok(_) => {}
                        Err(_) => return Poll::Ready(Err(this.link.error())),
                    }
                    if this.failure.poll(cx).is_ready() {
                        return Poll::Ready(Err(this.link.error()));
                    }
                    ready!(look.as_mut().poll(cx));
                    look.as_mut().reset(Instant::now() + *pause);
                    *pause = (2 * *pause).min(LOOKS[1]);
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
    }
}
