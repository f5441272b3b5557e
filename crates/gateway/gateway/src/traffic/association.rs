//! UDP associations between two gateways. Each has a number and streams in one or more tunnels, and
//! ends with the last of them. Datagrams take the association's route: the tunnel by which the last
//! one came or, while too many wait there, the tunnel of another stream in which nothing waits.
//! Datagrams above the MTU are frames of a stream.

use std::collections::{HashMap, hash_map};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::limits::Room;
use crate::carrier::{DatagramRoom, NotSent, Outgoing, Stream, Tunnel};
use crate::counters::Counters;
use crate::wire::{Datagram, Destination, decode_peer, encode_frame, read_frame};

/// Most streams of an association: near opens two, and others when tunnels are replaced.
const MOST_STREAMS: usize = 8;

/// Associations with a peer.
pub struct Associations {
    counters: Arc<Counters>,
    table: Mutex<HashMap<u32, Entry>>,
}

struct Entry {
    sender: Sender,
    route: Tunnel,
    streams: Vec<Arc<Attached>>,
    /// Guard that ends the tasks which read the streams.
    ended: DropGuard,
}

/// A stream of an association, for sending.
struct Attached {
    tunnel: Tunnel,
    writer: tokio::sync::Mutex<Box<dyn Outgoing>>,
}

impl fmt::Debug for Associations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Associations")
    }
}

impl Associations {
    /// No associations yet.
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

    /// Adds an association with this number, client, route and queue. Returns `None` if there is
    /// one with this number.
    pub fn join(
        self: &Arc<Self>,
        (number, client): (u32, u64),
        route: &Tunnel,
        (sender, incoming): Queue,
    ) -> Option<Association> {
        let space = sender.space.clone();
        match self.table.lock().entry(number) {
            hash_map::Entry::Occupied(_) => return None,
            hash_map::Entry::Vacant(entry) => entry.insert(Entry {
                sender,
                route: route.clone(),
                streams: Vec::new(),
                ended: CancellationToken::new().drop_guard(),
            }),
        };
        Some(Association {
            all: self.clone(),
            number,
            client,
            incoming,
            space,
        })
    }

    /// Adds a stream in this tunnel to an association. The future reads it until it or the
    /// association ends.
    pub fn attach(
        self: &Arc<Self>,
        number: u32,
        tunnel: &Tunnel,
        stream: Stream,
    ) -> impl Future<Output = ()> + use<> {
        let attached = Arc::new(Attached {
            tunnel: tunnel.clone(),
            writer: stream.writer.into(),
        });
        let ended = self.table.lock().get_mut(&number).and_then(|entry| {
            if entry.streams.len() == MOST_STREAMS {
                return None;
            }
            entry.streams.push(attached.clone());
            Some(entry.ended.token().clone())
        });
        let all = self.clone();
        async move {
            let Some(ended) = ended else { return };
            let read = all.read(number, stream.reader);
            if ended.run_until_cancelled(read).await.is_some() {
                all.detach(number, &attached);
            }
        }
    }

    /// Removes a stream that has ended, and the association with the last.
    fn detach(&self, number: u32, ended: &Arc<Attached>) {
        let mut table = self.table.lock();
        if let hash_map::Entry::Occupied(mut entry) = table.entry(number) {
            let streams = &mut entry.get_mut().streams;
            streams.retain(|stream| !Arc::ptr_eq(stream, ended));
            if streams.is_empty() {
                entry.remove();
            }
        }
    }

    /// Reads a stream to its end.
    async fn read(&self, number: u32, mut reader: impl AsyncRead + Unpin) {
        while let Ok(Some(frame)) = read_frame(&mut reader).await {
            match decode_peer(frame) {
                Ok((peer, payload)) => self.deliver(number, peer, payload),
                Err(_) => self.counters.dropped_malformed.increment(),
            }
        }
    }

    fn deliver(&self, number: u32, peer: Destination, payload: Bytes) {
        match self.table.lock().get(&number) {
            None => self.counters.dropped_unknown.increment(),
            Some(entry) if entry.sender.offer(peer, payload) => {}
            Some(_) => self.counters.dropped_full.increment(),
        }
    }

    /// Sets the route of an association. Returns `false` if there is none with this number.
    fn set_route(&self, number: u32, tunnel: &Tunnel) -> bool {
        let mut table = self.table.lock();
        let Some(entry) = table.get_mut(&number) else {
            return false;
        };
        if !entry.route.is(tunnel) {
            entry.route = tunnel.clone();
        }
        true
    }

    fn route(&self, number: u32) -> Option<Tunnel> {
        Some(self.table.lock().get(&number)?.route.clone())
    }

    /// The stream added last whose tunnel is not the route; if there is none, the last.
    fn stream_beside(&self, number: u32, route: &Tunnel) -> Option<Arc<Attached>> {
        let table = self.table.lock();
        let streams = &table.get(&number)?.streams;
        let beside = streams.iter().rfind(|stream| !stream.tunnel.is(route));
        beside.or(streams.last()).cloned()
    }
}

/// Way of a datagram.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    Route,
    /// Over the tunnel of the stream beside the route, or in this stream if it is too large.
    Beside,
    None,
}

/// The way of a datagram that the route did not take at once, by the room there and in the tunnel
/// beside it.
fn way(of_route: DatagramRoom, of_beside: Option<DatagramRoom>) -> Way {
    match (of_route, of_beside) {
        (_, Some(DatagramRoom::Free)) => Way::Beside,
        (DatagramRoom::Wait, _) => Way::Route,
        (DatagramRoom::None, _) | (_, Some(DatagramRoom::None)) => Way::None,
        // Too large for the route, or the route is closed.
        _ => Way::Beside,
    }
}

/// An association, which ends when this is dropped.
pub struct Association {
    all: Arc<Associations>,
    number: u32,
    client: u64,
    incoming: mpsc::UnboundedReceiver<Packet>,
    space: Arc<Space>,
}

impl Association {
    /// Sends a datagram to the other gateway. Counts it if it cannot be sent.
    pub async fn send(&self, peer: &Destination, payload: &[u8]) {
        if self.try_send(peer, payload).await.is_none() {
            self.all.counters.dropped_unsendable.increment();
        }
    }

    async fn try_send(&self, peer: &Destination, payload: &[u8]) -> Option<()> {
        let datagram = Datagram::encode(self.number, peer, payload);
        let client = self.client;
        let route = self.all.route(self.number)?;
        let room = |tunnel: &Tunnel| tunnel.datagram_room(client, datagram.len());
        let of_route = room(&route);
        if let DatagramRoom::Free | DatagramRoom::Share = of_route
            && route.send_datagram(client, datagram.clone()).is_ok()
        {
            return Some(());
        }
        let beside = self.all.stream_beside(self.number, &route);
        let sent = match way(of_route, beside.as_ref().map(|it| room(&it.tunnel))) {
            Way::Route => route.send_datagram(client, datagram),
            Way::Beside => beside.as_ref()?.tunnel.send_datagram(client, datagram),
            Way::None => {
                self.all.counters.dropped_full.increment();
                return Some(());
            }
        };
        match sent {
            Ok(()) => Some(()),
            Err(NotSent::Closed(_)) => None,
            Err(NotSent::TooLarge(_)) => {
                let mut address = BytesMut::new();
                peer.put(&mut address);
                let frame = encode_frame(&[&address, payload])?;
                self.all.counters.datagrams_in_streams.increment();
                let mut writer = beside.as_ref()?.writer.lock().await;
                writer.write_all(&frame).await.ok()?;
                writer.flush().await.ok()
            }
        }
    }

    /// Makes a tunnel the route of both gateways, unless it is, without waiting for a datagram.
    pub fn take_route(&self, tunnel: &Tunnel) {
        let route = self.all.route(self.number);
        if route.is_some_and(|route| !route.is(tunnel)) {
            self.all.set_route(self.number, tunnel);
            // If it is lost or the tunnel is closed, the next datagram has the same effect.
            let _ = tunnel.send_datagram(self.client, Datagram::encode_route(self.number));
        }
    }

    /// The next datagram from the other gateway; `None` when it has ended the association.
    pub async fn receive(&mut self) -> Option<Packet> {
        self.incoming.recv().await
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        let mut table = self.all.table.lock();
        // A later one may have the same number.
        if let hash_map::Entry::Occupied(entry) = table.entry(self.number)
            && Arc::ptr_eq(&entry.get().sender.space, &self.space)
        {
            entry.remove();
        }
    }
}

/// Memory of a datagram besides its payload, bytes, about.
const OVERHEAD: usize = 256;

/// A datagram with its destination or origin.
#[derive(Debug)]
pub struct Packet {
    /// Destination, or origin.
    pub peer: Destination,
    /// Payload.
    pub payload: Bytes,
    _taken: Taken,
}

/// Part of a queue's space, until it is dropped.
#[derive(Debug)]
struct Taken(Arc<Space>, usize);

impl Drop for Taken {
    fn drop(&mut self) {
        let Taken(space, bytes) = self;
        space.waiting.fetch_sub(*bytes, Ordering::Relaxed);
        space.room.give_back(*bytes);
    }
}

/// Space of a queue, in the room of its client.
#[derive(Debug)]
struct Space {
    room: Arc<dyn Room>,
    waiting: AtomicUsize,
    most: usize,
}

/// Sending end of a queue of datagrams.
#[derive(Clone, Debug)]
pub struct Sender {
    space: Arc<Space>,
    queue: mpsc::UnboundedSender<Packet>,
}

/// Both ends of a queue of datagrams.
pub type Queue = (Sender, mpsc::UnboundedReceiver<Packet>);

/// A queue of at most `bytes`, in this room.
pub fn queue(bytes: usize, room: Arc<dyn Room>) -> Queue {
    let (queue, receiver) = mpsc::unbounded_channel();
    let space = Arc::new(Space {
        room,
        waiting: AtomicUsize::new(0),
        most: bytes,
    });
    (Sender { space, queue }, receiver)
}

impl Sender {
    /// Puts a datagram into the queue. Returns `false` if it is full or its receiver is gone.
    pub fn offer(&self, peer: Destination, payload: Bytes) -> bool {
        let takes = payload.len() + OVERHEAD;
        let space = self.space.clone();
        let waiting = space.waiting.fetch_add(takes, Ordering::Relaxed);
        if waiting + takes > space.most || !space.room.take(takes) {
            space.waiting.fetch_sub(takes, Ordering::Relaxed);
            return false;
        }
        let packet = Packet {
            peer,
            payload,
            _taken: Taken(space, takes),
        };
        self.queue.send(packet).is_ok()
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_route_cannot_carry_has_no_more_than_its_part_beside_it() {
        use DatagramRoom::{Free, Share, TooLarge, Wait};
        let no_room = DatagramRoom::None;
        for (of_route, of_beside, expected) in [
            (Wait, Some(Free), Way::Beside),
            (Wait, Some(Share), Way::Route),
            (Wait, None, Way::Route),
            (no_room, Some(Free), Way::Beside),
            (no_room, Some(Share), Way::None),
            (no_room, Some(TooLarge), Way::None),
            (no_room, None, Way::None),
            (TooLarge, Some(Free), Way::Beside),
            (TooLarge, Some(Share), Way::Beside),
            (TooLarge, Some(Wait), Way::Beside),
            (TooLarge, Some(no_room), Way::None),
            (TooLarge, Some(TooLarge), Way::Beside),
            (TooLarge, None, Way::Beside),
        ] {
            assert_eq!(
                way(of_route, of_beside),
                expected,
                "{of_route:?}, {of_beside:?}"
            );
        }
    }
}
