//! Identifiers of the tunnels between the gateways, by their purpose.

use std::fmt;

use crate::config::{self, Carrier};

/// Identifier of one of near's tunnels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TunnelId {
    /// The tunnel over all paths.
    All,
    /// A tunnel over one path, for connections by the destination rule `path:NAME` and, with the
    /// carrier `quic`, for datagrams.
    Path(String),
    /// A tunnel over one path and QUIC, for datagrams with the carrier `mptcp`, whose order makes
    /// each datagram wait for lost data before it.
    Datagrams(String),
}

impl TunnelId {
    /// The tunnel over all paths, or over this one.
    pub fn over(path: Option<&str>) -> TunnelId {
        path.map_or(TunnelId::All, |name| TunnelId::Path(name.to_owned()))
    }

    /// The tunnel for datagrams over one path.
    pub fn datagrams(carrier: Carrier, path: &str) -> TunnelId {
        match carrier {
            Carrier::Quic => TunnelId::Path(path.to_owned()),
            Carrier::Mptcp => TunnelId::Datagrams(path.to_owned()),
        }
    }

    /// The configuration with the carrier of this tunnel.
    pub fn config(&self, near: &config::Near) -> config::Near {
        let mut config = near.clone();
        if let TunnelId::Datagrams(_) = self {
            config.tunnel = config.tunnel.over_quic();
        }
        config
    }

    /// Paths of the tunnel; `None` if there is no such path.
    pub fn paths(&self, config: &config::Near) -> Option<Vec<config::Path>> {
        let (TunnelId::Path(name) | TunnelId::Datagrams(name)) = self else {
            return Some(config.paths.clone());
        };
        let path = config.paths.iter().find(|path| path.name == *name)?;
        Some(vec![path.clone()])
    }
}

impl fmt::Display for TunnelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunnelId::All => f.write_str("tunnel"),
            TunnelId::Path(name) => write!(f, "path:{name}"),
            TunnelId::Datagrams(name) => write!(f, "datagrams:{name}"),
        }
    }
}
