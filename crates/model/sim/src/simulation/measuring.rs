//! Measuring: totals, gauges and samples for the tables of the result.

use anabranch_scenario::recorder::{PathGauge, Snapshot, UserGauge};
use anabranch_scenario::time::from_seconds;

use super::Simulation;
use super::users::User;
use crate::calendar::Event;
use crate::connection::Connection;

impl Simulation {
    /// Records the completed file, or all completed files of a gateway.
    pub(super) fn record_transfer(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        let row = connection.user as usize;
        let user = &mut self.users[row];
        let mut record = |started_at, bytes| {
            user.transfers_done += 1;
            self.recorder.transfer(row, started_at, bytes, self.now);
        };
        if connection.files.is_none() {
            record(connection.started_at, connection.file_bytes);
        }
        while let Some(file) = connection.deliver_file(&self.tcp) {
            record(file.arrived_at, file.bytes);
        }
    }

    fn live(&self) -> impl Iterator<Item = (&Connection, &User)> {
        let open = self
            .connections
            .iter()
            .filter(|connection| !connection.paths.is_empty());
        open.map(|connection| (connection, &self.users[connection.user as usize]))
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let now = self.now;
        let links = self.network.links().map(|link| link.counters(now));
        let links = links.collect();
        let mut users: Vec<(u64, u64)> = self
            .users
            .iter()
            .map(|user| (user.received_bytes, user.transfers_done))
            .collect();
        let mut paths = self.retired.clone();
        for (connection, user) in self.live() {
            users[connection.user as usize].0 += connection.received_bytes(&self.tcp);
            let rows = &mut paths[user.slot.first_path as usize..];
            rows.iter_mut()
                .zip(&connection.paths)
                .for_each(|(row, s)| *row += s.totals);
        }
        Snapshot {
            time: self.now,
            users,
            paths,
            links,
        }
    }

    pub(super) fn sample(&mut self) {
        let every = from_seconds(self.scenario.measure.sample_ms.get() * 1e-3);
        self.network
            .calendar
            .push(self.now + every.max(1), Event::Sample);
        let gauges = self.path_gauges();
        let user_gauges: Vec<UserGauge> = self.users.iter().map(|user| self.gauge(user)).collect();
        let now = self.now;
        let backlogs: Vec<_> = self.network.links().map(|link| link.queue(now)).collect();
        let snapshot = self.snapshot();
        self.recorder
            .sample(snapshot, &user_gauges, &gauges, &backlogs);
    }

    pub(super) fn path_gauges(&self) -> Vec<PathGauge> {
        let mut gauges = vec![PathGauge::default(); self.retired.len()];
        for (connection, user) in self.live() {
            for (r, path) in connection.paths.iter().enumerate() {
                let gauge = &mut gauges[user.slot.first_path as usize + r];
                let measured = connection.controller.path(r);
                gauge.add_window(Some(measured.window));
                gauge.in_flight += u64::from(path.sender.in_flight());
                gauge.group = connection.controller.group(r) as u32;
                if measured.rtt.is_finite() {
                    gauge.rtt_sum_s += measured.rtt;
                    gauge.measured += 1;
                }
            }
        }
        gauges
    }

    fn gauge(&self, user: &User) -> UserGauge {
        let only = user
            .connection
            .map(|number| &self.connections[number as usize]);
        UserGauge {
            kappa: only.map_or(0.0, Connection::kappa),
            buffer_packets: only.map_or(0, Connection::buffer_packets),
        }
    }
}
