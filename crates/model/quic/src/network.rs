//! The links and the datagrams in transit: to the receiver over the links of a path, to the sender
//! with its return delay only.

use anabranch_net::{Cause, Counters, Fate, ImpairedLink, Overtaking, Time};
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

/// Fate of a packet at its next hop.
pub(crate) enum Step {
    /// It has crossed all links.
    Arrived(Packet),
    /// It reaches the end of a link at this time.
    Crosses(Time, Packet),
    /// It is on this link, where packets may overtake it: at this time, or when another arrives,
    /// [`Links::take`] has it.
    Overtaking(Time, usize),
    /// It is lost.
    Lost(Cause),
}

/// The links of a scenario.
#[derive(Debug)]
pub(crate) struct Links(Vec<Link>);

/// A link, and the packets on it, if they may overtake one another.
#[derive(Debug)]
struct Link {
    link: ImpairedLink,
    overtaking: Option<Overtaking<Packet>>,
}

impl Links {
    /// Idle links.
    pub fn new(scenario: &Scenario, seed: u64) -> Links {
        let links = scenario.links.iter().enumerate();
        let link = |(index, link): (usize, &anabranch_scenario::Link)| {
            let may_reorder = link.config.impairments.may_reorder();
            let seed = element_seed(seed, kind::LINKS, index);
            Link {
                link: ImpairedLink::new(link.config.clone(), seed),
                overtaking: may_reorder.then(Overtaking::default),
            }
        };
        Links(links.map(link).collect())
    }

    /// Offers a packet to the next link of its route.
    pub fn step(&mut self, now: Time, route: &Route, mut packet: Packet) -> Step {
        let Some(&number) = route.links.get(packet.hops) else {
            return Step::Arrived(packet);
        };
        let bytes = packet.datagram.bytes.len() as u32 + UDP_HEADERS;
        let link = &mut self.0[number];
        let crossing = link.link.offer(now, bytes, false);
        let at = match crossing.fate {
            Fate::Delivered { at } => at,
            Fate::Dropped(cause) => return Step::Lost(cause),
        };
        packet.hops += 1;
        match &mut link.overtaking {
            None => Step::Crosses(at, packet),
            Some(overtaking) => {
                overtaking.push(at, crossing.behind, packet);
                Step::Overtaking(at, number)
            }
        }
    }

    /// The next packet that has arrived over a link whose packets may overtake one another.
    pub fn take(&mut self, now: Time, link: usize) -> Option<Packet> {
        let (_, packet) = self.0[link].overtaking.as_mut()?.take(now)?;
        Some(packet)
    }

    /// The counters of each link.
    pub fn counters(&mut self, now: Time) -> Vec<Counters> {
        self.0
            .iter_mut()
            .map(|link| link.link.counters(now))
            .collect()
    }

    /// The packets that wait at each link.
    pub fn backlogs(&mut self, now: Time) -> Vec<anabranch_net::Backlog> {
        self.0.iter_mut().map(|link| link.link.queue(now)).collect()
    }
}
