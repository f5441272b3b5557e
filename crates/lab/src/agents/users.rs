//! What users do: begin, fall silent, open connections.

use std::cmp::Reverse;

use anabranch_net::Time;
use anabranch_scenario::Workload;
use anabranch_scenario::time::from_seconds;
use anabranch_scenario::users::{next_gap, next_size};
use rustix::event::epoll;

use super::{Agents, Event, watch_sender};
use crate::connection::{self, Cargo, Connection};
use crate::error::{Context, Error};

impl Agents<'_> {
    /// Every user's beginning and end, and the paths that open later.
    pub(super) fn plan(&mut self) {
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

    /// As in the simulator: a file arrives, or data without end begins or goes on.
    pub(super) fn begin(&mut self, now: Time, user: usize) -> Result<(), Error> {
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
    pub(super) fn pause(&mut self, now: Time, user: usize) -> Result<(), Error> {
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
}
