//! The links and the packets in transit: to the receiver over the links of a path, to the sender
//! over those of its way back.

use anabranch_net::{AnyLink, Backlog, Cause, Counters, Mark, Offer, Step, Time};
use anabranch_scenario::Scenario;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;

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
