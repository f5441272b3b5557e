//! Differences between two configurations of the same gateway, and their treatment by a reload.
//! Parts have the names of their keys, but for these:
//!
//! | part | difference |
//! |---|---|
//! | `tunnel` | carrier, rule and I-TCP |
//! | `keys` | the own key or those of the peers |
//! | `peers` | names or allow-lists of peers |
//! | `services` | listeners, and their clients |

use super::read::Valid;
use super::{Far, Near, Tunnel};

/// Parts whose change takes effect with a restart only.
pub const RESTART: [&str; 4] = ["far", "listen", "tunnel", "paths"];

/// A configuration that can be compared with a new one.
pub trait Differs {
    /// Parts that differ, but for `keys`.
    fn parts(&self, new: &Self) -> Vec<&'static str>;
    /// The configuration that a gateway with this one runs after a reload of `new`: all of `new`
    /// but the parts that need a restart.
    #[must_use]
    fn reloaded(&self, new: Self) -> Self;
}

impl Differs for Near {
    fn parts(&self, new: &Near) -> Vec<&'static str> {
        differing([
            ("far", self.far != new.far),
            ("tunnel", tunnel_differs(&self.tunnel, &new.tunnel)),
            ("peers", peers_differ(&self.tunnel, &new.tunnel)),
            ("paths", self.paths != new.paths),
            ("services", self.services() != new.services()),
            ("rules", self.rules != new.rules),
            ("limits", self.limits != new.limits),
            ("operation", self.operation != new.operation),
        ])
    }

    fn reloaded(&self, new: Near) -> Near {
        Near {
            far: self.far.clone(),
            tunnel: self.tunnel.with_keys(&new.tunnel),
            paths: self.paths.clone(),
            ..new
        }
    }
}

impl Differs for Far {
    fn parts(&self, new: &Far) -> Vec<&'static str> {
        differing([
            ("listen", self.listen != new.listen),
            ("tunnel", tunnel_differs(&self.tunnel, &new.tunnel)),
            ("peers", peers_differ(&self.tunnel, &new.tunnel)),
            ("allow", self.allow != new.allow),
            ("resolver", self.resolver != new.resolver),
            ("limits", self.limits != new.limits),
            ("operation", self.operation != new.operation),
        ])
    }

    fn reloaded(&self, new: Far) -> Far {
        Far {
            listen: self.listen,
            tunnel: self.tunnel.with_keys(&new.tunnel),
            ..new
        }
    }
}

fn tunnel_differs(old: &Tunnel, new: &Tunnel) -> bool {
    old.with_keys(new) != *new
}

/// Whether a peer differs that both configurations have.
fn peers_differ(old: &Tunnel, new: &Tunnel) -> bool {
    let mut peers = new.peers.iter();
    peers.any(|peer| old.peer(&peer.key).is_some_and(|old| old != peer))
}

fn differing<const N: usize>(parts: [(&'static str, bool); N]) -> Vec<&'static str> {
    let differing = parts.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(part, _)| part).collect()
}

/// Parts that differ. A key file with other content is a difference, too.
pub fn difference<C: Differs>(old: &Valid<C>, new: &Valid<C>) -> Vec<&'static str> {
    let mut parts = old.config.parts(&new.config);
    if old.key.public() != new.key.public() || old.peers != new.peers {
        parts.push("keys");
    }
    parts
}
