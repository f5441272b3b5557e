//! The detection of token-bucket policers ("long-term" samples of the bandwidth).
//!
//! A policer lets through its rate and a burst, and drops the rest. Two intervals in a row that
//! begin and end with a loss, with losses of a fifth of what was delivered or more and with
//! about the same rate, are taken for one; that rate is then used for 48 round trips.

use crate::delivery::{Delivery, Sample};

const INTERVAL_MIN_ROUNDS: u32 = 4;
/// Ratio of losses to deliveries: 50 of 256.
const LOSS_THRESH: f64 = 50.0 / 256.0;
/// Largest difference of consistent rates, relative to the earlier one.
const BW_RATIO: f64 = 1.0 / 8.0;
/// Difference that is always consistent, packets/s: 4 kbit/s in packets of 1448 bytes.
const BW_DIFF: f64 = 4000.0 / 8.0 / 1448.0;
const MAX_ROUNDS: u32 = 48;
/// The shortest interval, s.
const SHORTEST: f64 = 0.001;

/// The state of the detection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    is_sampling: bool,
    uses_bw: bool,
    /// Rate of the last interval, packets/s; 0: none.
    bw: f64,
    rounds: u32,
    last_stamp: f64,
    last_delivered: f64,
    last_lost: f64,
}

impl Policer {
    /// The policer's rate, if there seems to be one, packets/s.
    pub fn rate(&self) -> Option<f64> {
        self.uses_bw.then_some(self.bw)
    }

    /// `bbr_reset_lt_bw_sampling`.
    pub fn reset(&mut self, connection: &Delivery) {
        *self = Policer::default();
        self.start_interval(connection);
    }

    fn start_interval(&mut self, connection: &Delivery) {
        self.last_stamp = connection.delivered_time;
        self.last_delivered = connection.delivered;
        self.last_lost = connection.lost;
        self.rounds = 0;
    }

    /// `bbr_lt_bw_sampling`: true if the rate has been used for long enough and is given up.
    pub fn sample(
        &mut self,
        connection: &Delivery,
        rs: &Sample,
        round_start: bool,
        is_cycling: bool,
    ) -> bool {
        if self.uses_bw {
            self.rounds += u32::from(is_cycling && round_start);
            let is_over = self.rounds >= MAX_ROUNDS;
            if is_over {
                self.reset(connection);
            }
            return is_over;
        }
        self.measure(connection, rs, round_start);
        false
    }

    fn measure(&mut self, connection: &Delivery, rs: &Sample, round_start: bool) {
        let has_losses = rs.newly_lost > 0.0;
        if !self.is_sampling {
            if !has_losses {
                return;
            }
            self.start_interval(connection);
            self.is_sampling = true;
        }
        if rs.is_app_limited {
            return self.reset(connection);
        }
        self.rounds += u32::from(round_start);
        if self.rounds < INTERVAL_MIN_ROUNDS {
            return;
        }
        if self.rounds > 4 * INTERVAL_MIN_ROUNDS {
            return self.reset(connection);
        }
        let lost = connection.lost - self.last_lost;
        let delivered = connection.delivered - self.last_delivered;
        let elapsed = connection.delivered_time - self.last_stamp;
        let is_lossy = delivered > 0.0 && lost >= LOSS_THRESH * delivered;
        if has_losses && is_lossy && elapsed >= SHORTEST {
            self.end_interval(connection, delivered / elapsed);
        }
    }

    /// `bbr_lt_bw_interval_done`.
    fn end_interval(&mut self, connection: &Delivery, bw: f64) {
        let diff = (bw - self.bw).abs();
        if self.bw > 0.0 && (diff <= BW_RATIO * self.bw || diff <= BW_DIFF) {
            self.bw = (bw + self.bw) / 2.0;
            self.uses_bw = true;
            self.rounds = 0;
        } else {
            self.bw = bw;
            self.start_interval(connection);
        }
    }
}
