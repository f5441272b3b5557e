//! The agents: all users and the server, as real sockets driven by the scenario's workloads.
//!
//! One thread runs them. [`Agents`] is their state; its event loop waits for sockets and timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_control::MAX_WINDOW;
use anabranch_net::Time;
use anabranch_scenario::recorder::{PathGauge, PathTotals};
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::UserSlot;
use anabranch_scenario::{Scenario, Workload};
use anabranch_sockets::Subflow;
use rustix::event::epoll;
use rustix::io::Errno;
use socket2::Socket;

use crate::agents::connection::{Connection, Payload};
use crate::error::{Context, Error};
use crate::hosts;
use crate::hosts::Host;
use crate::network::clock::Clock;
use crate::network::forwarder::MAX_WAIT;

pub mod connection;

/// The epoll token of the listening socket. A connection's sender has twice the connection's number
/// as its token, its receiver that plus 1.
const LISTENER: u64 = u64::MAX;
const BUFFER: usize = 256 << 10;

/// The hosts' counters at one sample time.
#[derive(Clone, Debug)]
pub struct HostCounters {
    /// Payload received, bytes, and number of files received, per user.
    pub users: Vec<(u64, u64)>,
    /// The kernel's state of each path, by row.
    pub gauges: Vec<PathGauge>,
    /// Timeouts and RTTs, by row; the other totals are counted at the links.
    pub paths: Vec<PathTotals>,
}

/// A file that was received completely.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Index of the user.
    pub user: usize,
    /// Time at which the sender had it to send.
    pub started_at: Time,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Time at which its last byte was received.
    pub done_at: Time,
}

/// The result of a run, as the agents see it.
#[derive(Debug, Default)]
pub struct AgentReport {
    /// The counters at each sample time.
    pub counters: Vec<HostCounters>,
    /// The completed files.
    pub transfers: Vec<Transfer>,
    /// Users with a multipath connection that fell back to plain TCP.
    pub fell_back: Vec<usize>,
    /// Samples of subflows that were discarded, because the window is above `MAX_WINDOW`.
    pub discarded_windows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TimerEvent {
    Sample,
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
    slots: Vec<UserSlot>,
    epoll: OwnedFd,
    listener: Socket,
    timers: BinaryHeap<Reverse<(Time, TimerEvent)>>,
    /// The open connections, by number.
    connections: HashMap<u64, Connection>,
    /// The number of the next connection.
    next_number: u64,
    /// Connections that the server has not accepted yet, by user and port.
    unaccepted: HashMap<(usize, u16), u64>,
    /// The connection of each user that sends endless data or messages.
    persistent: Vec<Option<u64>>,
    /// Payload of closed connections, bytes, and number of files received, per user.
    finished: Vec<(u64, u64)>,
    totals: Vec<PathTotals>,
    report: AgentReport,
    buffer: Vec<u8>,
}

impl<'a> Agents<'a> {
    /// Agents that have not started; `hosts` are the users' hosts, in the order of `slots`.
    ///
    /// # Errors
    /// If the server can't listen.
    pub fn new(
        scenario: &'a Scenario,
        hosts: &'a [Host],
        server: &Host,
        algorithms: &'a [String],
        slots: Vec<UserSlot>,
        clock: Clock,
    ) -> Result<Agents<'a>, Error> {
        let multipath = scenario.flows.iter().any(|flow| flow.paths.len() > 1);
        let listener = server.within(|| connection::listen(multipath).context("the server"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN).context("epoll")?;
        let rows = slots
            .iter()
            .map(|slot| scenario.flows[slot.flow as usize].paths.len())
            .sum();
        Ok(Agents {
            scenario,
            hosts,
            algorithms,
            clock,
            epoll,
            listener,
            timers: BinaryHeap::new(),
            connections: HashMap::new(),
            next_number: 0,
            unaccepted: HashMap::new(),
            persistent: vec![None; slots.len()],
            finished: vec![(0, 0); slots.len()],
            totals: vec![PathTotals::default(); rows],
            report: AgentReport::default(),
            buffer: vec![0; BUFFER],
            slots,
        })
    }

    /// The user's name in error messages.
    fn name(&self, user: usize) -> String {
        let slot = &self.slots[user];
        format!(
            "{}.{}",
            self.scenario.flows[slot.flow as usize].name, slot.number
        )
    }
}

/// Waits for room in the sender's buffer only while there is data to write.
fn watch_sender(epoll: &OwnedFd, number: u64, connection: &Connection) -> rustix::io::Result<()> {
    let flags = if connection.has_data() {
        epoll::EventFlags::OUT
    } else {
        epoll::EventFlags::empty()
    };
    let data = epoll::EventData::new_u64(number * 2);
    epoll::modify(epoll, &connection.sender, data, flags)
}

// The event loop of the agents: timers, and sockets that can be accepted, read or written.

/// Sockets handled per call of epoll.
const EVENTS: usize = 64;

impl Agents<'_> {
    /// Runs until the last of the `sample_times`, which increase, or until `stop` is set. When
    /// nothing is left to send, sets `idle` and takes the remaining samples at once. Leaves the
    /// calling thread in one of the hosts.
    ///
    /// # Errors
    /// If a connection fails or the kernel rejects a command.
    pub fn run(
        mut self,
        sample_times: &[Time],
        idle: &AtomicBool,
        stop: &AtomicBool,
    ) -> Result<AgentReport, Error> {
        self.schedule_users();
        let samples = sample_times.iter();
        let samples = samples.map(|&time| Reverse((time, TimerEvent::Sample)));
        self.timers.extend(samples);
        let mut ready = Vec::with_capacity(EVENTS);
        while self.report.counters.len() < sample_times.len() && !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let Some(&Reverse((time, event))) = self.timers.peek() else {
                break;
            };
            let samples_left = sample_times.len() - self.report.counters.len();
            if self.connections.is_empty() && self.timers.len() == samples_left {
                idle.store(true, Ordering::Relaxed);
            }
            if time <= now || idle.load(Ordering::Relaxed) {
                self.timers.pop();
                self.handle(time, event)?;
                continue;
            }
            ready.clear();
            let timeout = Clock::timeout(now, time.min(now + MAX_WAIT));
            let room = rustix::buffer::spare_capacity(&mut ready);
            match epoll::wait(&self.epoll, room, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::new(format!("waiting for sockets: {error}"))),
            }
            for event in &ready {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    token if token % 2 == 0 => self.write(token / 2)?,
                    token => self.read(token / 2)?,
                }
            }
        }
        Ok(self.report)
    }

    fn handle(&mut self, time: Time, event: TimerEvent) -> Result<(), Error> {
        match event {
            TimerEvent::Sample => self.sample(),
            TimerEvent::OpenPath(user, path) => {
                self.hosts[user].within(|| hosts::run_ip("-4", &hosts::open_path(user, path)))
            }
            TimerEvent::Begin(user) => self.begin(time, user),
            TimerEvent::Pause(user) => self.pause(time, user),
        }
    }

    /// Accepts all pending connections that an agent opened; others are closed.
    fn accept(&mut self) -> Result<(), Error> {
        loop {
            let (receiver, peer) = match self.listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result.context("the server")?,
            };
            let known = peer.as_socket_ipv4().and_then(|peer| {
                let (user, _) = hosts::path_of(*peer.ip())?;
                self.unaccepted.remove(&(user, peer.port()))
            });
            let Some((number, connection)) =
                known.and_then(|number| Some((number, self.connections.get_mut(&number)?)))
            else {
                continue;
            };
            receiver.set_nonblocking(true).context("the server")?;
            connection::reset_on_close(&receiver).context("the server")?;
            let data = epoll::EventData::new_u64(number * 2 + 1);
            epoll::add(&self.epoll, &receiver, data, epoll::EventFlags::IN).context("epoll")?;
            connection.receiver = Some(receiver);
            watch_sender(&self.epoll, number, connection).context("epoll")?;
        }
    }

    /// A sender can be written.
    fn write(&mut self, number: u64) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let user = connection.user;
        let result = match connection.sender.take_error() {
            Ok(Some(error)) => Err(error),
            _ => connection.write(),
        };
        let watched = watch_sender(&self.epoll, number, connection);
        result.context(format_args!("{}: its connection failed", self.name(user)))?;
        watched.context("epoll")
    }

    /// A receiver has data, or its stream has ended.
    fn read(&mut self, number: u64) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let user = connection.user;
        let result = connection.read(&mut self.buffer);
        while let Some(message) = connection.deliver_message() {
            self.finished[user].1 += 1;
            self.report.transfers.push(Transfer {
                user,
                started_at: message.sent_at,
                bytes: message.bytes,
                done_at: self.clock.now(),
            });
        }
        let ended = result.context(format_args!("{}: its connection failed", self.name(user)))?;
        if ended {
            self.finish(number)?;
        }
        Ok(())
    }

    /// Closes a connection whose file is complete.
    fn finish(&mut self, number: u64) -> Result<(), Error> {
        let done_at = self.clock.now();
        self.update_paths(number, None)?;
        let Some(connection) = self.connections.remove(&number) else {
            return Ok(());
        };
        let user = connection.user;
        self.finished[user].0 += connection.received;
        if let Payload::File {
            started_at, bytes, ..
        } = connection.payload
        {
            self.finished[user].1 += 1;
            self.report.transfers.push(Transfer {
                user,
                started_at,
                bytes,
                done_at,
            });
        }
        Ok(())
    }
}

// Actions of users: start, pause, open connections.

impl Agents<'_> {
    /// Sets the timers of every user's start and stop, and of the paths that open later.
    pub(super) fn schedule_users(&mut self) {
        for (user, slot) in self.slots.iter().enumerate() {
            self.timers
                .push(Reverse((slot.start, TimerEvent::Begin(user))));
            if let Some(stop) = slot.stop {
                self.timers.push(Reverse((stop, TimerEvent::Pause(user))));
            }
            let paths = &self.scenario.flows[slot.flow as usize].paths;
            for (path, opens) in paths.iter().enumerate().skip(1) {
                if opens.start_s.get() > 0.0 {
                    let time = from_seconds(opens.start_s.get());
                    self.timers
                        .push(Reverse((time, TimerEvent::OpenPath(user, path))));
                }
            }
        }
    }

    /// A file arrives at the sender, or endless data starts or resumes, as in the simulator.
    pub(super) fn begin(&mut self, now: Time, user: usize) -> Result<(), Error> {
        let slot = &mut self.slots[user];
        let workload = &self.scenario.flows[slot.flow as usize].workload;
        let Some(begun) = slot.begin(workload, now) else {
            return Ok(());
        };
        if let Some(pause) = begun.pause {
            self.timers.push(Reverse((pause, TimerEvent::Pause(user))));
        }
        if let Some(next) = begun.next {
            self.timers.push(Reverse((next, TimerEvent::Begin(user))));
        }
        let has_messages = matches!(workload, Workload::Messages(_));
        match (begun.file, self.persistent[user]) {
            (Some(bytes), open) if has_messages => {
                let number = match open {
                    Some(number) => number,
                    None => self.open_for_messages(user)?,
                };
                self.submit(number, now, bytes)?;
            }
            (Some(bytes), _) => {
                self.open(
                    user,
                    Payload::File {
                        started_at: now,
                        bytes,
                        unwritten: bytes,
                    },
                )?;
            }
            (None, None) => {
                let number = self.open(user, Payload::Endless { paused: false })?;
                self.persistent[user] = Some(number);
            }
            (None, Some(number)) => self.set_paused(number, false)?,
        }
        Ok(())
    }

    /// Endless data pauses; files and messages in transfer are completed.
    pub(super) fn pause(&mut self, now: Time, user: usize) -> Result<(), Error> {
        let slot = &self.slots[user];
        let workload = &self.scenario.flows[slot.flow as usize].workload;
        let has_messages = matches!(workload, Workload::Messages(_));
        if let Some(resume) = slot.resumes(workload, now) {
            self.timers.push(Reverse((resume, TimerEvent::Begin(user))));
        }
        if let Some(number) = self.persistent[user].filter(|_| !has_messages) {
            self.set_paused(number, true)?;
        }
        Ok(())
    }

    fn open_for_messages(&mut self, user: usize) -> Result<u64, Error> {
        let payload = Payload::Messages {
            waiting: VecDeque::new(),
            submitted: 0,
            unwritten: 0,
        };
        let number = self.open(user, payload)?;
        self.persistent[user] = Some(number);
        let sender = &self.connections[&number].sender;
        sender.set_tcp_nodelay(true).context("TCP_NODELAY")?;
        Ok(number)
    }

    fn submit(&mut self, number: u64, now: Time, bytes: u64) -> Result<(), Error> {
        if let Some(connection) = self.connections.get_mut(&number) {
            let user = connection.user;
            let submitted = connection.submit(now, bytes);
            let watched = watch_sender(&self.epoll, number, connection);
            submitted.context(format_args!("{}: its connection failed", self.name(user)))?;
            watched.context("epoll")?;
        }
        Ok(())
    }

    fn set_paused(&mut self, number: u64, paused: bool) -> Result<(), Error> {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.payload = Payload::Endless { paused };
            watch_sender(&self.epoll, number, connection).context("epoll")?;
        }
        Ok(())
    }

    fn open(&mut self, user: usize, payload: Payload) -> Result<u64, Error> {
        let flow = self.slots[user].flow as usize;
        let multipath = self.scenario.flows[flow].paths.len() > 1;
        let algorithm = &self.algorithms[flow];
        let doing = || format!("{}: opening a connection with {algorithm}", self.name(user));
        self.hosts[user].enter().context(doing())?;
        let sender = connection::connect(user, multipath, algorithm).context(doing())?;
        let port = sender.local_addr().context(doing())?.as_socket_ipv4();
        let port = port.map_or(0, |address| address.port());
        let number = self.next_number;
        self.next_number += 1;
        self.unaccepted.insert((user, port), number);
        let data = epoll::EventData::new_u64(number * 2);
        epoll::add(&self.epoll, &sender, data, epoll::EventFlags::OUT).context("epoll")?;
        let connection = Connection {
            user,
            sender,
            receiver: None,
            payload,
            received: 0,
            multipath,
            fell_back: false,
            timeouts: Vec::new(),
        };
        self.connections.insert(number, connection);
        Ok(number)
    }
}

// The counters of the agents, and the state of each path that the kernel reports.

impl Agents<'_> {
    /// Takes one sample of all counters.
    pub(super) fn sample(&mut self) -> Result<(), Error> {
        let mut gauges = vec![PathGauge::default(); self.totals.len()];
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            self.update_paths(number, Some(&mut gauges))?;
        }
        let mut users = self.finished.clone();
        for connection in self.connections.values() {
            users[connection.user].0 += connection.received;
        }
        self.report.counters.push(HostCounters {
            users,
            gauges,
            paths: self.totals.clone(),
        });
        Ok(())
    }

    /// Reads a connection's state from the kernel and adds it to the totals and to `gauges`.
    pub(super) fn update_paths(
        &mut self,
        number: u64,
        mut gauges: Option<&mut [PathGauge]>,
    ) -> Result<(), Error> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let user = connection.user;
        let first_row = self.slots[user].first_path as usize;
        let subflows = connection
            .subflows()
            .context("reading a connection's state")?;
        if connection.fell_back && !self.report.fell_back.contains(&user) {
            self.report.fell_back.push(user);
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
            if let Some(gauges) = &mut gauges
                && !add(&mut gauges[first_row + path], &subflow)
            {
                self.report.discarded_windows += 1;
            }
        }
        Ok(())
    }
}

/// Adds a subflow to the gauge of its path. Returns false, and adds nothing, if its window is above
/// [`MAX_WINDOW`]: no rule sets one, so the kernel has skipped a BPF program and read uninitialised
/// stack memory as its result (docs/reference/kernel.md).
fn add(gauge: &mut PathGauge, subflow: &Subflow) -> bool {
    if f64::from(subflow.window) > MAX_WINDOW {
        gauge.add_window(None);
        return false;
    }
    gauge.add_window(Some(subflow.window.into()));
    gauge.in_flight += u64::from(subflow.in_flight);
    gauge.rtt_sum_s += f64::from(subflow.rtt_us) * 1e-6;
    gauge.measured += 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One run had a ssthresh of 2 183 148 773 packets and a window of a fifth of it.
    #[test]
    fn windows_above_the_largest_are_discarded() {
        let subflow = |window| Subflow {
            window,
            in_flight: 3,
            rtt_us: 50_000,
            ..Subflow::default()
        };
        let mut gauge = PathGauge::default();
        assert!(add(&mut gauge, &subflow(5)));
        assert!(!add(&mut gauge, &subflow(2_183_148_773 / 5)));
        assert_eq!(
            (gauge.window, gauge.in_flight, gauge.measured),
            (None, 3, 1)
        );
    }
}
