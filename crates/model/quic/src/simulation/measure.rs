//! Counters and gauges of a run at one moment.

use anabranch_scenario::recorder::{PathGauge, Snapshot, UserGauge};
use anabranch_scenario::time::from_seconds;

use super::Simulation;
use crate::calendar::Event;
use crate::connection::Connection;

impl Simulation {
    fn live(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().flatten().map(|boxed| &**boxed)
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let mut paths = self.totals.clone();
        for connection in self.live() {
            let first = self.row(connection.user, 0);
            for (row, report) in paths[first..].iter_mut().zip(connection.reports()) {
                *row += report;
            }
        }
        Snapshot {
            time: self.now,
            users: self.users.clone(),
            paths,
            links: self.links.counters(self.now),
        }
    }

    pub(super) fn sample(&mut self) {
        let every = from_seconds(self.scenario.measure.sample_ms.get() * 1e-3);
        self.calendar.push(self.now + every.max(1), Event::Sample);
        let datagram_bytes = u64::from(self.settings.datagram_bytes);
        let mut gauges = vec![PathGauge::default(); self.totals.len()];
        let mut kappas = vec![0.0; self.slots.len()];
        for connection in self.live() {
            let first = self.row(connection.user, 0);
            connection.pair.controller().read(|controller, reports| {
                for (r, report) in reports.iter().enumerate() {
                    let (gauge, path) = (&mut gauges[first + r], controller.path(r));
                    gauge.add_window(Some(report.bbr_window().unwrap_or(path.window)));
                    gauge.in_flight += report.in_flight_bytes.div_ceil(datagram_bytes);
                    gauge.group = controller.group(r) as u32;
                    if path.rtt.is_finite() {
                        gauge.rtt_sum_s += path.rtt;
                        gauge.measured += 1;
                    }
                }
                if connection.file.is_none() {
                    kappas[connection.user] = controller.weight().unwrap_or(0.0);
                }
            });
        }
        let gauge = |kappa| UserGauge {
            kappa,
            buffer_packets: 0,
        };
        let user_gauges: Vec<UserGauge> = kappas.into_iter().map(gauge).collect();
        let backlogs = self.links.backlogs(self.now);
        let snapshot = self.snapshot();
        self.recorder
            .sample(snapshot, &user_gauges, &gauges, &backlogs);
    }
}
