//! One run of a scenario: its state and its event loop.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anabranch_control::{AnyController, External};
use anabranch_net::Time;
use anabranch_scenario::users::{controllers, planned, user_slots};
use anabranch_scenario::{Record, Scenario, Virtual};

use crate::build::{self, Plan};
use crate::calendar::Event;
use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};
use crate::network::{Kind, Network, Packet};
use crate::prefetch::prefetch;
use crate::simulation::user::User;
use anabranch_scenario::media::Source;
use anabranch_scenario::recorder::PathTotals;
use anabranch_scenario::recorder::{PathGauge, Recorder, Snapshot, UserGauge};
use anabranch_scenario::time::from_seconds;

mod capturing;
mod fates;
#[cfg(test)]
mod limited;
mod media;
pub(crate) mod steered;
mod user;
mod users;

/// The state of that many connections stays in the cache.
const CACHED: usize = 2000;

/// Number of the calendar's events in the first levels of its heap, 1 + 2 + 4, which come soon.
const NEXT: usize = 7;

/// Number of arrivals ahead of which a path's state is loaded; its connection's at half of it.
const AHEAD: usize = 4;

/// A run of a scenario with one seed, in virtual time.
///
/// All state is in this one value and addressed by index. See [`Virtual`] for what it does.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    seed: u64,
    now: Time,
    network: Network,
    tcp: Tcp,
    plans: Vec<Plan>,
    users: Vec<User>,
    /// Connections by number. The numbers of those that are over are in `spare`, to be used again.
    connections: Vec<Connection>,
    spare: Vec<u32>,
    /// Sources of media by number.
    media: Vec<Source>,
    /// Totals of connections that are over, per path row.
    retired: Vec<PathTotals>,
    recorder: Recorder,
}

impl Virtual for Simulation {
    fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    fn now(&self) -> Time {
        self.now
    }

    #[inline]
    fn step(&mut self, until: Time) -> bool {
        let Some((time, event)) = self.network.calendar.due(until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = time;
        self.handle(event);
        true
    }

    fn so_far(&self) -> &Record {
        self.recorder.so_far()
    }

    fn write_log(&mut self, folder: &Path) {
        self.capture_in(folder);
    }

    fn conclude(mut self) -> (Record, io::Result<()>) {
        let capture = self.network.capture.take();
        let log = capture.map_or(Ok(()), |capture| capture.finish(self.now));
        let end = self.snapshot();
        self.record_media();
        (self.recorder.finish(end, &self.scenario), log)
    }
}

impl Simulation {
    /// A run of `scenario` at time 0.
    pub fn new(scenario: &Scenario, seed: u64) -> Simulation {
        Simulation::with_controllers(scenario, seed, controllers(scenario, None))
    }

    /// A run of `scenario` in which flows without an algorithm of their own run `rule`.
    pub fn with_custom_rule(scenario: &Scenario, seed: u64, rule: Arc<dyn External>) -> Simulation {
        Simulation::with_controllers(scenario, seed, controllers(scenario, Some(&rule)))
    }

    fn with_controllers(
        scenario: &Scenario,
        seed: u64,
        controllers: Vec<AnyController>,
    ) -> Simulation {
        let mut network = build::network(scenario, seed);
        let plans = build::plans(scenario, controllers, &mut network);
        let slots = user_slots(scenario, seed);
        let paths: usize = slots
            .iter()
            .map(|slot| plans[slot.flow as usize].routes.len())
            .sum();
        for (time, event) in planned(scenario, &slots) {
            network.calendar.push(time, event.into());
        }
        let start = Snapshot {
            time: 0,
            users: vec![(0, 0); slots.len()],
            paths: vec![PathTotals::default(); paths],
            links: network.links().map(|link| link.counters(0)).collect(),
        };
        Simulation {
            scenario: scenario.clone(),
            seed,
            now: 0,
            tcp: Tcp::new(&scenario.tcp),
            network,
            plans,
            connections: Vec::new(),
            spare: Vec::new(),
            media: Vec::new(),
            retired: vec![PathTotals::default(); paths],
            recorder: Recorder::new(start, slots.clone()),
            users: slots.into_iter().map(User::new).collect(),
        }
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Link(link) => {
                if let Some(packet) = self.network.arrived(link) {
                    self.prefetch(|network, places| network.arriving(link, places));
                    self.arrive(packet);
                }
            }
            Event::Return(line) => {
                if let Some(ack) = self.network.returned(line) {
                    self.prefetch(|network, places| network.returning(line, places));
                    self.connect(ack.connection, |connection, world| {
                        connection.on_ack(world, &ack)
                    });
                    self.retire_if_over(ack.connection);
                }
            }
            other => {
                self.network.calendar.advance(None);
                self.handle_rare(other);
            }
        }
    }

    /// Loads the state of the connections that come next into the cache, if not all of it is there.
    #[inline]
    fn prefetch(&self, next: impl Fn(&Network, usize) -> Option<(u32, u16)>) {
        if self.connections.len() <= CACHED {
            return;
        }
        if let Some((number, _)) = next(&self.network, 2 * AHEAD) {
            // The number of a source of media may be that of no connection.
            self.connections
                .get(number as usize)
                .inspect(|it| prefetch(*it));
        }
        if let Some((number, path)) = next(&self.network, AHEAD) {
            let connection = self.connections.get(number as usize);
            connection.inspect(|it| it.prefetch(path));
        }
    }

    /// The same for the next timers: an event first loads the connection, a later one the path.
    fn prefetch_timers(&self) {
        if self.connections.len() <= CACHED {
            return;
        }
        for (place, event) in self.network.calendar.soon().enumerate() {
            match event {
                Event::Timeout { connection, path } if place < NEXT => {
                    self.connections[connection as usize].prefetch(path);
                }
                Event::Timeout { connection, .. } => {
                    prefetch(&self.connections[connection as usize]);
                }
                _ => {}
            }
        }
    }

    #[inline(never)]
    fn handle_rare(&mut self, event: Event) {
        match event {
            Event::Link(_) | Event::Return(_) => unreachable!("handled above"),
            Event::Overtaking(link) => self.arrive_overtaking(link),
            Event::Start(link) => {
                self.network.start(self.now, link);
                self.account_drops(link);
            }
            Event::Dropped(link) => self.account_drops(link),
            Event::Timeout { connection, path } => {
                self.prefetch_timers();
                self.connect(connection, |connection, world| {
                    connection.on_timer(world, path)
                });
            }
            Event::Rack { connection, path } => {
                self.connect(connection, |connection, world| {
                    connection.on_rack_timer(world, path);
                });
            }
            Event::Pace { connection, path } => {
                self.connect(connection, |connection, world| {
                    connection.on_pacing_timer(world, path);
                });
            }
            Event::Leave { connection, path } => {
                self.connect(connection, |connection, world| {
                    connection.on_leave(world, path);
                });
                self.retire_if_over(connection);
            }
            Event::DelayedAck { connection, path } => {
                self.connect(connection, |connection, world| {
                    connection.on_ack_delay(world, path);
                });
            }
            Event::Resend(connection) => {
                self.connect(connection, |connection, world| {
                    connection.on_resend_timer(world);
                });
            }
            Event::Over(connection) => self.retire_if_over(connection),
            Event::Begin(user) => self.begin(user),
            Event::Pause(user) => self.pause(user),
            Event::OpenPath(connection) => self.open_paths(connection),
            Event::Adjust(user) => self.adjust(user),
            Event::Frame(source) => self.send_frame(source),
            Event::Feedback(source) => self.send_feedback(source),
            Event::Report(source) => self.media[source as usize].on_report(),
            Event::WarmUp => {
                let snapshot = self.snapshot();
                self.recorder.warm_up_ends(snapshot);
            }
            Event::Sample => self.sample(),
        }
    }

    #[inline(always)]
    fn connect<T>(&mut self, number: u32, act: impl FnOnce(&mut Connection, &mut World) -> T) -> T {
        let mut world = World {
            now: self.now,
            network: &mut self.network,
            tcp: &self.tcp,
        };
        act(&mut self.connections[number as usize], &mut world)
    }

    /// A packet reaches the end of a link: it goes to the next link, to the receiver, or, if it is
    /// an acknowledgement, to the sender. Inlined always: links on which packets overtake one
    /// another call it, too.
    #[inline(always)]
    fn arrive(&mut self, mut packet: Packet) {
        if self.network.step(&mut packet) {
            if let Err(cause) = self.network.send(self.now, packet) {
                self.account_drop(packet, cause);
            }
            return;
        }
        if packet.kind() != Kind::Data {
            return self.arrive_other(&packet);
        }
        let completed = self.connect(
            packet.connection,
            #[inline(always)]
            |connection, world| connection.on_packet(world, &packet),
        );
        if completed {
            self.record_transfer(packet.connection);
        }
    }

    /// Records the completed file, or all completed files of a gateway.
    fn record_transfer(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        let row = connection.user as usize;
        let user = &mut self.users[row];
        let mut record = |started_at, bytes| {
            user.transfers_done += 1;
            self.recorder.transfer(row, started_at, bytes, self.now);
        };
        if connection.gateway.is_none() {
            record(connection.started_at, connection.file_bytes());
        }
        while let Some(file) = connection.deliver_file(&self.tcp) {
            record(file.arrived_at, file.bytes);
        }
    }

    /// Keeps the totals of a connection that is over, and its number for another.
    #[inline(always)]
    fn retire_if_over(&mut self, number: u32) {
        if self.connections[number as usize].is_over() {
            self.retire(number);
        }
    }

    fn retire(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        let user = &mut self.users[connection.user as usize];
        user.received_bytes += connection.received_bytes(&self.tcp);
        let first = user.slot.first_path as usize;
        let paths = std::mem::take(&mut connection.paths);
        for (retired, path) in self.retired[first..].iter_mut().zip(paths) {
            *retired += path.totals;
        }
        if let Some(capture) = &mut self.network.capture {
            capture.close(number, self.now);
        }
        self.spare.push(number);
    }

    fn live(&self) -> impl Iterator<Item = (&Connection, &User)> {
        let open = self
            .connections
            .iter()
            .filter(|connection| !connection.paths.is_empty());
        open.map(|connection| (connection, &self.users[connection.user as usize]))
    }

    fn snapshot(&mut self) -> Snapshot {
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

    fn sample(&mut self) {
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

    fn path_gauges(&self) -> Vec<PathGauge> {
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
