//! The emulated links as a pure state machine: packets and times in, packets and times out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_net::{Backlog, Fate, ImpairedLink, Overtaking, Time};
use anabranch_scenario::recorder::Snapshot;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::UserSlot;
use anabranch_scenario::{Path, Scenario};

use crate::error::Error;
use crate::hosts::address;
use crate::network::ledger::{Ledger, SequenceRange};
use crate::network::packet::{Packet, Segment, destination};

/// A device that sends and receives packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The user's device of a path, by the path's row in the result.
    Path(usize),
    /// The server's device, where all paths end.
    Server,
}

/// Way of packets from the server to a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnWay {
    /// After the return delay of their path, as in the simulator.
    #[default]
    Delay,
    /// Through the links of their path in reverse order. Each link has a second instance for them,
    /// with the same configuration and another seed.
    Links,
}

/// Observes every packet that is offered to a link.
pub trait Tap {
    /// At `now`, `packet` was offered to `link`, found `waiting` packets in its queue and had
    /// `fate`, whose time is the latest if it is displaced by a number of packets. The number of a
    /// link's second instance is its own plus the number of links.
    fn offered(&mut self, now: Time, link: usize, waiting: Backlog, packet: &Packet, fate: Fate);

    /// Called by the forwarder again and again: an error ends the run.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// No observer.
impl Tap for () {
    fn offered(&mut self, _: Time, _: usize, _: Backlog, _: &Packet, _: Fate) {}
}

/// A packet to be written to a device.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Time at which it is due, ps.
    pub due: Time,
    /// The device.
    pub to: Device,
    /// The packet.
    pub packet: Packet,
}

/// The links and the packets in transit. From a user to the server a packet traverses the links of
/// its path; from the server to a user see [`ReturnWay`].
#[derive(Debug)]
pub struct Emulator<T> {
    links: Vec<ImpairedLink>,
    /// The links whose packets may overtake one another, and the packets on them.
    overtaking: Vec<(usize, Overtaking<Transit>)>,
    /// Routes by row of the path table.
    paths: Vec<Route>,
    /// The row of each user's first path.
    first_rows: Vec<usize>,
    /// The packets on other links, ordered by due time, then by order of sending: those of one link
    /// are not reordered.
    transits: BinaryHeap<Reverse<Transit>>,
    sent: u64,
    /// Observes the packets.
    pub tap: T,
}

#[derive(Debug)]
struct Route {
    /// The links to the server.
    links: Vec<usize>,
    /// The links from the server; none if packets are only delayed.
    return_links: Vec<usize>,
    /// Delay of packets from the server before the first of these links.
    return_delay: Time,
    ledger: Ledger,
}

/// A packet in transit to the next hop.
#[derive(Debug)]
struct Transit {
    due: Time,
    order: u64,
    /// Links traversed.
    hops: usize,
    direction: Direction,
    packet: Packet,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    /// From the user of this row to the server: when it was sent, and its payload.
    Forward {
        row: usize,
        sent_at: Time,
        range: Option<SequenceRange>,
    },
    /// From the server to the user of this row.
    Return { row: usize },
}

impl<T: Tap> Emulator<T> {
    /// The links of a scenario, without packets. `slots` are its users.
    pub fn new(
        scenario: &Scenario,
        slots: &[UserSlot],
        return_way: ReturnWay,
        seed: u64,
        tap: T,
    ) -> Emulator<T> {
        let instances = match return_way {
            ReturnWay::Delay => 1,
            ReturnWay::Links => 2,
        };
        let configs = scenario.links.iter().map(|link| &link.config);
        let links = std::iter::repeat_n(configs, instances).flatten();
        let links = links.enumerate();
        let reordering = links
            .clone()
            .filter(|(_, config)| config.impairments.may_reorder());
        Emulator {
            overtaking: reordering
                .map(|(index, _)| (index, Overtaking::default()))
                .collect(),
            links: links
                .map(|(index, config)| {
                    let seed = element_seed(seed, kind::LINKS, index);
                    ImpairedLink::new(config.clone(), seed)
                })
                .collect(),
            paths: slots
                .iter()
                .flat_map(|slot| &scenario.flows[slot.flow as usize].paths)
                .map(|path| Route::new(path, return_way, scenario.links.len()))
                .collect(),
            first_rows: slots.iter().map(|slot| slot.first_path as usize).collect(),
            transits: BinaryHeap::new(),
            sent: 0,
            tap,
        }
    }

    /// A device sends a packet at `now`, which must not be earlier than in any call before. Packets
    /// that are not IP, or whose destination is no host, are dropped.
    pub fn send(&mut self, now: Time, from: Device, packet: impl Into<Packet>) {
        let packet = packet.into();
        match from {
            Device::Path(row) => {
                if destination(&packet.bytes).is_none() {
                    return;
                }
                let ledger = &mut self.paths[row].ledger;
                let range = Segment::of(&packet.bytes).and_then(|segment| ledger.sent(&segment));
                let sent_at = now;
                let direction = Direction::Forward {
                    row,
                    sent_at,
                    range,
                };
                self.pass(now, direction, 0, packet);
            }
            Device::Server => {
                let Some(row) = self.row_of(&packet.bytes) else {
                    return;
                };
                let at = now + self.paths[row].return_delay;
                self.pass(at, Direction::Return { row }, 0, packet);
            }
        }
    }

    /// Time at which the next packet arrives at a hop.
    pub fn next_due(&self) -> Option<Time> {
        let on_others = self.transits.peek().map(|Reverse(transit)| transit.due);
        let overtaking = self.overtaking.iter().filter_map(|(_, link)| link.next());
        overtaking.chain(on_others).min()
    }

    /// Removes the packet that arrives at a hop at this time, which is the next.
    fn pop(&mut self, due: Time) -> Option<Transit> {
        for (_, link) in &mut self.overtaking {
            if let Some((due, transit)) = link.take(due) {
                return Some(Transit { due, ..transit });
            }
        }
        self.transits.pop().map(|Reverse(transit)| transit)
    }

    /// Moves packets on until `now`, and returns the next one that is due at a device by then.
    /// `None` if there is no other: the time of every link is `now`.
    pub fn deliver(&mut self, now: Time) -> Option<Delivery> {
        while let Some(next) = self.next_due().filter(|&due| due <= now) {
            let Transit {
                due,
                hops,
                direction,
                packet,
                ..
            } = self.pop(next)?;
            if self.next_link(direction, hops).is_some() {
                self.pass(due, direction, hops, packet);
                continue;
            }
            let to = match direction {
                Direction::Forward {
                    row,
                    sent_at,
                    range,
                } => {
                    if let Some(range) = range {
                        self.paths[row].ledger.delivered(&range, due - sent_at);
                    }
                    Device::Server
                }
                Direction::Return { row } => Device::Path(row),
            };
            return Some(Delivery { due, to, packet });
        }
        None
    }

    /// Counters at `now` of all but the hosts, and the backlog of each link.
    pub fn snapshot(&mut self, now: Time) -> (Snapshot, Vec<Backlog>) {
        let backlogs = self.links.iter_mut().map(|link| link.queue(now)).collect();
        let snapshot = Snapshot {
            time: now,
            users: Vec::new(),
            paths: self.paths.iter().map(|path| path.ledger.totals()).collect(),
            links: self
                .links
                .iter_mut()
                .map(|link| link.counters(now))
                .collect(),
        };
        (snapshot, backlogs)
    }

    /// The link that a packet traverses next; `None` after the last.
    fn next_link(&self, direction: Direction, hops: usize) -> Option<usize> {
        let links = match direction {
            Direction::Forward { row, .. } => &self.paths[row].links,
            Direction::Return { row } => &self.paths[row].return_links,
        };
        links.get(hops).copied()
    }

    /// Offers a packet to its next link, or delivers it if there is none.
    fn pass(&mut self, now: Time, direction: Direction, hops: usize, packet: Packet) {
        let Some(index) = self.next_link(direction, hops) else {
            let transit = self.transit(now, hops, direction, packet);
            return self.transits.push(Reverse(transit));
        };
        let link = &mut self.links[index];
        let waiting = link.queue(now);
        let crossing = link.offer(now, packet.bytes.len() as u32, false);
        let fate = crossing.fate;
        self.tap.offered(now, index, waiting, &packet, fate);
        match (fate, direction) {
            (Fate::Delivered { at }, _) => {
                let transit = self.transit(at, hops + 1, direction, packet);
                let mut reordering = self.overtaking.iter_mut();
                match reordering.find(|(link, _)| *link == index) {
                    Some((_, link)) => link.push(at, crossing.behind, transit),
                    None => self.transits.push(Reverse(transit)),
                }
            }
            (
                Fate::Dropped(cause),
                Direction::Forward {
                    row,
                    range: Some(range),
                    ..
                },
            ) => self.paths[row].ledger.lost(&range, cause),
            (Fate::Dropped(_), _) => {}
        }
    }

    fn transit(&mut self, due: Time, hops: usize, direction: Direction, packet: Packet) -> Transit {
        let order = self.sent;
        self.sent += 1;
        Transit {
            due,
            order,
            hops,
            direction,
            packet,
        }
    }

    /// The row of the path whose user's address is the packet's destination.
    fn row_of(&self, packet: &[u8]) -> Option<usize> {
        let (user, path) = address::path_of(destination(packet)?)?;
        let first = *self.first_rows.get(user)?;
        let next = self.first_rows.get(user + 1).copied();
        let end = next.unwrap_or(self.paths.len());
        Some(first + path).filter(|&row| row < end)
    }
}

impl Route {
    fn new(path: &Path, return_way: ReturnWay, links: usize) -> Route {
        let delay = from_seconds(path.return_delay_ms.get() * 1e-3);
        let (return_links, return_delay) = match return_way {
            ReturnWay::Delay => (Vec::new(), delay),
            ReturnWay::Links => {
                let second_instances = path.links.iter().rev().map(|link| link + links);
                (second_instances.collect(), 0)
            }
        };
        Route {
            links: path.links.clone(),
            return_links,
            return_delay,
            ledger: Ledger::default(),
        }
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
