//! One run of a scenario: its state and its event loop.

use std::io;
use std::path::Path;

use anabranch_control::AnyController;
use anabranch_net::{Cause, Time};
use anabranch_scenario::recorder::{PathTotals, Recorder, Snapshot};
use anabranch_scenario::users::{Outside, controllers, planned, user_slots};
use anabranch_scenario::{Record, Scenario, Virtual};

use crate::build::{self, Plan};
use crate::calendar::Event;
use crate::connection::tcp::Tcp;
use crate::connection::{Connection, World};
use crate::network::{Content, Network, Packet};
use crate::prefetch::prefetch;
use anabranch_scenario::media::Source;
use users::User;

mod capture;
#[cfg(test)]
mod limited;
mod measuring;
mod media;
pub(crate) mod steering;
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
    /// Connections by number.
    connections: Vec<Connection>,
    /// Numbers of connections that are over, to be used again.
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
        // The tables take the memory of the connections.
        drop(std::mem::take(&mut self.connections));
        self.record_media();
        (self.recorder.finish(end, &self.scenario), log)
    }
}

impl Simulation {
    /// A run of `scenario` at time 0.
    pub fn new(scenario: &Scenario, seed: u64) -> Simulation {
        Simulation::with_controllers(scenario, seed, controllers(scenario, None))
    }

    /// A run of `scenario` in which flows without an algorithm of their own run `custom`.
    pub fn with_custom(scenario: &Scenario, seed: u64, custom: &Outside) -> Simulation {
        Simulation::with_controllers(scenario, seed, controllers(scenario, Some(custom)))
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
                    let over = self.connect(ack.connection, |connection, world| {
                        connection.on_ack(world, &ack);
                        connection.is_over()
                    });
                    if over {
                        self.retire(ack.connection);
                    }
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
                Event::Timeout(number, path) if place < NEXT => {
                    self.connections[number as usize].prefetch(path);
                }
                Event::Timeout(number, _) => prefetch(&self.connections[number as usize]),
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
            Event::Timeout(number, path) => {
                self.prefetch_timers();
                self.at_path(number, path, Connection::on_timer);
            }
            Event::Rack(number, path) => self.at_path(number, path, Connection::on_rack_timer),
            Event::Pace(number, path) => self.at_path(number, path, Connection::on_pacing_timer),
            Event::Probe(number, path) => {
                self.at_path(number, path, Connection::on_probing_timer);
                self.retire_if_over(number);
            }
            Event::Leave(number, path) => {
                self.at_path(number, path, Connection::on_leave);
                self.retire_if_over(number);
            }
            Event::DelayedAck(number, path) => {
                self.at_path(number, path, Connection::on_ack_delay);
            }
            Event::Resend(number) => self.connect(number, Connection::on_resend_timer),
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

    /// Acts on an event of a path, unless its connection is over and another, with fewer paths, has
    /// its place.
    fn at_path(
        &mut self,
        number: u32,
        path: u16,
        act: impl FnOnce(&mut Connection, &mut World, usize),
    ) {
        let r = usize::from(path);
        self.connect(number, |connection, world| {
            if r < connection.paths.len() {
                act(connection, world, r);
            }
        });
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
        if packet.content() != Content::Data {
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

    /// Tells connections of the packets that a link with real queues dropped.
    fn account_drops(&mut self, link: u32) {
        for (packet, cause) in self.network.take_dropped(link) {
            self.account_drop(packet, cause);
        }
    }

    /// A link dropped a packet.
    #[inline]
    fn account_drop(&mut self, packet: Packet, cause: Cause) {
        if packet.content() == Content::Media {
            return self.lose_media(&packet, cause);
        }
        let connection = &mut self.connections[packet.connection as usize];
        match packet.content() {
            Content::Ack => connection.on_ack_drop(packet.path, packet.sequence),
            _ => connection.on_drop(packet.path, cause),
        }
        self.retire_if_over(packet.connection);
    }

    /// Packets have arrived over a link on which they may overtake one another.
    #[inline(never)]
    fn arrive_overtaking(&mut self, link: u32) {
        while let Some(packet) = self.network.overtaking(link, self.now) {
            self.arrive(packet);
        }
    }

    #[cold]
    fn arrive_other(&mut self, packet: &Packet) {
        let (number, r) = (packet.connection, usize::from(packet.path));
        match packet.content() {
            Content::Media => self.receive_media(packet),
            Content::Probe => self.at_path(number, packet.path, Connection::answer_probe),
            _ => {
                self.connect(number, |connection, world| {
                    connection.on_returned(world, r, packet.sequence);
                });
                self.retire_if_over(number);
            }
        }
    }

    /// Keeps the totals of a connection that is over, and its number for another.
    #[inline(always)]
    fn retire_if_over(&mut self, number: u32) {
        if self.connections[number as usize].is_over() {
            self.retire(number);
        }
    }

    #[cold]
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
}
