//! NADA's control law (RFC 8698): the rate of a media source from queueing delay and losses.

/// PRIO, the weight of the flow.
const PRIO: f64 = 1.0;
/// XREF, the reference congestion level, s.
const XREF: f64 = 0.010;
/// KAPPA, ETA and TAU scale the gradual update; TAU is in s.
const KAPPA: f64 = 0.5;
const ETA: f64 = 2.0;
const TAU: f64 = 0.5;
/// DFILT, the bound of the filtering delay, s.
const DFILT: f64 = 0.120;
/// GAMMA_MAX, the largest ratio by which one ramp-up increases the rate.
const GAMMA_MAX: f64 = 0.5;
/// QBOUND, the bound of the queueing delay that ramp-up causes, s.
const QBOUND: f64 = 0.050;
/// QTH and LAMBDA, the threshold, s, and the exponent of the warped delay.
const QTH: f64 = 0.050;
const LAMBDA: f64 = 0.5;
/// PLRREF, a loss ratio, and DLOSS, the delay that stands for it, s.
const PLRREF: f64 = 0.01;
const DLOSS: f64 = 0.010;

/// DELTA, the time between two reports of the receiver, s.
pub const DELTA: f64 = 0.1;
/// LOGWIN, the time over which the receiver observes, s.
pub const LOGWIN: f64 = 0.5;
/// QEPS, the queueing delay above which the rate does not ramp up, s.
pub const QEPS: f64 = 0.010;
/// ALPHA, the weight of the newest loss ratio in its average (RFC 8698, section 5.1.1).
pub const ALPHA: f64 = 0.1;
/// MULTILOSS: this many average intervals between losses after a loss the delay is not warped.
pub const MULTILOSS: f64 = 7.0;

/// The aggregate congestion signal `x_curr`, s: `d_tilde` (equation 1) and the penalty of losses
/// (equation 2), without marks. `warps` says whether there were losses recently: beside flows that
/// fill queues a long delay then counts less.
pub fn congestion(queue_delay: f64, warps: bool, loss_ratio: f64) -> f64 {
    let delay = if warps && queue_delay >= QTH {
        QTH * libm::exp(-LAMBDA * (queue_delay - QTH) / QTH)
    } else {
        queue_delay
    };
    let losses = loss_ratio / PLRREF;
    delay + DLOSS * losses * losses
}

/// A receiver's report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaReport {
    /// The congestion signal, s.
    pub congestion: f64,
    /// Whether there were neither losses nor queueing delays above [`QEPS`] within [`LOGWIN`].
    pub ramps_up: bool,
    /// The rate received, bit/s.
    pub received: f64,
    /// The round-trip time, s.
    pub rtt: f64,
    /// The time since the last report, s.
    pub interval: f64,
}

/// The sender: its reference rate, within RMIN and RMAX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nada {
    smallest: f64,
    largest: f64,
    rate: f64,
    congestion: f64,
}

impl Nada {
    /// A sender at the smallest rate. Rates are bit/s.
    pub fn new(smallest: f64, largest: f64) -> Nada {
        Nada {
            smallest,
            largest,
            rate: smallest,
            congestion: 0.0,
        }
    }

    /// The reference rate `r_ref`, bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Updates the rate (section 4.3): accelerated ramp-up (equations 3 and 4), or the gradual
    /// update (equations 5 to 7).
    pub fn on_report(&mut self, report: &MediaReport) {
        let rate = self.rate;
        let updated = if report.ramps_up {
            let gamma = (QBOUND / (report.rtt + DELTA + DFILT)).min(GAMMA_MAX);
            rate.max((1.0 + gamma) * report.received)
        } else {
            let offset = report.congestion - PRIO * XREF * self.largest / rate;
            let change = report.congestion - self.congestion;
            let by_offset = KAPPA * (report.interval / TAU) * (offset / TAU) * rate;
            rate - by_offset - KAPPA * ETA * (change / TAU) * rate
        };
        self.congestion = report.congestion;
        self.rate = updated.min(self.largest).max(self.smallest);
    }
}
