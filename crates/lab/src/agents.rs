//! The thread that plays all users and the server: real sockets, driven by their workloads.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_net::Time;
use anabranch_scenario::recorder::{PathGauge, PathTotals};
use anabranch_scenario::seats::{Seat, next_gap, next_size};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::{Scenario, Workload};
use rustix::event::epoll;
use rustix::io::Errno;
use socket2::Socket;

use crate::address;
use crate::clock::Clock;
use crate::connection::{self, Cargo, Connection};
use crate::error::{Context, Error};
use crate::host::{self, Host};
use crate::setup;

/// Sockets looked at in one go.
const EVENTS: usize = 64;
/// The listening socket among the events; connections go by twice their number, plus 1 for the
/// receiving end.
const LISTENER: u64 = u64::MAX;
const BUFFER: usize = 256 << 10;

/// What the hosts counted by one moment.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Payload received and files done, per user.
    pub users: Vec<(u64, u64)>,
    /// What the kernel said about each path, by row.
    pub gauges: Vec<PathGauge>,
    /// Timeouts and RTTs, by row; the links count the rest.
    pub paths: Vec<PathTotals>,
}

/// A file that arrived whole.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Whose.
    pub user: usize,
    /// When it came to the sender.
    pub started_at: Time,
    /// Its size, bytes.
    pub bytes: u64,
    /// When its last byte was received.
    pub done_at: Time,
}

/// What the agents leave.
#[derive(Debug, Default)]
pub struct Played {
    /// The counters at each of the moments asked for.
    pub counted: Vec<Counted>,
    /// The files.
    pub transfers: Vec<Transfer>,
    /// Users with a connection that should have several paths and fell back to plain TCP.
    pub fell_back: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Mark,
    OpenPath(usize, usize),
    Begin(usize),
    Pause(usize),
}

/// All users of a run.
pub struct Agents<'a> {
    scenario: &'a Scenario,
    hosts: &'a [Host],
    /// The kernel's name of each flow's algorithm.
    algorithms: &'a [String],
    clock: Clock,
    seats: Vec<Seat>,
    events: OwnedFd,
    listener: Socket,
    agenda: BinaryHeap<Reverse<(Time, Event)>>,
    connections: HashMap<u64, Connection>,
    opened: u64,
    /// Connections that nobody has accepted yet, by user and port.
    expected: HashMap<(usize, u16), u64>,
    /// The connection of each user whose workload has only one.
    only: Vec<Option<u64>>,
    /// Payload of connections that are over, and files done.
    done: Vec<(u64, u64)>,
    totals: Vec<PathTotals>,
    played: Played,
    buffer: Vec<u8>,
}

impl<'a> Agents<'a> {
    /// Agents that have not begun; `hosts` are the users' in the order of `seats`.
    ///
    /// # Errors
    /// If the server can't listen.
    pub fn new(
        scenario: &'a Scenario,
        hosts: &'a [Host],
        server: &Host,
        algorithms: &'a [String],
        seats: Vec<Seat>,
        clock: Clock,
    ) -> Result<Agents<'a>, Error> {
        let multipath = scenario.flows.iter().any(|flow| flow.paths.len() > 1);
        let listener = server.within(|| connection::listen(multipath).context("the server"))?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        let flags = epoll::EventFlags::IN;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&events, &listener, data, flags).context("epoll")?;
        let rows = seats
            .iter()
            .map(|seat| scenario.flows[seat.flow as usize].paths.len())
            .sum();
        let mut agents = Agents {
            scenario,
            hosts,
            algorithms,
            clock,
            events,
            listener,
            agenda: BinaryHeap::new(),
            connections: HashMap::new(),
            opened: 0,
            expected: HashMap::new(),
            only: vec![None; seats.len()],
            done: vec![(0, 0); seats.len()],
            totals: vec![PathTotals::default(); rows],
            played: Played::default(),
            buffer: vec![0; BUFFER],
            seats,
        };
        agents.plan();
        Ok(agents)
    }

    /// Plays until the last of the `marks`, increasing times at which counters are taken, or until
    /// `stop`. Leaves the calling thread in one of the hosts.
    ///
    /// # Errors
    /// If a connection breaks or the kernel refuses something.
    pub fn play(mut self, marks: &[Time], stop: &AtomicBool) -> Result<Played, Error> {
        let at_marks = marks.iter().map(|&mark| Reverse((mark, Event::Mark)));
        self.agenda.extend(at_marks);
        let mut ready = Vec::with_capacity(EVENTS);
        while self.played.counted.len() < marks.len() && !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let Some(&Reverse((time, event))) = self.agenda.peek() else {
                break;
            };
            if time <= now {
                self.agenda.pop();
                self.handle(time, event)?;
                continue;
            }
            ready.clear();
            let timeout = Clock::span(now, time);
            let room = rustix::buffer::spare_capacity(&mut ready);
            match epoll::wait(&self.events, room, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::new(format!("waiting for sockets: {error}"))),
            }
            for event in &ready {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    name if name % 2 == 0 => self.push(name / 2)?,
                    name => self.pull(name / 2)?,
                }
            }
        }
        Ok(self.played)
    }

    /// Every user's beginning and end, and the paths that open later.
    fn plan(&mut self) {
        for (user, seat) in self.seats.iter().enumerate() {
            self.agenda.push(Reverse((seat.start, Event::Begin(user))));
            if let Some(stop) = seat.stop {
                self.agenda.push(Reverse((stop, Event::Pause(user))));
            }
            let paths = &self.scenario.flows[seat.flow as usize].paths;
            for (path, opens) in paths.iter().enumerate().skip(1) {
                if opens.start_s.get() > 0.0 {
                    let time = from_seconds(opens.start_s.get());
                    self.agenda
                        .push(Reverse((time, Event::OpenPath(user, path))));
                }
            }
        }
    }

    fn handle(&mut self, time: Time, event: Event) -> Result<(), Error> {
        match event {
            Event::Mark => self.count(),
            Event::OpenPath(user, path) => {
                self.hosts[user].within(|| host::ip(&setup::open_path(user, path)))
            }
            Event::Begin(user) => self.begin(time, user),
            Event::Pause(user) => self.pause(time, user),
        }
    }

    /// As in the simulator: a file arrives, or data without end begins or goes on.
    fn begin(&mut self, now: Time, user: usize) -> Result<(), Error> {
        let seat = &mut self.seats[user];
        if seat.has_stopped(now) {
            return Ok(());
        }
        let workload = &self.scenario.flows[seat.flow as usize].workload;
        if let Workload::OnOff { on_s, .. } = workload {
            let pause = now + from_seconds(on_s.get());
            self.agenda.push(Reverse((pause, Event::Pause(user))));
        }
        if let Some(gap) = next_gap(workload, &mut seat.dice) {
            self.agenda.push(Reverse((now + gap, Event::Begin(user))));
        }
        match (next_size(workload, &mut seat.dice), self.only[user]) {
            (Some(bytes), _) => {
                let arrived_at = now;
                let left = bytes;
                self.open(
                    user,
                    Cargo::File {
                        arrived_at,
                        bytes,
                        left,
                    },
                )?;
            }
            (None, None) => {
                let number = self.open(user, Cargo::Endless { paused: false })?;
                self.only[user] = Some(number);
            }
            (None, Some(number)) => self.silence(number, false)?,
        }
        Ok(())
    }

    /// Data without end goes silent; files under way are finished.
    fn pause(&mut self, now: Time, user: usize) -> Result<(), Error> {
        if let Some(number) = self.only[user] {
            self.silence(number, true)?;
        }
        let seat = &self.seats[user];
        let workload = &self.scenario.flows[seat.flow as usize].workload;
        if let (Workload::OnOff { off_s, .. }, false) = (workload, seat.has_stopped(now)) {
            let resume = now + from_seconds(off_s.get());
            self.agenda.push(Reverse((resume, Event::Begin(user))));
        }
        Ok(())
    }

    fn silence(&mut self, number: u64, silent: bool) -> Result<(), Error> {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.cargo = Cargo::Endless { paused: silent };
            watch_sender(&self.events, number, connection).context("epoll")?;
        }
        Ok(())
    }

    fn open(&mut self, user: usize, cargo: Cargo) -> Result<u64, Error> {
        let flow = self.seats[user].flow as usize;
        let multipath = self.scenario.flows[flow].paths.len() > 1;
        let algorithm = &self.algorithms[flow];
        let doing = || format!("{}: opening a connection with {algorithm}", self.name(user));
        self.hosts[user].enter().context(doing())?;
        let sender = connection::connect(user, multipath, algorithm).context(doing())?;
        let port = sender.local_addr().context(doing())?.as_socket_ipv4();
        let port = port.map_or(0, |address| address.port());
        let number = self.opened;
        self.opened += 1;
        self.expected.insert((user, port), number);
        let data = epoll::EventData::new_u64(number * 2);
        epoll::add(&self.events, &sender, data, epoll::EventFlags::OUT).context("epoll")?;
        let connection = Connection {
            user,
            sender,
            receiver: None,
            cargo,
            received: 0,
            multipath,
            fell_back: false,
            timeouts: Vec::new(),
        };
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// Accepts what waits: each comes from a connection that an agent opened.
    fn accept(&mut self) -> Result<(), Error> {
        loop {
            let (receiver, peer) = match self.listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result.context("the server")?,
            };
            let known = peer.as_socket_ipv4().and_then(|peer| {
                let (user, _) = address::path_of(*peer.ip())?;
                self.expected.remove(&(user, peer.port()))
            });
            let Some((number, connection)) =
                known.and_then(|number| Some((number, self.connections.get_mut(&number)?)))
            else {
                continue;
            };
            receiver.set_nonblocking(true).context("the server")?;
            connection::at_once(&receiver).context("the server")?;
            let data = epoll::EventData::new_u64(number * 2 + 1);
            epoll::add(&self.events, &receiver, data, epoll::EventFlags::IN).context("epoll")?;
            connection.receiver = Some(receiver);
        }
    }

    /// A sender has room.
    fn push(&mut self, number: u64) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let user = connection.user;
        let result = match connection.sender.take_error() {
            Ok(Some(error)) => Err(error),
            _ => connection.write(),
        };
        let watched = watch_sender(&self.events, number, connection);
        result.context(format_args!("{}: its connection broke", self.name(user)))?;
        watched.context("epoll")
    }

    /// A receiver has data, or a file's end.
    fn pull(&mut self, number: u64) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let user = connection.user;
        let result = connection.read(&mut self.buffer);
        let ended = result.context(format_args!("{}: its connection broke", self.name(user)))?;
        if ended {
            self.finish(number)?;
        }
        Ok(())
    }

    /// A file has arrived: its connection is over.
    fn finish(&mut self, number: u64) -> Result<(), Error> {
        let done_at = self.clock.now();
        self.look(number, None)?;
        let Some(connection) = self.connections.remove(&number) else {
            return Ok(());
        };
        let user = connection.user;
        self.done[user].0 += connection.received;
        if let Cargo::File {
            arrived_at, bytes, ..
        } = connection.cargo
        {
            self.done[user].1 += 1;
            self.played.transfers.push(Transfer {
                user,
                started_at: arrived_at,
                bytes,
                done_at,
            });
        }
        Ok(())
    }

    /// Takes all counters.
    fn count(&mut self) -> Result<(), Error> {
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
    fn look(&mut self, number: u64, mut gauges: Option<&mut [PathGauge]>) -> Result<(), Error> {
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

    /// The user's name in errors.
    fn name(&self, user: usize) -> String {
        let seat = &self.seats[user];
        format!(
            "{}.{}",
            self.scenario.flows[seat.flow as usize].name, seat.number
        )
    }
}

/// Waits for room only while there is something to write.
fn watch_sender(events: &OwnedFd, number: u64, connection: &Connection) -> rustix::io::Result<()> {
    let flags = if connection.has_data() {
        epoll::EventFlags::OUT
    } else {
        epoll::EventFlags::empty()
    };
    let data = epoll::EventData::new_u64(number * 2);
    epoll::modify(events, &connection.sender, data, flags)
}
