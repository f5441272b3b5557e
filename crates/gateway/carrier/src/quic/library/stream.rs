//! Streams of a connection.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use noq::{ReadError, RecvStream, SendStream, UnorderedRecvStream, VarInt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Code of a stream that is reset before its end.
const NOT_FINISHED: VarInt = VarInt::from_u32(1);

/// Code of a stream whose peer has sent more than it may.
const BEYOND: VarInt = VarInt::from_u32(2);

/// A stream to the peer.
#[derive(Debug)]
pub struct Sending(SendStream);

impl Sending {
    pub(super) fn new(stream: SendStream) -> Sending {
        Sending(stream)
    }

    /// Number of the stream, which both ends know.
    pub fn id(&self) -> u64 {
        self.0.id().into()
    }

    /// Writes at once what the windows of stream and connection allow. Without data it is an error
    /// if the peer has stopped the stream, and pending if the connection's window is used up.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.0), cx, data)
    }

    /// Writes all data.
    pub async fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        Ok(self.0.write_all(data).await?)
    }

    /// Ends the stream. The future is ready when the peer has acknowledged all data and the end.
    pub fn finish(&mut self) -> io::Result<BoxFuture<'static, io::Result<()>>> {
        self.0.finish()?;
        let stopped = self.0.stopped();
        Ok(Box::pin(async {
            match stopped.await {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err(ErrorKind::ConnectionReset.into()),
                Err(lost) => Err(lost.into()),
            }
        }))
    }

    /// Resets the stream, without effect if the peer has acknowledged the end or has stopped it.
    pub fn reset(&mut self) {
        let _ = self.0.reset(NOT_FINISHED);
    }
}

/// A stream from the peer, in order.
#[derive(Debug)]
pub struct Receiving(RecvStream);

impl Receiving {
    pub(super) fn new(stream: RecvStream) -> Receiving {
        Receiving(stream)
    }

    /// Fills the buffer.
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        AsyncReadExt::read_exact(&mut self.0, buffer)
            .await
            .map(drop)
    }

    /// Pieces of this stream as they arrive; nothing of it must have been read.
    pub fn into_pieces(self) -> Pieces {
        Pieces {
            id: self.0.id().into(),
            stream: self.0.into_unordered(),
        }
    }
}

impl AsyncRead for Receiving {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

/// Stream from the peer, as it arrives.
#[derive(Debug)]
pub struct Pieces {
    id: u64,
    stream: UnorderedRecvStream,
}

impl Pieces {
    /// Number of the stream, which both ends know.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The next piece, of at most `most` bytes, and its position; `None` after the last. A failure
    /// is reported once, and an end afterwards.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<(u64, Bytes)>, Failure>> {
        // A new future each time: it registers the task and has no state of its own.
        let next = pin!(self.stream.read_chunk(most)).poll(cx);
        next.map(|next| match next {
            Ok(piece) => Ok(piece.map(|piece| (piece.offset, piece.bytes))),
            Err(error) => Err(Failure(error)),
        })
    }
}

/// Failure of a stream from the peer.
#[derive(Clone, Debug)]
pub struct Failure(ReadError);

impl Failure {
    /// Failure of a peer that has sent more than it may.
    pub fn beyond() -> Failure {
        Failure(ReadError::Reset(BEYOND))
    }

    /// Whether the stream was reset, as opposed to the connection closed.
    pub fn is_reset(&self) -> bool {
        matches!(self.0, ReadError::Reset(_))
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        failure.0.into()
    }
}
