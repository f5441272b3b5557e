//! The agents: all users and the server, as real sockets driven by the scenario's workloads.
//!
//! One thread runs them. [`Agents`] is their state; `event_loop` waits for sockets and timers,
//! `users` starts and pauses transmissions, and `counters` reads what the kernel reports.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::OwnedFd;

use anabranch_net::Time;
use anabranch_scenario::Scenario;
use anabranch_scenario::recorder::{PathGauge, PathTotals};
use anabranch_scenario::users::UserSlot;
use rustix::event::epoll;
use socket2::Socket;

use self::connection::Connection;
use crate::error::{Context, Error};
use crate::hosts::host::Host;
use crate::network::clock::Clock;

pub mod connection;
mod counters;
mod event_loop;
mod users;

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
