//! What the agents count, and what the kernel tells them.

use anabranch_scenario::recorder::PathGauge;

use super::{Agents, Counted};
use crate::error::{Context, Error};

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
            if let Some(gauges) = &mut gauges {
                let gauge = &mut gauges[first_row + path];
                gauge.window += f64::from(subflow.window);
                gauge.in_flight += u64::from(subflow.in_flight);
                gauge.rtt_sum_s += rtt_s;
                gauge.measured += 1;
            }
        }
        Ok(())
    }
}
