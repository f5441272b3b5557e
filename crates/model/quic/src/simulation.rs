//! One run of a scenario: its state, its event loop, its users and its measurements.

use std::error::Error;
use std::num::NonZeroU64;
use std::path::Path;
use std::{fmt, io};

use anabranch_control::AnyController;
use anabranch_control::nada::DELTA;
use anabranch_net::{Dice, MILLISECOND, Time};
use anabranch_scenario::media::{Source, Way, rows};
use anabranch_scenario::recorder::{PathGauge, PathTotals, Recorder, Snapshot, UserGauge};
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::{Outside, UserSlot, controllers, planned, user_slots};
use anabranch_scenario::{Ecn, Record, Scenario, Virtual, Workload, refusal};

use crate::connection::{Connection, Host, Message};
use crate::controller::{Choice, Library};
use crate::network::{Calendar, Content, Event, Links, Operation, Packet, Route};
use crate::transport::{Datagram, MAX_PATHS, Pair, Qlog, Settings, Side, Tls, UDP_HEADERS};

mod transit;

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
    /// The controller of a connection of each flow, without paths.
    controllers: Vec<Choice>,
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

    /// A run of `scenario` in which flows without an algorithm of their own run `custom`.
    ///
    /// # Errors
    /// If this backend does not support something in the scenario.
    pub fn with_custom(
        scenario: &Scenario,
        seed: u64,
        custom: &Outside,
    ) -> Result<Simulation, Unsupported> {
        Simulation::with_rule(scenario, seed, Some(custom))
    }

    /// A run of `scenario` in which flows without an algorithm of their own run a controller of the
    /// library, each path by itself.
    ///
    /// # Errors
    /// If this backend does not support something in the scenario.
    pub fn with_library(
        scenario: &Scenario,
        seed: u64,
        library: Library,
    ) -> Result<Simulation, Unsupported> {
        let mut simulation = Simulation::new(scenario, seed)?;
        for (flow, controller) in simulation.controllers.iter_mut().enumerate() {
            if !scenario.has_own_algorithm(flow) {
                *controller = Choice::Library(library);
                simulation.scalable[flow] = false;
            }
        }
        Ok(simulation)
    }

    fn with_rule(
        scenario: &Scenario,
        seed: u64,
        custom: Option<&Outside>,
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
            controllers: controllers.into_iter().map(Choice::rule).collect(),
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

// Actions of users: begin, pause, open connections, complete files.

impl Simulation {
    /// A file arrives at the sender, or data without limit starts or resumes.
    pub(super) fn begin(&mut self, user: usize) {
        let slot = &mut self.slots[user];
        let workload = &self.scenario.flows[slot.flow as usize].workload;
        let Some(begun) = slot.begin(workload, self.now) else {
            return;
        };
        let has_messages = matches!(workload, Workload::Messages(_));
        if matches!(workload, Workload::Media(_)) {
            return self.begin_media(user);
        }
        if let Some(pause) = begun.pause {
            self.calendar.push(pause, Event::Pause(user));
        }
        if let Some(next) = begun.next {
            self.calendar.push(next, Event::Begin(user));
        }
        let file = begun.file;
        let number = match (file, self.persistent[user]) {
            (Some(_), _) if !has_messages => self.open(user, file),
            (_, Some(number)) => number,
            (_, None) => self.open(user, None),
        };
        if has_messages || file.is_none() {
            self.persistent[user] = Some(number);
        }
        self.act(number, |connection, now| match file {
            Some(bytes) if has_messages => connection.submit(now, bytes),
            _ => connection.pair.send(now, file),
        });
    }

    /// Data without limit pauses; files and messages in transit are completed.
    pub(super) fn pause(&mut self, user: usize) {
        let slot = &self.slots[user];
        let workload = &self.scenario.flows[slot.flow as usize].workload;
        let has_messages = matches!(workload, Workload::Messages(_));
        if let Some(number) = self.persistent[user].filter(|_| !has_messages) {
            self.act(number, |connection, now| connection.pair.stop(now));
        }
        let slot = &self.slots[user];
        let workload = &self.scenario.flows[slot.flow as usize].workload;
        if let Some(resume) = slot.resumes(workload, self.now) {
            self.calendar.push(resume, Event::Begin(user));
        }
    }

    fn open(&mut self, user: usize, file: Option<u64>) -> u32 {
        let number = self.connections.len() as u32;
        let flow = self.slots[user].flow as usize;
        let (paths, tcp) = (self.routes[flow].len(), &self.scenario.tcp);
        let controller = self.controllers[flow].clone();
        let controller = (controller, tcp.initial_ssthresh_packets.get());
        let counts_marks = self.scalable[flow];
        let seed = |of| {
            let user_seed = element_seed(self.seed, of, user);
            element_seed(user_seed, of, self.now as usize)
        };
        let (settings, tls) = (&self.settings, &self.tls);
        let name = &self.scenario.flows[flow].name;
        let title = || format!("{name}, user {user}, connection {number}");
        let qlog = self.qlog.as_ref().map(|it| it.connection(number, title()));
        let seed_of_pair = seed(kind::QUIC);
        let pair = Pair::new(
            paths,
            self.now,
            seed_of_pair,
            settings,
            tls,
            controller,
            qlog,
        );
        if counts_marks {
            pair.controller().count_marks();
        }
        let jitter = from_seconds(tcp.host_jitter_us.get() * 1e-6);
        let host = Host::new(jitter, paths, seed(kind::HOSTS));
        let connection = Connection::new(pair, user, self.now, file, host);
        self.connections.push(Some(Box::new(connection)));
        if paths > 1 {
            let event = Event::Watch(number);
            self.calendar.push(self.now + WATCH, event);
        }
        for (path, route) in self.routes[flow].iter().enumerate().skip(1) {
            let event = Event::OpenPath {
                connection: number,
                path,
            };
            self.calendar.push(route.opens_at.max(self.now), event);
        }
        number
    }

    /// The last byte of a connection's file was delivered: the connection is over.
    pub(super) fn complete(&mut self, number: u32) {
        self.flush(number, Side::Receiver);
        let Some(connection) = self.connections[number as usize].take() else {
            return;
        };
        let Connection {
            user,
            started_at,
            received,
            ..
        } = *connection;
        self.users[user].1 += 1;
        self.recorder.transfer(user, started_at, received, self.now);
        let first = self.slots[user].first_path as usize;
        for (total, report) in self.totals[first..].iter_mut().zip(connection.reports()) {
            *total += report;
        }
    }
}

// Media beside connections: datagrams of their own, which no QUIC connection has.

impl Simulation {
    /// A user begins to send media.
    pub(super) fn begin_media(&mut self, user: usize) {
        let way = Way::new(&self.scenario, user as u32, &self.slots[user]);
        let Some((way, media)) = way else {
            return;
        };
        let counts_from = from_seconds(self.scenario.measure.warmup_s.get());
        let source = Source::new(media, way, self.now, counts_from);
        let number = self.media.len() as u32;
        if source.has_feedback() {
            self.schedule_feedback(number);
        }
        self.media.push(source);
        self.send_frame(number);
    }

    /// A source sends its next frame, all packets at once.
    pub(super) fn send_frame(&mut self, number: u32) {
        let source = &mut self.media[number as usize];
        let (frame, sizes) = source.next_frame(self.now);
        let row = source.way.path_row;
        let flow = self.slots[source.way.user as usize].flow as usize;
        if let Some(time) = source.time_after(frame) {
            self.calendar.push(time, Event::Frame(number));
        }
        for payload in sizes {
            let source = &mut self.media[number as usize];
            let packet = Packet {
                sent_at: self.now,
                connection: number,
                flow,
                path: 0,
                row,
                bytes: u32::from(source.way.header_bytes) + payload as u32,
                hops: 0,
                ecn_capable: false,
                scalable: false,
                marked: false,
                content: Content::Media {
                    frame,
                    number: source.number_packet(),
                    payload,
                },
            };
            self.totals[row].sent_packets += 1;
            self.hop(packet);
        }
    }

    /// The receiver of media sends a report, and later the next one.
    pub(super) fn send_feedback(&mut self, number: u32) {
        if let Some(time) = self.media[number as usize].report(self.now) {
            self.calendar.push(time, Event::Report(number));
        }
        self.schedule_feedback(number);
    }

    fn schedule_feedback(&mut self, number: u32) {
        let time = self.now + from_seconds(DELTA);
        self.calendar.push(time, Event::Feedback(number));
    }
}

// Counters and gauges of a run at one moment.

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
                    gauge.add_window(Some(report.library_window().unwrap_or(path.window)));
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

// Operations of tests on a run that a scenario has no keys for: on paths, and datagrams that
// overtake others.

/// Delays datagrams at random, so that later ones overtake them.
#[derive(Debug, Default)]
pub(super) struct Reordering(Option<(Dice, f64, Time)>);

impl Reordering {
    /// How much later than due a datagram arrives.
    pub fn delay(&mut self) -> Time {
        let Some((dice, probability, longest)) = &mut self.0 else {
            return 0;
        };
        if dice.uniform() < *probability {
            (dice.uniform() * *longest as f64) as Time
        } else {
            0
        }
    }
}

#[doc(hidden)]
impl Simulation {
    /// Applies `operation` to path `path` of user `user` at `time_s`.
    pub fn operate_at(&mut self, time_s: f64, user: usize, path: usize, operation: Operation) {
        let event = Event::Operate(user, path, operation);
        self.calendar.push(from_seconds(time_s), event);
    }

    /// From now on each datagram is delayed with `probability`, at each link and on its way back,
    /// by up to `longest_s`.
    pub fn reorder(&mut self, probability: f64, longest_s: f64) {
        let dice = Dice::new(self.seed);
        self.reordering = Reordering(Some((dice, probability, from_seconds(longest_s))));
    }

    pub(super) fn operate(&mut self, user: usize, path: usize, operation: Operation) {
        for number in 0..self.connections.len() as u32 {
            self.act(number, |connection, now| {
                if connection.user == user {
                    match operation {
                        Operation::Open => connection.pair.open_path(now, path),
                        Operation::Close => connection.pair.close_path(now, path),
                        Operation::Rebind => connection.pair.rebind(path),
                    }
                }
            });
        }
    }
}

// Features that the QUIC backend does not support.

/// The smallest datagram that QUIC allows, bytes (RFC 9000, section 14).
const MIN_DATAGRAM: u32 = 1200;

/// A part of a scenario that this backend does not support: its key, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unsupported {}

/// Checks that everything in the scenario is supported.
///
/// # Errors
/// If not.
pub fn check(scenario: &Scenario) -> Result<(), Unsupported> {
    let smallest = MIN_DATAGRAM + UDP_HEADERS;
    let is_small = scenario.tcp.packet_bytes.get() < smallest;
    let small = is_small.then(|| {
        (
            "tcp.packet_bytes".to_owned(),
            format!("less than {smallest} bytes"),
        )
    });
    let mut flows = scenario.flows.iter();
    let many = flows.find(|flow| flow.paths.len() > MAX_PATHS);
    let many = many.map(|flow| {
        (
            format!("flows.{}.paths", flow.name),
            format!("more than {MAX_PATHS} paths"),
        )
    });
    let limit = small
        .or(many)
        .map(|(key, name)| refusal(&key, &name, "quic", &["sim"]));
    limit
        .or_else(|| scenario.refusal("quic"))
        .map_or(Ok(()), |text| Err(Unsupported(text)))
}
