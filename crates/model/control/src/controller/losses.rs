//! Losses: what a loss event, its repair and a timeout change.

use crate::controller::{Controller, LOSS_INTERVAL_GAIN, Phase};
use crate::delivery::Event;
use crate::rule::Rule;

impl<R: Rule> Controller<R> {
    /// A loss event on path `r`: the window falls by the rule's decrease, to no less than the
    /// smallest ssthresh, and does not change until [`on_recovered`](Controller::on_recovered). The
    /// endpoint reports at most one per round trip; in recovery it is ignored. A rule by delivery
    /// rates sets the window itself.
    pub fn on_loss(&mut self, r: usize) {
        if self.state[r].phase == Phase::Recovery {
            return;
        }
        self.count_loss(r);
        self.state[r].phase = Phase::Recovery;
        if R::BY_RATE {
            return self.tell(r, &Event::Recovery);
        }
        self.cut_ssthresh(r);
        let ssthresh = self.state[r].ssthresh;
        let path = &mut self.paths[r];
        path.prior_peak = path.peak;
        path.peak = path.window;
        path.window = path.window.min(ssthresh);
        path.epoch_window = path.window;
        (path.age, path.rounds) = (0.0, 0.0);
    }

    /// All that was outstanding on path `r` at the loss is acknowledged: recovery is over.
    pub fn on_recovered(&mut self, r: usize) {
        if R::BY_RATE {
            self.tell(r, &Event::Recovered);
        }
        if self.state[r].phase == Phase::Recovery {
            self.resume(r);
        }
    }

    /// The retransmission timer of path `r` expired: a window of 1 and slow start, up to what the
    /// rule's decrease leaves (RFC 5681, equation 4, with the window for the flight size).
    ///
    /// Another timeout before any packet is acknowledged is the same packet's, and keeps ssthresh
    /// (RFC 5681, section 3.1). So does a timeout in recovery: the flight is still the one that had
    /// the loss, and its ssthresh is set.
    pub fn on_timeout(&mut self, r: usize) {
        if self.state[r].timed_out {
            return;
        }
        self.keep_for_undo(r);
        if R::BY_RATE {
            self.tell(r, &Event::Timeout);
        }
        if self.state[r].phase != Phase::Recovery {
            self.count_loss(r);
            if !R::BY_RATE {
                self.cut_ssthresh(r);
            }
        }
        self.state[r].phase = Phase::SlowStart;
        self.state[r].timed_out = true;
        let path = &mut self.paths[r];
        path.window = 1.0;
        // RFC 9438, section 4.8: the stage after a timeout has no earlier peak.
        (path.peak, path.prior_peak) = (0.0, 0.0);
    }

    fn count_loss(&mut self, r: usize) {
        let path = &mut self.paths[r];
        let packets = path.since_loss.max(1.0);
        path.loss_interval = if path.loss_interval == 0.0 {
            packets
        } else {
            path.loss_interval + LOSS_INTERVAL_GAIN * (packets - path.loss_interval)
        };
        path.between_losses = packets;
        path.since_loss = 0.0;
        self.state[r].increase = f64::NAN;
        self.rule.on_loss(&mut self.memory[r]);
    }

    fn cut_ssthresh(&mut self, r: usize) {
        let window = self.paths[r].window;
        let decrease = self.apply(r, |rule, r, paths, _| rule.decrease(r, paths));
        // `f64::min` ignores NaN.
        let left = (window - decrease).min(window);
        self.state[r].ssthresh = left.max(self.smallest_ssthresh(r));
    }
}
