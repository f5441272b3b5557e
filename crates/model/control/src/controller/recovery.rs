//! Recovery: what a loss event, its repair, a timeout, its undo and marks change.

use alloc::boxed::Box;

use crate::controller::{Controller, LOSS_INTERVAL_GAIN, Phase};
use crate::delivery::Event;
use crate::path::Path;
use crate::rule::Rule;

/// The state of a path before its last timeout or kept loss; `None` if that must not be undone.
pub(super) type BeforeLoss<R> = Option<Box<Kept<<R as Rule>::Memory<f64>>>>;

/// The state of a path that a timeout or a loss changes.
#[derive(Clone, Debug)]
pub(super) struct Kept<M> {
    phase: Phase,
    ssthresh: f64,
    path: Path<f64>,
    memory: M,
}

impl<R: Rule> Controller<R> {
    /// A loss event on path `r`: the window falls by the rule's decrease, to no less than the
    /// smallest ssthresh, and does not change until [`on_recovered`](Controller::on_recovered). The
    /// endpoint reports at most one per round trip; in recovery it is ignored. A rule by delivery
    /// rates sets the window itself.
    pub fn on_loss(&mut self, r: usize) {
        self.on_congestion(r, None);
    }

    /// The first mark (ECN) of a round trip on path `r`, for a rule that is not scalable: a loss
    /// event, but the window falls to `beta_ecn` of it where that is set (RFC 8511, section 3). A
    /// rule by delivery rates ignores marks (draft-ietf-ccwg-bbr-06, section 3.7).
    pub fn on_mark(&mut self, r: usize) {
        if !R::BY_RATE {
            self.on_congestion(r, self.beta_ecn);
        }
    }

    fn on_congestion(&mut self, r: usize, left: Option<f64>) {
        if self.state[r].phase == Phase::Recovery {
            return;
        }
        self.count_loss(r);
        self.state[r].phase = Phase::Recovery;
        if R::BY_RATE {
            return self.tell(r, &Event::Recovery);
        }
        self.cut_ssthresh(r, left);
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
    /// the loss, and its ssthresh is set. The siblings do not count a path with two timeouts in a
    /// row ([`on_silence`](Controller::on_silence)).
    pub fn on_timeout(&mut self, r: usize) {
        if self.state[r].timed_out {
            return self.on_silence(r);
        }
        self.keep_for_undo(r);
        if R::BY_RATE {
            self.tell(r, &Event::Timeout);
        }
        if self.state[r].phase != Phase::Recovery {
            self.count_loss(r);
            if !R::BY_RATE {
                self.cut_ssthresh(r, None);
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

    /// Sets ssthresh to this share of the window, or to what the rule's decrease leaves.
    fn cut_ssthresh(&mut self, r: usize, share: Option<f64>) {
        let window = self.paths[r].window;
        let decrease = match share {
            Some(share) => window * (1.0 - share),
            None => self.apply(r, |rule, r, paths, _| rule.decrease(r, paths)),
        };
        // `f64::min` ignores NaN.
        let left = (window - decrease).min(window);
        self.state[r].ssthresh = left.max(self.smallest_ssthresh(r));
    }
}

/// Undo of a spurious timeout or loss (RFC 4015).
impl<R: Rule> Controller<R> {
    /// The last timeout of path `r`, or the last loss before which
    /// [`keep_for_undo`](Controller::keep_for_undo) was called, was spurious: nothing was lost. The
    /// endpoint reports this before the acknowledgement that shows it. Window, ssthresh and phase
    /// are as before, and so are the rule's memory and the path's counters of losses, because no
    /// loss happened.
    ///
    /// A timeout in recovery is not undone: there was a loss before it.
    pub fn on_spurious(&mut self, r: usize) {
        let before = self.before_loss.get_mut(r).and_then(Option::take);
        let Some(before) = before else {
            return;
        };
        let path = &mut self.paths[r];
        *path = Path {
            window: before.path.window.max(path.window),
            since_loss: before.path.since_loss + path.since_loss,
            rtt: path.rtt,
            base_rtt: path.base_rtt,
            round_rtt: path.round_rtt,
            queue_delay: path.queue_delay,
            ..before.path
        };
        if !R::BY_RATE {
            self.memory[r] = before.memory;
        }
        let state = &mut self.state[r];
        state.phase = before.phase;
        state.ssthresh = before.ssthresh;
        state.timed_out = false;
        state.increase = f64::NAN;
        if R::BY_RATE {
            self.tell(r, &Event::Spurious);
        }
    }

    /// Keeps what a loss of path `r` is about to change, for
    /// [`on_spurious`](Controller::on_spurious). A timeout does so by itself.
    pub fn keep_for_undo(&mut self, r: usize) {
        self.before_loss.resize_with(self.paths.len(), || None);
        let state = &self.state[r];
        self.before_loss[r] = (state.phase != Phase::Recovery).then(|| {
            Box::new(Kept {
                phase: state.phase,
                ssthresh: state.ssthresh,
                path: self.paths[r],
                memory: self.memory[r],
            })
        });
    }
}

/// Marks (ECN) that acknowledgements count.
impl<R: Rule> Controller<R> {
    /// Whether the rule reduces the window by the share of packets that are marked
    /// ([`Rule::SCALABLE`]), so that its packets may say so (ECT(1), RFC 9331).
    pub fn is_scalable(&self) -> bool {
        R::SCALABLE
    }

    /// A round trip of path `r` is over, in which this share, 0 to 1, of the packets was marked. If
    /// any was, a scalable rule's window falls by [`Rule::decrease_at_marks`], to no less than the
    /// smallest ssthresh, and may grow at once; in recovery it does not change. For every other
    /// rule the endpoint reports the first mark of a round trip by
    /// [`on_mark`](Controller::on_mark).
    pub fn on_marked_share(&mut self, r: usize, share: f64) {
        self.rule.on_marked_share(&mut self.memory[r], share);
        if !R::SCALABLE || share <= 0.0 || self.state[r].phase == Phase::Recovery {
            return;
        }
        let path = &self.paths[r];
        let decrease = self.rule.decrease_at_marks(path, &self.memory[r]);
        // `f64::min` ignores NaN.
        let left = (path.window - decrease).min(path.window);
        let ssthresh = left.max(self.smallest_ssthresh(r));
        self.state[r].ssthresh = ssthresh;
        self.paths[r].window = self.paths[r].window.min(ssthresh);
        self.resume(r);
    }
}
