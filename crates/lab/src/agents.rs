//! The thread that plays all users and the server: real sockets, driven by their workloads.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_net::Time;
use anabranch_scenario::Scenario;
use anabranch_scenario::recorder::{PathGauge, PathTotals};
use anabranch_scenario::users::UserSlot;
use rustix::event::epoll;
use rustix::io::Errno;
use socket2::Socket;

use crate::address;
use crate::clock::Clock;
use crate::connection::{self, Cargo, Connection};
use crate::error::{Context, Error};
use crate::forwarder::LONGEST_WAIT;
use crate::host::{self, Host};
use crate::setup;

mod counting;
mod users;

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
    /// Looks at subflows that no sample has, because the window could not be one.
    pub left_out: u64,
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
    seats: Vec<UserSlot>,
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
        seats: Vec<UserSlot>,
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
    /// `stop`. When nothing is left to do it says so in `idle`, and takes the other marks at once.
    /// Leaves the calling thread in one of the hosts.
    ///
    /// # Errors
    /// If a connection breaks or the kernel refuses something.
    pub fn play(
        mut self,
        marks: &[Time],
        idle: &AtomicBool,
        stop: &AtomicBool,
    ) -> Result<Played, Error> {
        let at_marks = marks.iter().map(|&mark| Reverse((mark, Event::Mark)));
        self.agenda.extend(at_marks);
        let mut ready = Vec::with_capacity(EVENTS);
        while self.played.counted.len() < marks.len() && !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let Some(&Reverse((time, event))) = self.agenda.peek() else {
                break;
            };
            let marks_left = marks.len() - self.played.counted.len();
            if self.connections.is_empty() && self.agenda.len() == marks_left {
                idle.store(true, Ordering::Relaxed);
            }
            if time <= now || idle.load(Ordering::Relaxed) {
                self.agenda.pop();
                self.handle(time, event)?;
                continue;
            }
            ready.clear();
            let timeout = Clock::span(now, time.min(now + LONGEST_WAIT));
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
            watch_sender(&self.events, number, connection).context("epoll")?;
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
