//! What differs between two configurations of the same gateway, and what a reload makes of them.

use std::fmt;

use super::read::Valid;
use super::{Far, Near, Tunnel};

/// A part of a configuration, named like its key where it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The address of `far`.
    Far,
    /// Where `far` accepts tunnels.
    Listen,
    /// Carrier, rule and I-TCP.
    Tunnel,
    /// The own key or those of the peers.
    Keys,
    /// Names or allow-lists of peers.
    Peers,
    /// Roles, weights, rates, caps, or the list itself.
    Paths,
    /// Where traffic is accepted, and from which clients.
    Services,
    /// What happens by destination.
    Rules,
    /// What `far` connects to.
    Allow,
    /// What answers DNS queries.
    Resolver,
    /// Limits.
    Limits,
    /// Status, metrics and drain.
    Operation,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Far => "far",
            Part::Listen => "listen",
            Part::Tunnel => "tunnel",
            Part::Keys => "keys",
            Part::Peers => "peers",
            Part::Paths => "paths",
            Part::Services => "services",
            Part::Rules => "rules",
            Part::Allow => "allow",
            Part::Resolver => "resolver",
            Part::Limits => "limits",
            Part::Operation => "operation",
        })
    }
}

impl Part {
    /// Whether a change takes effect with a restart only.
    pub fn needs_restart(self) -> bool {
        matches!(self, Part::Far | Part::Listen | Part::Tunnel | Part::Paths)
    }
}

/// A configuration whose differences are known.
pub trait Differs {
    /// The parts that differ, but for [`Part::Keys`].
    fn parts(&self, new: &Self) -> Vec<Part>;
    /// What a gateway that runs this configuration runs after a reload of `new`: all of it but the
    /// parts that need a restart.
    #[must_use]
    fn reloaded(&self, new: Self) -> Self;
}

impl Differs for Near {
    fn parts(&self, new: &Near) -> Vec<Part> {
        let services = |near: &Near| {
            let near = near.clone();
            (near.socks, near.forwards, near.redirect, near.dns)
        };
        differing([
            (Part::Far, self.far != new.far),
            (Part::Tunnel, tunnel_differs(&self.tunnel, &new.tunnel)),
            (Part::Peers, peers_differ(&self.tunnel, &new.tunnel)),
            (Part::Paths, self.paths != new.paths),
            (Part::Services, services(self) != services(new)),
            (Part::Rules, self.rules != new.rules),
            (Part::Limits, self.limits != new.limits),
            (Part::Operation, self.operation != new.operation),
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
    fn parts(&self, new: &Far) -> Vec<Part> {
        differing([
            (Part::Listen, self.listen != new.listen),
            (Part::Tunnel, tunnel_differs(&self.tunnel, &new.tunnel)),
            (Part::Peers, peers_differ(&self.tunnel, &new.tunnel)),
            (Part::Allow, self.allow != new.allow),
            (Part::Resolver, self.resolver != new.resolver),
            (Part::Limits, self.limits != new.limits),
            (Part::Operation, self.operation != new.operation),
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

/// Whether a peer that both have differs.
fn peers_differ(old: &Tunnel, new: &Tunnel) -> bool {
    let mut peers = new.peers.iter();
    peers.any(|peer| old.peer(&peer.key).is_some_and(|old| old != peer))
}

fn differing<const N: usize>(parts: [(Part, bool); N]) -> Vec<Part> {
    let differing = parts.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(part, _)| part).collect()
}

/// The parts that differ. A key file with other content is a difference, too.
pub fn difference<C: Differs>(old: &Valid<C>, new: &Valid<C>) -> Vec<Part> {
    let mut parts = old.config.parts(&new.config);
    if old.key.public() != new.key.public() || old.peers != new.peers {
        parts.push(Part::Keys);
    }
    parts
}
