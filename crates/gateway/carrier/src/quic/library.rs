//! The QUIC library behind an interface of our own: this module alone knows it, so that another can
//! take its place. It is noq, which has several paths per connection.

use anabranch_quic::controller::SharedController;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use noq::{
    ConnectionError, FourTuple, PathEvent, PathEvents, PathId, PathStatus, SendDatagramError,
    VarInt,
};

use crate::{Closed, Limits, NotSent, printable};

mod endpoint;
mod path;
mod settings;
mod sockets;
mod stream;
pub mod udp;

pub use endpoint::{Client, Incoming, Server, check};
pub use path::{Counters, LastPath, Path};
pub use sockets::{Slot, Sockets};
pub use stream::{Failure, Pieces, Receiving, Sending};

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
            | SendDatagramError::Disabled => {
                NotSent::TooLarge(self.inner.max_datagram_size().unwrap_or(0))
            }
        })
    }

    /// Datagrams that wait to be sent, bytes.
    pub fn datagrams_waiting_bytes(&self) -> usize {
        settings::DATAGRAM_SEND_BUFFER - self.inner.datagram_send_buffer_space()
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
        settings::set_limits(&self.inner, limits);
    }

    /// Begins to open another path, if the peer has issued connection ids for it.
    pub fn open_path(&self, slot: &Slot, is_backup: bool) -> Option<Path> {
        let tuple = FourTuple::new(slot.far(), Some(slot.tag()));
        let opening = self.inner.open_path(tuple, path::status(is_backup));
        Path::new(self, opening.path_id()?)
    }

    /// The path with this number, if it is open.
    pub fn path(&self, number: u32) -> Option<Path> {
        Path::new(self, number.into())
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
                settings::GIVE_UP
            )
        }
        ConnectionError::Reset => "the peer has no such tunnel any more: it was restarted".into(),
        error => printable(error.to_string().as_bytes()),
    })
}
