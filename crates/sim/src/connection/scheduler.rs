//! Packet schedulers: which path carries the next packet if several have room.

use anabranch_control::AnyController;

use crate::connection::path_state::PathState;

/// A packet scheduler of Multipath TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// The path with the smallest smoothed RTT; paths without an RTT come first.
    MinRtt,
    /// The paths in turn.
    RoundRobin,
    /// Linux' scheduler (`linux_scheduler.rs`); a connection with one path needs none.
    Linux,
}

impl Scheduler {
    /// A path with room in its window, `None` if all are full. `last` is the path that sent last.
    pub fn pick(
        self,
        paths: &[PathState],
        controller: &AnyController,
        last: usize,
    ) -> Option<usize> {
        let count = paths.len();
        match self {
            Scheduler::MinRtt | Scheduler::Linux => {
                let open = (0..count).filter(|&r| paths[r].has_room());
                let measured = |rtt: f64| if rtt.is_finite() { rtt } else { 0.0 };
                let rtt = |r: &usize| measured(controller.path(*r).rtt);
                open.min_by(|a, b| rtt(a).total_cmp(&rtt(b)))
            }
            Scheduler::RoundRobin => {
                let mut turn = (1..=count).map(|step| (last + step) % count);
                turn.find(|&r| paths[r].has_room())
            }
        }
    }
}
