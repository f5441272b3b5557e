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

/// `struct entry` of `bpf/connections.bpf.c`.
#[derive(Clone, Copy)]
struct Entry {
    pub cookie: u64,
    pub state: State,
    pub algorithm: [u8; 16],
    pub local: [u8; 16],
    pub remote: [u8; 16],
    pub token: u32,
    pub window: u32,
    pub ssthresh: u32,
    pub srtt_us: u32,
    pub mss: u32,
    pub packets_sent: u32,
    pub packets_lost: u32,
    pub rate_packets: u32,
    pub rate_interval_us: u32,
    pub rate_age_us: u32,
    pub registration: u32,
    pub family: u16,
    pub local_port: u16,
    pub remote_port: u16,
    pub backup: u16,
}

/// Fields that are read of `struct subflow` of `bpf/subflow.h`.
#[derive(Clone, Copy)]
struct State {
    pub magic: u32,
    pub fraction: u32,
    pub base_rtt_us: u32,
    pub memory: u64,
    pub increase: i64,
}

impl Entry {
    /// Size of the structure: 212 bytes of fields, and 4 that align the next one.
    pub const SIZE: usize = 216;

    /// Reads a chunk of [`SIZE`](Entry::SIZE) bytes, field by field.
    pub fn read(mut chunk: &[u8]) -> Entry {
        let from = &mut chunk;
        Entry {
            cookie: u64::from_ne_bytes(next(from)),
            state: State::read(from),
            algorithm: next(from),
            local: next(from),
            remote: next(from),
            token: word(from),
            window: word(from),
            ssthresh: word(from),
            srtt_us: word(from),
            mss: word(from),
            packets_sent: word(from),
            packets_lost: word(from),
            rate_packets: word(from),
            rate_interval_us: word(from),
            rate_age_us: word(from),
            registration: word(from),
            family: short(from),
            local_port: short(from),
            remote_port: short(from),
            backup: short(from),
        }
    }
}

impl State {
    fn read(from: &mut &[u8]) -> State {
        let [magic, fraction, base_rtt_us] = [(); 3].map(|()| word(from));
        // Since and between losses, the round, its sum and RTT, the loss interval.
        let _: [u8; 2 * 4 + 3 * 4 + 3 * 8] = next(from);
        let memory = u64::from_ne_bytes(next(from));
        // The rest of the memory, and the prior.
        let _: [u8; 2 * 8 + 2 * 8] = next(from);
        State {
            magic,
            fraction,
            base_rtt_us,
            memory,
            increase: i64::from_ne_bytes(next(from)),
        }
    }
}

/// Takes the next bytes.
fn next<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let (first, rest) = from.split_first_chunk().expect("a chunk is an entry");
    *from = rest;
    *first
}

fn word(from: &mut &[u8]) -> u32 {
    u32::from_ne_bytes(next(from))
}

fn short(from: &mut &[u8]) -> u16 {
    u16::from_ne_bytes(next(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets of C's rules of alignment: 8 bytes, then 5 + 3 words and 9 longs of the state,
    /// three arrays, 11 words, 4 shorts.
    #[test]
    fn an_entry_is_read_at_the_offsets_of_its_structure() {
        let chunk: Vec<u8> = (0..Entry::SIZE).map(|i| i as u8).collect();
        let entry = Entry::read(&chunk);
        let first = |bytes: &[u8]| bytes[0];
        assert_eq!(first(&entry.cookie.to_ne_bytes()), 0);
        assert_eq!(first(&entry.state.magic.to_ne_bytes()), 8);
        assert_eq!(first(&entry.state.base_rtt_us.to_ne_bytes()), 16);
        assert_eq!(first(&entry.state.memory.to_ne_bytes()), 64);
        assert_eq!(first(&entry.state.increase.to_ne_bytes()), 104);
        assert_eq!(entry.algorithm[0], 112);
        assert_eq!(entry.remote[15], 159);
        assert_eq!(first(&entry.token.to_ne_bytes()), 160);
        assert_eq!(first(&entry.registration.to_ne_bytes()), 200);
        assert_eq!(first(&entry.family.to_ne_bytes()), 204);
        assert_eq!(first(&entry.backup.to_ne_bytes()), 210);
        assert_eq!(entry.backup.to_ne_bytes(), [210, 211]);
    }
}
