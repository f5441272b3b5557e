//! Links, which carry packets, and return lines, which only delay acknowledgements.

use std::collections::VecDeque;

use anabranch_capture::Capture;
use anabranch_net::{AnyLink, Cause, Fate, Mark, Offer, Step, Time};

use crate::calendar::{Calendar, Event};
use crate::ecn::Bits;

/// Counts the packets of a path or of a connection.
pub(crate) type PacketNumber = u64;

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Data of a connection.
    Data,
    /// An acknowledgement, on the links of its path's way back.
    Ack,
    /// A part of a frame of media: `connection` is the number of its source, `data_sequence` that
    /// of the frame.
    Media,
    /// A probe of a path that gets no data, which the receiver answers.
    Probe,
}

/// A packet in the network. `hop`, its place on its route, is an index of [`Network::hops`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    pub sent_at: Time,
    pub connection: u32,
    /// Number within the path: of the data, or of the acknowledgement among its path's.
    pub sequence: PacketNumber,
    /// Number within the connection.
    pub data_sequence: PacketNumber,
    pub hop: u32,
    pub path: u16,
    pub bytes: u16,
    pub bits: Bits,
}

impl Packet {
    /// The content, which its bits tell.
    #[inline]
    pub fn content(&self) -> Content {
        if self.bits.are_of_data() {
            Content::Data
        } else if self.bits.has(Bits::ACK) {
            Content::Ack
        } else if self.bits.has(Bits::MEDIA) {
            Content::Media
        } else {
            Content::Probe
        }
    }
}

impl Mark for Packet {
    fn mark(&mut self) {
        self.bits.set(Bits::MARKED);
    }
}

/// An acknowledgement in the network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acknowledgement {
    /// When the packet that caused this acknowledgement was sent (RFC 7323's echo).
    pub sent_at: Time,
    pub connection: u32,
    /// Every number of the path below this has arrived.
    pub cumulative: PacketNumber,
    /// The packet that caused this acknowledgement. On a return line none is ever lost, so one
    /// number has the information of RFC 2018's blocks; those on links carry blocks.
    pub selective: PacketNumber,
    /// Every number of the connection below this has arrived.
    pub data_cumulative: PacketNumber,
    pub path: u16,
    pub ecn: Bits,
}

/// Items that arrive in the order in which they were sent.
#[derive(Debug, Default)]
struct Line<T> {
    queue: VecDeque<(Time, T)>,
}

impl<T> Line<T> {
    /// Removes the first item; returns it and when the next one arrives.
    #[inline]
    fn pop(&mut self) -> (Option<T>, Option<Time>) {
        let head = self.queue.pop_front().map(|(_, item)| item);
        (head, self.queue.front().map(|&(at, _)| at))
    }

    /// Appends `item`; true if the line was idle, so that its arrival must be scheduled.
    #[inline]
    fn push(&mut self, at: Time, item: T) -> bool {
        debug_assert!(self.queue.back().is_none_or(|&(last, _)| last <= at));
        self.queue.push_back((at, item));
        self.queue.len() == 1
    }
}

#[derive(Debug, Default)]
struct Wire {
    /// `None` for a tap, where packets that pass are captured.
    link: Option<AnyLink<Packet>>,
    line: Line<Packet>,
}

/// The return line of all paths with the same return delay: pure delay, no queue, no loss.
#[derive(Debug, Default)]
struct Return {
    delay: Time,
    line: Line<Acknowledgement>,
}

/// Marks the end of a route in [`Network::hops`].
const END: u32 = u32::MAX;

/// All links, return lines and routes, and the calendar of events.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub calendar: Calendar,
    wires: Vec<Wire>,
    returns: Vec<Return>,
    /// Every route: the numbers of its links, then `END`.
    hops: Vec<u32>,
    /// The packets that pass taps, if any are captured.
    pub capture: Option<Box<Capture>>,
}

impl Network {
    pub fn new(links: impl Iterator<Item = AnyLink<Packet>>) -> Network {
        let wires = links.map(|link| Wire {
            link: Some(link),
            ..Wire::default()
        });
        Network {
            wires: wires.collect(),
            ..Network::default()
        }
    }

    /// Adds a route; returns the hop at which its packets start.
    pub fn add_route(&mut self, links: &[u32]) -> u32 {
        let start = self.hops.len() as u32;
        self.hops.extend_from_slice(links);
        self.hops.push(END);
        start
    }

    /// The return line of this delay, shared by all paths with the same delay.
    pub fn return_line(&mut self, delay: Time) -> u32 {
        let found = self.returns.iter().position(|line| line.delay == delay);
        found.unwrap_or_else(|| {
            self.returns.push(Return {
                delay,
                ..Return::default()
            });
            self.returns.len() - 1
        }) as u32
    }

    pub fn links(&mut self) -> impl Iterator<Item = &mut AnyLink<Packet>> {
        self.wires.iter_mut().filter_map(|wire| wire.link.as_mut())
    }

    /// Adds a tap, to be put into routes.
    pub fn add_tap(&mut self) -> u32 {
        self.wires.push(Wire::default());
        self.wires.len() as u32 - 1
    }

    /// The links from a hop on.
    pub fn route(&self, hop: u32) -> &[u32] {
        let rest = &self.hops[hop as usize..];
        let length = rest.iter().position(|&link| link == END);
        &rest[..length.unwrap_or(rest.len())]
    }

    /// The delay of a return line.
    pub fn return_delay(&self, line: u32) -> Time {
        self.returns[line as usize].delay
    }

    /// Offers `packet` to the link of its current hop.
    #[inline]
    pub fn send(&mut self, now: Time, packet: Packet) -> Result<(), Cause> {
        let number = self.hops[packet.hop as usize];
        let wire = &mut self.wires[number as usize];
        let (Some(AnyLink::Plain(link)), false) = (&mut wire.link, packet.bits.has(Bits::CAPABLE))
        else {
            return self.send_any(now, number, packet);
        };
        match link.offer(now, u32::from(packet.bytes)) {
            Fate::Delivered { at } => {
                if wire.line.push(at, packet) {
                    self.calendar.push(at, Event::Link(number));
                }
                Ok(())
            }
            Fate::Dropped(cause) => Err(cause),
        }
    }

    /// Offers a packet that may be marked, or any packet to a link of another kind, or captures it.
    #[cold]
    fn send_any(&mut self, now: Time, number: u32, packet: Packet) -> Result<(), Cause> {
        let wire = &mut self.wires[number as usize];
        let Some(link) = &mut wire.link else {
            return self.pass(now, packet);
        };
        let offer = Offer {
            packet,
            bytes: packet.bytes.into(),
            flow: u64::from(packet.connection) << 16 | u64::from(packet.path),
            ecn_capable: packet.bits.has(Bits::CAPABLE),
            low_delay: packet.bits.has(Bits::SCALABLE) || packet.bits.has(Bits::MARKED),
        };
        match link.offer(now, offer) {
            Step::Arrives(at, packet) => {
                if wire.line.push(at, packet) {
                    self.calendar.push(at, Event::Link(number));
                }
            }
            Step::Overtaking(at) => self.calendar.push(at, Event::Overtaking(number)),
            Step::Waits(start) => {
                if link.has_dropped() {
                    self.calendar.push(now, Event::Dropped(number));
                }
                if let Some(time) = start {
                    self.calendar.push(time, Event::Start(number));
                }
            }
            Step::Lost(_, cause) => return Err(cause),
        }
        Ok(())
    }

    /// The next packet that has arrived over a link whose packets may overtake one another.
    pub fn overtaking(&mut self, number: u32, now: Time) -> Option<Packet> {
        let (_, packet) = self.wires[number as usize].link.as_mut()?.leave(now)?;
        Some(packet)
    }

    /// Starts the transmission that is due on a link with real queues.
    pub fn start(&mut self, now: Time, number: u32) {
        let wire = &mut self.wires[number as usize];
        let Some(link) = &mut wire.link else { return };
        if let Some((at, packet)) = link.leave(now)
            && wire.line.push(at, packet)
        {
            self.calendar.push(at, Event::Link(number));
        }
        if let Some(time) = link.next_leave() {
            self.calendar.push(time, Event::Start(number));
        }
    }

    /// The packets that a link with real queues dropped since the last call.
    pub fn take_dropped(&mut self, number: u32) -> Vec<(Packet, Cause)> {
        let link = self.wires[number as usize].link.as_mut();
        link.map_or_else(Vec::new, |link| link.take_dropped().collect())
    }

    /// Sends `ack` over its return line. Inlined always: captured paths call it, too.
    #[inline(always)]
    pub fn answer(&mut self, now: Time, line: u32, ack: Acknowledgement) {
        let back = &mut self.returns[line as usize];
        if back.line.push(now + back.delay, ack) {
            self.calendar.push(now + back.delay, Event::Return(line));
        }
    }

    /// The packet whose arrival at the end of `link` is the calendar's current event.
    #[inline]
    pub fn arrived(&mut self, link: u32) -> Option<Packet> {
        let (packet, again) = self.wires[link as usize].line.pop();
        self.calendar.advance(again);
        packet
    }

    /// The acknowledgement whose arrival is the calendar's current event.
    #[inline]
    pub fn returned(&mut self, line: u32) -> Option<Acknowledgement> {
        let (ack, again) = self.returns[line as usize].line.pop();
        self.calendar.advance(again);
        ack
    }

    /// Who receives the packet that is `places` behind the first on `link`: connection and path.
    #[inline]
    pub fn arriving(&self, link: u32, places: usize) -> Option<(u32, u16)> {
        let (_, packet) = self.wires[link as usize].line.queue.get(places)?;
        Some((packet.connection, packet.path))
    }

    /// Connection and path of the acknowledgement `places` behind the first on `line`.
    #[inline]
    pub fn returning(&self, line: u32, places: usize) -> Option<(u32, u16)> {
        let (_, ack) = self.returns[line as usize].line.queue.get(places)?;
        Some((ack.connection, ack.path))
    }

    /// Moves `packet` to its next hop; false if it has reached the end of its route.
    #[inline]
    pub fn step(&self, packet: &mut Packet) -> bool {
        packet.hop += 1;
        self.hops[packet.hop as usize] != END
    }
}
