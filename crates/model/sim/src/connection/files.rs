//! Files that wait for a persistent connection: those at a gateway, one packet of each in turn, or
//! the messages of an application, one after the other.
//!
//! The connection delivers in order, so the receiver has a file as soon as it has the file's last
//! packet and all before it. So the queue keeps one number per file in transit, and no state per
//! packet.

use std::collections::VecDeque;

use anabranch_control::{Adjuster, BufferSample};
use anabranch_net::{Dice, Time};
use anabranch_scenario::time::{from_seconds, seconds};
use anabranch_scenario::{Adjust, MaxKappa};

use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};
use crate::network::PacketNumber;

/// A file or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub arrived_at: Time,
    pub bytes: u64,
}

/// The files of a persistent connection.
#[derive(Debug, Default)]
pub(crate) struct FileQueue {
    /// Whether these are messages, sent one after the other, and not files of a gateway, in turn.
    are_messages: bool,
    /// Files that are not completely sent, and their remaining packets; the next in turn is first.
    waiting: VecDeque<(File, u64)>,
    /// Files that are completely sent but not delivered, and the number of their last packet.
    in_transit: VecDeque<(PacketNumber, File)>,
    /// Bytes by which the last packets of delivered files were shorter than full ones.
    lacked: u64,
    adjustment: Option<Adjustment>,
    /// Files that wait at their clients because of back-pressure, and their packets.
    held: VecDeque<(File, u64)>,
}

/// The adjustment of a gateway's kappa, and its random waiting times.
#[derive(Debug)]
struct Adjustment {
    adjuster: Adjuster,
    dice: Dice,
    /// The largest kappa is the number of files in the buffer.
    by_active: bool,
    back_pressure: bool,
}

impl FileQueue {
    /// The queue of an application's messages.
    pub fn of_messages() -> FileQueue {
        FileQueue {
            are_messages: true,
            ..FileQueue::default()
        }
    }

    /// The queue of a gateway; `adjust` adjusts its `kappa`, if it is given.
    pub fn of_gateway(adjust: Option<&Adjust>, kappa: f64, dice: Dice) -> FileQueue {
        let adjustment = adjust.map(|adjust| Adjustment {
            adjuster: Adjuster::new(adjust.parameters(), kappa),
            dice,
            by_active: adjust.max_kappa == MaxKappa::Active,
            back_pressure: adjust.back_pressure,
        });
        FileQueue {
            adjustment,
            ..FileQueue::default()
        }
    }

    /// Adds a file of `packets` packets: this many, or 0 if it waits at its client.
    pub fn push(&mut self, file: File, packets: u64) -> u64 {
        if !self.held.is_empty() || self.has_back_pressure() {
            self.held.push_back((file, packets));
            return 0;
        }
        self.waiting.push_back((file, packets));
        packets
    }

    /// Adds files that wait at their clients to a buffer of `buffered` packets, up to the high
    /// threshold and unless back-pressure goes on: the packets of all that it adds.
    pub fn release(&mut self, buffered: u64) -> u64 {
        let mut released = 0;
        while !self.has_back_pressure()
            && let Some(adjustment) = &self.adjustment
            && ((buffered + released) as f64) < adjustment.adjuster.longest_packets()
            && let Some((file, packets)) = self.held.pop_front()
        {
            self.waiting.push_back((file, packets));
            released += packets;
        }
        released
    }

    /// Whether the mean buffer was so long that new files wait at their clients.
    fn has_back_pressure(&self) -> bool {
        let adjustment = self.adjustment.as_ref();
        adjustment.is_some_and(|it| it.back_pressure && it.adjuster.is_too_long())
    }

    /// Time until the next sample of the buffer, s; `None` if kappa is fixed.
    pub fn wait_s(&mut self) -> Option<f64> {
        let Adjustment { adjuster, dice, .. } = self.adjustment.as_mut()?;
        Some(adjuster.wait_s(|| dice.uniform()))
    }

    /// Takes a sample of the buffer and gives kappa; `None` if kappa is fixed.
    pub fn sample(&mut self, sample: &BufferSample) -> Option<f64> {
        let adjustment = self.adjustment.as_mut()?;
        if adjustment.by_active {
            adjustment.adjuster.set_max_kappa(self.waiting.len() as f64);
        }
        adjustment.adjuster.sample(sample);
        Some(adjustment.adjuster.kappa())
    }

    /// The kappa of the adjustment; `None` if kappa is fixed.
    pub fn kappa(&self) -> Option<f64> {
        let adjustment = self.adjustment.as_ref()?;
        Some(adjustment.adjuster.kappa())
    }

    /// Takes a packet of the next file in turn; the packet gets the data number `data`.
    pub fn take(&mut self, data: PacketNumber) {
        let Some((file, packets)) = self.waiting.pop_front() else {
            return;
        };
        match packets - 1 {
            0 => self.in_transit.push_back((data, file)),
            left if self.are_messages => self.waiting.push_front((file, left)),
            left => self.waiting.push_back((file, left)),
        }
    }

    /// Bytes that a packet lacks of a full one: the last of a file is as long as what is left. A
    /// packet sent again after its file was delivered counts as full.
    pub fn lacking(&self, payload: u64, data: PacketNumber) -> u16 {
        match self
            .in_transit
            .binary_search_by_key(&data, |&(last, _)| last)
        {
            Ok(place) => lacking(payload, &self.in_transit[place].1),
            Err(_) => 0,
        }
    }

    /// Payload of the first `received` packets.
    pub fn payload_of(&self, payload: u64, received: PacketNumber) -> u64 {
        received * payload - self.lacked
    }

    /// Whether the first `received` packets complete a file that was not delivered yet.
    #[inline]
    pub fn has_file(&self, received: PacketNumber) -> bool {
        self.in_transit
            .front()
            .is_some_and(|&(last, _)| last < received)
    }

    /// Takes the next file that the first `received` packets complete.
    pub fn deliver(&mut self, payload: u64, received: PacketNumber) -> Option<File> {
        if !self.has_file(received) {
            return None;
        }
        let (_, file) = self.in_transit.pop_front()?;
        self.lacked += u64::from(lacking(payload, &file));
        Some(file)
    }
}

/// Bytes by which the last packet of a file is shorter than a full one.
fn lacking(payload: u64, file: &File) -> u16 {
    (file.bytes.next_multiple_of(payload) - file.bytes) as u16
}

impl Connection {
    /// Makes this the connection of a gateway; `adjust` adjusts its kappa, if it is given.
    pub fn serve_gateway(&mut self, adjust: Option<&Adjust>, dice: Dice) {
        let files = FileQueue::of_gateway(adjust, self.kappa(), dice);
        self.set_kappa(files.kappa());
        self.files = Some(Box::new(files));
    }

    /// Makes this the connection of an application that sends messages.
    pub fn serve_messages(&mut self) {
        self.files = Some(Box::new(FileQueue::of_messages()));
    }

    /// A file arrives at the gateway, or the application submits a message. A gateway's connection
    /// keeps its window over idle times.
    pub fn submit(&mut self, world: &mut World, bytes: u64) {
        let payload = self.payload(world.tcp);
        let Some(files) = &mut self.files else {
            return;
        };
        let file = File {
            arrived_at: world.now,
            bytes,
        };
        let packets = bytes.div_ceil(payload);
        let are_messages = files.are_messages;
        let packets = files.push(file, packets);
        if are_messages {
            self.restart_after_idle(world);
        }
        self.data_end = self.data_end.saturating_add(packets);
        self.fill_windows(world);
    }

    /// The next file that the receiver has completely.
    pub fn deliver_file(&mut self, tcp: &Tcp) -> Option<File> {
        let (payload, received) = (self.payload(tcp), self.data_received());
        self.files.as_mut()?.deliver(payload, received)
    }

    /// Packets of submitted files that were never sent; 0 for workloads without a file queue.
    pub fn buffer_packets(&self) -> u64 {
        match self.files {
            Some(_) => self.data_end - self.data_next,
            None => 0,
        }
    }

    /// The weight of the connection's rule; 0 for a rule without one.
    pub fn kappa(&self) -> f64 {
        self.controller.weight().unwrap_or(0.0)
    }

    /// Time until the next sample of the gateway's buffer; `None` if kappa is fixed.
    pub fn wait_to_adjust(&mut self) -> Option<Time> {
        self.files.as_mut()?.wait_s().map(from_seconds)
    }

    /// Samples the gateway's buffer, for kappa and back-pressure.
    pub fn adjust(&mut self, world: &mut World) {
        let path = self.controller.path(0);
        let sample = BufferSample {
            age_s: seconds(world.now - self.started_at),
            buffer_packets: self.buffer_packets() as f64,
            arrived_packets: self.data_end as f64,
            window: path.window,
            base_rtt: path.base_rtt,
        };
        let kappa = self.files.as_mut().and_then(|files| files.sample(&sample));
        self.set_kappa(kappa);
        let buffered = self.buffer_packets();
        let files = self.files.as_mut();
        let released = files.map_or(0, |files| files.release(buffered));
        if released > 0 {
            self.data_end = self.data_end.saturating_add(released);
            self.fill_windows(world);
        }
    }

    /// Gives the adjusted kappa to the rule, if the rule has one.
    fn set_kappa(&mut self, kappa: Option<f64>) {
        if let Some(kappa) = kappa {
            self.controller.set_weight(kappa);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets have 1000 bytes, of which this is payload.
    const PAYLOAD: u64 = 900;

    fn file(bytes: u64) -> File {
        File {
            arrived_at: 0,
            bytes,
        }
    }

    /// A of 3 packets and B of 2 take turns: A B A B A. C comes after the first two.
    /// So A B A B C A: the last packets are 3 of B, 4 of C and 5 of A.
    fn three_files() -> FileQueue {
        let mut gateway = FileQueue::default();
        gateway.waiting.extend([(file(2500), 3), (file(1800), 2)]);
        (0..2).for_each(|data| gateway.take(data));
        gateway.waiting.push_back((file(1), 1));
        (2..7).for_each(|data| gateway.take(data));
        gateway
    }

    #[test]
    fn each_file_gives_a_packet_in_turn() {
        let gateway = three_files();
        let last: Vec<_> = gateway
            .in_transit
            .iter()
            .map(|(data, file)| (*data, file.bytes))
            .collect();
        assert_eq!(last, [(3, 1800), (4, 1), (5, 2500)]);
        assert!(gateway.waiting.is_empty());
    }

    /// Payload is 900 bytes: A ends with 700, B with 900, C with 1.
    #[test]
    fn the_last_packet_of_a_file_is_as_long_as_what_is_left() {
        let gateway = three_files();
        let bytes: Vec<u16> = (0..6)
            .map(|data| 1000 - gateway.lacking(PAYLOAD, data))
            .collect();
        assert_eq!(bytes, [1000, 1000, 1000, 1000, 101, 800]);
    }

    /// A of 3 packets, then B of 2: the last packets are 2 of A and 4 of B.
    #[test]
    fn messages_are_sent_one_after_the_other() {
        let mut messages = FileQueue::of_messages();
        messages.waiting.extend([(file(2500), 3), (file(1800), 2)]);
        (0..5).for_each(|data| messages.take(data));
        let last: Vec<_> = messages.in_transit.iter().map(|(data, _)| *data).collect();
        assert_eq!(last, [2, 4]);
    }

    #[test]
    fn a_file_is_delivered_with_its_last_packet_and_all_before_it() {
        let mut gateway = three_files();
        assert_eq!(gateway.deliver(PAYLOAD, 3), None);
        assert_eq!(gateway.deliver(PAYLOAD, 5), Some(file(1800)));
        assert_eq!(gateway.deliver(PAYLOAD, 5), Some(file(1)));
        assert_eq!(gateway.deliver(PAYLOAD, 5), None);
        assert_eq!(gateway.payload_of(PAYLOAD, 5), 4 * 900 + 1);
        assert_eq!(gateway.deliver(PAYLOAD, 6), Some(file(2500)));
        assert_eq!(gateway.payload_of(PAYLOAD, 6), 2500 + 1800 + 1);
    }
}
