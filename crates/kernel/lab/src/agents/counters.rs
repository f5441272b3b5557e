//! The counters of the agents, and the state of each path that the kernel reports.

use anabranch_control::MAX_WINDOW;
use anabranch_scenario::recorder::PathGauge;
use anabranch_sockets::Subflow;

use super::{Agents, HostCounters};
use crate::error::{Context, Error};

impl Agents<'_> {
    /// Takes one sample of all counters.
    pub(super) fn sample(&mut self) -> Result<(), Error> {
        let mut gauges = vec![PathGauge::default(); self.totals.len()];
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            self.update_paths(number, Some(&mut gauges))?;
        }
        let mut users = self.finished.clone();
        for connection in self.connections.values() {
            users[connection.user].0 += connection.received;
        }
        self.report.counters.push(HostCounters {
            users,
            gauges,
            paths: self.totals.clone(),
        });
        Ok(())
    }

    /// Reads a connection's state from the kernel and adds it to the totals and to `gauges`.
    pub(super) fn update_paths(
        &mut self,
        number: u64,
        mut gauges: Option<&mut [PathGauge]>,
    ) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let user = connection.user;
        let first_row = self.slots[user].first_path as usize;
        let subflows = connection
            .subflows()
            .context("reading a connection's state")?;
        if connection.fell_back && !self.report.fell_back.contains(&user) {
            self.report.fell_back.push(user);
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
                self.report.discarded_windows += 1;
            }
        }
        Ok(())
    }
}

/// Adds a subflow to the gauge of its path. Returns false, and adds nothing, if its window is above
/// [`MAX_WINDOW`]: no rule sets one, so the kernel has skipped a BPF program and read uninitialised
/// stack memory as its result (docs/reference/kernel.md).
fn add(gauge: &mut PathGauge, subflow: &Subflow) -> bool {
    if f64::from(subflow.window) > MAX_WINDOW {
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

    /// One run had a ssthresh of 2 183 148 773 packets and a window of a fifth of it.
    #[test]
    fn windows_above_the_largest_are_discarded() {
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
