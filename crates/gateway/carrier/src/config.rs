//! Configuration of the two ends of a tunnel.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_control::Algorithm;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// The name of BBR, which controls each path by itself: the library's over QUIC, and the kernel's.
pub const BBR: &str = "bbr";

/// The longest name of a path.
pub const LONGEST_NAME: usize = 32;

/// The end that connects.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// The other end.
    pub far: Remote,
    /// The local addresses or interfaces to use, in order of preference. At least one.
    pub paths: Vec<Path>,
    /// Behaviour of the tunnel.
    pub settings: Settings,
}

/// The end that accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Far {
    /// Address at which tunnels are accepted; `[::]` is both families.
    pub listen: SocketAddr,
    /// Behaviour of its tunnels.
    pub settings: Settings,
}

/// The addresses of the end that accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Name in errors.
    pub name: String,
    /// Addresses in the order in which they are tried.
    pub addresses: Vec<SocketAddr>,
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Remote {
        Remote {
            name: address.to_string(),
            addresses: vec![address],
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Behaviour of a tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Protocol below the tunnel.
    pub carrier: Carrier,
    /// Congestion-control rule with its parameters, as in a scenario: `olia`, `vegas:kappa=3`.
    pub algorithm: String,
    /// Whether kappa of the rule is set while the tunnel lives; an error where it cannot be set.
    pub sets_kappa: bool,
    /// Limits against exhaustion.
    pub limits: Limits,
}

impl Settings {
    /// Settings with this carrier and rule, and the default limits.
    pub fn new(carrier: Carrier, algorithm: &str) -> Settings {
        Settings {
            carrier,
            algorithm: algorithm.to_owned(),
            sets_kappa: false,
            limits: Limits::default(),
        }
    }
}

impl Settings {
    /// These settings for a tunnel over QUIC. A rule that the kernel alone has is CUBIC there.
    pub fn over_quic(&self) -> Settings {
        let is_known = self.algorithm == BBR || Algorithm::parse(&self.algorithm).is_ok();
        let algorithm = match self.carrier {
            Carrier::Mptcp if !is_known => "cubic",
            _ => &self.algorithm,
        };
        Settings {
            carrier: Carrier::Quic,
            algorithm: algorithm.to_owned(),
            ..self.clone()
        }
    }
}

/// Limits against exhaustion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Most streams that each side may have open.
    pub streams: usize,
    /// Most streams of all peers of `far`, where each takes a descriptor.
    pub streams_of_all: usize,
    /// Data buffered by one tunnel, bytes.
    pub tunnel_buffer_bytes: usize,
    /// Longest duration of a handshake that the other end has begun.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams: 4096,
            streams_of_all: 1 << 16,
            tunnel_buffer_bytes: 64 << 20,
            handshake: Duration::from_secs(10),
        }
    }
}

/// Protocol that carries a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// QUIC with several paths.
    Quic,
    /// Multipath TCP, or TCP where a kernel has none, with TLS 1.3.
    Mptcp,
}

/// A path: a local address or an interface.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Name in status, logs and rules.
    pub name: String,
    /// The local address that its packets have.
    pub address: Option<IpAddr>,
    /// The interface that its packets leave by; `address`, `interface` or both.
    pub interface: Option<String>,
    /// Use of the path.
    #[serde(default)]
    pub role: Role,
    /// Most bytes, as a multiple of those of the paths of weight 1, in (0, 1].
    #[serde(default = "one")]
    pub weight: f64,
    /// Largest rate in each direction, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// Bytes carried since the start, sent and received, after which the path is off.
    pub cap_bytes: Option<u64>,
}

fn one() -> f64 {
    1.0
}

/// Use of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Used always.
    #[default]
    Available,
    /// Used when no available path works.
    Backup,
    /// Never used.
    Never,
}

impl Path {
    /// An available path without limits; address or interface are still to be set.
    pub fn new(name: &str) -> Path {
        Path {
            name: name.to_owned(),
            address: None,
            interface: None,
            role: Role::Available,
            weight: 1.0,
            rate_mbps: None,
            cap_bytes: None,
        }
    }
}

/// Whether a path may have this name, in status, logs and metrics of both ends.
pub fn is_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(word)
}

/// A value that is replaced as a whole.
#[derive(Debug)]
pub struct Live<T>(RwLock<Arc<T>>);

impl<T> Live<T> {
    /// A live value that begins with `value`.
    pub fn new(value: T) -> Live<T> {
        Live(RwLock::new(Arc::new(value)))
    }

    /// The present value.
    pub fn get(&self) -> Arc<T> {
        self.0.read().clone()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.0.write() = Arc::new(value);
    }
}
