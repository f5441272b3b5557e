//! Actions of users: start, pause, open connections.

use std::cmp::Reverse;
use std::collections::VecDeque;

use anabranch_net::Time;
use anabranch_scenario::Workload;
use anabranch_scenario::time::from_seconds;
use rustix::event::epoll;

use super::connection::{self, Connection, Payload};
use super::{Agents, TimerEvent, watch_sender};
use crate::error::{Context, Error};

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
