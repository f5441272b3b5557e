//! What both ends know of a path, whichever number the library gave it.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_quic::controller::{PathController, PathReport, SharedController};
use noq::{Connection, PathId, PathStats, PathStatus, WeakPathHandle};
use tokio::time::Instant;

use super::share::Share;
use crate::config::Role;
use crate::{Condition, PathState};

/// IPv4 and UDP headers of a datagram, bytes.
pub(super) const UDP_HEADERS: u64 = 20 + 8;

/// A path by its name.
#[derive(Debug)]
pub(super) struct Entry {
    /// As configured at `near`.
    pub name: String,
    /// As configured at `near`.
    pub role: Role,
    /// What it may carry.
    pub share: Share,
    /// The library's path.
    pub open: Option<Open>,
    /// The counters of the library's paths before.
    past: Counters,
    /// How often it was found dead.
    pub deaths: u64,
}

/// A path of the library.
#[derive(Debug)]
pub(super) struct Open {
    pub id: PathId,
    /// The place in the controller.
    pub index: usize,
    pub since: Instant,
    /// It may be dead, and another works: neither data nor acknowledgements go over it, which the
    /// library would send again late.
    pub is_suspected: bool,
    /// What the other end has said of it; only `far` follows.
    pub remote_status: PathStatus,
    /// Keeps the counters until it is dropped.
    _handle: WeakPathHandle,
    status: PathStatus,
    counters: Counters,
    mtu: u16,
}

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub lost_packets: u64,
}

impl Counters {
    fn of(stats: &PathStats) -> Counters {
        let (sent, received) = (&stats.udp_tx, &stats.udp_rx);
        Counters {
            sent_bytes: sent.bytes + UDP_HEADERS * sent.datagrams,
            received_bytes: received.bytes + UDP_HEADERS * received.datagrams,
            sent_packets: stats.sent_packets,
            // A lost probe of the MTU says nothing about the path.
            lost_packets: stats.lost_packets - stats.lost_plpmtud_probes,
        }
    }

    fn plus(self, other: Counters) -> Counters {
        Counters {
            sent_bytes: self.sent_bytes + other.sent_bytes,
            received_bytes: self.received_bytes + other.received_bytes,
            sent_packets: self.sent_packets + other.sent_packets,
            lost_packets: self.lost_packets + other.lost_packets,
        }
    }
}

impl Open {
    /// The library's path with this number, if it is open.
    pub fn new(connection: &Connection, id: PathId, status: PathStatus) -> Option<Open> {
        let path = connection.path(id)?;
        let controller = connection.congestion_state(id)?.into_any();
        let controller = controller.downcast::<PathController>().ok()?;
        Some(Open {
            id,
            index: controller.index(),
            since: Instant::now(),
            is_suspected: false,
            remote_status: PathStatus::Available,
            _handle: path.weak_handle(),
            status,
            counters: Counters::default(),
            mtu: 0,
        })
    }

    /// Reads the library's counters; afterwards they are what they were when it was closed.
    pub fn update(&mut self, connection: &Connection) {
        if let Some(stats) = connection.path_stats(self.id) {
            self.counters = Counters::of(&stats);
            self.mtu = stats.current_mtu;
        }
    }

    /// Makes it available, or a backup of those that are.
    pub fn set_status(&mut self, connection: &Connection, status: PathStatus) {
        if self.status != status
            && let Some(path) = connection.path(self.id)
            && path.set_status(status).is_ok()
        {
            self.status = status;
        }
    }

    /// What the controller knows of it.
    pub fn report(&self, controller: &SharedController) -> PathReport {
        controller.read(|_, reports| reports[self.index])
    }

    /// Largest datagram without IP and UDP headers, bytes.
    pub fn mtu(&self) -> u64 {
        self.mtu.into()
    }

    /// The smoothed round-trip time, once there is one.
    pub fn rtt(&self, controller: &SharedController) -> Option<Duration> {
        let rtt = controller.read(|controller, _| controller.path(self.index).rtt);
        Duration::try_from_secs_f64(rtt).ok()
    }
}

impl Entry {
    /// A path that is not open.
    pub fn new(name: String, role: Role, share: Share) -> Entry {
        Entry {
            name,
            role,
            share,
            open: None,
            past: Counters::default(),
            deaths: 0,
        }
    }

    /// Counters of the path since the tunnel was established.
    pub fn counters(&self) -> Counters {
        let open = self.open.as_ref().map(|open| open.counters);
        self.past.plus(open.unwrap_or_default())
    }

    /// Bytes sent and received since the tunnel was established.
    pub fn carried(&self) -> u64 {
        let counters = self.counters();
        counters.sent_bytes + counters.received_bytes
    }

    /// The library has closed its path.
    pub fn closed(&mut self, connection: &Connection, controller: &SharedController) {
        if let Some(mut open) = self.open.take() {
            open.update(connection);
            self.past = self.past.plus(open.counters);
            controller.abandon(open.index);
        }
    }

    /// State of the path, if it is in this condition while it is open.
    pub fn state(
        &self,
        controller: &SharedController,
        condition: Condition,
        local: Option<IpAddr>,
    ) -> PathState {
        let counters = self.counters();
        let mut state = PathState {
            name: self.name.clone(),
            condition,
            local,
            sent_bytes: counters.sent_bytes,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            lost_packets: counters.lost_packets,
            rtt_s: None,
            base_rtt_s: None,
            window_packets: 0.0,
            mtu_bytes: 0,
            deaths: self.deaths,
        };
        if let Some(open) = &self.open {
            controller.read(|controller, _| {
                let path = controller.path(open.index);
                state.rtt_s = Some(path.rtt).filter(|rtt| rtt.is_finite());
                state.base_rtt_s = Some(path.base_rtt).filter(|rtt| rtt.is_finite());
                state.window_packets = path.window;
            });
            state.mtu_bytes = u32::from(open.mtu);
        }
        state
    }
}
