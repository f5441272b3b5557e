//! An open path of a connection.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anabranch_quic::controller::{Allowance, PathController, PathReport};
use anabranch_quic::watch::Load;
use noq::{ClosePathError, PathId, PathStats, PathStatus, WeakPathHandle};

use super::{Connection, UDP_HEADERS, number};

/// An open path, until it is dropped.
#[derive(Debug)]
pub struct OpenPath {
    connection: Connection,
    id: PathId,
    /// Keeps the place in the controller also while the library has another one for the path,
    /// because the peer sends its packets from another address.
    controller: Box<PathController>,
    counters: Counters,
    mtu: u16,
    /// Keeps the library's counters.
    _handle: WeakPathHandle,
}

/// Error: the path is the only open one of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastPath;

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Bytes sent, with IP and UDP headers.
    pub sent_bytes: u64,
    /// Bytes received, with IP and UDP headers.
    pub received_bytes: u64,
    /// Packets of QUIC sent.
    pub sent_packets: u64,
    /// Packets of QUIC declared lost.
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

    /// Sum of both.
    pub fn plus(self, other: Counters) -> Counters {
        Counters {
            sent_bytes: self.sent_bytes + other.sent_bytes,
            received_bytes: self.received_bytes + other.received_bytes,
            sent_packets: self.sent_packets + other.sent_packets,
            lost_packets: self.lost_packets + other.lost_packets,
        }
    }
}

/// Library's status of a path that is a backup, or is not.
pub(super) fn status(is_backup: bool) -> PathStatus {
    if is_backup {
        PathStatus::Backup
    } else {
        PathStatus::Available
    }
}

impl OpenPath {
    pub(super) fn new(connection: &Connection, id: PathId) -> Option<OpenPath> {
        let path = connection.inner.path(id)?;
        let controller = connection.inner.congestion_state(id)?.into_any();
        let controller = controller.downcast::<PathController>().ok()?;
        Some(OpenPath {
            connection: connection.clone(),
            id,
            controller,
            counters: Counters::default(),
            mtu: 0,
            _handle: path.weak_handle(),
        })
    }

    /// Library's number, which both ends know.
    pub fn number(&self) -> u32 {
        number(self.id)
    }

    /// Reads the library's counters. After the path was closed they do not change.
    pub fn update(&mut self) {
        if let Some(stats) = self.connection.inner.path_stats(self.id) {
            self.counters = Counters::of(&stats);
            self.mtu = stats.current_mtu;
        }
    }

    /// Counters as they were read last.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Largest datagram without IP and UDP headers, bytes.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Makes the path a backup of the others, or no backup.
    pub fn set_backup(&self, is_backup: bool) {
        let status = status(is_backup);
        if let Some(path) = self.connection.inner.path(self.id)
            && path.status().is_ok_and(|now| now != status)
        {
            // Fails if the library has closed it.
            let _ = path.set_status(status);
        }
    }

    /// State of the path in the controller.
    pub fn report(&self) -> PathReport {
        let controller = self.connection.controller();
        controller.read(|_, reports| reports[self.controller.index()])
    }

    /// Smoothed and smallest round-trip time, s, once there is one, and the window, packets.
    pub fn measured(&self) -> (Option<f64>, Option<f64>, f64) {
        let controller = self.connection.controller();
        let (rtt, base_rtt) = controller.read(|controller, _| {
            let path = controller.path(self.controller.index());
            let known = |rtt: f64| Some(rtt).filter(|rtt| rtt.is_finite());
            (known(path.rtt), known(path.base_rtt))
        });
        (rtt, base_rtt, controller.window(self.controller.index()))
    }

    /// Load of the path, for a [`PathWatch`](anabranch_quic::watch::PathWatch).
    pub fn load(&self) -> Load {
        let (_, base_rtt, _) = self.measured();
        let base_rtt = base_rtt.and_then(|rtt| Duration::try_from_secs_f64(rtt).ok());
        Load {
            received_bytes: self.counters.received_bytes,
            in_flight_bytes: self.report().in_flight_bytes,
            base_rtt: base_rtt.unwrap_or_default(),
        }
    }

    /// Acknowledgements of the path, for a [`PathWatch`](anabranch_quic::watch::PathWatch).
    pub fn heard(&self) -> (Option<Instant>, Option<Duration>) {
        self.connection.controller().heard(self.controller.index())
    }

    /// Own address.
    pub fn local(&self) -> Option<IpAddr> {
        self.connection.inner.path(self.id)?.local_ip().ok()?
    }

    /// Sets the allowance of the path.
    pub fn allow(&self, allowance: Allowance) {
        self.connection
            .controller()
            .allow(self.controller.index(), allowance);
    }

    /// Makes the peer acknowledge something.
    pub fn ping(&self) {
        if let Some(path) = self.connection.inner.path(self.id) {
            // Fails if the library has closed it.
            let _ = path.ping();
        }
    }

    /// Closes the path, unless it is closed.
    pub fn close(&self) -> Result<(), LastPath> {
        let path = self.connection.inner.path(self.id);
        match path.map(|path| path.close()) {
            Some(Err(ClosePathError::LastOpenPath)) => Err(LastPath),
            _ => Ok(()),
        }
    }

    /// Last counters of a path that was closed.
    pub fn closed(mut self) -> Counters {
        self.update();
        self.connection
            .controller()
            .abandon(self.controller.index());
        self.counters
    }
}
