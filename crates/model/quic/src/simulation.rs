//! One run of a scenario: its state and its event loop.

use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use anabranch_control::{AnyController, External};
use anabranch_net::{MILLISECOND, Time};
use anabranch_scenario::media::{Source, rows};
use anabranch_scenario::recorder::{PathTotals, Recorder, Snapshot};
use anabranch_scenario::users::{UserSlot, controllers, planned, user_slots};
use anabranch_scenario::{Ecn, Record, Scenario, Virtual};

use crate::calendar::{Calendar, Event};
use crate::connection::{Connection, Message};
use crate::limits::{Unsupported, check};
use crate::network::{Links, Route};
use crate::transport::{Datagram, Qlog, Settings, Side, Tls, UDP_HEADERS};

mod disturbance;
mod measure;
mod media;
mod transit;
mod users;

use disturbance::Reordering;

/// How often a connection with several paths looks for dead ones.
const WATCH: Time = 100 * MILLISECOND;

/// A run of a scenario with one seed, in virtual time. See [`Virtual`] for what it does.
pub struct Simulation {
    scenario: Scenario,
    seed: u64,
    now: Time,
    settings: Settings,
    tls: Tls,
    calendar: Calendar,
    links: Links,
    /// The controller of a connection of each flow, without paths; `None`: the library's BBR.
    controllers: Vec<Option<AnyController>>,
    /// The routes of each flow's paths.
    routes: Vec<Vec<Route>>,
    /// Whether each flow's rule reduces by the share of marks, and marks are counted.
    scalable: Vec<bool>,
    slots: Vec<UserSlot>,
    /// Each user's connection, if it sends data without limit or messages.
    persistent: Vec<Option<u32>>,
    /// Sources of media by number.
    media: Vec<Source>,
    /// Payload received and files completed, per user.
    users: Vec<(u64, u64)>,
    /// Per path row: what links and receivers counted, and the controllers of connections that are
    /// over.
    totals: Vec<PathTotals>,
    /// Connections by number; `None`: over.
    connections: Vec<Option<Box<Connection>>>,
    reordering: Reordering,
    qlog: Option<Qlog>,
    recorder: Recorder,
}

impl Virtual for Simulation {
    fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    fn now(&self) -> Time {
        self.now
    }

    fn step(&mut self, until: Time) -> bool {
        let Some((time, event)) = self.calendar.pop(until) else {
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

    /// A qlog file per connection and end.
    fn write_log(&mut self, folder: &Path) {
        self.qlog = Some(Qlog::new(folder));
    }

    fn conclude(mut self) -> (Record, io::Result<()>) {
        let end = self.snapshot();
        for row in rows(&self.scenario, &self.slots, &mut self.media, self.now) {
            self.recorder.media(row);
        }
        self.connections.clear(); // which closes the files
        let log = self.qlog.take().map_or(Ok(()), |qlog| qlog.check());
        (self.recorder.finish(end, &self.scenario), log)
    }
}

impl Simulation {
    /// A run of `scenario` at time 0.
    ///
    /// # Errors
    /// If this backend does not support something in the scenario.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Simulation, Unsupported> {
        Simulation::with_rule(scenario, seed, None)
    }

    /// A run of `scenario` in which flows without an algorithm of their own run `rule`.
    ///
    /// # Errors
    /// If this backend does not support something in the scenario.
    pub fn with_custom_rule(
        scenario: &Scenario,
        seed: u64,
        rule: Arc<dyn External>,
    ) -> Result<Simulation, Unsupported> {
        Simulation::with_rule(scenario, seed, Some(&rule))
    }

    /// A run of `scenario` in which flows without an algorithm of their own run the library's BBR
    /// (draft-ietf-ccwg-bbr), each path by itself.
    ///
    /// # Errors
    /// If this backend does not support something in the scenario.
    pub fn with_library_bbr(scenario: &Scenario, seed: u64) -> Result<Simulation, Unsupported> {
        let mut simulation = Simulation::new(scenario, seed)?;
        for (flow, controller) in simulation.controllers.iter_mut().enumerate() {
            if !scenario.has_own_algorithm(flow) {
                *controller = None;
                simulation.scalable[flow] = false;
            }
        }
        Ok(simulation)
    }

    fn with_rule(
        scenario: &Scenario,
        seed: u64,
        custom: Option<&Arc<dyn External>>,
    ) -> Result<Simulation, Unsupported> {
        check(scenario)?;
        let flows = scenario.flows.iter();
        let routes: Vec<Vec<Route>> = flows
            .map(|flow| flow.paths.iter().map(Route::new).collect())
            .collect();
        let slots = user_slots(scenario, seed);
        let mut calendar = Calendar::default();
        for (time, event) in planned(scenario, &slots) {
            calendar.push(time, event.into());
        }
        let rows = slots.iter().map(|slot| routes[slot.flow as usize].len());
        let totals = vec![PathTotals::default(); rows.sum()];
        let mut links = Links::new(scenario, seed);
        let start = Snapshot {
            time: 0,
            users: vec![(0, 0); slots.len()],
            paths: totals.clone(),
            links: links.counters(0),
        };
        let controllers = controllers(scenario, custom);
        let counts_marks = scenario.tcp.ecn == Ecn::Accurate;
        let is_scalable = |it: &AnyController| counts_marks && it.is_scalable();
        Ok(Simulation {
            scenario: scenario.clone(),
            seed,
            now: 0,
            settings: settings(scenario),
            tls: Tls::new(),
            calendar,
            links,
            scalable: controllers.iter().map(is_scalable).collect(),
            controllers: controllers.into_iter().map(Some).collect(),
            routes,
            persistent: vec![None; slots.len()],
            media: Vec::new(),
            users: start.users.clone(),
            totals,
            connections: Vec::new(),
            reordering: Reordering::default(),
            qlog: None,
            recorder: Recorder::new(start, slots.clone()),
            slots,
        })
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Hop(packet) => self.hop(packet),
            Event::Overtaking(link) => self.overtaking(link),
            Event::Start(link) => self.start(link),
            Event::Frame(source) => self.send_frame(source),
            Event::Feedback(source) => self.send_feedback(source),
            Event::Report(source) => self.media[source as usize].on_report(),
            Event::Timer { connection, side } => self.on_timer(connection, side),
            Event::OpenPath { connection, path } => {
                self.act(connection, |connection, now| {
                    connection.pair.open_path(now, path);
                });
            }
            Event::Operate(user, path, operation) => self.operate(user, path, operation),
            Event::Watch(connection) => self.watch(connection),
            Event::Begin(user) => self.begin(user),
            Event::Pause(user) => self.pause(user),
            Event::WarmUp => {
                let snapshot = self.snapshot();
                self.recorder.warm_up_ends(snapshot);
            }
            Event::Sample => self.sample(),
        }
    }

    /// The row of a path of a user in the tables.
    fn row(&self, user: usize, path: usize) -> usize {
        self.slots[user].first_path as usize + path
    }

    /// Acts on the sender of a connection, unless that is over, and sends what follows.
    fn act(&mut self, number: u32, act: impl FnOnce(&mut Connection, Time)) {
        if let Some(connection) = &mut self.connections[number as usize] {
            act(connection, self.now);
            self.flush(number, Side::Sender);
        }
    }

    /// Looks for dead paths, and again later unless the connection is over.
    fn watch(&mut self, number: u32) {
        self.act(number, |connection, now| connection.pair.watch(now));
        self.flush(number, Side::Receiver);
        if self.connections[number as usize].is_some() {
            self.calendar.push(self.now + WATCH, Event::Watch(number));
        }
    }

    fn on_timer(&mut self, number: u32, side: Side) {
        let Some(connection) = &mut self.connections[number as usize] else {
            return;
        };
        if connection.timer_is_due(self.now, side) {
            connection.pair.on_timer(self.now, side);
        }
        self.flush(number, side);
    }

    /// A datagram arrives at an end.
    fn receive(&mut self, number: u32, side: Side, datagram: Datagram) {
        let Some(connection) = &mut self.connections[number as usize] else {
            return;
        };
        let (user, path) = (connection.user, datagram.path);
        let arrived = connection.pair.receive(self.now, side, datagram);
        connection.received += arrived.in_order;
        let is_complete = connection.is_complete();
        let row = self.slots[user].first_path as usize + path;
        self.totals[row].delivered_bytes += arrived.first;
        self.users[user].0 += arrived.in_order;
        while let Some(message) = connection.deliver_message() {
            self.users[user].1 += 1;
            let Message { sent_at, bytes, .. } = message;
            self.recorder.transfer(user, sent_at, bytes, self.now);
        }
        if is_complete {
            self.complete(number);
        } else {
            self.flush(number, side);
        }
    }

    /// Sends the datagrams of an end and schedules its next timer.
    fn flush(&mut self, number: u32, side: Side) {
        while let Some(connection) = &mut self.connections[number as usize] {
            let Some(datagram) = connection.pair.transmit(self.now, side) else {
                break;
            };
            match side {
                Side::Sender => self.send(number, datagram),
                Side::Receiver => self.acknowledge(number, datagram),
            }
        }
        if let Some(connection) = &mut self.connections[number as usize]
            && let Some(time) = connection.timer_to_schedule(self.now, side)
        {
            let connection = number;
            self.calendar.push(time, Event::Timer { connection, side });
        }
    }
}

fn settings(scenario: &Scenario) -> Settings {
    let tcp = &scenario.tcp;
    let buffer = u64::from(tcp.receive_buffer_packets.get()) * u64::from(tcp.packet_bytes.get());
    Settings {
        datagram_bytes: (tcp.packet_bytes.get() - UDP_HEADERS) as u16,
        ecn: tcp.ecn != Ecn::Off,
        delayed_acks: tcp.delayed_acks,
        receive_bytes: NonZeroU64::new(buffer).unwrap_or(NonZeroU64::MIN),
    }
}
