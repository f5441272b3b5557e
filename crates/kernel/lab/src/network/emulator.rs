//! The emulated links as a pure state machine: packets and times in, packets and times out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_net::{AnyLink, Backlog, Cause, Fate, Mark, Offer, Step, Time};
use anabranch_scenario::recorder::Snapshot;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::UserSlot;
use anabranch_scenario::{Path, Scenario};

use crate::error::Error;
use crate::hosts;
use crate::network::ledger::{Ledger, SequenceRange};
use crate::network::packet::{Ecn, Packet, Segment, destination, flow};

/// A device that sends and receives packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The user's device of a path, by the path's row in the result.
    Path(usize),
    /// The server's device, where all paths end.
    Server,
}

/// Way of packets from the server to a user of a path that names no links for its way back.
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
    /// `fate`, whose time is the latest if it is displaced by a number of packets. With CoDel or
    /// FQ-CoDel `now` is when its fate is known: when its transmission starts, or it is dropped.
    /// The number of a link's second instance is its own plus the number of links.
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
    links: Vec<AnyLink<Transit>>,
    /// The links that have packets themselves, because those wait or may overtake one another.
    holding: Vec<usize>,
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

impl Mark for Transit {
    fn mark(&mut self) {
        self.packet.mark();
    }
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
        let links: Vec<AnyLink<Transit>> = links
            .enumerate()
            .map(|(index, config)| AnyLink::new(config, element_seed(seed, kind::LINKS, index)))
            .collect();
        let holds = |index: &usize| !matches!(links[*index], AnyLink::Plain(_));
        Emulator {
            holding: (0..links.len()).filter(holds).collect(),
            links,
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

    /// Time at which the next packet arrives at a hop or leaves a queue.
    pub fn next_due(&self) -> Option<Time> {
        let arrives = self.transits.peek().map(|Reverse(transit)| transit.due);
        let holding = self.holding.iter();
        let leave = holding.filter_map(|&index| self.links[index].next_leave());
        leave.chain(arrives).min()
    }

    /// Removes the packet that arrives at a hop at this time, which is the next; `None` if one
    /// leaves a queue instead, or all that waited in it were dropped.
    fn pop(&mut self, due: Time) -> Option<Transit> {
        let is_due = |index: &&usize| self.links[**index].next_leave() == Some(due);
        let Some(&index) = self.holding.iter().find(is_due) else {
            return self.transits.pop().map(|Reverse(transit)| transit);
        };
        let link = &mut self.links[index];
        let waiting = link.queue(due);
        let left = link.leave(due);
        self.lose_dropped(due, index);
        let (at, transit) = left?;
        if at <= due {
            return Some(Transit { due: at, ..transit });
        }
        let fate = Fate::Delivered { at };
        self.tap.offered(due, index, waiting, &transit.packet, fate);
        let transit = self.transit(at, transit.hops, transit.direction, transit.packet);
        self.transits.push(Reverse(transit));
        None
    }

    /// Moves packets on until `now`, and returns the next one that is due at a device by then.
    /// `None` if there is no other: the time of every link is `now`.
    pub fn deliver(&mut self, now: Time) -> Option<Delivery> {
        while let Some(next) = self.next_due().filter(|&due| due <= now) {
            let Some(transit) = self.pop(next) else {
                continue;
            };
            let Transit {
                due,
                hops,
                direction,
                packet,
                ..
            } = transit;
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
                        let is_marked = packet.ecn() == Ecn::Marked;
                        let ledger = &mut self.paths[row].ledger;
                        ledger.delivered(&range, due - sent_at, is_marked);
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
        let transit = self.transit(now, hops + 1, direction, packet);
        let link = &mut self.links[index];
        let waits = matches!(link, AnyLink::Queued(_));
        // A link on which packets overtake one another keeps the packet that the observer is shown.
        let kept = matches!(link, AnyLink::Impaired(_)).then(|| transit.packet.clone());
        let waiting = link.queue(now);
        let bytes = transit.packet.bytes.len() as u32;
        let offer = Offer {
            bytes,
            flow: if waits {
                flow(&transit.packet.bytes)
            } else {
                0
            },
            ecn_capable: transit.packet.ecn() != Ecn::NotCapable,
            low_delay: false,
            packet: transit,
        };
        match link.offer(now, offer) {
            Step::Arrives(at, transit) => {
                let fate = Fate::Delivered { at };
                self.tap.offered(now, index, waiting, &transit.packet, fate);
                self.transits.push(Reverse(Transit { due: at, ..transit }));
            }
            Step::Overtaking(at) => {
                let fate = Fate::Delivered { at };
                kept.inspect(|packet| self.tap.offered(now, index, waiting, packet, fate));
            }
            Step::Waits(_) => self.lose_dropped(now, index),
            Step::Lost(transit, cause) => {
                self.tap
                    .offered(now, index, waiting, &transit.packet, Fate::Dropped(cause));
                self.lose(transit.direction, cause);
            }
        }
    }

    /// The packets that a link with CoDel or FQ-CoDel dropped since the last call are lost.
    fn lose_dropped(&mut self, now: Time, index: usize) {
        let waiting = self.links[index].queue(now);
        let dropped: Vec<_> = self.links[index].take_dropped().collect();
        for (transit, cause) in dropped {
            let fate = Fate::Dropped(cause);
            self.tap.offered(now, index, waiting, &transit.packet, fate);
            self.lose(transit.direction, cause);
        }
    }

    fn lose(&mut self, direction: Direction, cause: Cause) {
        if let Direction::Forward {
            row,
            range: Some(range),
            ..
        } = direction
        {
            self.paths[row].ledger.lost(&range, cause);
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
        let (user, path) = hosts::path_of(destination(packet)?)?;
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
            _ if !path.back.is_empty() => (path.back.clone(), 0),
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
