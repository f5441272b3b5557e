//! Packet schedulers: which path carries the next packet if several have room.

use anabranch_control::AnyController;
use anabranch_scenario::Scheduler;

use crate::connection::path_state::PathState;

/// A path with room in its window, `None` if all are full. `last` is the path that sent last.
/// Linux' scheduler is in `linux_scheduler.rs`; a connection with one path needs none.
pub(crate) fn pick(
    scheduler: Scheduler,
    paths: &[PathState],
    controller: &AnyController,
    last: usize,
) -> Option<usize> {
    let count = paths.len();
    match scheduler {
        Scheduler::MinRtt | Scheduler::Linux => {
            let open = (0..count).filter(|&r| paths[r].has_room());
            // Paths without an RTT come first.
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
