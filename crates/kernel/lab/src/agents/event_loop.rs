//! The event loop of the agents: timers, and sockets that can be accepted, read or written.

use std::cmp::Reverse;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_net::Time;
use rustix::event::epoll;
use rustix::io::Errno;

use super::connection::{self, Payload};
use super::{AgentReport, Agents, LISTENER, TimerEvent, Transfer, watch_sender};
use crate::error::{Context, Error};
use crate::hosts::{address, host, setup};
use crate::network::clock::Clock;
use crate::network::forwarder::MAX_WAIT;

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
                self.hosts[user].within(|| host::run_ip("-4", &setup::open_path(user, path)))
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
                let (user, _) = address::path_of(*peer.ip())?;
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
