//! The QUIC library behind an interface of our own: this module alone knows it, so that another can
//! take its place. It is noq, which has several paths per connection.

mod endpoint;
mod path;
mod sockets;
pub mod udp;

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use anabranch_quic::controller::SharedController;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use noq::{
    ConnectionError, FourTuple, PathEvent, PathEvents, PathId, PathStatus, ReadError, RecvStream,
    SendDatagramError, SendStream, UnorderedRecvStream, VarInt,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::turns::Outlet;
use crate::{Closed, Limits, NotSent, printable};

pub use endpoint::{Client, Incoming, Server, check};
pub use path::{Counters, LastPath, OpenPath};
pub use sockets::{Slot, Sockets};

/// IPv4 and UDP headers of a datagram, bytes.
pub const UDP_HEADERS: u64 = 20 + 8;

/// A connection with its controller. Clones are the same connection.
#[derive(Clone, Debug)]
pub struct Connection {
    inner: noq::Connection,
    controller: SharedController,
}

impl Connection {
    /// Controller of its paths.
    pub fn controller(&self) -> &SharedController {
        &self.controller
    }

    /// Opens a stream; waits while the peer's limit is reached.
    pub async fn open(&self) -> Result<(Sending, Receiving), Closed> {
        let (send, receive) = self.inner.open_bi().await.map_err(closed)?;
        Ok((Sending::new(send), Receiving::new(receive)))
    }

    /// The next stream that the peer has opened.
    pub async fn accept(&self) -> Result<(Sending, Receiving), Closed> {
        let (send, receive) = self.inner.accept_bi().await.map_err(closed)?;
        Ok((Sending::new(send), Receiving::new(receive)))
    }

    /// Opens a stream to the peer alone, whose data goes before that of others if `is_urgent`.
    pub async fn open_one_way(&self, is_urgent: bool) -> Result<Sending, Closed> {
        let stream = self.inner.open_uni().await.map_err(closed)?;
        // Fails if the connection is closed.
        let _ = stream.set_priority(is_urgent.into());
        Ok(Sending::new(stream))
    }

    /// The next stream from the peer alone.
    pub async fn accept_one_way(&self) -> Result<Receiving, Closed> {
        let stream = self.inner.accept_uni().await.map_err(closed)?;
        Ok(Receiving::new(stream))
    }

    /// Sends a datagram, and discards the oldest ones if there is no room.
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent> {
        let sent = self.inner.send_datagram(datagram);
        sent.map_err(|error| match error {
            SendDatagramError::ConnectionLost(error) => NotSent::Closed(closed(error)),
            // The peer accepts datagrams, as this end does.
            SendDatagramError::TooLarge
            | SendDatagramError::UnsupportedByPeer
            | SendDatagramError::Disabled => NotSent::TooLarge(self.largest_datagram()),
        })
    }

    /// Size of the largest datagram, bytes: over the path with the smallest MTU.
    pub fn largest_datagram(&self) -> usize {
        self.inner.max_datagram_size().unwrap_or(0)
    }

    /// Datagrams that wait to be sent, bytes.
    pub fn datagrams_waiting_bytes(&self) -> usize {
        // The library keeps the overhead of one more datagram free.
        let empty = endpoint::DATAGRAM_SEND_BUFFER - size_of::<Bytes>();
        empty.saturating_sub(self.inner.datagram_send_buffer_space())
    }

    /// The next datagram from the peer.
    pub async fn receive_datagram(&self) -> Result<Bytes, Closed> {
        self.inner.read_datagram().await.map_err(closed)
    }

    /// Waits until the connection is closed.
    pub async fn closed(&self) -> Closed {
        closed(self.inner.closed().await)
    }

    /// Whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.inner.close_reason().is_some()
    }

    /// Closes the connection with a code of our own: 0 for its user, 2 for a fault of the peer. The
    /// first reason counts: the library would replace it.
    pub fn close(&self, code: u32, reason: &str) {
        if !self.is_closed() {
            self.inner.close(VarInt::from_u32(code), reason.as_bytes());
        }
    }

    /// Changes the limits of streams and buffers.
    pub fn set_limits(&self, limits: &Limits) {
        endpoint::set_limits(&self.inner, limits);
    }

    /// Begins to open another path, if the peer has issued connection ids for it.
    pub fn open_path(&self, slot: &Slot, is_backup: bool) -> Option<OpenPath> {
        let tuple = FourTuple::new(slot.far(), Some(slot.tag()));
        let opening = self.inner.open_path(tuple, path::status(is_backup));
        OpenPath::new(self, opening.path_id()?)
    }

    /// The path with this number, if it is open.
    pub fn path(&self, number: u32) -> Option<OpenPath> {
        OpenPath::new(self, number.into())
    }

    /// Whether the path with this number is open.
    pub fn has_path(&self, number: u32) -> bool {
        self.inner.path(number.into()).is_some()
    }

    /// Events of its paths from now on.
    pub fn events(&self) -> Events {
        Events(self.inner.path_events())
    }
}

/// Events of a connection's paths.
pub struct Events(PathEvents);

/// Event of the path with this number.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The path was closed, by either end or by the library.
    Abandoned(u32),
    /// The peer prefers other paths to it, or no longer does.
    IsBackup(u32, bool),
}

impl Events {
    /// Takes the events since the last call.
    pub fn take(&mut self) -> Vec<Event> {
        let mut taken = Vec::new();
        while let Some(Some(event)) = self.0.next().now_or_never() {
            match event {
                Ok(PathEvent::Abandoned { id, .. }) => taken.push(Event::Abandoned(number(id))),
                Ok(PathEvent::RemoteStatus { id, status, .. }) => {
                    let is_backup = status == PathStatus::Backup;
                    taken.push(Event::IsBackup(number(id), is_backup));
                }
                _ => {}
            }
        }
        taken
    }
}

/// Number of a path, which the library gives only as text.
fn number(id: PathId) -> u32 {
    id.to_string().parse().expect("a path's number")
}

/// Reason of a connection's failure.
fn closed(error: ConnectionError) -> Closed {
    Closed(match error {
        ConnectionError::ApplicationClosed(close) if !close.reason.is_empty() => {
            format!("by the peer: {}", printable(&close.reason))
        }
        ConnectionError::LocallyClosed => "by this gateway".into(),
        ConnectionError::TimedOut => {
            format!(
                "nothing from the peer over any path for {:?}",
                endpoint::GIVE_UP
            )
        }
        ConnectionError::Reset => {
            let given_up = endpoint::GIVE_UP;
            format!(
                "the peer has no such tunnel any more: it was restarted, or heard nothing for \
                 {given_up:?}"
            )
        }
        error => printable(error.to_string().as_bytes()),
    })
}

/// Code of a stream that is reset before its end.
const NOT_FINISHED: VarInt = VarInt::from_u32(1);

/// Code of a stream whose peer has sent more than it may.
const BEYOND: VarInt = VarInt::from_u32(2);

/// A stream to the peer.
#[derive(Debug)]
pub struct Sending(SendStream);

impl Sending {
    fn new(stream: SendStream) -> Sending {
        Sending(stream)
    }

    /// Number of the stream, which both ends know.
    pub fn id(&self) -> u64 {
        self.0.id().into()
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

impl Outlet for Sending {
    /// Without data it is an error if the peer has stopped the stream, and pending if the
    /// connection's window is used up.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.0), cx, data)
    }
}

/// A stream from the peer, in order.
#[derive(Debug)]
pub struct Receiving(RecvStream);

impl Receiving {
    fn new(stream: RecvStream) -> Receiving {
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

    /// The next piece and its position; `None` after the last. A failure is reported once, and an
    /// end afterwards. If it `stays`, by its position, it is left in the library until what arrives
    /// next.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        stays: impl Fn(u64) -> bool,
    ) -> Poll<Result<Option<(u64, Bytes)>, Failure>> {
        let stays = |first: Option<(u64, Bytes)>| first.is_some_and(|(at, _)| stays(at));
        if stays(ready!(self.poll_read(cx, 0))?) {
            // Registers the task, which a read that finds data does not. What arrived before that
            // is looked for again.
            if let Poll::Ready(reset) = pin!(self.stream.received_reset()).poll(cx) {
                let code = reset.map_err(|lost| Failure(lost.into()))?;
                let failure = code.map_or(ReadError::ClosedStream, ReadError::Reset);
                return Poll::Ready(Err(Failure(failure)));
            }
            if stays(ready!(self.poll_read(cx, 0))?) {
                return Poll::Pending;
            }
        }
        self.poll_read(cx, usize::MAX)
    }

    /// The first piece that has arrived, or this much of it; of none its position.
    fn poll_read(
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

/// Present time.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
