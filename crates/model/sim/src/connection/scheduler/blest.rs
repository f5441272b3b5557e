//! BLEST, blocking estimation (Ferlin, Alay, Mehani, Boreli, IFIP Networking 2016).
//!
//! A packet on a slow path occupies the send window of the connection for that path's RTT. The
//! fastest path could send `X = (CWND_F + (rtts - 1) / 2) rtts` packets in this time, `rtts = RTT_S
//! / RTT_F`, because its window grows by one per round trip. The slow path waits if `lambda X`
//! packets do not fit beside what it has in flight and the packet at hand: into `M - (inflight_S +
//! 1)`, M the window. `lambda` corrects the estimate: it grows whenever the window blocked the fast
//! path, and shrinks otherwise.
//!
//! The paper has no constants for lambda; these are of the authors' kernel module: 1.2 at first,
//! from 1 to 1.3, and each smallest RTT of the slow path 0.04 more or 0.01 less. The module
//! estimates X in slow start by doubling windows, and it also penalises slow paths, neither of
//! which the paper has: here X is the paper's, and no path is penalised. The window is the receive
//! buffer, because these connections have a send buffer that is at least as large.

use anabranch_net::Time;
use anabranch_scenario::time::from_seconds;

use crate::connection::scheduler::{View, fastest, shortest_unless};

const FIRST: f64 = 1.2;
const LEAST: f64 = 1.0;
const MOST: f64 = 1.3;
const BLOCKED: f64 = 0.04;
const FREE: f64 = -0.01;

/// The correction of the estimate.
#[derive(Debug)]
pub(crate) struct Blest {
    lambda: f64,
    /// When it was last corrected.
    corrected_at: Time,
    /// Whether the window has blocked the fastest path since then.
    blocked: bool,
}

impl Default for Blest {
    fn default() -> Self {
        Blest {
            lambda: FIRST,
            corrected_at: 0,
            blocked: false,
        }
    }
}

/// Packets that a path with a window of `cwnd` sends in `rtts` of its round trips, as its window
/// grows by one in each.
fn sendable(cwnd: f64, rtts: f64) -> f64 {
    (cwnd + (rtts - 1.0) / 2.0) * rtts
}

impl Blest {
    pub fn pick(&mut self, view: &View) -> Option<usize> {
        shortest_unless(view, |slow, fast| {
            let [slow_rtt, fast_rtt] = [slow, fast].map(|r| view.controller.path(r).rtt);
            self.correct(view.now, view.controller.path(slow).base_rtt);
            let wanted = sendable(f64::from(view.paths[fast].window), slow_rtt / fast_rtt);
            let held = u64::from(view.paths[slow].sender.in_flight()) + 1;
            !self.fits(wanted, view.receive_buffer.saturating_sub(held))
        })
    }

    fn fits(&self, packets: f64, room: u64) -> bool {
        self.lambda * packets <= room as f64
    }

    /// The receive window stops the connection.
    pub fn on_blocked(&mut self, view: &View) {
        self.blocked |= fastest(view).is_some_and(|fast| view.paths[fast].has_room());
    }

    fn correct(&mut self, now: Time, every_s: f64) {
        if now < self.corrected_at + from_seconds(every_s) {
            return;
        }
        let change = if self.blocked { BLOCKED } else { FREE };
        self.lambda = (self.lambda + change).clamp(LEAST, MOST);
        self.corrected_at = now;
        self.blocked = false;
    }
}

#[cfg(test)]
mod tests {
    use anabranch_scenario::time::SECOND;

    use super::*;

    /// A window of 10 in ten round trips, 10, 11, ... 19: 145 packets, and with lambda = 1.2 174.
    #[test]
    fn the_slow_path_waits_if_the_fast_one_would_lack_a_packet_of_window() {
        let blest = Blest::default();
        let wanted = sendable(10.0, 10.0);
        assert_eq!(wanted, f64::from((10..20).sum::<u32>()));
        assert!(blest.fits(wanted, 174));
        assert!(!blest.fits(wanted, 173));
    }

    /// After 0.1 s: 1.2 - 0.01, or 1.2 + 0.04; no more than 1.3 and no less than 1.
    #[test]
    fn lambda_grows_if_the_window_blocked_the_fast_path_and_shrinks_if_not() {
        let mut blest = Blest::default();
        blest.correct(SECOND / 20, 0.1);
        assert_eq!(blest.lambda, 1.2);
        let mut now = SECOND / 10;
        let mut after = |blocked: bool, times: usize| {
            for _ in 0..times {
                blest.blocked = blocked;
                blest.correct(now, 0.1);
                now += SECOND / 10;
            }
            (blest.lambda * 100.0).round() as u32
        };
        assert_eq!(after(false, 1), 119);
        assert_eq!(after(true, 1), 123);
        assert_eq!(after(true, 9), 130);
        assert_eq!(after(false, 50), 100);
    }
}
