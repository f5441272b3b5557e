//! The links and the datagrams in transit: to the receiver over the links of a path, to the sender
//! with its return delay only.

use anabranch_net::{Cause, Counters, Fate, Link, Time};
use anabranch_scenario::Scenario;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;

use crate::transport::{Datagram, UDP_HEADERS};

/// A path's links and its delay back.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    links: Vec<usize>,
    pub return_delay: Time,
    /// It does not open before this time.
    pub opens_at: Time,
}

impl Route {
    /// The route of a scenario's path.
    pub fn new(path: &anabranch_scenario::Path) -> Route {
        Route {
            links: path.links.clone(),
            return_delay: from_seconds(path.return_delay_ms.get() * 1e-3),
            opens_at: from_seconds(path.start_s.get()),
        }
    }
}

/// A datagram on its way to the receiver.
#[derive(Debug)]
pub(crate) struct Packet {
    pub sent_at: Time,
    pub connection: u32,
    /// The row of its path in the tables.
    pub row: usize,
    pub flow: usize,
    /// Links of the path that it has crossed.
    pub hops: usize,
    pub datagram: Datagram,
}

/// What becomes of a packet at its next hop.
pub(crate) enum Step {
    /// It has crossed all links.
    Arrived(Packet),
    /// It reaches the end of a link at this time.
    Crosses(Time, Packet),
    /// It is lost.
    Lost(Cause),
}

/// The links of a scenario.
#[derive(Debug)]
pub(crate) struct Links(Vec<Link>);

impl Links {
    /// Idle links.
    pub fn new(scenario: &Scenario, seed: u64) -> Links {
        let links = scenario.links.iter().enumerate();
        let link = |(index, link): (usize, &anabranch_scenario::Link)| {
            Link::new(link.config.clone(), element_seed(seed, kind::LINKS, index))
        };
        Links(links.map(link).collect())
    }

    /// Offers a packet to the next link of its route.
    pub fn step(&mut self, now: Time, route: &Route, mut packet: Packet) -> Step {
        let Some(&link) = route.links.get(packet.hops) else {
            return Step::Arrived(packet);
        };
        let bytes = packet.datagram.bytes.len() as u32 + UDP_HEADERS;
        match self.0[link].offer(now, bytes) {
            Fate::Delivered { at } => {
                packet.hops += 1;
                Step::Crosses(at, packet)
            }
            Fate::Dropped(cause) => Step::Lost(cause),
        }
    }

    /// The counters of each link.
    pub fn counters(&mut self, now: Time) -> Vec<Counters> {
        self.0.iter_mut().map(|link| link.counters(now)).collect()
    }

    /// The packets that wait at each link.
    pub fn backlogs(&mut self, now: Time) -> Vec<anabranch_net::Backlog> {
        self.0.iter_mut().map(|link| link.queue(now)).collect()
    }
}
