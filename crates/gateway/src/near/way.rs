//! The tunnels between the gateways, by what they are for.

use std::fmt;

use crate::config::{self, Carrier};

/// One of near's tunnels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Over all paths.
    All,
    /// Over one path: what the destination rule `path:NAME` sends there and, with the carrier
    /// `quic`, datagrams.
    Path(String),
    /// Over one path and QUIC: datagrams with the carrier `mptcp`, where one that is lost would
    /// delay the later ones.
    Datagrams(String),
}

impl Way {
    /// The tunnel over all paths, or over this one.
    pub fn over(path: Option<&str>) -> Way {
        path.map_or(Way::All, |name| Way::Path(name.to_owned()))
    }

    /// The tunnel for datagrams over one path.
    pub fn datagrams(carrier: Carrier, path: &str) -> Way {
        match carrier {
            Carrier::Quic => Way::Path(path.to_owned()),
            Carrier::Mptcp => Way::Datagrams(path.to_owned()),
        }
    }

    /// The configuration with the carrier of this tunnel.
    pub fn config(&self, near: &config::Near) -> config::Near {
        let mut config = near.clone();
        if let Way::Datagrams(_) = self {
            config.tunnel.carrier = Carrier::Quic;
        }
        config
    }

    /// The paths that it uses; `None` if there is no such path.
    pub fn paths(&self, config: &config::Near) -> Option<Vec<config::Path>> {
        let (Way::Path(name) | Way::Datagrams(name)) = self else {
            return Some(config.paths.clone());
        };
        let path = config.paths.iter().find(|path| path.name == *name)?;
        Some(vec![path.clone()])
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::All => f.write_str("tunnel"),
            Way::Path(name) => write!(f, "path:{name}"),
            Way::Datagrams(name) => write!(f, "datagrams:{name}"),
        }
    }
}
