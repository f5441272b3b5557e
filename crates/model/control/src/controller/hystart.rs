//! HyStart++ (RFC 9406): slow start that ends when the RTT rises.

use crate::ack::Ack;
use crate::controller::Controller;
use crate::rule::Rule;

/// Bounds of the rise of a round's smallest RTT that ends slow start, s, and its share of the RTT.
const MIN_RTT_THRESH: f64 = 0.004;
const MAX_RTT_THRESH: f64 = 0.016;
const MIN_RTT_DIVISOR: f64 = 8.0;
/// RTT samples of a round from which its smallest RTT is judged.
const N_RTT_SAMPLE: u32 = 8;
/// How much slower than slow start conservative slow start (CSS) is, and its longest duration.
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;
/// The most packets for which one ACK opens the window; for a sender that is not paced.
const L: u32 = 8;

/// The first slow start of a path (RFC 9406, section 4.2). Times are s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hystart {
    round_start: f64,
    last_min_rtt: f64,
    current_min_rtt: f64,
    samples: u32,
    /// `cssBaselineMinRtt`; infinite in slow start.
    baseline: f64,
    css_rounds: u32,
}

/// What an ACK does to a window in slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Growth {
    packets: f64,
    /// Whether slow start is over.
    leaves: bool,
}

impl Hystart {
    pub(super) const NEW: Hystart = Hystart {
        round_start: f64::NEG_INFINITY,
        last_min_rtt: f64::INFINITY,
        current_min_rtt: f64::INFINITY,
        samples: 0,
        baseline: f64::INFINITY,
        css_rounds: 0,
    };

    fn is_conservative(&self) -> bool {
        self.baseline < f64::INFINITY
    }

    fn on_ack(&mut self, ack: &Ack) -> Growth {
        let mut leaves = false;
        if ack.sent_at >= self.round_start {
            self.round_start = ack.now;
            self.last_min_rtt = self.current_min_rtt;
            self.current_min_rtt = f64::INFINITY;
            self.samples = 0;
            // The round in which CSS began counts, too.
            self.css_rounds += u32::from(self.is_conservative());
            leaves = self.css_rounds >= CSS_ROUNDS;
        }
        let packets = f64::from(ack.packets.min(L));
        let growth = Growth {
            packets: if self.is_conservative() {
                packets / CSS_GROWTH_DIVISOR
            } else {
                packets
            },
            leaves,
        };
        if let Some(rtt) = ack.rtt.filter(|&rtt| rtt > 0.0) {
            self.current_min_rtt = self.current_min_rtt.min(rtt);
            self.samples += 1;
        }
        self.judge();
        growth
    }

    /// Enters CSS where the RTT has risen, and slow start again where it has fallen since.
    fn judge(&mut self) {
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        if self.is_conservative() {
            if self.current_min_rtt < self.baseline {
                self.baseline = f64::INFINITY;
                self.css_rounds = 0;
            }
        } else if self.last_min_rtt < f64::INFINITY {
            let share = self.last_min_rtt / MIN_RTT_DIVISOR;
            let rise = share.clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            if self.current_min_rtt >= self.last_min_rtt + rise {
                self.baseline = self.current_min_rtt;
            }
        }
    }
}

impl<R: Rule> Controller<R> {
    /// Whether the first slow start of every path, up to the first loss, is HyStart++ (RFC 9406).
    /// Without effect on delay-based rules, which leave slow start themselves, and on paths with an
    /// ssthresh.
    pub fn set_hystart(&mut self, on: bool) {
        self.hystart.clear();
        self.has_hystart = on && !R::DELAY_BASED;
        for r in 0..self.paths.len() {
            if !R::DELAY_BASED {
                self.state[r].holds = false;
            }
            self.begin_hystart(r);
        }
    }

    /// A new path begins: `holds` diverts its growth to [`grow_held`](Self::grow_held).
    pub(super) fn begin_hystart(&mut self, r: usize) {
        if self.has_hystart {
            self.hystart.resize(self.paths.len(), Hystart::NEW);
            self.hystart[r] = Hystart::NEW;
            self.state[r].holds = true;
        }
    }

    /// Growth of a window that does not grow by a packet per packet.
    #[cold]
    pub(super) fn grow_held(&mut self, r: usize, ack: &Ack) {
        let Some(hystart) = self.hystart.get_mut(r) else {
            return;
        };
        if self.state[r].ssthresh < f64::INFINITY {
            self.state[r].holds = false;
            return self.grow(r, ack);
        }
        let growth = hystart.on_ack(ack);
        self.change_window(r, growth.packets);
        if growth.leaves {
            self.state[r].holds = false;
            self.state[r].ssthresh = self.paths[r].window.max(self.smallest_ssthresh(r));
            self.enter_avoidance(r);
        }
    }
}
