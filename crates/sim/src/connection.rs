//! A TCP connection, or a Multipath TCP connection over several subflows (RFC 8684): one data
//! sequence space, one receive buffer, one controller.

use std::collections::VecDeque;

use anabranch_control::AnyController;
use anabranch_net::Time;

use crate::bits::Reassembly;
use crate::dealer::Dealer;
use crate::gateway::Gateway;
use crate::network::Network;
use crate::scheduler::Scheduler;
use crate::subflow::{Route, Subflow};
use anabranch_scenario::time::seconds;

/// What all endpoints of a scenario have in common.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub packet_bytes: u16,
    pub header_bytes: u16,
    pub min_rto: Time,
    pub delayed_acks: bool,
    pub selective: bool,
    /// Where slow start ends on a new path, in packets.
    pub initial_ssthresh: f64,
    /// The receive buffer in packets.
    pub receive_buffer: u32,
    pub scheduler: Scheduler,
}

impl Tcp {
    /// Payload of a full packet.
    pub fn payload(&self) -> u64 {
        u64::from(self.packet_bytes - self.header_bytes)
    }
}

/// What a connection acts upon.
pub(crate) struct World<'a> {
    pub now: Time,
    pub network: &'a mut Network,
    pub tcp: &'a Tcp,
}

/// Data without end.
pub(crate) const ENDLESS: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Connection {
    /// Its own place among the simulation's connections.
    pub number: u32,
    /// The user it belongs to, as a row of the record.
    pub user: u32,
    pub started_at: Time,
    pub controller: AnyController,
    /// Those that are open: paths open in order.
    pub subflows: Vec<Subflow>,
    /// Whether it has several paths, open or not, and so a data sequence apart from the subflows'.
    pub(crate) several: bool,
    /// The data sequence number of the next new packet, of the first not acknowledged, and of the
    /// first that the application does not have.
    pub(crate) data_next: u32,
    pub(crate) data_una: u32,
    pub(crate) data_end: u32,
    /// Payload of a file, 0 for a workload without end.
    pub(crate) file_bytes: u64,
    /// What the data is, where it is the files of a gateway.
    pub(crate) gateway: Option<Box<Gateway>>,
    /// Who deals data out to the paths, where that is Linux' scheduler.
    pub(crate) dealer: Option<Box<Dealer>>,
    /// Data to be sent again over another path than the one, by number, where it timed out.
    pub(crate) reinjections: VecDeque<(u32, u16)>,
    /// Data as the receiver has it, where subflows' own order does not tell.
    pub(crate) data_receiver: Reassembly,
    /// Some path had room, and there was nothing to send on it.
    pub(crate) starved: bool,
    /// The path that sent last.
    pub(crate) turn: usize,
    /// Packets and acknowledgements under way.
    pub(crate) in_network: u32,
}

impl Connection {
    /// A silent connection without a path: it sends when [`open_paths`](Self::open_paths) gave it
    /// one, and [`resume`](Self::resume) or [`send_file`](Self::send_file) something to send.
    pub fn new(
        number: u32,
        user: u32,
        controller: AnyController,
        routes: &[Route],
        scheduler: Scheduler,
    ) -> Connection {
        let several = routes.len() > 1;
        let deals = several && scheduler == Scheduler::Linux;
        Connection {
            number,
            user,
            started_at: 0,
            subflows: Vec::with_capacity(routes.len()),
            several,
            controller,
            data_next: 0,
            data_una: 0,
            data_end: 0,
            file_bytes: 0,
            gateway: None,
            dealer: deals.then(Box::default),
            reinjections: VecDeque::new(),
            data_receiver: Reassembly::default(),
            starved: true,
            turn: 0,
            in_network: 0,
        }
    }

    /// Opens those of its paths whose time has come.
    pub fn open_paths(&mut self, now: Time, routes: &[Route], tcp: &Tcp) {
        let closed = routes.iter().enumerate().skip(self.subflows.len());
        for (r, route) in closed.take_while(|(_, route)| route.opens_at <= now) {
            self.controller.add_path();
            self.controller.set_ssthresh(r, tcp.initial_ssthresh);
            let window = self.controller.window(r) as u32;
            self.subflows
                .push(Subflow::new(route.clone(), tcp.selective, window));
        }
    }

    /// Begins or resumes a bulk transfer.
    pub fn resume(&mut self, world: &mut World) {
        for r in 0..self.subflows.len() {
            let rto_s = self.controller.rto_s(r);
            let path = self.controller.path(r);
            if self.subflows[r].is_stale(world.now, path, rto_s, world.tcp.min_rto) {
                self.controller.on_idle(r, seconds(world.now));
                self.subflows[r].window = self.controller.window(r) as u32;
            }
        }
        self.data_end = ENDLESS;
        self.pump_all(world);
    }

    /// Sends no new data from now on, but for what a gateway holds.
    pub fn pause(&mut self) {
        if self.gateway.is_none() {
            self.data_end = self.data_next;
        }
    }

    /// Sends a file of so many bytes of payload.
    pub fn send_file(&mut self, world: &mut World, bytes: u64) {
        self.started_at = world.now;
        self.file_bytes = bytes;
        // More packets than there are numbers are as good as endless: no run gets there.
        let packets = bytes.div_ceil(world.tcp.payload());
        self.data_end = u32::try_from(packets).unwrap_or(ENDLESS);
        self.pump_all(world);
    }

    /// Whether the receiver has the whole file.
    pub fn is_complete(&self) -> bool {
        self.file_bytes > 0 && self.data_received() == self.data_end
    }

    /// Whether nothing of this connection is under way and nothing will be.
    pub fn is_over(&self) -> bool {
        self.in_network == 0
            && self.is_complete()
            && self.data_una == self.data_end
            && self.dealer.as_ref().is_none_or(|dealer| dealer.is_empty())
    }

    /// Payload of the file, 0 for a workload without end.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Payload the application has received in order.
    pub fn received_bytes(&self, tcp: &Tcp) -> u64 {
        if let Some(gateway) = &self.gateway {
            return gateway.payload_of(tcp, self.data_received());
        }
        let bytes = u64::from(self.data_received()) * tcp.payload();
        if self.file_bytes > 0 {
            bytes.min(self.file_bytes)
        } else {
            bytes
        }
    }

    #[inline]
    pub(crate) fn data_received(&self) -> u32 {
        if self.several {
            self.data_receiver.next()
        } else {
            self.subflows[0].receiver.next()
        }
    }

    /// A packet was dropped on its way.
    pub fn on_drop(&mut self, subflow: u16, cause: anabranch_net::Cause) {
        self.in_network -= 1;
        self.subflows[usize::from(subflow)].totals.lost[cause as usize] += 1;
    }
}
