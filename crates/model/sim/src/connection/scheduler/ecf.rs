//! ECF, earliest completion first (Lim, Nahum, Towsley, Gibbens, CoNEXT 2017, algorithm 1).
//!
//! With `k` packets to be sent, waiting for the fastest path takes `n RTT_f`, `n = 1 + k / CWND_f`,
//! and sending over a slower one at least its RTT. The slower path waits if `n RTT_f < (1 + waiting
//! beta) (RTT_s + delta)` and `k / CWND_s RTT_s >= 2 RTT_f + delta`; `delta` is the larger
//! deviation of both RTTs, and `waiting`, 1 after a decision to wait, makes the next alike (beta =
//! 1/4).
//!
//! As printed, with `k / CWND` below 1 for the end of a file, the second condition would send a
//! last packet over the slow path at once. The authors' kernel module counts at least one round
//! trip in both, and so do we. `k` is what the receive window lets be sent: the send buffer is as
//! large as the receive buffer, where the module has Linux' of its time.

use crate::connection::scheduler::{View, shortest_unless};

const BETA: f64 = 0.25;

/// The memory of ECF: `waiting` if the last decision was to wait.
#[derive(Debug, Default)]
pub(crate) struct Ecf {
    waiting: bool,
}

/// The speed of a path: its window, packets, and its RTT, s.
struct Speed {
    cwnd: f64,
    rtt: f64,
}

impl Speed {
    /// Time in which the path sends `packets`, in whole windows or more, s.
    fn sends(&self, packets: f64) -> f64 {
        (packets / self.cwnd).max(1.0) * self.rtt
    }
}

impl Ecf {
    pub fn pick(&mut self, view: &View) -> Option<usize> {
        let path = |r: usize| Speed {
            cwnd: view.paths[r].window.into(),
            rtt: view.controller.path(r).rtt,
        };
        let deviation = |r: usize| view.paths[r].rto.deviation_s();
        shortest_unless(view, |slow, fast| {
            let delta = deviation(slow).max(deviation(fast));
            self.waits(&path(fast), &path(slow), view.unsent as f64, delta)
        })
    }

    fn waits(&mut self, fast: &Speed, slow: &Speed, unsent: f64, delta: f64) -> bool {
        let margin = if self.waiting { 1.0 + BETA } else { 1.0 };
        if fast.rtt + fast.sends(unsent) >= margin * (slow.rtt + delta) {
            self.waiting = false;
            return false;
        }
        let waits = slow.sends(unsent) >= 2.0 * fast.rtt + delta;
        self.waiting |= waits;
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Speed = Speed {
        cwnd: 10.0,
        rtt: 10.0,
    };

    fn slow(rtt: f64) -> Speed {
        Speed { cwnd: 10.0, rtt }
    }

    /// 90 packets take 10 + 9 * 10 = 100 ms over the fast path, and a packet over the slow one 100
    /// or 101 ms. Then waiting adds a quarter: 115 packets take 10 + 115 = 125 ms, less than 1.25 *
    /// 101 = 126.25; 117 take 127 ms.
    #[test]
    fn data_waits_while_the_fast_path_completes_it_earlier() {
        let mut ecf = Ecf::default();
        assert!(!ecf.waits(&FAST, &slow(100.0), 90.0, 0.0));
        assert!(ecf.waits(&FAST, &slow(101.0), 90.0, 0.0));
        assert!(ecf.waits(&FAST, &slow(101.0), 115.0, 0.0));
        assert!(!ecf.waits(&FAST, &slow(101.0), 117.0, 0.0));
        assert!(!ecf.waits(&FAST, &slow(101.0), 115.0, 0.0));
    }

    /// One packet: two round trips of the fast path, 20 ms, or one of the slow one. With delta = 5
    /// ms a slow path of 16 ms gives 20 < 16 + 5, but 16 < 20 + 5: it is not too slow.
    #[test]
    fn a_path_that_is_hardly_slower_sends() {
        let mut ecf = Ecf::default();
        assert!(ecf.waits(&FAST, &slow(30.0), 1.0, 5.0));
        let mut ecf = Ecf::default();
        assert!(!ecf.waits(&FAST, &slow(16.0), 1.0, 5.0));
        assert!(!ecf.waiting);
    }
}
