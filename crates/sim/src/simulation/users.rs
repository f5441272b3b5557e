//! Actions of users: begin, pause, open connections, add files to gateways.

use anabranch_control::Adjuster;
use anabranch_scenario::Workload;

use super::Simulation;
use crate::build::{adjuster_dice, host_seed};
use crate::calendar::Event;
use crate::connection::{Connection, World};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::{next_gap, next_size};

impl Simulation {
    pub(super) fn begin(&mut self, user: u32) {
        let row = user as usize;
        if self.users[row].slot.has_stopped(self.now) {
            return;
        }
        let workload = &self.plans[self.users[row].slot.flow as usize].workload;
        let dice = &mut self.users[row].slot.dice;
        if let Workload::OnOff { on_s, .. } = workload {
            let pause = self.now + from_seconds(on_s.get());
            self.network.calendar.push(pause, Event::Pause(user));
        }
        if let Some(gap) = next_gap(workload, dice) {
            self.network
                .calendar
                .push(self.now + gap, Event::Begin(user));
        }
        let pools = matches!(workload, Workload::Gateway { .. });
        match next_size(workload, dice) {
            Some(bytes) if pools => {
                let number = self.gateway(user);
                self.connect(number, |connection, world| {
                    connection.pool_file(world, bytes)
                });
            }
            Some(bytes) => {
                let number = self.open(user);
                self.connect(number, |connection, world| {
                    connection.send_file(world, bytes)
                });
            }
            None => {
                let number = self.users[row]
                    .connection
                    .unwrap_or_else(|| self.open(user));
                self.users[row].connection = Some(number);
                self.connect(number, |connection, world| connection.resume(world));
            }
        }
    }

    /// Pauses a user's transfer; files in transit are finished.
    pub(super) fn pause(&mut self, user: u32) {
        let row = &self.users[user as usize];
        if let Some(number) = row.connection {
            self.connections[number as usize].pause();
        }
        let workload = &self.plans[row.slot.flow as usize].workload;
        if let (Workload::OnOff { off_s, .. }, false) = (workload, row.slot.has_stopped(self.now)) {
            let resume = self.now + from_seconds(off_s.get());
            self.network.calendar.push(resume, Event::Begin(user));
        }
    }

    fn open(&mut self, user: u32) -> u32 {
        let number = self.spare.pop().unwrap_or(self.connections.len() as u32);
        let plan = &self.plans[self.users[user as usize].slot.flow as usize];
        let tcp = &self.scenario.tcp;
        let initial_window = f64::from(tcp.initial_window_packets.get());
        let mut controller = plan.rule.controller(0, initial_window);
        controller.set_increase_per_round(tcp.increase_per_round);
        controller.set_coupling(plan.coupling);
        if plan.routes.len() > 1 {
            controller.set_smallest_ssthresh(f64::from(tcp.min_ssthresh_packets.get()));
        }
        let host_seed = host_seed(self.seed, user, self.now);
        let (now, scheduler) = (self.now, self.tcp.scheduler);
        let routes = &plan.routes;
        let mut connection =
            Connection::new(number, user, now, controller, routes, scheduler, host_seed);
        connection.open_paths(now, routes, &self.tcp);
        for route in &routes[connection.paths.len()..] {
            let event = Event::OpenPath(number);
            self.network.calendar.push(route.opens_at(now), event);
        }
        match self.connections.get_mut(number as usize) {
            Some(place) => *place = connection,
            None => self.connections.push(connection),
        }
        number
    }

    /// Opens another path of a connection. As for timers: this may be another connection by now.
    pub(super) fn open_paths(&mut self, number: u32) {
        let user = self.connections[number as usize].user;
        let routes = &self.plans[self.users[user as usize].slot.flow as usize].routes;
        let mut world = World {
            now: self.now,
            network: &mut self.network,
            tcp: &self.tcp,
        };
        let connection = &mut self.connections[number as usize];
        if !connection.paths.is_empty() {
            connection.open_paths(self.now, routes, &self.tcp);
            connection.fill_windows(&mut world);
        }
    }

    /// The persistent connection of a user's gateway; the first file opens it.
    fn gateway(&mut self, user: u32) -> u32 {
        if let Some(number) = self.users[user as usize].connection {
            return number;
        }
        let number = self.open(user);
        self.users[user as usize].connection = Some(number);
        let connection = &mut self.connections[number as usize];
        let adjuster = match &self.plans[self.users[user as usize].slot.flow as usize].workload {
            Workload::Gateway {
                adjust: Some(adjust),
                ..
            } => Some(Adjuster::new(adjust.parameters(), connection.kappa())),
            _ => None,
        };
        connection.pool(adjuster, adjuster_dice(self.seed, user));
        self.schedule_adjustment(user, number);
        number
    }

    /// A gateway samples its buffer, and at the end of a round adjusts its kappa.
    pub(super) fn adjust(&mut self, user: u32) {
        if let Some(number) = self.users[user as usize].connection {
            self.connections[number as usize].adjust(self.now);
            self.schedule_adjustment(user, number);
        }
    }

    fn schedule_adjustment(&mut self, user: u32, number: u32) {
        if let Some(wait) = self.connections[number as usize].wait_to_adjust() {
            self.network
                .calendar
                .push(self.now + wait.max(1), Event::Adjust(user));
        }
    }
}
