//! Packet schedulers: which path carries the next packet, or that it waits.
//!
//! A scheduler is a function of the paths' states, with the little that it remembers in a file of
//! its own. Linux' scheduler also queues data at paths.

use anabranch_control::AnyController;
use anabranch_net::Time;
use anabranch_scenario as scenario;

use crate::connection::scheduler::blest::Blest;
use crate::connection::scheduler::ecf::Ecf;
use crate::connection::scheduler::redundant::Redundant;
use crate::connection::subflow::Subflow;

mod blest;
mod ecf;
pub(crate) mod linux;
pub(crate) mod redundant;

/// A scheduler's view of a connection.
pub(crate) struct View<'a> {
    pub now: Time,
    pub paths: &'a [Subflow],
    pub controller: &'a AnyController,
    /// The path that sent last.
    pub last: usize,
    /// Data that is not sent yet, as far as the receive window lets it be sent, packets.
    pub unsent: u64,
    /// The receive buffer, packets.
    pub receive_buffer: u64,
}

/// A connection's scheduler and its memory.
#[derive(Debug)]
pub(crate) enum Scheduler {
    MinRtt,
    RoundRobin,
    Blest(Box<Blest>),
    Ecf(Ecf),
    Redundant(Box<Redundant>),
}

impl Scheduler {
    /// The scheduler of a new connection. One with a single path has nothing to choose, and Linux'
    /// scheduler falls back to the shortest RTT where a path has no queue.
    pub fn new(kind: scenario::Scheduler, several: bool) -> Scheduler {
        match kind {
            scenario::Scheduler::Blest if several => Scheduler::Blest(Box::default()),
            scenario::Scheduler::Ecf if several => Scheduler::Ecf(Ecf::default()),
            scenario::Scheduler::Redundant if several => Scheduler::Redundant(Box::default()),
            scenario::Scheduler::RoundRobin => Scheduler::RoundRobin,
            _ => Scheduler::MinRtt,
        }
    }

    /// Whether the scheduler may let a path with room wait, until an acknowledgement on another.
    pub fn may_wait(&self) -> bool {
        !matches!(self, Scheduler::MinRtt | Scheduler::RoundRobin)
    }

    /// Whether all paths carry all data, so that lost data needs no other path.
    pub fn copies(&self) -> bool {
        matches!(self, Scheduler::Redundant(_))
    }

    /// The path with room that sends the next packet; `None` if all are full or it is to wait.
    pub fn pick(&mut self, view: &View) -> Option<usize> {
        match self {
            Scheduler::RoundRobin => in_turn(view),
            Scheduler::Blest(blest) => blest.pick(view),
            Scheduler::Ecf(ecf) => ecf.pick(view),
            Scheduler::MinRtt | Scheduler::Redundant(_) => shortest(view),
        }
    }

    /// The receive window stops a connection of which some path has room.
    pub fn on_blocked(&mut self, view: &View) {
        if let Scheduler::Blest(blest) = self {
            blest.on_blocked(view);
        }
    }
}

/// The path with room that has the shortest RTT. Paths without an RTT come first.
fn shortest(view: &View) -> Option<usize> {
    let open = (0..view.paths.len()).filter(|&r| view.paths[r].has_room());
    let measured = |rtt: f64| if rtt.is_finite() { rtt } else { 0.0 };
    let rtt = |r: &usize| measured(view.controller.path(*r).rtt);
    open.min_by(|a, b| rtt(a).total_cmp(&rtt(b)))
}

fn in_turn(view: &View) -> Option<usize> {
    let count = view.paths.len();
    let mut turn = (1..=count).map(|step| (view.last + step) % count);
    turn.find(|&r| view.paths[r].has_room())
}

/// The path that is worth waiting for: of those with an RTT the one with the shortest. A path that
/// has timed out since something arrived over it is not: nothing says when it will have room.
fn fastest(view: &View) -> Option<usize> {
    let rtt = |r: &usize| view.controller.path(*r).rtt;
    let alive = |r: &usize| rtt(r).is_finite() && !view.paths[*r].has_timed_out();
    let candidates = (0..view.paths.len()).filter(alive);
    candidates.min_by(|a, b| rtt(a).total_cmp(&rtt(b)))
}

/// The path that min-RTT takes; none if it is slower than the fastest, which has no room, and
/// `waits(slow, fast)`. A path without an RTT is never slower: it sends, and so gets one.
fn shortest_unless(view: &View, waits: impl FnOnce(usize, usize) -> bool) -> Option<usize> {
    let slow = shortest(view)?;
    let is_slower = |&fast: &usize| fast != slow && view.controller.path(slow).rtt.is_finite();
    match fastest(view).filter(is_slower) {
        Some(fast) if waits(slow, fast) => None,
        _ => Some(slow),
    }
}
