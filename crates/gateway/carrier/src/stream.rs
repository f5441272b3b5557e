//! The streams of a tunnel, for its users.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of a tunnel, in both directions.
///
/// Writing ends with `shutdown`, which returns once the peer has acknowledged all data and the end.
/// It fails if the peer has stopped the stream or the tunnel is closed before. Dropping a stream
/// before its shutdown has returned resets it, so that the peer sees an error and not an end.
///
/// Data that has been received can be read after the tunnel was closed.
pub struct Stream {
    /// Direction from the peer.
    pub reader: Box<dyn Incoming>,
    /// Direction to the peer.
    pub writer: Box<dyn Outgoing>,
}

/// The direction of a stream from the peer.
pub trait Incoming: AsyncRead + Send + Unpin {
    /// Ready when the peer has reset the stream, also while received data is not read. Never ready
    /// once all data and the end have been received.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error>;
}

/// The direction of a stream to the peer.
pub trait Outgoing: AsyncWrite + Send + Unpin {
    /// Ready when the peer has dropped its reader before the end, or when the tunnel is closed,
    /// also while nothing is being written. Called only after the end of the stream's reader and
    /// before shutdown.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error>;
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}
