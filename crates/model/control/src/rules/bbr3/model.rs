//! The model of the path: draft-ietf-ccwg-bbr-06, sections 5.5.1 to 5.5.9.

use super::{Bbr3Memory, EXTRA_ACKED_FILTER_LEN, MAX_BW_FILTER_LEN};
use crate::delivery::{Delivery, Sample};

impl Bbr3Memory {
    /// Section 5.5.1.
    fn update_round(&mut self, connection: &Delivery, rs: &Sample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(connection);
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
    }

    pub(super) fn start_round(&mut self, connection: &Delivery) {
        self.next_round_delivered = connection.delivered;
    }

    /// Section 5.5.5.
    pub(super) fn update_max_bw(&mut self, connection: &Delivery, rs: &Sample) {
        self.update_round(connection, rs);
        let counts = rs.delivery_rate >= self.max_bw || !rs.is_app_limited;
        if rs.delivery_rate > 0.0 && counts {
            let filter = &mut self.max_bw_filter;
            self.max_bw = filter.update(self.cycle_count, rs.delivery_rate, MAX_BW_FILTER_LEN);
        }
    }

    /// Section 5.5.9.
    pub(super) fn update_ack_aggregation(&mut self, rs: &Sample) {
        let interval = rs.now - self.extra_acked_interval_start;
        let mut expected_delivered = self.bw * interval;
        if self.extra_acked_delivered <= expected_delivered {
            self.extra_acked_delivered = 0.0;
            self.extra_acked_interval_start = rs.now;
            expected_delivered = 0.0;
        }
        self.extra_acked_delivered += rs.newly_acked;
        let extra = (self.extra_acked_delivered - expected_delivered).min(self.cwnd);
        let length = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked = self.extra_acked_filter.update(self.round_count, extra, length);
    }

    /// Section 5.5.10.3.
    pub(super) fn bound_bw_for_model(&mut self) {
        self.bw = self.max_bw.min(self.bw_shortterm);
    }
}
