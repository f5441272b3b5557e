//! Opportunistic retransmission, and penalisation of slow paths (Raiciu et al., NSDI 2012, section
//! 4.2), beside min-RTT.
//!
//! Where the receive window stops a path that has room, the path sends again what slower paths
//! hold, oldest first, and the window of such a path is halved. Each packet is sent again once, and
//! a path is penalised at most once per RTT.
//!
//! The kernel of the first authors sends only the oldest packet of all again, and only if the RTTs
//! differ by a factor of four or the slow window is at most 4 packets; it counts the RTT of the
//! path that sends. Here there is no such condition, and more than the oldest packet is sent,
//! because else every packet of the slow path stops the fast one for a round trip. A penalised path
//! is spared for its own RTT, in which the new window takes effect.

use anabranch_net::Time;
use anabranch_scenario::time::from_seconds;

use crate::connection::scheduler::{Scheduler, View, shortest};
use crate::connection::{Connection, World};
use crate::network::PacketNumber;

/// What was sent again, and which paths were penalised.
#[derive(Debug, Default)]
pub(crate) struct Opportunistic {
    /// All data below this has been sent again, has arrived, or is on no slower path.
    resent: PacketNumber,
    /// When each path may be penalised again.
    spared_until: Vec<Time>,
}

impl Opportunistic {
    /// Whether path `r` may be penalised, which takes effect in `rtt`.
    fn penalises(&mut self, r: usize, now: Time, rtt: Time) -> bool {
        if self.spared_until.len() <= r {
            self.spared_until.resize(r + 1, 0);
        }
        let may = now >= self.spared_until[r];
        if may {
            self.spared_until[r] = now + rtt;
        }
        may
    }
}

/// The first data from `from` on that a path slower than `fast` holds, and that path.
fn held(view: &View, fast: usize, from: PacketNumber) -> Option<(PacketNumber, usize)> {
    let rtt = |r: usize| view.controller.path(r).rtt;
    let slower = |r: &usize| rtt(*r).is_finite() && rtt(*r) > rtt(fast);
    let paths = (0..view.paths.len()).filter(slower);
    paths
        .filter_map(|r| Some((view.paths[r].first_data(from)?, r)))
        .min()
}

impl Connection {
    /// The receive window stops the connection: sends data again that slower paths hold, over the
    /// fastest path with room.
    pub(crate) fn resend_what_blocks(&mut self, world: &mut World) {
        while let Some((fast, data, slow)) = self.what_blocks(world) {
            let rtt = from_seconds(self.controller.path(slow).rtt);
            if let Scheduler::Opportunistic(state) = &mut self.scheduler
                && state.penalises(slow, world.now, rtt)
            {
                self.controller.penalise(slow);
                self.open_window(world.now, slow);
            }
            self.paths[fast].totals.retransmitted_packets += 1;
            self.send_first(world, fast, data);
        }
    }

    /// The path that sends again, the data, and the slower path that holds it.
    fn what_blocks(&mut self, world: &World) -> Option<(usize, PacketNumber, usize)> {
        let una = self.data_una;
        let (scheduler, view) = self.scheduler_and_view(world);
        let Scheduler::Opportunistic(state) = scheduler else {
            return None;
        };
        let fast = shortest(&view)?;
        let (data, slow) = held(&view, fast, una.max(state.resent))?;
        state.resent = data + 1;
        Some((fast, data, slow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_penalised_once_in_each_of_its_round_trips() {
        let mut state = Opportunistic::default();
        let times = [0, 99, 100, 150, 200].map(|now| state.penalises(1, now, 100));
        assert_eq!(times, [true, false, true, false, true]);
        assert!(state.penalises(0, 150, 100));
    }
}
