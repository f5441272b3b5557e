//! Users: their totals, and what they do. They begin, pause, open connections, add files to
//! gateways and submit messages.

use anabranch_scenario::Workload;
use anabranch_scenario::users::UserSlot;

use super::Simulation;
use super::capture::opening;
use crate::build::{adjuster_dice, host_seed};
use crate::calendar::Event;
use crate::connection::{Connection, World};

/// A user and its totals so far.
#[derive(Debug)]
pub(crate) struct User {
    pub slot: UserSlot,
    /// The connection, if the workload has only one.
    pub connection: Option<u32>,
    /// Payload received over connections that are over, bytes.
    pub received_bytes: u64,
    /// Files completed.
    pub transfers_done: u64,
}

impl User {
    /// A user that has not begun.
    pub fn new(slot: UserSlot) -> User {
        User {
            slot,
            connection: None,
            received_bytes: 0,
            transfers_done: 0,
        }
    }
}

impl Simulation {
    pub(super) fn begin(&mut self, user: u32) {
        let row = user as usize;
        let slot = &mut self.users[row].slot;
        let workload = &self.scenario.flows[slot.flow as usize].workload;
        let Some(begun) = slot.begin(workload, self.now) else {
            return;
        };
        if matches!(workload, Workload::Media(_)) {
            return self.begin_media(user);
        }
        if let Some(pause) = begun.pause {
            self.network.calendar.push(pause, Event::Pause(user));
        }
        if let Some(next) = begun.next {
            self.network.calendar.push(next, Event::Begin(user));
        }
        let pools = matches!(workload, Workload::Gateway { .. } | Workload::Messages(_));
        match begun.file {
            Some(bytes) if pools => {
                let number = self.persistent(user);
                self.connect(number, |connection, world| connection.submit(world, bytes));
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
        let workload = &self.scenario.flows[row.slot.flow as usize].workload;
        if let Some(resume) = row.slot.resumes(workload, self.now) {
            self.network.calendar.push(resume, Event::Begin(user));
        }
    }

    fn open(&mut self, user: u32) -> u32 {
        let number = self.spare.pop().unwrap_or(self.connections.len() as u32);
        let flow = self.users[user as usize].slot.flow as usize;
        let plan = &self.plans[flow];
        let packet_bytes = self.scenario.flows[flow].packet_bytes.get() as u16;
        let host_seed = host_seed(self.seed, user, self.now);
        let now = self.now;
        let routes = &plan.routes;
        let controller = plan.controller.clone();
        let tcp = &self.tcp;
        let mut connection = Connection::new(number, user, now, controller, routes, tcp, host_seed);
        connection.packet_bytes = packet_bytes;
        connection.open_paths(now, routes, &self.tcp);
        for route in &routes[connection.paths.len()..] {
            let event = Event::OpenPath(number);
            self.network.calendar.push(route.opens_at(now), event);
            if connection.has_programs() {
                self.network.calendar.push(route.is_known_at(now), event);
            }
        }
        if let Some(capture) = &mut self.network.capture {
            capture.open(number, user as usize, &opening(now, routes));
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

    /// The persistent connection of a user's gateway or messages; the first of them opens it.
    fn persistent(&mut self, user: u32) -> u32 {
        if let Some(number) = self.users[user as usize].connection {
            return number;
        }
        let number = self.open(user);
        self.users[user as usize].connection = Some(number);
        let connection = &mut self.connections[number as usize];
        let flow = self.users[user as usize].slot.flow;
        let adjust = match &self.scenario.flows[flow as usize].workload {
            Workload::Gateway { adjust, .. } => adjust.as_ref(),
            Workload::Messages(_) => {
                connection.serve_messages();
                return number;
            }
            _ => None,
        };
        connection.serve_gateway(adjust, adjuster_dice(self.seed, user));
        self.schedule_adjustment(user, number);
        number
    }

    /// A gateway samples its buffer, and at the end of a round adjusts its kappa.
    pub(super) fn adjust(&mut self, user: u32) {
        if let Some(number) = self.users[user as usize].connection {
            self.connect(number, |connection, world| connection.adjust(world));
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
