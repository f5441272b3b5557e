//! Opportunistic retransmission, and penalisation of slow paths (Raiciu et al., NSDI 2012, section
//! 4.2), beside min-RTT.
//!
//! Where the receive window stops a path that has room, the path sends the oldest data again if a
//! slower path holds it, and the window of that path is halved. Each packet is sent again once, and
//! a path is penalised at most once per RTT. The kernel of the first authors counts the RTT of the
//! path that sends again; here it is the penalised path's own, in which its window takes effect.
//! That kernel sends again only where the RTTs differ by a factor of four or the slow window is at
//! most 4 packets; the paper has no such condition, nor have we.

use anabranch_net::Time;
use anabranch_scenario::time::from_seconds;

use crate::connection::scheduler::{Scheduler, shortest};
use crate::connection::{Connection, World};
use crate::network::PacketNumber;

/// What was done about the oldest data, and when.
#[derive(Debug, Default)]
pub(crate) struct Opportunistic {
    /// All data below this has been sent again, or has arrived.
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

impl Connection {
    /// The receive window stops the connection: sends the oldest data again over the fastest path
    /// with room, if a slower one holds it.
    pub(crate) fn send_oldest_again(&mut self, world: &mut World) {
        let oldest = self.data_una;
        let (scheduler, view) = self.scheduler_and_view(world);
        let Scheduler::Opportunistic(state) = scheduler else {
            return;
        };
        let Some(fast) = shortest(&view) else { return };
        let rtt = |r: usize| view.controller.path(r).rtt;
        let holds = |r: &usize| view.paths[*r].holds(oldest);
        let Some(slow) = (0..view.paths.len()).find(holds) else {
            return;
        };
        let measured = rtt(slow).is_finite();
        let slower = measured && rtt(slow) > rtt(fast) && !view.paths[fast].holds(oldest);
        if !slower || oldest < state.resent {
            return;
        }
        state.resent = oldest + 1;
        if state.penalises(slow, world.now, from_seconds(rtt(slow))) {
            self.controller.penalise(slow);
            self.paths[slow].window = self.controller.window(slow) as u32;
        }
        self.paths[fast].totals.retransmitted_packets += 1;
        self.send_first(world, fast, oldest);
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
