//! A TCP connection, or a Multipath TCP connection over several paths (RFC 8684): one data
//! sequence space, one receive buffer, one controller.

use std::collections::VecDeque;

use anabranch_control::AnyController;
use anabranch_net::Time;
use anabranch_scenario as scenario;
use anabranch_scenario::seed::{element_seed, kind};
use anabranch_scenario::time::seconds;

use crate::connection::files::FileQueue;
use crate::connection::numbers::Reassembly;
use crate::connection::scheduler::Scheduler;
use crate::connection::scheduler::linux::LinuxScheduler;
use crate::connection::subflow::{Route, Subflow};
use crate::connection::tcp::Tcp;
use crate::network::{Network, PacketNumber};
use crate::prefetch::prefetch;

mod files;
mod hold;
mod numbers;
mod pacing;
mod program;
mod rack;
mod receiving;
mod scheduler;
mod sender;
mod sending;
pub(crate) mod subflow;
pub(crate) mod tcp;
mod timers;

/// The surroundings of a connection: the time, the network and the endpoints' keys.
pub(crate) struct World<'a> {
    pub now: Time,
    pub network: &'a mut Network,
    pub tcp: &'a Tcp,
}

/// The end of unlimited data.
pub(crate) const ENDLESS: PacketNumber = PacketNumber::MAX;

#[derive(Debug)]
pub(crate) struct Connection {
    /// Index among the simulation's connections.
    pub number: u32,
    /// The row of its user in the record.
    pub user: u32,
    pub started_at: Time,
    /// A full packet on the wire, bytes.
    pub packet_bytes: u16,
    pub controller: AnyController,
    /// The open paths: paths open in order.
    pub paths: Vec<Subflow>,
    /// Whether no path has [extras](Subflow::has_extras).
    is_plain: bool,
    /// Whether it has several paths, open or not, and so a separate data sequence.
    pub(crate) several: bool,
    /// The data sequence number of the next new packet.
    pub(crate) data_next: PacketNumber,
    /// The data sequence number of the first packet that is not acknowledged.
    pub(crate) data_una: PacketNumber,
    /// The end of the application's data.
    pub(crate) data_end: PacketNumber,
    /// Payload of a file, 0 for a workload without end.
    pub(crate) file_bytes: u64,
    /// The files of a gateway or the messages of an application, for which the connection persists.
    pub(crate) files: Option<Box<FileQueue>>,
    /// Chooses the path of the next packet.
    pub(crate) scheduler: Scheduler,
    /// Whether each acknowledgement fills all paths: the scheduler may have let another path wait.
    fills_all: bool,
    /// Assigns data to the paths, if the scenario has Linux' scheduler.
    pub(crate) linux_scheduler: Option<Box<LinuxScheduler>>,
    /// The seed of the delays in the sender's host.
    host_seed: u64,
    /// Data to be sent again over another path than the one on which it timed out.
    pub(crate) reinjections: VecDeque<(PacketNumber, u16)>,
    /// The data received, if there are several paths.
    pub(crate) data_receiver: Reassembly,
    /// Some path had room, and there was no data to send.
    pub(crate) starved: bool,
    /// The path that sent last.
    pub(crate) turn: usize,
    /// Packets and acknowledgements in the network.
    pub(crate) in_network: u32,
}

impl Connection {
    /// A silent connection without a path: it sends after [`open_paths`](Self::open_paths) and
    /// [`resume`](Self::resume) or [`send_file`](Self::send_file).
    pub fn new(
        number: u32,
        user: u32,
        started_at: Time,
        controller: AnyController,
        routes: &[Route],
        tcp: &Tcp,
        host_seed: u64,
    ) -> Connection {
        let several = routes.len() > 1;
        let scheduler = tcp.keys.scheduler;
        let uses_linux = several && scheduler == scenario::Scheduler::Linux;
        let scheduler = Scheduler::new(scheduler, several);
        let has_programs = tcp.keys.runs_program(&controller, routes.len());
        Connection {
            number,
            user,
            started_at,
            packet_bytes: tcp.packet_bytes,
            paths: Vec::with_capacity(routes.len()),
            is_plain: true,
            several,
            controller,
            data_next: 0,
            data_una: 0,
            data_end: 0,
            file_bytes: 0,
            files: None,
            fills_all: uses_linux || scheduler.may_wait(),
            scheduler,
            linux_scheduler: uses_linux.then(|| Box::new(LinuxScheduler::new(has_programs))),
            host_seed,
            reinjections: VecDeque::new(),
            data_receiver: Reassembly::default(),
            starved: true,
            turn: 0,
            in_network: 0,
        }
    }

    /// Opens the paths that open at `now` or before.
    pub fn open_paths(&mut self, now: Time, routes: &[Route], tcp: &Tcp) {
        let closed = routes.iter().enumerate().skip(self.paths.len());
        let (started_at, has_programs) = (self.started_at, self.has_programs());
        let opens = |route: &Route| match has_programs {
            true => route.is_known_at(started_at),
            false => route.opens_at(started_at),
        };
        for (r, route) in closed.take_while(|(_, route)| opens(route) <= now) {
            self.controller.add_path();
            self.controller
                .set_ssthresh(r, tcp.keys.initial_ssthresh_packets.get());
            let window = self.controller.window(r) as u32;
            let seed = element_seed(self.host_seed, kind::HOSTS, r);
            let mut path = Subflow::new(route.clone(), tcp, window, seed);
            path.sender.joins_recoveries = self.controller.is_by_rate();
            path.packets = self.controller.is_by_rate().then(Box::default);
            if let (Some(ecn), true) = (&mut path.ecn, self.controller.is_scalable()) {
                ecn.set_scalable();
            }
            self.is_plain &= !path.has_extras();
            self.paths.push(path);
        }
    }

    /// Whether it runs programs of `anabranch-kernel`, which decide before a path sends.
    pub fn has_programs(&self) -> bool {
        let scheduler = self.linux_scheduler.as_ref();
        scheduler.is_some_and(|scheduler| scheduler.has_programs)
    }

    /// Begins or resumes a bulk transfer.
    pub fn resume(&mut self, world: &mut World) {
        self.restart_after_idle(world);
        self.data_end = ENDLESS;
        self.fill_windows(world);
    }

    /// Lets windows that are out of date fall back (RFC 5681, section 4.1).
    fn restart_after_idle(&mut self, world: &World) {
        for r in 0..self.paths.len() {
            if self.paths[r].is_stale(world) {
                self.controller.on_idle(r, seconds(world.now));
                self.open_window(world.now, r);
            }
        }
    }

    /// Sends no new data from now on, except files that a gateway or an application has submitted.
    pub fn pause(&mut self) {
        if self.files.is_none() {
            self.data_end = self.data_next;
        }
    }

    /// Sends a file of `bytes` of payload.
    pub fn send_file(&mut self, world: &mut World, bytes: u64) {
        self.file_bytes = bytes;
        self.data_end = bytes.div_ceil(self.payload(world.tcp));
        self.fill_windows(world);
    }

    /// Whether the receiver has the whole file.
    pub fn is_complete(&self) -> bool {
        self.file_bytes > 0 && self.data_received() == self.data_end
    }

    /// Whether nothing of this connection is in the network or ever will be.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.in_network == 0
            && !self.paths.is_empty()
            && self.is_complete()
            && self.data_una == self.data_end
            && self
                .linux_scheduler
                .as_ref()
                .is_none_or(|scheduler| scheduler.is_empty())
    }

    /// Payload of a full packet, bytes.
    #[inline]
    pub fn payload(&self, tcp: &Tcp) -> u64 {
        u64::from(self.packet_bytes - tcp.header_bytes)
    }

    /// Payload the application has received in order.
    pub fn received_bytes(&self, tcp: &Tcp) -> u64 {
        if let Some(files) = &self.files {
            return files.payload_of(self.payload(tcp), self.data_received());
        }
        let bytes = self.data_received() * self.payload(tcp);
        if self.file_bytes > 0 {
            bytes.min(self.file_bytes)
        } else {
            bytes
        }
    }

    #[inline]
    pub(crate) fn data_received(&self) -> PacketNumber {
        if self.several {
            self.data_receiver.next()
        } else {
            self.paths[0].receiver.next()
        }
    }

    /// Loads what the next acknowledgement or packet of a path needs into the cache.
    #[inline]
    pub fn prefetch(&self, r: u16) {
        if let Some(path) = self.paths.get(usize::from(r)) {
            prefetch(path);
            prefetch(self.controller.path(usize::from(r)));
        }
    }

    /// A packet of data was dropped by a link.
    pub fn on_drop(&mut self, path: u16, cause: anabranch_net::Cause) {
        self.in_network -= 1;
        self.paths[usize::from(path)].totals.lost[cause as usize] += 1;
    }

    /// The acknowledgement of this number was dropped by a link, which alone counts it.
    pub fn on_ack_drop(&mut self, path: u16, number: PacketNumber) {
        self.in_network -= 1;
        if let Some(way_back) = &mut self.paths[usize::from(path)].way_back {
            way_back.take(number);
        }
    }
}
