//! Packets that wait, first in, first out.

use std::collections::VecDeque;

use crate::arrival::Backlog;
use crate::time::Time;

/// A packet that waits at a [`QueuedLink`](crate::QueuedLink).
#[derive(Clone, Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) packet: T,
    pub(crate) bytes: u32,
    /// When it was offered.
    pub(crate) arrived: Time,
    /// Whether it may be marked instead of dropped (ECT, RFC 3168).
    pub(crate) ecn_capable: bool,
    pub(crate) marked: bool,
}

/// Waiting packets and their bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fifo<T> {
    packets: VecDeque<Waiting<T>>,
    bytes: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo {
            packets: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T> Fifo<T> {
    pub(crate) fn push(&mut self, packet: Waiting<T>) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    /// When the head was offered; `None` without a packet.
    pub(crate) fn head_arrived(&self) -> Option<Time> {
        self.packets.front().map(|head| head.arrived)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.packets.len() as u32,
            bytes: self.bytes,
        }
    }
}
