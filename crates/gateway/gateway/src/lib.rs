//! A pair of gateways that carry TCP connections and UDP datagrams over several paths at once.
//!
//! `near` accepts local traffic ([`near`]) and `far` connects out for it ([`far`]). Between them is
//! one persistent [`Tunnel`](carrier::Tunnel), over QUIC or over Multipath TCP; each local TCP
//! connection is a stream in it. Any rule of `anabranch-control` controls the tunnel's windows, and
//! with I-TCP its weight follows the gateway's own buffer ([`itcp`]).

pub mod config;
pub mod counters;
pub mod far;
pub mod gateway;
pub mod itcp;
pub mod names;
pub mod near;
pub mod network;
pub mod operation;
pub mod party;
mod socket;
pub mod traffic;
pub mod wire;

pub use anabranch_carrier as carrier;
pub use anabranch_carrier::{keys, tls};

/// Random bytes. Without random numbers no tunnel would have been established.
fn random<const N: usize>() -> [u8; N] {
    use ring::rand::{SecureRandom, SystemRandom};
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the system has random numbers");
    bytes
}
