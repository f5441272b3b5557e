//! Which path carries the next packet, when several have room.

use anabranch_control::AnyController;

use crate::subflow::Subflow;

/// A packet scheduler of Multipath TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduler {
    /// The path with the smallest smoothed RTT; paths not measured yet come first.
    MinRtt,
    /// The paths in turn.
    RoundRobin,
    /// The dealer's choice; a connection with one path needs none.
    Linux,
}

impl Scheduler {
    /// A path with room in its window, `None` if all are full. `last` is the path that sent last.
    pub fn pick(
        self,
        subflows: &[Subflow],
        controller: &AnyController,
        last: usize,
    ) -> Option<usize> {
        let paths = subflows.len();
        match self {
            Scheduler::MinRtt | Scheduler::Linux => {
                let open = (0..paths).filter(|&r| subflows[r].has_room());
                let measured = |rtt: f64| if rtt.is_finite() { rtt } else { 0.0 };
                let rtt = |r: &usize| measured(controller.path(*r).rtt);
                open.min_by(|a, b| rtt(a).total_cmp(&rtt(b)))
            }
            Scheduler::RoundRobin => {
                let mut turn = (1..=paths).map(|step| (last + step) % paths);
                turn.find(|&r| subflows[r].has_room())
            }
        }
    }
}
