//! Marks (ECN) that acknowledgements count.

use crate::controller::{Controller, Phase};
use crate::rule::Rule;

impl<R: Rule> Controller<R> {
    /// Whether the rule reduces the window by the share of packets that are marked
    /// ([`Rule::SCALABLE`]), so that its packets may say so (ECT(1), RFC 9331).
    pub fn is_scalable(&self) -> bool {
        R::SCALABLE
    }

    /// A round trip of path `r` is over, in which this share, 0 to 1, of the packets was marked. If
    /// any was, a scalable rule's window falls by [`Rule::decrease_at_marks`], to no less than the
    /// smallest ssthresh, and may grow at once; in recovery it does not change. For every other
    /// rule the endpoint reports the first mark of a round trip as a loss.
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
