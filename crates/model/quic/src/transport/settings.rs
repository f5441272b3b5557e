//! How the endpoints of a run behave.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::controller::SharedController;
use noq_proto::congestion::NewRenoConfig;
use noq_proto::{AckFrequencyConfig, TransportConfig, VarInt};

/// IPv4 and UDP headers of a datagram, bytes.
pub(crate) const UDP_HEADERS: u32 = 20 + 8;

/// The largest receive window, and send window, bytes: a connection's memory is bounded by data in
/// flight long before, because data is read as it arrives.
const MAX_RECEIVE_WINDOW: u64 = 64 << 20;

/// How every connection of a run behaves.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Size of a full datagram without IP and UDP headers, bytes.
    pub datagram_bytes: u16,
    /// Datagrams are ECN-capable.
    pub ecn: bool,
    /// Acknowledge every second packet, or after 25 ms, instead of every packet.
    pub delayed_acks: bool,
    /// Receive buffer, bytes.
    pub receive_bytes: NonZeroU64,
}

impl Settings {
    /// The sender's, with the controller of its paths.
    pub(super) fn sender(&self, paths: usize, controller: &SharedController) -> TransportConfig {
        let mut config = self.common(paths);
        config.congestion_controller_factory(Arc::new(controller.clone()));
        if !self.delayed_acks {
            let mut every_packet = AckFrequencyConfig::default();
            every_packet.ack_eliciting_threshold(VarInt::from_u32(0));
            config.ack_frequency_config(Some(every_packet));
        }
        config
    }

    /// The receiver's. It sends acknowledgements only, so its controller does not matter.
    pub(super) fn receiver(&self, paths: usize) -> TransportConfig {
        let mut config = self.common(paths);
        config.congestion_controller_factory(Arc::new(NewRenoConfig::default()));
        config
    }

    fn common(&self, paths: usize) -> TransportConfig {
        let receive_bytes = self.receive_bytes.get().min(MAX_RECEIVE_WINDOW);
        let window = VarInt::from_u64(receive_bytes).unwrap_or(VarInt::MAX);
        let mut config = TransportConfig::default();
        config
            .initial_mtu(self.datagram_bytes)
            .min_mtu(self.datagram_bytes)
            .mtu_discovery_config(None)
            .max_idle_timeout(None)
            .stream_receive_window(window)
            .receive_window(window)
            .send_window(receive_bytes);
        if paths > 1 {
            config.max_concurrent_multipath_paths(paths as u32);
        }
        config
    }
}
