//! The links and the packets in transit: to the receiver over the links of a path, to the sender
//! over those of its way back; and the calendar of pending events.

use std::collections::BinaryHeap;

use anabranch_net::{AnyLink, Backlog, Cause, Counters, Mark, Offer, Scheduled, Step, Time};
use anabranch_scenario::Scenario;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::Planned;

use crate::transport::{Datagram, Side};

/// A path's links and its delay back.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    links: Vec<usize>,
    /// The links of the way back; none if datagrams to the sender are only delayed.
    pub back: Vec<usize>,
    pub return_delay: Time,
    /// It does not open before this time.
    pub opens_at: Time,
}

impl Route {
    /// The route of a scenario's path.
    pub fn new(path: &anabranch_scenario::Path) -> Route {
        Route {
            links: path.links.clone(),
            back: path.back.clone(),
            return_delay: from_seconds(path.return_delay_ms.get() * 1e-3),
            opens_at: from_seconds(path.start_s.get()),
        }
    }

    /// The link that a packet crosses next; `None` after the last.
    fn next(&self, packet: &Packet) -> Option<usize> {
        let links = match packet.content {
            Content::Datagram(Side::Sender, _) => &self.back,
            _ => &self.links,
        };
        links.get(packet.hops).copied()
    }
}

/// Content of a packet.
#[derive(Debug)]
pub(crate) enum Content {
    /// A datagram of a connection to this end.
    Datagram(Side, Datagram),
    /// A part of a frame of media: the numbers of the frame and of the packet, and its payload.
    Media {
        frame: u64,
        number: u64,
        payload: u64,
    },
}

/// A packet in transit.
#[derive(Debug)]
pub(crate) struct Packet {
    pub sent_at: Time,
    /// The number of its connection, or of its source of media.
    pub connection: u32,
    pub flow: usize,
    pub path: usize,
    /// The row of its path in the tables.
    pub row: usize,
    /// Size on the wire.
    pub bytes: u32,
    /// Links that it has crossed.
    pub hops: usize,
    /// Whether a link may mark it (ECT), and whether its sender reduces by the share of marks, so
    /// that it is ECT(1) on the links (RFC 9331).
    pub ecn_capable: bool,
    pub scalable: bool,
    pub marked: bool,
    pub content: Content,
}

impl Mark for Packet {
    fn mark(&mut self) {
        self.marked = true;
    }
}

impl Packet {
    /// Flow in queues that separate flows: a path of a connection, or a source of media.
    fn flow_id(&self) -> u64 {
        let path = match self.content {
            Content::Datagram(..) => self.path as u64,
            Content::Media { .. } => u64::from(u16::MAX),
        };
        u64::from(self.connection) << 16 | path
    }
}

/// Fate of a packet at its next hop.
pub(crate) enum Hop {
    /// It has crossed all links.
    Arrived(Packet),
    /// A link does this with it.
    At(usize, Step<Packet>),
}

/// The links of a scenario.
#[derive(Debug)]
pub(crate) struct Links(Vec<AnyLink<Packet>>);

impl Links {
    /// Idle links.
    pub fn new(scenario: &Scenario, seed: u64) -> Links {
        let links = scenario.links.iter().enumerate();
        let link = |(index, link): (usize, &anabranch_scenario::Link)| {
            AnyLink::new(&link.config, element_seed(seed, kind::LINKS, index))
        };
        Links(links.map(link).collect())
    }

    /// Offers a packet to the next link of its route.
    pub fn offer(&mut self, now: Time, route: &Route, mut packet: Packet) -> Hop {
        let Some(number) = route.next(&packet) else {
            return Hop::Arrived(packet);
        };
        packet.hops += 1;
        let offer = Offer {
            bytes: packet.bytes,
            flow: packet.flow_id(),
            ecn_capable: packet.ecn_capable,
            low_delay: packet.scalable || packet.marked,
            packet,
        };
        Hop::At(number, self.0[number].offer(now, offer))
    }

    /// A packet that a link has, with the time of its arrival: see [`AnyLink::leave`].
    pub fn leave(&mut self, now: Time, link: usize) -> Option<(Time, Packet)> {
        self.0[link].leave(now)
    }

    /// When the next transmission of a link with real queues starts.
    pub fn next_leave(&self, link: usize) -> Option<Time> {
        self.0[link].next_leave()
    }

    /// The packets that a link with real queues dropped since the last call.
    pub fn take_dropped(&mut self, link: usize) -> Vec<(Packet, Cause)> {
        self.0[link].take_dropped().collect()
    }

    /// The counters of each link.
    pub fn counters(&mut self, now: Time) -> Vec<Counters> {
        self.0.iter_mut().map(|link| link.counters(now)).collect()
    }

    /// The packets that wait at each link.
    pub fn backlogs(&mut self, now: Time) -> Vec<Backlog> {
        self.0.iter_mut().map(|link| link.queue(now)).collect()
    }
}

// The calendar of pending events, earliest first.

/// Operation on a path of every connection that a user has at that time.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The application opens it, unless it is open.
    Open,
    /// The application closes it until it opens it again, unless it is the last open path.
    Close,
    /// A NAT gives the sender another address and forgets the old one.
    Rebind,
}

/// Action at an event's time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet leaves its sender's host, or reaches the end of a link or of its delay back.
    Hop(Packet),
    /// Packets have arrived over a link on which they may overtake one another.
    Overtaking(usize),
    /// The transmission starts of a packet that waits at a link with real queues.
    Start(usize),
    /// A source of media sends its next frame.
    Frame(u32),
    /// The receiver of a source's media reports.
    Feedback(u32),
    /// A report reaches a source of media.
    Report(u32),
    /// The timer of an end of a connection.
    Timer { connection: u32, side: Side },
    /// A path of a connection opens.
    OpenPath { connection: u32, path: usize },
    /// A test closes, opens or rebinds a path of a user's connections.
    Operate(usize, usize, Operation),
    /// A connection looks for dead paths.
    Watch(u32),
    /// A user's workload begins, resumes or has its next file.
    Begin(usize),
    /// A user's workload pauses.
    Pause(usize),
    /// The warm-up ends: totals are counted from here.
    WarmUp,
    /// A row per flow, path and link is recorded.
    Sample,
}

impl From<Planned> for Event {
    fn from(planned: Planned) -> Event {
        match planned {
            Planned::Begin(user) => Event::Begin(user as usize),
            Planned::Pause(user) => Event::Pause(user as usize),
            Planned::WarmUp => Event::WarmUp,
            Planned::Sample => Event::Sample,
        }
    }
}

/// Pending events in order of time, ties in the order of scheduling.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    heap: BinaryHeap<Scheduled<Event>>,
    scheduled: u64,
}

impl Calendar {
    /// Schedules `event` at `time`.
    pub fn push(&mut self, time: Time, event: Event) {
        let order = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Scheduled { time, order, event });
    }

    /// Removes the next event, if that is not after `until`.
    pub fn pop(&mut self, until: Time) -> Option<(Time, Event)> {
        let next = self.heap.peek().filter(|entry| entry.time <= until);
        next?;
        self.heap.pop().map(|entry| (entry.time, entry.event))
    }
}
