//! The links between the hosts as a pure state machine: packets and times in, packets and times out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_net::{Backlog, Fate, Link, Time};
use anabranch_scenario::recorder::Snapshot;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::UserSlot;
use anabranch_scenario::{Path, Scenario};

use crate::address;
use crate::ledger::{Ledger, Place};
use crate::packet::{Segment, destination, is_ipv4};

/// A device that packets come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The end of a path at its user, by the path's row in the result.
    Path(usize),
    /// The server, where all paths end.
    Server,
}

/// Sees every packet that is offered to a link.
pub trait Tap {
    /// At `now`, `packet` met `waiting` others at the queue of `link`, and `fate` befell it.
    fn offered(&mut self, now: Time, link: usize, waiting: Backlog, packet: &[u8], fate: Fate);
}

/// Nobody looks.
impl Tap for () {
    fn offered(&mut self, _: Time, _: usize, _: Backlog, _: &[u8], _: Fate) {}
}

/// A packet that has to be handed to a device.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When, ps.
    pub due: Time,
    /// Where.
    pub to: Device,
    /// What.
    pub packet: Vec<u8>,
}

/// Links, and the packets on them. From users to the server a packet crosses the links of its path;
/// from the server to a user it only takes the path's return delay.
#[derive(Debug)]
pub struct Network<T> {
    links: Vec<Link>,
    /// By row.
    paths: Vec<Route>,
    /// The row of each user's first path.
    first_rows: Vec<usize>,
    /// Due times decide, then the order of sending: so packets of one link keep their order.
    transits: BinaryHeap<Reverse<Transit>>,
    sent: u64,
    /// Sees the packets.
    pub tap: T,
}

#[derive(Debug)]
struct Route {
    links: Vec<usize>,
    back: Time,
    ledger: Ledger,
}

/// A packet on its way to the next hop.
#[derive(Debug)]
struct Transit {
    due: Time,
    order: u64,
    row: usize,
    packet: Vec<u8>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// So many links are behind it; when it left, and which data it carries.
    There {
        hops: usize,
        left_at: Time,
        place: Option<Place>,
    },
    Back,
}

impl<T: Tap> Network<T> {
    /// The links of a scenario, without a packet on them. `seats` are its users.
    pub fn new(scenario: &Scenario, seats: &[UserSlot], seed: u64, tap: T) -> Network<T> {
        let links = scenario.links.iter().enumerate();
        let route = |path: &Path| Route {
            links: path.links.clone(),
            back: from_seconds(path.return_delay_ms.get() * 1e-3),
            ledger: Ledger::default(),
        };
        Network {
            links: links
                .map(|(index, link)| {
                    let seed = element_seed(seed, kind::LINKS, index);
                    Link::new(link.config.clone(), seed)
                })
                .collect(),
            paths: seats
                .iter()
                .flat_map(|seat| scenario.flows[seat.flow as usize].paths.iter().map(route))
                .collect(),
            first_rows: seats.iter().map(|seat| seat.first_path as usize).collect(),
            transits: BinaryHeap::new(),
            sent: 0,
            tap,
        }
    }

    /// A device sends a packet at `now`, which must not be earlier than any time told before. What
    /// is not IPv4, or goes to nobody, is gone.
    pub fn send(&mut self, now: Time, from: Device, packet: Vec<u8>) {
        match from {
            Device::Path(row) => {
                if !is_ipv4(&packet) {
                    return;
                }
                let ledger = &mut self.paths[row].ledger;
                let place = Segment::of(&packet).and_then(|segment| ledger.sent(&segment));
                self.cross(now, now, row, 0, place, packet);
            }
            Device::Server => {
                let Some(row) = self.row_of(&packet) else {
                    return;
                };
                self.depart(now + self.paths[row].back, row, packet, Way::Back);
            }
        }
    }

    /// When something happens next.
    pub fn next_due(&self) -> Option<Time> {
        self.transits.peek().map(|Reverse(transit)| transit.due)
    }

    /// Moves packets on until `now`, and gives the next one that has to be handed to a device by
    /// then. `None`: all of them have been, and it is `now` on every link.
    pub fn deliver(&mut self, now: Time) -> Option<Delivery> {
        while self.next_due()? <= now {
            let Reverse(transit) = self.transits.pop()?;
            let Transit {
                due, row, packet, ..
            } = transit;
            match transit.way {
                Way::There {
                    hops,
                    left_at,
                    place,
                } if hops < self.paths[row].links.len() => {
                    self.cross(due, left_at, row, hops, place, packet);
                }
                Way::There { left_at, place, .. } => {
                    if let Some(place) = place {
                        self.paths[row].ledger.delivered(&place, due - left_at);
                    }
                    let to = Device::Server;
                    return Some(Delivery { due, to, packet });
                }
                Way::Back => {
                    let to = Device::Path(row);
                    return Some(Delivery { due, to, packet });
                }
            }
        }
        None
    }

    /// All counters at `now`, but for what the hosts count, and what waits at each link.
    pub fn snapshot(&mut self, now: Time) -> (Snapshot, Vec<Backlog>) {
        let backlogs = self.links.iter_mut().map(|link| link.queue(now)).collect();
        let snapshot = Snapshot {
            time: now,
            users: Vec::new(),
            paths: self.paths.iter().map(|path| path.ledger.totals()).collect(),
            links: self
                .links
                .iter()
                .map(|link| link.counters().clone())
                .collect(),
        };
        (snapshot, backlogs)
    }

    /// Offers a packet to the next link of its path.
    fn cross(
        &mut self,
        now: Time,
        left_at: Time,
        row: usize,
        hops: usize,
        place: Option<Place>,
        packet: Vec<u8>,
    ) {
        let index = self.paths[row].links[hops];
        let link = &mut self.links[index];
        let waiting = link.queue(now);
        let fate = link.offer(now, packet.len() as u32);
        self.tap.offered(now, index, waiting, &packet, fate);
        match (fate, place) {
            (Fate::Delivered { at }, place) => {
                let way = Way::There {
                    hops: hops + 1,
                    left_at,
                    place,
                };
                self.depart(at, row, packet, way);
            }
            (Fate::Dropped(cause), Some(place)) => self.paths[row].ledger.lost(&place, cause),
            (Fate::Dropped(_), None) => {}
        }
    }

    fn depart(&mut self, due: Time, row: usize, packet: Vec<u8>, way: Way) {
        let order = self.sent;
        self.sent += 1;
        self.transits.push(Reverse(Transit {
            due,
            order,
            row,
            packet,
            way,
        }));
    }

    /// The row of the path at whose end the packet's destination is.
    fn row_of(&self, packet: &[u8]) -> Option<usize> {
        let (user, path) = address::path_of(destination(packet)?)?;
        let first = *self.first_rows.get(user)?;
        let next = self.first_rows.get(user + 1).copied();
        let end = next.unwrap_or(self.paths.len());
        Some(first + path).filter(|&row| row < end)
    }
}

impl PartialEq for Transit {
    fn eq(&self, other: &Transit) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Transit {}

impl PartialOrd for Transit {
    fn partial_cmp(&self, other: &Transit) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Transit {
    fn cmp(&self, other: &Transit) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

#[cfg(test)]
mod tests;
