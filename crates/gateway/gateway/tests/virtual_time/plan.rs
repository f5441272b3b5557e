//! Events of a story, chosen by its seed: links, connections, and operations on gateways.

use std::time::Duration;

use anabranch_net::{Dice, LinkConfig, Loss, MILLISECOND, Queue, Rate, Time};

use super::random::Choices;

/// A story.
#[derive(Clone, Debug)]
pub struct Plan {
    pub links: Vec<LinkConfig>,
    pub connections: Vec<Connection>,
    /// Events in the order of time.
    pub events: Vec<(Duration, Event)>,
}

/// A connection of a client through the gateways.
#[derive(Clone, Debug)]
pub struct Connection {
    pub start: Duration,
    /// Whether the server sends only after it has received everything.
    pub answers: bool,
    /// Client and server.
    pub sides: [Side; 2],
}

/// Actions of one side.
#[derive(Clone, Debug)]
pub struct Side {
    /// Data that it sends, bytes.
    pub bytes: u64,
    /// Most data that it writes at a time, bytes.
    pub chunk: u64,
    /// Pause after each write.
    pub pause: Duration,
    /// Number of bytes written after which it resets the connection.
    pub resets_after: Option<u64>,
    /// Number of bytes read after which it reads nothing for this time.
    pub stalls: Option<(u64, Duration)>,
}

/// One of the gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    Near,
    Far,
}

/// Operation on a gateway.
#[derive(Clone, Debug)]
pub enum Event {
    /// Kill, and start again after this time.
    Kill(Which, Duration),
    /// Drain for at most the first time, end, and start again after the second.
    Drain(Which, Duration, Duration),
    /// Reload of the file, with these limits.
    Reload(Which, &'static str),
    /// Removal of near's key from far's, until this time has passed.
    Remove(Duration),
}

/// A buffer that a few fast streams use up.
pub const BUFFER: &str = "limits.tunnel_buffer_bytes = 1000000";

const LIMITS: &[&str] = &[
    "",
    "limits.buffer_bytes = 20000",
    "limits.client_mbps = 4.0",
    BUFFER,
    "limits = { connections = 40, half_closed_s = 600.0 }",
];

fn milliseconds(dice: &mut Dice, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(dice.within(range))
}

impl Plan {
    /// The story of this seed.
    pub fn new(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        let dice = &mut dice;
        let links = (0..2).map(|_| link(dice)).collect();
        let connections = dice.within(3..9);
        let connections = (0..connections).map(|_| connection(dice)).collect();
        let mut at = Duration::ZERO;
        let events = dice.within(1..4);
        let event = |_| {
            at += milliseconds(dice, 200..4000);
            (at, event(dice))
        };
        let events = (0..events).map(event).collect();
        Plan {
            links,
            connections,
            events,
        }
    }
}

fn link(dice: &mut Dice) -> LinkConfig {
    let mut down: Vec<(Time, Time)> = Vec::new();
    let mut at = 0;
    for _ in 0..dice.within(0..3) {
        let from = at + dice.within(300..4000) * MILLISECOND;
        at = from + dice.within(100..5000) * MILLISECOND;
        down.push((from, at));
    }
    LinkConfig {
        rate: Rate::Constant {
            bits_per_second: dice.within(1..15) as f64 * 1e6,
        },
        delay: dice.within(1..60) * MILLISECOND,
        impairments: Default::default(),
        queue: Queue::DropTail {
            packets: Some(dice.within(20..200) as u32),
            bytes: None,
        },
        loss: Loss::Bernoulli {
            probability: [0.0, 0.005, 0.02][dice.within(0..3) as usize],
        },
        down,
    }
}

fn connection(dice: &mut Dice) -> Connection {
    Connection {
        start: milliseconds(dice, 0..6000),
        answers: dice.chance(0.4),
        sides: [side(dice), side(dice)],
    }
}

fn side(dice: &mut Dice) -> Side {
    let bytes = match dice.within(0..4) {
        0 => 0,
        1 => dice.within(0..2000),
        _ => dice.within(0..300_000),
    };
    let is_slow = dice.chance(0.5);
    Side {
        bytes,
        chunk: dice.within(500..60_000),
        pause: match is_slow {
            true => milliseconds(dice, 0..300),
            false => Duration::ZERO,
        },
        resets_after: dice.chance(0.1).then(|| dice.within(0..bytes + 1)),
        stalls: dice.chance(0.2).then(|| {
            let after = dice.within(0..bytes + 100_000);
            (after, milliseconds(dice, 100..12_000))
        }),
    }
}

fn event(dice: &mut Dice) -> Event {
    let which = [Which::Near, Which::Far][dice.within(0..2) as usize];
    match dice.within(0..6) {
        0 => Event::Kill(which, milliseconds(dice, 50..3000)),
        1 | 2 => {
            let deadline = milliseconds(dice, 200..60_000);
            Event::Drain(which, deadline, milliseconds(dice, 50..1500))
        }
        3 => Event::Remove(milliseconds(dice, 50..3000)),
        _ => Event::Reload(which, LIMITS[dice.within(0..LIMITS.len() as u64) as usize]),
    }
}
