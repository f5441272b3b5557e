//! Settings of the endpoints.

use std::sync::Arc;
use std::time::Duration;

use anabranch_control::Algorithm;
use anabranch_quic::controller::{Clock, SharedController};
use anyhow::Context;
use noq::{Connection, EndpointConfig, TransportConfig, VarInt};
use noq_proto::RandomConnectionIdGenerator;
use ring::hmac;

use crate::config::{BBR, Limits, Settings};
use crate::tls::Identity;
use crate::window::{FIRST, LARGEST};

/// Time without an arrival from the peer after which the tunnel is closed.
pub(super) const GIVE_UP: Duration = Duration::from_secs(30);

/// Most path numbers that both ends allow at a time. A path that opens again has another number,
/// and its old one is free only after a few round trips.
pub(super) const MAX_PATHS: u32 = 32;

/// Initial window, packets (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;

/// Most data of a stream that may have arrived unread, bytes. With much more than 1024 full packets
/// the library closes connections because of "too many gaps in stream buffer" (quinn-rs/quinn issue
/// 2809).
const STREAM_WINDOW: u64 = LARGEST;

/// Unidirectional streams: one of `control`, one of `credit`, one of `writer::turns`.
const UNI_STREAMS: u32 = 3;

/// Datagrams that wait to be sent, bytes; the oldest is discarded.
pub(super) const DATAGRAM_SEND_BUFFER: usize = 256 << 10;

/// Datagrams that wait to be read, bytes; the oldest is discarded.
const DATAGRAM_RECEIVE_BUFFER: usize = 1 << 20;

/// Packets are declared lost by time alone, with a quarter of a round trip for reordering: RACK's
/// first reordering window (RFC 8985, section 7.1). RFC 9002's thresholds, three packets and an
/// eighth, leave a path whose packets overtake one another a part of its rate.
const PACKET_THRESHOLD: u32 = u32::MAX;
const TIME_THRESHOLD: f32 = 1.25;

/// The controller of a new tunnel, with the configured rule.
pub(super) fn controller(settings: &Settings) -> anyhow::Result<SharedController> {
    if settings.algorithm == BBR {
        return Ok(SharedController::bbr(clock()));
    }
    let algorithm = Algorithm::parse(&settings.algorithm).context("tunnel.algorithm")?;
    let controller = algorithm.controller(0, INITIAL_WINDOW);
    Ok(SharedController::new(clock(), controller, f64::INFINITY))
}

fn clock() -> Clock {
    Clock::running(crate::quic::clock::now)
}

/// The endpoint of `far`. Its keys follow from far's own key instead of chance, so that a far that
/// was killed and started again can tell its peers that it does not know their connections (a
/// stateless reset, RFC 9000, section 10.3). Otherwise near would wait for [`GIVE_UP`].
pub(super) fn endpoint(identity: &Identity) -> anyhow::Result<EndpointConfig> {
    let secret = identity.derive(b"anabranch: keys of the QUIC endpoint")?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let mut config = EndpointConfig::new(Arc::new(key));
    config.cid_generator(Arc::new(|| Box::<RandomConnectionIdGenerator>::default()));
    Ok(config)
}

/// The transport of one connection, whose paths share this controller.
pub(super) fn transport(controller: &SharedController, limits: &Limits) -> TransportConfig {
    let buffer = limits.tunnel_buffer_bytes as u64;
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(Arc::new(controller.clone()))
        .packet_threshold(PACKET_THRESHOLD)
        .time_threshold(TIME_THRESHOLD)
        .max_concurrent_multipath_paths(MAX_PATHS)
        .max_concurrent_bidi_streams(varint(limits.streams as u64))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS))
        .max_idle_timeout(Some(GIVE_UP.try_into().expect("30 s is in range")))
        .stream_receive_window(varint(STREAM_WINDOW))
        .receive_window(receive_window(limits))
        .send_window(buffer)
        .datagram_send_buffer_size(DATAGRAM_SEND_BUFFER)
        .datagram_receive_buffer_size(Some(DATAGRAM_RECEIVE_BUFFER));
    config
}

/// Changes the part of [`transport`] that depends on limits.
pub(super) fn set_limits(connection: &Connection, limits: &Limits) {
    let buffer = limits.tunnel_buffer_bytes as u64;
    connection.set_max_concurrent_bi_streams(varint(limits.streams as u64));
    connection.set_receive_window(receive_window(limits));
    connection.set_send_window(buffer);
}

/// Sum of the windows of all streams, which streams that are not read never use up: [`FIRST`] each,
/// the budget, and as much again for streams that were idle and are no more.
fn receive_window(limits: &Limits) -> VarInt {
    varint(limits.streams as u64 * FIRST + 2 * limits.tunnel_buffer_bytes as u64)
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}
