//! The file of one host.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anabranch_net::Time;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

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
