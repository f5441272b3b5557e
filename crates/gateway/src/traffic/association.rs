//! UDP associations in a tunnel: each has a number and a stream, and ends with the stream.
//! Datagrams are datagrams of the tunnel; those too large for it are frames of the stream.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::queue::{Packet, Sender, queue};
use crate::carrier::{NotSent, Stream, Tunnel};
use crate::counters::Counters;
use crate::wire::{Datagram, Destination, Reply, decode_peer, encode_frame, read_frame};

/// The associations of a tunnel.
#[derive(Debug)]
pub struct Associations {
    tunnel: Tunnel,
    counters: Arc<Counters>,
    table: Mutex<HashMap<u32, Sender>>,
}

impl Associations {
    /// None yet.
    pub fn new(tunnel: Tunnel, counters: Arc<Counters>) -> Arc<Associations> {
        Arc::new(Associations {
            tunnel,
            counters,
            table: Mutex::default(),
        })
    }

    /// Distributes the tunnel's datagrams until it is closed.
    pub async fn distribute(&self) {
        while let Ok(bytes) = self.tunnel.receive_datagram().await {
            match Datagram::decode(bytes) {
                Ok(datagram) => {
                    self.deliver(datagram.association, datagram.peer, datagram.payload);
                }
                Err(_) => self.counters.dropped_malformed.increment(),
            }
        }
    }

    /// Adds an association with this number and stream, whose queue has at most so many bytes;
    /// `None` if there is one with this number.
    pub fn join(
        self: &Arc<Self>,
        number: u32,
        stream: Stream,
        queue_bytes: usize,
    ) -> Option<Association> {
        let (sender, incoming) = queue(queue_bytes);
        match self.table().entry(number) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(entry) => entry.insert(sender),
        };
        let all = self.clone();
        let reader = tokio::spawn(async move { all.read(number, stream.reader).await });
        Some(Association {
            all: self.clone(),
            number,
            writer: stream.writer,
            incoming,
            _reader: AbortOnDropHandle::new(reader),
        })
    }

    /// Reads the association's stream to its end, which ends the association.
    async fn read(&self, number: u32, mut reader: impl AsyncRead + Unpin) {
        while let Ok(Some(frame)) = read_frame(&mut reader).await {
            match decode_peer(frame) {
                Ok((peer, payload)) => self.deliver(number, peer, payload),
                Err(_) => self.counters.dropped_malformed.increment(),
            }
        }
        self.table().remove(&number);
    }

    fn deliver(&self, number: u32, peer: Destination, payload: Bytes) {
        match self.table().get(&number) {
            None => self.counters.dropped_unknown.increment(),
            Some(sender) if sender.offer(peer, payload) => {}
            Some(_) => self.counters.dropped_full.increment(),
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u32, Sender>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An association in a tunnel.
pub struct Association {
    all: Arc<Associations>,
    number: u32,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    incoming: mpsc::UnboundedReceiver<Packet>,
    _reader: AbortOnDropHandle<()>,
}

impl Association {
    /// Sends a datagram to the other gateway.
    ///
    /// # Errors
    /// If the tunnel is closed or the stream is.
    pub async fn send(&mut self, peer: &Destination, payload: &[u8]) -> io::Result<()> {
        let datagram = Datagram::encode(self.number, peer, payload);
        match self.all.tunnel.send_datagram(datagram) {
            Ok(()) => Ok(()),
            Err(NotSent::Closed(closed)) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, closed))
            }
            Err(NotSent::TooLarge(_)) => {
                let mut address = BytesMut::new();
                peer.put(&mut address);
                let Some(frame) = encode_frame(&[&address, payload]) else {
                    self.all.counters.dropped_unsendable.increment();
                    return Ok(());
                };
                self.all.counters.datagrams_in_streams.increment();
                self.writer.write_all(&frame).await?;
                self.writer.flush().await
            }
        }
    }

    /// Answers the association's request.
    ///
    /// # Errors
    /// If the stream is closed.
    pub async fn reply(&mut self, reply: Reply) -> io::Result<()> {
        self.writer.write_all(&[reply as u8]).await?;
        self.writer.flush().await
    }

    /// The next datagram from the other gateway; `None` when it has ended the association.
    pub async fn receive(&mut self) -> Option<Packet> {
        self.incoming.recv().await
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        self.all.table().remove(&self.number);
    }
}
