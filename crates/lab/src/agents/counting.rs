//! What the agents count, and what the kernel tells them.

use anabranch_scenario::recorder::PathGauge;

use super::{Agents, Counted};
use crate::error::{Context, Error};
use crate::sys::Subflow;

/// A window beyond this, packets, is no rule's: the kernel has passed a program over and taken what it
/// found for an answer, until the next acknowledgement (docs/kernel.md).
const LARGEST_WINDOW: u32 = 1 << 24;

impl Agents<'_> {
    /// Takes all counters.
    pub(super) fn count(&mut self) -> Result<(), Error> {
        let mut gauges = vec![PathGauge::default(); self.totals.len()];
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            self.look(number, Some(&mut gauges))?;
        }
        let mut users = self.done.clone();
        for connection in self.connections.values() {
            users[connection.user].0 += connection.received;
        }
        self.played.counted.push(Counted {
            users,
            gauges,
            paths: self.totals.clone(),
        });
        Ok(())
    }

    /// Asks the kernel about a connection, and adds up what it says.
    pub(super) fn look(
        &mut self,
        number: u64,
        mut gauges: Option<&mut [PathGauge]>,
    ) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let user = connection.user;
        let first_row = self.seats[user].first_path as usize;
        let subflows = connection.look().context("asking about a connection")?;
        if connection.fell_back && !self.played.fell_back.contains(&user) {
            self.played.fell_back.push(user);
        }
        for (path, subflow, timeouts) in subflows {
            let totals = &mut self.totals[first_row + path];
            totals.timeouts += timeouts;
            if !subflow.open || subflow.rtt_us == 0 {
                continue;
            }
            let rtt_s = f64::from(subflow.rtt_us) * 1e-6;
            totals.rtt_sum_s += rtt_s;
            totals.rtt_samples += 1;
            if let Some(gauges) = &mut gauges
                && !add(&mut gauges[first_row + path], &subflow)
            {
                self.played.left_out += 1;
            }
        }
        Ok(())
    }
}

/// Adds a subflow to what its path looks like, unless its window can't be one.
fn add(gauge: &mut PathGauge, subflow: &Subflow) -> bool {
    if subflow.window > LARGEST_WINDOW {
        gauge.add_window(None);
        return false;
    }
    gauge.add_window(Some(subflow.window.into()));
    gauge.in_flight += u64::from(subflow.in_flight);
    gauge.rtt_sum_s += f64::from(subflow.rtt_us) * 1e-6;
    gauge.measured += 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 183 148 773 packets for a threshold, a fifth of it for a window: seen in a run.
    #[test]
    fn a_window_that_is_no_rules_is_left_out() {
        let subflow = |window| Subflow {
            window,
            in_flight: 3,
            rtt_us: 50_000,
            ..Subflow::default()
        };
        let mut gauge = PathGauge::default();
        assert!(add(&mut gauge, &subflow(5)));
        assert!(!add(&mut gauge, &subflow(2_183_148_773 / 5)));
        assert_eq!(
            (gauge.window, gauge.in_flight, gauge.measured),
            (None, 3, 1)
        );
    }
}
