//! Marks (ECN): what the endpoint reports of them.

use crate::controller::{Controller, Phase};
use crate::rule::Rule;

impl<R: Rule> Controller<R> {
    /// Whether the rule reduces the window by the share of packets that are marked
    /// ([`Rule::SCALABLE`]), so that its packets may say so (ECT(1), RFC 9331).
    pub fn is_scalable(&self) -> bool {
        R::SCALABLE
    }

    /// The first mark of a round trip on path `r`. A scalable rule's window falls by
    /// [`Rule::decrease_at_mark`], to no less than the smallest ssthresh, and may grow at once; in
    /// recovery nothing changes. Every other rule takes it as a loss whose repair is complete, with
    /// [`on_recovered`](Controller::on_recovered), when all that was outstanding is acknowledged.
    pub fn on_mark(&mut self, r: usize) {
        if !R::SCALABLE {
            return self.on_loss(r);
        }
        if self.state[r].phase == Phase::Recovery {
            return;
        }
        let path = &self.paths[r];
        let decrease = self.rule.decrease_at_mark(path, &self.memory[r]);
        // `f64::min` ignores NaN.
        let left = (path.window - decrease).min(path.window);
        let ssthresh = left.max(self.smallest_ssthresh(r));
        self.state[r].ssthresh = ssthresh;
        self.paths[r].window = self.paths[r].window.min(ssthresh);
        self.resume(r);
    }

    /// A round trip of path `r` is over, in which this share of the packets was marked, from 0 to
    /// 1. For endpoints whose acknowledgements count marks.
    pub fn on_marked_share(&mut self, r: usize, share: f64) {
        self.rule.on_marked_share(&mut self.memory[r], share);
    }
}
