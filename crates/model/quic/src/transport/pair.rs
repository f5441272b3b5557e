//! A connection: its sender, its receiver, and the controller of its paths.

use std::time::Instant;

use anabranch_control::AnyController;
use anabranch_net::{Dice, Time};
use noq_proto::{Event, PathEvent};

use super::endpoint::{Datagram, End};
use super::paths::Paths;
use super::qlog::ConnectionQlog;
use super::settings::Settings;
use super::stream::{Arrived, Incoming, Outgoing};
use super::tls::Tls;
use crate::controller::{Clock, SharedController};

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
    /// equal sizes at equal times. Without a controller it is the library's BBR. Both ends write to
    /// `qlog`.
    pub fn new(
        paths: usize,
        now: Time,
        seed: u64,
        settings: &Settings,
        tls: &Tls,
        (controller, initial_ssthresh): (Option<AnyController>, f64),
        qlog: Option<ConnectionQlog>,
    ) -> Pair {
        let clock = Clock::start();
        let mut dice = Dice::new(seed);
        let controller = match controller {
            Some(controller) => SharedController::new(clock, controller, initial_ssthresh),
            None => SharedController::bbr(clock),
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
