//! Admission of packets to a link's queue.

use crate::arrival::Arrival;
use crate::dice::Dice;
use crate::fate::Cause;
use crate::red::{Averager, Red};

/// The queueing discipline of a link, always first in, first out.
#[derive(Clone, Debug, PartialEq)]
pub enum Queue {
    /// A packet that would have to wait is dropped if a limit would be exceeded with it.
    DropTail {
        /// Maximum number of waiting packets; None: no limit.
        packets: Option<u32>,
        /// Maximum number of waiting bytes; None: no limit.
        bytes: Option<u64>,
    },
    /// Random early detection.
    Red(Red),
}

/// A [`Queue`] and its state.
#[derive(Clone, Debug)]
pub(crate) enum Admission {
    DropTail { packets: u32, bytes: u64 },
    Red(Averager),
}

impl Admission {
    /// `mean_mbps` is the rate of the link.
    ///
    /// # Panics
    /// If a parameter of RED is invalid.
    pub(crate) fn new(queue: Queue, mean_mbps: f64) -> Admission {
        match queue {
            Queue::DropTail { packets, bytes } => Admission::DropTail {
                packets: packets.unwrap_or(u32::MAX),
                bytes: bytes.unwrap_or(u64::MAX),
            },
            Queue::Red(red) => Admission::Red(Averager::new(red, mean_mbps)),
        }
    }

    /// Admits a packet, or returns why not.
    pub(crate) fn admit(&mut self, arrival: &Arrival, dice: &mut Dice) -> Result<(), Cause> {
        let backlog = arrival.backlog;
        let (packets, bytes) = match self {
            Admission::DropTail { packets, bytes } => (*packets, *bytes),
            Admission::Red(averager) => {
                if dice.chance(averager.drop_probability(arrival)) {
                    return Err(Cause::Red);
                }
                (averager.limit_packets(), u64::MAX)
            }
        };
        let full = backlog.packets >= packets
            || bytes.saturating_sub(backlog.bytes) < u64::from(arrival.bytes);
        if arrival.waits && full {
            Err(Cause::Overflow)
        } else {
            Ok(())
        }
    }
}
