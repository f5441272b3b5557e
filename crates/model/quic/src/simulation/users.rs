//! Actions of users: begin, pause, open connections, complete files.

use anabranch_scenario::Workload;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::from_seconds;

use super::{Simulation, WATCH};
use crate::calendar::Event;
use crate::connection::{Connection, Host};
use crate::transport::{Pair, Side};

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
