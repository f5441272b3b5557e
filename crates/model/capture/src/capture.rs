//! All captured connections of a run.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use anabranch_net::Time;

use crate::connection::{Ack, Connection, Data, Endpoint, Opening, Packet};
use crate::host::{Host, HostName};

/// The sending hosts of a run, a file each, which is created when the host first sends.
pub struct Capture {
    folder: PathBuf,
    endpoint: Endpoint,
    users: Vec<User>,
    /// The open connections by the simulator's number, which it uses again.
    connections: HashMap<u32, Connection>,
    /// The first error; nothing is written after it.
    failure: Option<io::Error>,
}

struct User {
    name: HostName,
    host: Option<Host>,
    /// The connections that it has opened.
    opened: u64,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// The hosts of users, by their number, with files in `folder`.
    pub fn new(folder: &Path, endpoint: Endpoint, hosts: impl Iterator<Item = HostName>) -> Self {
        let user = |name| User {
            name,
            host: None,
            opened: 0,
        };
        Capture {
            folder: folder.to_owned(),
            endpoint,
            users: hosts.map(user).collect(),
            connections: HashMap::new(),
            failure: None,
        }
    }

    /// A user opens the connection `number`. Its handshakes are not simulated: they are written as
    /// they would have been over empty links.
    pub fn open(&mut self, number: u32, user: usize, opening: &Opening) {
        let opener = &mut self.users[user];
        let (first, serial) = (opener.name.first, opener.opened);
        opener.opened += 1;
        if opener.host.is_none() && self.failure.is_none() {
            match Host::create(&self.folder, &opener.name) {
                Ok(host) => opener.host = Some(host),
                Err(error) => self.failure = Some(error),
            }
        }
        let paths = opening.paths.len();
        let mut connection = Connection::new(user, first, serial, self.endpoint, paths);
        for (time, path, packet) in connection.handshakes(opening) {
            if let Some(host) = &mut self.users[user].host {
                host.add(time, number, path, packet);
            }
        }
        self.connections.insert(number, connection);
    }

    /// A connection sends a data packet, which leaves its host `now`.
    pub fn data(&mut self, number: u32, now: Time, data: &Data) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let (user, packet) = (connection.user, connection.data(now, data));
        self.add(user, now, number, data.path, packet);
        self.write_to(user, now);
    }

    /// An acknowledgement will reach the connection `at`; its sender's clock shows `clock`.
    pub fn ack(&mut self, number: u32, at: Time, clock: Time, ack: &Ack<'_>) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let (user, packet) = (connection.user, connection.ack(at, clock, ack));
        self.add(user, at, number, ack.path, packet);
    }

    /// Nothing of the connection is in the network: paths that are not open yet stay closed.
    pub fn close(&mut self, number: u32, now: Time) {
        if let Some(connection) = self.connections.remove(&number) {
            self.write_to(connection.user, now);
            if let Some(host) = &mut self.users[connection.user].host {
                host.forget(number);
            }
        }
    }

    /// Completes the files with what hosts knew `now`.
    ///
    /// # Errors
    /// The first error of creating or writing a file.
    pub fn finish(self, now: Time) -> io::Result<()> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        let mut hosts = self.users.into_iter().filter_map(|user| user.host);
        hosts.try_for_each(|host| host.finish(now))
    }

    fn add(&mut self, user: usize, at: Time, number: u32, path: u16, packet: Packet) {
        if let Some(host) = &mut self.users[user].host {
            host.add(at, number, path, packet);
        }
    }

    fn write_to(&mut self, user: usize, now: Time) {
        if self.failure.is_none()
            && let Some(host) = &mut self.users[user].host
            && let Err(error) = host.write_to(now)
        {
            self.failure = Some(error);
        }
    }
}
