//! All captured connections of a run, and the file of each host.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use anabranch_net::Time;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

use crate::connection::{Ack, Connection, Data, Endpoint, Opening, Packet};

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

// The file of one host.

/// Ethernet, IPv4 without options, TCP with all options.
const HEADERS: u32 = 14 + 20 + 60;

/// Time stamps are in units of 10^-9 s; a simulated time is in ps.
const RESOLUTION: u8 = 9;
const PS_PER_NS: u64 = 1000;

/// A sending host: its file, and what each of its paths is called.
#[derive(Clone, Debug)]
pub struct HostName {
    /// The file's name, without its extension.
    pub file: String,
    /// The names of its interfaces, one per path.
    pub paths: Vec<String>,
    /// The number of its first interface among those of all hosts.
    pub first: u32,
}

/// A packet that is yet to be written.
#[derive(Debug)]
struct Frame {
    connection: u32,
    path: u16,
    headers: Vec<u8>,
    whole: u32,
}

/// The packets of one host in the order of their times.
pub(crate) struct Host {
    file: PcapNgWriter<BufWriter<File>>,
    /// Packets with times that may not have come yet, ties in the order in which they were added.
    pending: BTreeMap<(Time, u64), Frame>,
    added: u64,
    /// All packets up to this time are written.
    written_to: Time,
}

impl Host {
    /// Creates the file in `folder`, with its interfaces.
    pub fn create(folder: &Path, name: &HostName) -> io::Result<Host> {
        let path = folder.join(format!("{}.pcapng", name.file));
        let file = File::create_new(&path).map_err(|error| {
            let remedy =
                "names of flows must differ, and a run needs an open file per user: ulimit -n";
            let (path, kind) = (path.display(), error.kind());
            io::Error::new(kind, format!("{path}: {error}; {remedy}"))
        })?;
        let mut file = PcapNgWriter::new(BufWriter::new(file)).map_err(plain)?;
        for path in &name.paths {
            let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, HEADERS);
            interface.options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(path)),
                InterfaceDescriptionOption::IfTsResol(RESOLUTION),
            ];
            file.write_pcapng_block(interface).map_err(plain)?;
        }
        Ok(Host {
            file,
            pending: BTreeMap::new(),
            added: 0,
            written_to: 0,
        })
    }

    /// Adds a packet of which the host knows at `time`, or as soon as the file allows.
    pub fn add(
        &mut self,
        time: Time,
        connection: u32,
        path: u16,
        (headers, whole): (Vec<u8>, u32),
    ) {
        self.added += 1;
        let key = (time.max(self.written_to), self.added);
        let frame = Frame {
            connection,
            path,
            headers,
            whole,
        };
        self.pending.insert(key, frame);
    }

    /// Writes the packets up to `now`.
    pub fn write_to(&mut self, now: Time) -> io::Result<()> {
        self.written_to = self.written_to.max(now);
        while let Some(entry) = self.pending.first_entry()
            && entry.key().0 <= now
        {
            let ((time, _), frame) = entry.remove_entry();
            let packet = EnhancedPacketBlock {
                interface_id: frame.path.into(),
                timestamp: Duration::from_nanos(time / PS_PER_NS),
                original_len: frame.whole,
                data: Cow::Owned(frame.headers),
                options: Vec::new(),
            };
            self.file.write_pcapng_block(packet).map_err(plain)?;
        }
        Ok(())
    }

    /// Forgets what a connection would have sent and received later.
    pub fn forget(&mut self, connection: u32) {
        self.pending
            .retain(|_, frame| frame.connection != connection);
    }

    /// Writes the rest of what it has been told.
    pub fn finish(mut self, now: Time) -> io::Result<()> {
        self.write_to(now)?;
        self.file.get_mut().flush()
    }
}

fn plain(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
