//! Connections of TCP without delay: with ends, resets and full buffers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use anabranch_gateway::network::{Sink, Socket, Source};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Data that a connection buffers in each direction, bytes.
pub const BUFFER: usize = 64 << 10;

/// One side of a connection. Dropping it closes it.
#[derive(Debug)]
pub struct Tcp {
    side: Side,
    local: SocketAddr,
    peer: SocketAddr,
}

/// One side, which its host can close.
#[derive(Clone, Debug)]
pub struct Side {
    wire: Arc<Wire>,
    /// Index of the side, 0 or 1.
    index: usize,
}

#[derive(Debug)]
struct Wire {
    /// Data on its way to each side.
    pipes: Mutex<[Pipe; 2]>,
    /// Cancelled when the peer of this side has reset the connection.
    reset: [CancellationToken; 2],
    /// Whether the close of this side is a reset.
    resets: [AtomicBool; 2],
}

#[derive(Debug, Default)]
struct Pipe {
    data: VecDeque<u8>,
    /// Whether the writer has ended the direction.
    ended: bool,
    /// Whether the reader has closed its side.
    closed: bool,
    /// Whether either side has reset the connection.
    reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        let wakers = [self.reader.take(), self.writer.take()];
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Tcp {
    /// Both sides of a connection between these addresses.
    pub fn pair(client: SocketAddr, server: SocketAddr) -> [Tcp; 2] {
        let wire = Arc::new(Wire {
            pipes: Mutex::default(),
            reset: Default::default(),
            resets: Default::default(),
        });
        let side = |index, local, peer| Tcp {
            side: Side {
                wire: wire.clone(),
                index,
            },
            local,
            peer,
        };
        [side(0, client, server), side(1, server, client)]
    }

    /// This side, for its host.
    pub fn side(&self) -> &Side {
        &self.side
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads available data; nothing at the end.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.side.poll_read(cx, buffer)).await
    }

    /// Writes as much as fits.
    pub async fn write(&self, data: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.side.poll_write(cx, data)).await
    }

    /// Ends the direction to the peer.
    pub fn end(&self) -> io::Result<()> {
        self.side.end()
    }

    /// Resets the connection.
    pub fn reset(&self) {
        self.side.resets(true);
        self.side.close();
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.side.close();
    }
}

impl Side {
    fn pipes(&self) -> MutexGuard<'_, [Pipe; 2]> {
        self.wire.pipes.lock().expect("no holder panics")
    }

    fn peer(&self) -> usize {
        1 - self.index
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut pipes = self.pipes();
        let pipe = &mut pipes[self.index];
        if pipe.closed {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        // Data received before a reset can be read, as in Linux.
        let n = pipe.data.len().min(buffer.len());
        if n > 0 {
            for (to, from) in buffer.iter_mut().zip(pipe.data.drain(..n)) {
                *to = from;
            }
            if let Some(writer) = pipe.writer.take() {
                writer.wake();
            }
            return Poll::Ready(Ok(n));
        }
        if pipe.reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        if pipe.ended {
            return Poll::Ready(Ok(0));
        }
        pipe.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipes = self.pipes();
        if pipes[self.index].closed || pipes[self.peer()].ended {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        if pipes[self.peer()].closed {
            // The peer's kernel answers with a reset.
            self.wire.reset[self.index].cancel();
            reset(&mut pipes);
        }
        let pipe = &mut pipes[self.peer()];
        if pipe.reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let n = data.len().min(BUFFER - pipe.data.len());
        if n == 0 && !data.is_empty() {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pipe.data.extend(&data[..n]);
        if let Some(reader) = pipe.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(n))
    }

    fn end(&self) -> io::Result<()> {
        let mut pipes = self.pipes();
        if pipes[self.index].closed || pipes[self.peer()].reset {
            return Err(ErrorKind::NotConnected.into());
        }
        pipes[self.peer()].ended = true;
        pipes[self.peer()].wake();
        Ok(())
    }

    /// Sets whether the close of this side is a reset.
    pub fn resets(&self, resets: bool) {
        self.wire.resets[self.index].store(resets, Ordering::Relaxed);
    }

    /// Closes this side as the kernel does: with a reset if that was asked for or data was not
    /// read, and the connection has not ended in both directions.
    pub fn close(&self) {
        let mut pipes = self.pipes();
        if std::mem::replace(&mut pipes[self.index].closed, true) {
            return;
        }
        let has_ended = pipes.iter().all(|pipe| pipe.ended);
        let asked = self.wire.resets[self.index].load(Ordering::Relaxed);
        if !has_ended && (asked || !pipes[self.index].data.is_empty()) {
            self.wire.reset[self.peer()].cancel();
            reset(&mut pipes);
        } else {
            pipes[self.peer()].ended = true;
        }
        pipes.iter_mut().for_each(Pipe::wake);
    }
}

fn reset(pipes: &mut [Pipe; 2]) {
    for pipe in pipes {
        pipe.reset = true;
        pipe.wake();
    }
}

async fn failed(side: &Side) -> io::Error {
    side.wire.reset[side.index].cancelled().await;
    ErrorKind::ConnectionReset.into()
}

impl Socket for Tcp {
    fn split(&mut self) -> (Box<dyn Source + '_>, Box<dyn Sink + '_>) {
        (Box::new(Half(&self.side)), Box::new(Half(&self.side)))
    }

    fn failed(&self) -> BoxFuture<'_, io::Error> {
        failed(&self.side).boxed()
    }

    fn has_data(&self) -> BoxFuture<'_, io::Result<bool>> {
        poll_fn(|cx| {
            let mut pipes = self.side.pipes();
            let pipe = &mut pipes[self.side.index];
            if pipe.reset || pipe.ended || !pipe.data.is_empty() {
                return Poll::Ready(Ok(!pipe.data.is_empty()));
            }
            pipe.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .boxed()
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }

    fn original_destination(&self) -> Option<SocketAddr> {
        None
    }

    fn complete(&self) {
        self.side.resets(false);
    }
}

/// A direction of a side.
struct Half<'a>(&'a Side);

impl Source for Half<'_> {
    fn failed(&mut self) -> BoxFuture<'_, io::Error> {
        failed(self.0).boxed()
    }
}

impl Sink for Half<'_> {
    fn failed(&mut self) -> BoxFuture<'_, io::Error> {
        failed(self.0).boxed()
    }
}

fn fill(side: &Side, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    side.poll_read(cx, buf.initialize_unfilled())
        .map_ok(|n| buf.advance(n))
}

impl AsyncRead for Half<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        fill(self.0, cx, buf)
    }
}

impl AsyncWrite for Half<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.end())
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        fill(&self.side, cx, buf)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.side.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.side.end())
    }
}
