//! Destinations by host, network and port: rules of `near`, the allow-list of `far`.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::special::Special;
use crate::wire::{Destination, Host, Name};

/// A rule: the action for some destinations.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Destinations.
    pub to: Pattern,
    /// Action for them.
    pub via: Action,
}

/// Action for a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Action {
    /// `tunnel`: through the tunnel.
    #[default]
    Tunnel,
    /// `path:NAME`: through a tunnel over this path only.
    Path(String),
    /// `direct`: `near` connects itself.
    Direct,
    /// `refused`: nobody connects.
    Refused,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Tunnel => f.write_str("tunnel"),
            Action::Path(name) => write!(f, "path:{name}"),
            Action::Direct => f.write_str("direct"),
            Action::Refused => f.write_str("refused"),
        }
    }
}

impl TryFrom<String> for Action {
    type Error = String;

    fn try_from(text: String) -> Result<Action, String> {
        match text.as_str() {
            "tunnel" => Ok(Action::Tunnel),
            "direct" => Ok(Action::Direct),
            "refused" => Ok(Action::Refused),
            other => match other.strip_prefix("path:") {
                Some(name) if !name.is_empty() => Ok(Action::Path(name.to_owned())),
                _ => Err(format!(
                    "expected tunnel, path:NAME, direct or refused, got {text:?}"
                )),
            },
        }
    }
}

/// The action for connections to this destination: that of the first rule that matches. A network
/// matches addresses only and a name names only, because `near` resolves only what goes directly.
pub fn action(rules: &[Rule], destination: &Destination) -> Action {
    let rule = rules.iter().find(|rule| rule.to.matches(destination));
    rule.map(|rule| rule.via.clone()).unwrap_or_default()
}

/// Networks in which a destination given by name must have no address: those that are refused by
/// rules before the one that counts for the name.
pub fn refused_networks(rules: &[Rule], destination: &Destination) -> Vec<IpNet> {
    if let Host::Ip(_) = destination.host {
        return Vec::new();
    }
    let before = rules.iter().take_while(|it| !it.to.matches(destination));
    let refused = before.filter(|it| it.via == Action::Refused);
    let networks = refused.filter_map(|it| it.to.network_at(destination.port));
    networks.collect()
}

/// Whether `near` may connect to this address of a destination that goes directly: for the address,
/// too, the first rule that matches is `direct`. A network matches the address as well as the name.
/// A rule that is `direct` matches no address that it does not cover, see [`Destinations`].
pub fn is_direct(
    rules: &[Rule],
    requested: &Destination,
    address: IpAddr,
    special: &Special,
) -> bool {
    let at = resolved(requested, address);
    let rule = rules.iter().find(|rule| match rule.via {
        Action::Direct => rule.to.covers(requested, address, special),
        _ => rule.to.matches(requested) || rule.to.matches(&at),
    });
    rule.is_some_and(|rule| rule.via == Action::Direct)
}

fn resolved(requested: &Destination, address: IpAddr) -> Destination {
    Destination {
        host: address.into(),
        port: requested.port,
    }
}

/// Destinations: a host (`example.org`), all below a domain (`*.example.org`), an address or a
/// network (`10.0.0.0/8`), or `*`, each with an optional port or range: `example.org:443`,
/// `*:1-1023`, `[2001:db8::/32]:443`. `example.org:*` is `example.org`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    hosts: Hosts,
    ports: RangeInclusive<u16>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    One(Name),
    Below(Name),
    Network(IpNet),
}

impl Pattern {
    fn matches(&self, destination: &Destination) -> bool {
        self.ports.contains(&destination.port)
            && match (&self.hosts, &destination.host) {
                (Hosts::Any, _) => true,
                (Hosts::One(name), Host::Name(host)) => host == name,
                (Hosts::Below(domain), Host::Name(host)) => host.is_below(domain),
                (Hosts::Network(network), Host::Ip(address)) => network.contains(address),
                _ => false,
            }
    }

    /// Whether the pattern matches a destination and one of its addresses. An address that is not
    /// public must be in a network inside its special range.
    fn covers(&self, requested: &Destination, address: IpAddr, special: &Special) -> bool {
        match &self.hosts {
            Hosts::Network(network) => {
                self.matches(&resolved(requested, address))
                    && special.network_allows(network, address.to_canonical())
            }
            _ => self.matches(requested) && special.is_public(address.to_canonical()),
        }
    }

    /// The network, if it is one and has this port.
    fn network_at(&self, port: u16) -> Option<IpNet> {
        match self.hosts {
            Hosts::Network(network) if self.ports.contains(&port) => Some(network),
            _ => None,
        }
    }

    /// Whether the pattern is `*`, without or with ports.
    pub fn is_any(&self) -> bool {
        self.hosts == Hosts::Any
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Pattern, String> {
        text.parse()
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let (hosts, ports) = split_ports(text);
        let fault = |expected| format!("expected {expected}, got {text:?}");
        Ok(Pattern {
            hosts: parse_hosts(hosts).ok_or_else(|| {
                fault(
                    "a host (example.org), *.DOMAIN, * or a network (10.0.0.0/8, no bits set \
                     beyond the prefix)",
                )
            })?,
            ports: parse_ports(ports)
                .ok_or_else(|| fault("a port, a range from 1 to 65535 or * (443, 1-1023)"))?,
            text: text.to_owned(),
        })
    }
}

/// Separates the ports; an IPv6 network with ports is in brackets.
fn split_ports(text: &str) -> (&str, Option<&str>) {
    if let Some(rest) = text.strip_prefix('[')
        && let Some((network, ports)) = rest.split_once(']')
    {
        return match ports.strip_prefix(':') {
            Some(ports) => (network, Some(ports)),
            None if ports.is_empty() => (network, None),
            None => (text, None),
        };
    }
    match text.split_once(':') {
        Some((hosts, ports)) if !ports.contains(':') => (hosts, Some(ports)),
        _ => (text, None),
    }
}

fn parse_hosts(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::Any);
    }
    if let Some(domain) = text.strip_prefix("*.") {
        return Some(Hosts::Below(domain.parse().ok()?));
    }
    if let Ok(network) = text.parse::<IpNet>() {
        let is_network = network.addr() == network.network();
        return is_network.then_some(Hosts::Network(canonical(network)));
    }
    match text.parse().ok()? {
        Host::Ip(address) => Some(Hosts::Network(address.into())),
        Host::Name(name) => Some(Hosts::One(name)),
    }
}

/// The network, of IPv4-mapped addresses as of IPv4: addresses are compared in this form.
fn canonical(network: IpNet) -> IpNet {
    let prefix = network.prefix_len().checked_sub(96);
    match (network.addr().to_canonical(), prefix) {
        (ipv4 @ IpAddr::V4(_), Some(prefix)) => IpNet::new(ipv4, prefix).unwrap_or(network),
        _ => network,
    }
}

fn parse_ports(text: Option<&str>) -> Option<RangeInclusive<u16>> {
    let Some(text) = text.filter(|text| *text != "*") else {
        return Some(0..=u16::MAX);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (1 <= first && first <= last).then_some(first..=last)
}

/// A list of destinations that `far` may connect to.
///
/// `far` resolves names, and the address decides. An address that is not public (private, loopback,
/// link-local, an own one, ..., see [`Special`]) is allowed only by a network inside this special
/// range, or where `private` says so: `10.0.0.0/8` allows 10.1.2.3, whereas `*`, `example.org` and
/// `0.0.0.0/0` don't.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Destinations(pub Vec<Allowed>);

/// An entry of the list: a text, or a table with the keys of this type.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Allowed {
    /// Destinations.
    pub to: Pattern,
    /// Allows addresses that are not public, too.
    #[serde(default)]
    pub private: bool,
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Allowed, String> {
        let (to, private) = (text.parse()?, false);
        Ok(Allowed { to, private })
    }
}

impl<'de> Deserialize<'de> for Allowed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Allowed, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = Allowed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a destination, or a table with the keys to and private")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Allowed, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Allowed, A::Error> {
                Allowed::deserialize(MapAccessDeserializer::new(table))
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}

impl Destinations {
    /// Whether some address of this host may be allowed, so that its name is worth resolving.
    pub fn may_allow(&self, requested: &Destination) -> bool {
        self.0.iter().any(|Allowed { to, .. }| {
            let is_name = matches!(requested.host, Host::Name(_));
            to.matches(requested) || is_name && to.network_at(requested.port).is_some()
        })
    }

    /// Whether the requested host may be connected to at this address, its own or one that its name
    /// was resolved to.
    pub fn allows(&self, requested: &Destination, address: IpAddr, special: &Special) -> bool {
        let at = resolved(requested, address);
        self.0.iter().any(|Allowed { to, private }| {
            to.covers(requested, address, special)
                || *private && (to.matches(requested) || to.matches(&at))
        })
    }
}
