//! A connection: its sender, its receiver, and the controller of its paths.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Instant;

use anabranch_net::{Dice, Time};
use bytes::Bytes;
use noq_proto::{
    Connection, Dir, Event, PathEvent, PathId, PathStatus, ReadError, StreamId, VarInt,
};

use super::endpoint::{Datagram, End};
use super::qlog::ConnectionQlog;
use crate::controller::{Choice, Clock, SharedController};
use crate::transport::endpoint::{Settings, Tls, sender_tuple};
use crate::watch::{Advice, PathWatch};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Sends data over every path.
    Sender,
    /// Acknowledges it.
    Receiver,
}

/// Both ends of a connection. After each call but [`next_timer`](Self::next_timer) either end may
/// have datagrams to transmit.
pub(crate) struct Pair {
    clock: Clock,
    sender: End,
    receiver: End,
    controller: SharedController,
    paths: Paths,
    /// How often the sender's address on each path has changed, as the receiver sees it.
    rebound: Vec<u8>,
    stream: Option<Outgoing>,
    /// Data to send when the handshake allows it: bytes, or `Some(None)` for data without limit.
    unsent: Option<Option<u64>>,
    /// The stream does not end with what is sent so far.
    goes_on: bool,
    incoming: Incoming,
}

impl Pair {
    /// A connection of `paths` paths, of which path 0 opens at once. Equal seeds give datagrams of
    /// equal sizes at equal times. Both ends write to `qlog`.
    pub fn new(
        paths: usize,
        now: Time,
        seed: u64,
        settings: &Settings,
        tls: &Tls,
        (controller, initial_ssthresh): (Choice, f64),
        qlog: Option<ConnectionQlog>,
    ) -> Pair {
        let clock = Clock::start();
        let mut dice = Dice::new(seed);
        let controller = match controller {
            Choice::Rule(rule) => SharedController::new(clock, *rule, initial_ssthresh),
            Choice::Library(library) => SharedController::library(clock, library),
        };
        controller.open(0);
        let mut sender = settings.sender(paths, &controller);
        let mut receiver = settings.receiver(paths);
        if let Some(qlog) = qlog {
            let factory = qlog.factory(clock);
            sender.qlog_factory(factory.clone());
            receiver.qlog_factory(factory);
        }
        Pair {
            clock,
            sender: End::sender(&mut dice, clock.instant(now), tls, sender, settings.ecn),
            receiver: End::receiver(&mut dice, tls, receiver, settings.ecn),
            controller,
            paths: Paths::new(paths, clock.instant(now)),
            rebound: vec![0; paths],
            stream: None,
            unsent: None,
            goes_on: false,
            incoming: Incoming::default(),
        }
    }

    /// The controller of the paths.
    pub fn controller(&self) -> &SharedController {
        &self.controller
    }

    /// Opens another path as soon as the library can.
    pub fn open_path(&mut self, now: Time, path: usize) {
        self.paths.want(path);
        self.drive_sender(self.clock.instant(now));
    }

    /// Closes a path until it is opened explicitly, unless the receiver knows no other.
    pub fn close_path(&mut self, now: Time, path: usize) {
        let now = self.clock.instant(now);
        if let Some(connection) = self.sender.connection() {
            self.paths.close(connection, path, now);
        }
        self.drive_sender(now);
        self.paths.keep_closed(path);
    }

    /// A NAT gives the sender another address on a path and forgets the old one.
    pub fn rebind(&mut self, path: usize) {
        self.rebound[path] += 1;
    }

    /// Closes paths that are dead and opens those again that were closed a while ago.
    pub fn watch(&mut self, now: Time) {
        let now = self.clock.instant(now);
        if let Some(connection) = self.sender.connection() {
            self.paths.watch(connection, &self.controller, now);
            self.paths.allow(connection, now);
        }
        if let Some(connection) = self.receiver.connection() {
            self.paths.allow(connection, now);
        }
        self.receiver.exchange();
        self.sender.exchange();
        self.drive_sender(now);
    }

    /// Sends that many bytes, or data without limit.
    pub fn send(&mut self, now: Time, bytes: Option<u64>) {
        self.unsent = Some(bytes);
        self.drive_sender(self.clock.instant(now));
    }

    /// Sends that many bytes behind what was sent before, on a stream that goes on.
    pub fn append(&mut self, now: Time, bytes: u64) {
        self.goes_on = true;
        match (&mut self.stream, &mut self.unsent) {
            (Some(stream), _) => stream.append(bytes),
            (None, Some(Some(unsent))) => *unsent += bytes,
            (None, unsent) => *unsent = Some(Some(bytes)),
        }
        self.drive_sender(self.clock.instant(now));
    }

    /// Sends no more data; what has not arrived is not sent again.
    pub fn stop(&mut self, now: Time) {
        self.unsent = None;
        if let (Some(stream), Some(connection)) = (self.stream.take(), self.sender.connection()) {
            stream.reset(connection);
        }
        self.drive_sender(self.clock.instant(now));
    }

    /// A datagram arrived at an end; what it brought to the receiver.
    pub fn receive(&mut self, now: Time, side: Side, datagram: Datagram) -> Arrived {
        if side == Side::Sender && datagram.rebound != self.rebound[datagram.path] {
            return Arrived::default(); // to an address that the NAT has forgotten
        }
        let now = self.clock.instant(now);
        self.end(side).receive(now, datagram);
        self.drive(now, side)
    }

    /// A timer of an end is due.
    pub fn on_timer(&mut self, now: Time, side: Side) {
        let now = self.clock.instant(now);
        self.end(side).on_timer(now);
        self.drive(now, side);
    }

    /// When the next timer of an end is due.
    pub fn next_timer(&self, side: Side) -> Option<Time> {
        let end = match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        };
        end.next_timer().map(|instant| self.clock.time(instant))
    }

    /// The next datagram that an end sends now.
    pub fn transmit(&mut self, now: Time, side: Side) -> Option<Datagram> {
        let now = self.clock.instant(now);
        let mut datagram = self.end(side).transmit(now)?;
        if side == Side::Sender {
            datagram.rebound = self.rebound[datagram.path];
        }
        Some(datagram)
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Sender => &mut self.sender,
            Side::Receiver => &mut self.receiver,
        }
    }

    fn drive(&mut self, now: Instant, side: Side) -> Arrived {
        match side {
            Side::Sender => {
                self.drive_sender(now);
                Arrived::default()
            }
            Side::Receiver => {
                while self.receiver.poll().is_some() {}
                let connection = self.receiver.connection();
                connection.map_or_else(Arrived::default, |it| self.incoming.read(it))
            }
        }
    }

    fn drive_sender(&mut self, now: Instant) {
        while let Some(event) = self.sender.poll() {
            match event {
                Event::HandshakeConfirmed => {
                    if let Some(connection) = self.sender.connection() {
                        self.paths.confirmed(connection, now);
                    }
                }
                Event::Path(PathEvent::Established { id, .. }) => self.paths.established(id),
                Event::Path(PathEvent::Abandoned { id, .. }) => {
                    self.paths.abandoned(id, &self.controller, now);
                }
                _ => {}
            }
        }
        let Some(connection) = self.sender.connection() else {
            return;
        };
        self.paths.open_wanted(connection, &self.controller, now);
        if let Some(bytes) = self.unsent
            && let Some(stream) = Outgoing::open(connection, bytes)
        {
            self.stream = Some(stream);
            self.unsent = None;
        }
        if let Some(stream) = &mut self.stream {
            stream.fill(connection, self.goes_on);
        }
    }
}

// The paths of a connection at its sender: when they are opened, closed and opened again.

/// An open path.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The library's number, another each time.
    id: PathId,
    /// Whether the receiver has answered over it.
    established: bool,
}

/// The paths of a connection.
#[derive(Debug)]
pub(super) struct Paths {
    /// Each path while it is open.
    open: Vec<Option<Open>>,
    /// Each path once it was open, unless it is to be kept closed.
    watches: Vec<Option<PathWatch>>,
    /// Paths that are to be opened and are not yet.
    wanted: Vec<usize>,
    /// How many paths the ends must allow, abandoned ones of which the receiver has seen nothing
    /// included.
    allowed: u32,
    /// When the keys of the first path were changed.
    keys_changed: Option<Instant>,
}

impl Paths {
    /// A number of paths, of which the first is open.
    pub fn new(paths: usize, now: Instant) -> Paths {
        let mut open = vec![None; paths];
        open[0] = Some(Open {
            id: PathId::ZERO,
            established: true,
        });
        let mut watches = vec![None; paths];
        watches[0] = Some(open_watch(now));
        Paths {
            open,
            watches,
            wanted: Vec::new(),
            allowed: paths as u32,
            keys_changed: None,
        }
    }

    /// The handshake is confirmed. The library changes keys after 10 to 1000 packets, and discards
    /// packets with old ones that arrive over a slower path later than the first with new ones.
    /// This change comes before other paths open, and the next near the cipher's limit.
    pub fn confirmed(&mut self, connection: &mut Connection, now: Instant) {
        connection.force_key_update();
        connection.ping();
        self.keys_changed = Some(now);
    }

    /// Whether the receiver has acknowledged a packet with the new keys.
    fn have_new_keys(&self, controller: &SharedController) -> bool {
        self.keys_changed
            .is_some_and(|changed| controller.has_acknowledged(0, changed))
    }

    /// The path is to be opened, unless it is open.
    pub fn want(&mut self, path: usize) {
        if self.open[path].is_some() {
            return;
        }
        self.watches[path] = None;
        if !self.wanted.contains(&path) {
            self.wanted.push(path);
        }
    }

    /// Closes a path, unless it is the last one that the receiver knows: a receiver without paths
    /// closes the connection.
    pub fn close(&mut self, connection: &mut Connection, path: usize, now: Instant) {
        let mut others = self.open.iter().enumerate().filter(|(r, _)| *r != path);
        let another = others.any(|(_, open)| open.is_some_and(|open| open.established));
        if let (Some(path), true) = (self.open[path], another) {
            // Fails for a path that the library is closing.
            let _ = connection.close_path(now, path.id, VarInt::from_u32(0));
        }
    }

    /// A closed path is not opened again before it is wanted.
    pub fn keep_closed(&mut self, path: usize) {
        if self.open[path].is_none() {
            self.watches[path] = None;
        }
        self.wanted.retain(|wanted| *wanted != path);
    }

    /// Opens paths in the order in which they were wanted, after the change of keys. After others
    /// were closed the receiver has not yet issued the connection ids that this takes.
    pub fn open_wanted(
        &mut self,
        connection: &mut Connection,
        controller: &SharedController,
        now: Instant,
    ) {
        if !self.have_new_keys(controller) {
            return;
        }
        while let Some(&path) = self.wanted.first() {
            controller.open(path);
            let opened = connection.open_path(sender_tuple(path), PathStatus::Available, now);
            let Ok(id) = opened else {
                return;
            };
            self.open[path] = Some(Open {
                id,
                established: false,
            });
            self.watches[path] = Some(open_watch(now));
            self.wanted.remove(0);
        }
    }

    /// The receiver has answered over a path.
    pub fn established(&mut self, id: PathId) {
        if let Some(path) = self.place(id)
            && let Some(path) = &mut self.open[path]
        {
            path.established = true;
        }
    }

    /// Closes dead paths while another works, and wants those that were closed a while ago. If none
    /// works all stay open, and the library probes them.
    pub fn watch(
        &mut self,
        connection: &mut Connection,
        controller: &SharedController,
        now: Instant,
    ) {
        let mut any_works = false;
        for (path, open) in self.open.iter().enumerate() {
            if let (Some(open), Some(watch)) = (open, &mut self.watches[path]) {
                let (silent_since, rtt) = controller.heard(path);
                watch.heard(silent_since, rtt);
                any_works |= open.established && watch.works(now);
            }
        }
        for (path, watch) in self.watches.iter_mut().enumerate() {
            let advice = watch.as_mut().and_then(|it| it.advice(now, any_works));
            match (advice, self.open[path]) {
                (Some(Advice::Close), Some(open)) => {
                    // Fails for a path that the library is closing.
                    let _ = connection.close_path(now, open.id, VarInt::from_u32(0));
                }
                // To open it is to probe it: the library sends a PATH_CHALLENGE.
                (Some(Advice::Probe), None) if !self.wanted.contains(&path) => {
                    self.wanted.push(path);
                }
                // Open paths are not probed: a probe after each loss would change what is measured.
                _ => {}
            }
        }
    }

    /// Allows an end enough paths to open again those that were closed. The library's receiver
    /// counts a path as used for ever if the sender abandons it before anything arrived over it.
    pub fn allow(&self, connection: &mut Connection, now: Instant) {
        if let Some(allowed) = NonZeroU32::new(self.allowed) {
            // Fails before the handshake is complete, when no path was closed.
            let _ = connection.set_max_concurrent_paths(now, allowed);
        }
    }

    fn place(&self, id: PathId) -> Option<usize> {
        let is_it = |open: &Option<Open>| open.is_some_and(|path| path.id == id);
        self.open.iter().position(is_it)
    }

    /// The library has closed a path.
    pub fn abandoned(&mut self, id: PathId, controller: &SharedController, now: Instant) {
        if let Some(path) = self.place(id) {
            self.open[path] = None;
            if let Some(watch) = &mut self.watches[path] {
                watch.closed(now);
            }
            self.allowed += 1;
            controller.abandon(path);
        }
    }
}

fn open_watch(now: Instant) -> PathWatch {
    let mut watch = PathWatch::new(now);
    watch.opened(now);
    watch
}

// The data of a stream at both ends: what is still to be written, and what has arrived.

/// Data is written in pieces of at most this size, bytes.
const PIECE: usize = 1 << 16;

/// The data of every stream, again and again, so that the receiver can check what it reads.
static DATA: [u8; PIECE] = data();

const fn data() -> [u8; PIECE] {
    let mut bytes = [0; PIECE];
    let mut i = 0;
    while i < PIECE {
        bytes[i] = ((i as u32).wrapping_mul(2_654_435_761) >> 24) as u8; // Knuth's hash
        i += 1;
    }
    bytes
}

/// The data of a stream from `offset` on, up to the end of a piece.
fn data_from(offset: u64) -> &'static [u8] {
    &DATA[offset as usize % PIECE..]
}

/// Checks the data read at `offset`.
///
/// # Panics
/// If it is not what was written there.
fn check(mut offset: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let expected = data_from(offset);
        let (read, rest) = bytes.split_at(bytes.len().min(expected.len()));
        assert!(
            read == &expected[..read.len()],
            "a fault of the QUIC library: data was changed at {offset}"
        );
        offset += read.len() as u64;
        bytes = rest;
    }
}

/// The sender's stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    id: StreamId,
    written: u64,
    /// Bytes to be written; `None`: without limit.
    unwritten: Option<u64>,
    finished: bool,
}

impl Outgoing {
    /// Opens a stream for that many bytes; `None` before the handshake is complete.
    pub fn open(connection: &mut Connection, bytes: Option<u64>) -> Option<Outgoing> {
        let id = connection.streams().open(Dir::Uni)?;
        Some(Outgoing {
            id,
            written: 0,
            unwritten: bytes,
            finished: false,
        })
    }

    /// There are more bytes to be written.
    pub fn append(&mut self, bytes: u64) {
        self.unwritten = self.unwritten.map(|unwritten| unwritten + bytes);
    }

    /// Writes as much as the library takes, and unless the stream goes on its end after the last
    /// byte.
    pub fn fill(&mut self, connection: &mut Connection, goes_on: bool) {
        let mut stream = connection.send_stream(self.id);
        while self.unwritten != Some(0) {
            let data = data_from(self.written);
            let left = self.unwritten.unwrap_or(u64::MAX).min(data.len() as u64);
            let mut pieces = [Bytes::from_static(&data[..left as usize])];
            let Ok(written) = stream.write_chunks(&mut &mut pieces[..]) else {
                return; // blocked by a window
            };
            self.written += written as u64;
            if let Some(left) = &mut self.unwritten {
                *left -= written as u64;
            }
        }
        if !self.finished && !goes_on {
            self.finished = stream.finish().is_ok();
        }
    }

    /// Ends the stream; what has not arrived is not sent again.
    pub fn reset(self, connection: &mut Connection) {
        // Fails only if the stream is over.
        let _ = connection.send_stream(self.id).reset(0u32.into());
    }
}

/// The receiver's streams. Data is read as it arrives, so that each byte is known to have arrived
/// first with the datagram that was just received; its order is restored here.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    open: Vec<(StreamId, InOrder)>,
}

/// Bytes that a datagram brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    /// For the first time.
    pub first: u64,
    /// Now in order with all before them, some of which arrived earlier.
    pub in_order: u64,
}

impl Incoming {
    /// Reads all that has arrived.
    pub fn read(&mut self, connection: &mut Connection) -> Arrived {
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.open.push((id, InOrder::default()));
        }
        let mut arrived = Arrived::default();
        self.open
            .retain_mut(|(id, order)| !read(connection, *id, order, &mut arrived));
        arrived
    }
}

/// Reads one stream; whether it is over.
fn read(
    connection: &mut Connection,
    id: StreamId,
    order: &mut InOrder,
    arrived: &mut Arrived,
) -> bool {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(false) else {
        return true;
    };
    let over = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => {
                check(chunk.offset, &chunk.bytes);
                let bytes = chunk.bytes.len() as u64;
                arrived.first += bytes;
                arrived.in_order += order.add(chunk.offset, bytes);
            }
            Ok(None) | Err(ReadError::Reset(_)) => break true,
            Err(ReadError::Blocked) => break false,
        }
    };
    // Window updates leave with the next datagram, which is polled for in any case.
    let _ = chunks.finalize();
    over
}

/// Restores the order of ranges of bytes that do not overlap.
#[derive(Debug, Default)]
struct InOrder {
    /// All below this has arrived.
    next: u64,
    /// First byte and end of what arrived beyond.
    later: BTreeMap<u64, u64>,
}

impl InOrder {
    /// Adds a range; gives how many bytes are now in order that were not.
    fn add(&mut self, offset: u64, bytes: u64) -> u64 {
        let before = self.next;
        self.later.insert(offset, offset + bytes);
        while let Some(entry) = self.later.first_entry()
            && *entry.key() == self.next
        {
            self.next = entry.remove();
        }
        self.next - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_data_is_found() {
        let offset = PIECE as u64 - 2;
        let mut data = [data_from(offset), &data_from(0)[..3]].concat();
        check(offset, &data);
        data[4] ^= 1;
        assert!(std::panic::catch_unwind(|| check(offset, &data)).is_err());
    }

    #[test]
    fn bytes_are_in_order_once_all_before_them_have_arrived() {
        let mut order = InOrder::default();
        assert_eq!(order.add(10, 10), 0);
        assert_eq!(order.add(30, 5), 0);
        assert_eq!(order.add(0, 10), 20);
        assert_eq!(order.add(20, 10), 15);
        assert!(order.later.is_empty());
    }
}
