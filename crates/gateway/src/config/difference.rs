//! What differs between two configurations of the same gateway.

use std::fmt;

use super::read::Valid;
use super::{Far, Near};

/// A part of a configuration, named like its key where it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The address of `far`.
    Far,
    /// Where `far` accepts tunnels.
    Listen,
    /// Carrier, rule and I-TCP.
    Tunnel,
    /// The own key or the peers.
    Keys,
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

/// A configuration whose differences are known.
pub trait Differs {
    /// The parts that differ, but for [`Part::Keys`].
    fn parts(&self, new: &Self) -> Vec<Part>;
}

impl Differs for Near {
    fn parts(&self, new: &Near) -> Vec<Part> {
        let services = |near: &Near| {
            let near = near.clone();
            (near.socks, near.forwards, near.redirect, near.dns)
        };
        differing([
            (Part::Far, self.far != new.far),
            (Part::Tunnel, !self.tunnel.is_same_but_keys(&new.tunnel)),
            (Part::Paths, self.paths != new.paths),
            (Part::Services, services(self) != services(new)),
            (Part::Rules, self.rules != new.rules),
            (Part::Limits, self.limits != new.limits),
            (Part::Operation, self.operation != new.operation),
        ])
    }
}

impl Differs for Far {
    fn parts(&self, new: &Far) -> Vec<Part> {
        differing([
            (Part::Listen, self.listen != new.listen),
            (Part::Tunnel, !self.tunnel.is_same_but_keys(&new.tunnel)),
            (Part::Allow, self.allow != new.allow),
            (Part::Resolver, self.resolver != new.resolver),
            (Part::Limits, self.limits != new.limits),
            (Part::Operation, self.operation != new.operation),
        ])
    }
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
