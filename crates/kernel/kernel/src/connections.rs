//! The live connections of this network namespace and the state of their congestion control.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_control::{Scalar, Soft};
use anyhow::{Context, Result};
use libbpf_rs::{Iter, Link, Object, ObjectBuilder};
use serde::Serialize;

use crate::algorithm::Program;
use crate::doctor::why_rejected;

mod entry;

use entry::Entry;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/connections.o"));

/// A connection of Multipath TCP, or of plain TCP with one of our algorithms.
#[derive(Clone, Debug, Serialize)]
pub struct Connection {
    /// The token that `ss -M` and the path manager show; `None` for plain TCP.
    pub token: Option<u32>,
    /// The socket's cookie, for [`set_weight`](crate::set_weight); 0 until it is first requested.
    pub cookie: u64,
    /// Subflows of the connection; for plain TCP the one socket.
    pub subflows: Vec<Subflow>,
}

/// The present state of a subflow.
#[derive(Clone, Debug, Serialize)]
pub struct Subflow {
    /// Congestion control of the subflow.
    pub algorithm: String,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Whether either end declared it a backup.
    pub backup: bool,
    /// Congestion window, packets, with its fraction.
    pub window: f64,
    /// Slow start threshold, packets; `None` before the first loss.
    pub ssthresh: Option<u32>,
    /// Smoothed RTT, ms; 0 before the first sample.
    pub rtt_ms: f64,
    /// Smallest RTT, ms; `None` before the first sample and with another algorithm.
    pub base_rtt_ms: Option<f64>,
    /// The kernel's latest estimate of the delivery rate, Mbps.
    pub rate_mbps: f64,
    /// Age of this estimate, s: the time since data was last acknowledged.
    pub rate_age_s: f64,
    /// Packets lost of those sent, as a fraction.
    pub loss: f64,
    /// Aggressiveness of the rule. Loss-based: its last increase as a multiple of NewReno's, `I_r
    /// w_r`. Delay-based: the number of packets it keeps queued. `None` with another algorithm, and
    /// for plain TCP with a loss-based rule.
    pub alpha: Option<f64>,
    /// The subflow's share of the connection's delivery rate; stale rates count as 0.
    pub share: f64,
    /// The program of the algorithm: the id of a [`Registration`](crate::Registration). `None` with
    /// another algorithm.
    pub registration: Option<u32>,
}

impl Subflow {
    /// Whether the estimate of the rate is older than a second: the subflow delivers nothing now.
    pub fn is_stale(&self) -> bool {
        self.rate_age_s > STALE_S
    }

    /// The present delivery rate, Mbps.
    pub fn present_rate_mbps(&self) -> f64 {
        if self.is_stale() { 0.0 } else { self.rate_mbps }
    }
}

/// Longer than nearly all RTTs, and than the first RTO (RFC 6298).
const STALE_S: f64 = 1.0;

/// The live connections of this network namespace: all of Multipath TCP, and plain TCP's with one
/// of our algorithms. Needs CAP_BPF and CAP_PERFMON. To list them often, keep a [`Lister`].
///
/// # Errors
///
/// If the kernel rejects the program that lists them.
pub fn connections() -> Result<Vec<Connection>> {
    Lister::load()?.connections()
}

/// The program that lists connections: to load it takes longer than a round trip, to run it less.
#[derive(Debug)]
pub struct Lister {
    link: Link,
    _object: Object,
}

impl Lister {
    /// Loads the program. Needs CAP_BPF and CAP_PERFMON.
    ///
    /// # Errors
    ///
    /// If the kernel rejects the program.
    pub fn load() -> Result<Lister> {
        load().with_context(|| format!("cannot list the connections: {}", why_rejected()))
    }

    /// As [`connections`], of the network namespace that the calling thread is in.
    ///
    /// # Errors
    ///
    /// If the kernel cannot run the program.
    pub fn connections(&self) -> Result<Vec<Connection>> {
        let mut found: BTreeMap<(u32, u64, u64), Connection> = BTreeMap::new();
        for (i, entry) in self.entries()?.iter().enumerate() {
            // Subflows with the same token belong together; a plain socket is a connection of its
            // own.
            let own = if entry.token == 0 { i as u64 } else { 0 };
            let connection = found
                .entry((entry.token, entry.cookie, own))
                .or_insert(Connection {
                    token: Some(entry.token).filter(|&token| token != 0),
                    cookie: entry.cookie,
                    subflows: Vec::new(),
                });
            connection.subflows.push(entry.subflow());
        }
        let mut connections: Vec<Connection> = found.into_values().collect();
        connections.iter_mut().for_each(Connection::set_shares);
        Ok(connections)
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let mut bytes = Vec::new();
        Iter::new(&self.link)?
            .read_to_end(&mut bytes)
            .context("cannot list the connections")?;
        Ok(bytes.chunks_exact(Entry::SIZE).map(Entry::read).collect())
    }
}

fn load() -> Result<Lister> {
    let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
    let link = object.progs_mut().next().context("no program")?.attach()?;
    Ok(Lister {
        link,
        _object: object,
    })
}

impl Connection {
    fn set_shares(&mut self) {
        let rates = self.subflows.iter().map(Subflow::present_rate_mbps);
        let total: f64 = rates.sum();
        for subflow in &mut self.subflows {
            subflow.share = if total > 0.0 {
                subflow.present_rate_mbps() / total
            } else {
                0.0
            };
        }
    }
}

/// A name that ends with a null byte, if it is shorter than its field.
pub(crate) fn name_of(bytes: &[u8]) -> String {
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

impl Entry {
    fn subflow(&self) -> Subflow {
        let ours = self.state.magic != 0;
        let base_rtt_us = Some(self.state.base_rtt_us).filter(|&us| ours && us != u32::MAX);
        let algorithm = name_of(&self.algorithm);
        let window = f64::from(self.window) + f64::from(self.state.fraction) / 2f64.powi(32);
        let packets_per_s = f64::from(self.rate_packets) / f64::from(self.rate_interval_us) * 1e6;
        let mbps = packets_per_s * f64::from(self.mss) * 8e-6;
        Subflow {
            alpha: self.alpha(&algorithm, window),
            registration: Program::find(&algorithm).map(|_| self.registration),
            algorithm,
            local: self.address(self.local, self.local_port),
            remote: self.address(self.remote, u16::from_be(self.remote_port)),
            backup: self.backup != 0,
            window,
            ssthresh: Some(self.ssthresh).filter(|&packets| packets < i32::MAX as u32),
            rtt_ms: f64::from(self.srtt_us) / 8000.0,
            base_rtt_ms: base_rtt_us.map(|us| f64::from(us) / 1000.0),
            rate_mbps: if self.rate_interval_us == 0 {
                0.0
            } else {
                mbps
            },
            rate_age_s: f64::from(self.rate_age_us) * 1e-6,
            loss: f64::from(self.packets_lost) / f64::from(self.packets_sent.max(1)),
            share: 0.0,
        }
    }

    fn alpha(&self, algorithm: &str, window: f64) -> Option<f64> {
        let delay_based = Program::find(algorithm)?.info().delay_based;
        if delay_based {
            Some(Soft::from_bits(self.state.memory).to_f64())
        } else {
            let increase = self.state.increase as f64 / 2f64.powi(32);
            Some(increase * window).filter(|_| self.token != 0)
        }
    }

    fn address(&self, bytes: [u8; 16], port: u16) -> SocketAddr {
        const AF_INET: u16 = 2;
        let [a, b, c, d, ..] = bytes;
        let address = if self.family == AF_INET {
            IpAddr::from(Ipv4Addr::new(a, b, c, d))
        } else {
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        };
        SocketAddr::new(address, port)
    }
}
