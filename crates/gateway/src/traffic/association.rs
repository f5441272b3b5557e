//! UDP associations between two gateways: each has a number and a stream in a tunnel, and ends with
//! the stream. Its datagrams are datagrams of the tunnel or, as long as few wait there, of another
//! one between the same gateways, its route: that by which the last one came. Those too large are
//! frames of the stream.

use std::collections::{HashMap, hash_map};
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

/// How much may wait in the route, bytes: a burst, and not what a window holds back.
const BURST: usize = 16 << 10;

/// The associations with a peer.
#[derive(Debug)]
pub struct Associations {
    counters: Arc<Counters>,
    table: Mutex<HashMap<u32, Entry>>,
}

#[derive(Debug)]
struct Entry {
    sender: Sender,
    route: Tunnel,
}

impl Associations {
    /// None yet.
    pub fn new(counters: Arc<Counters>) -> Arc<Associations> {
        Arc::new(Associations {
            counters,
            table: Mutex::default(),
        })
    }

    /// Distributes a tunnel's datagrams until it is closed.
    pub async fn distribute(&self, tunnel: &Tunnel) {
        while let Ok(bytes) = tunnel.receive_datagram().await {
            if let Some(number) = Datagram::decode_route(&bytes) {
                if !self.set_route(number, tunnel) {
                    self.counters.dropped_unknown.increment();
                }
                continue;
            }
            match Datagram::decode(bytes) {
                Ok(datagram) => {
                    self.set_route(datagram.association, tunnel);
                    self.deliver(datagram.association, datagram.peer, datagram.payload);
                }
                Err(_) => self.counters.dropped_malformed.increment(),
            }
        }
    }

    /// Adds an association with this number and stream in this tunnel, whose queue has at most so
    /// many bytes; `None` if there is one with this number.
    pub fn join(
        self: &Arc<Self>,
        number: u32,
        tunnel: &Tunnel,
        stream: Stream,
        queue_bytes: usize,
    ) -> Option<Association> {
        let (sender, incoming) = queue(queue_bytes);
        let route = tunnel.clone();
        match self.table().entry(number) {
            hash_map::Entry::Occupied(_) => return None,
            hash_map::Entry::Vacant(entry) => entry.insert(Entry { sender, route }),
        };
        let all = self.clone();
        let reader = tokio::spawn(async move { all.read(number, stream.reader).await });
        Some(Association {
            all: self.clone(),
            number,
            tunnel: tunnel.clone(),
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
            Some(entry) if entry.sender.offer(peer, payload) => {}
            Some(_) => self.counters.dropped_full.increment(),
        }
    }

    /// False if there is no such association.
    fn set_route(&self, number: u32, tunnel: &Tunnel) -> bool {
        let mut table = self.table();
        let Some(entry) = table.get_mut(&number) else {
            return false;
        };
        if !entry.route.is(tunnel) {
            entry.route = tunnel.clone();
        }
        true
    }

    fn route(&self, number: u32) -> Option<Tunnel> {
        Some(self.table().get(&number)?.route.clone())
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u32, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An association.
pub struct Association {
    all: Arc<Associations>,
    number: u32,
    /// That of its stream.
    tunnel: Tunnel,
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
        if let Some(route) = self.all.route(self.number)
            && route.datagrams_waiting_bytes() < BURST
            && route.send_datagram(datagram.clone()).is_ok()
        {
            return Ok(());
        }
        match self.tunnel.send_datagram(datagram) {
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

    /// Makes a tunnel the route of both gateways, unless it is: without waiting for a datagram.
    pub fn take_route(&self, tunnel: &Tunnel) {
        let route = self.all.route(self.number);
        if route.is_some_and(|route| !route.is(tunnel)) {
            self.all.set_route(self.number, tunnel);
            // If it is lost or the tunnel is closed, the next datagram has the same effect.
            let _ = tunnel.send_datagram(Datagram::encode_route(self.number));
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
