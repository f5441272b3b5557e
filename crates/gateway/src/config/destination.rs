//! Destinations by host, network and port: rules of `near`, the allow-list of `far`.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::special;
use crate::wire::{Destination, Host, Name};

/// What happens to connections to some destinations.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The destinations.
    pub to: Pattern,
    /// What happens.
    pub via: Via,
}

/// What happens to a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Via {
    /// `tunnel`: through the tunnel.
    #[default]
    Tunnel,
    /// `path:NAME`: through a tunnel over this path only.
    Path(String),
    /// `direct`: `near` connects itself.
    Direct,
    /// `refused`: nothing.
    Refused,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::Tunnel => f.write_str("tunnel"),
            Via::Path(name) => write!(f, "path:{name}"),
            Via::Direct => f.write_str("direct"),
            Via::Refused => f.write_str("refused"),
        }
    }
}

impl From<Via> for String {
    fn from(via: Via) -> String {
        via.to_string()
    }
}

impl TryFrom<String> for Via {
    type Error = String;

    fn try_from(text: String) -> Result<Via, String> {
        match text.as_str() {
            "tunnel" => Ok(Via::Tunnel),
            "direct" => Ok(Via::Direct),
            "refused" => Ok(Via::Refused),
            other => match other.strip_prefix("path:") {
                Some(name) if !name.is_empty() => Ok(Via::Path(name.to_owned())),
                _ => Err(format!(
                    "expected tunnel, path:NAME, direct or refused, got {text:?}"
                )),
            },
        }
    }
}

/// What happens to connections to this destination: the first rule that matches counts. `near` does
/// not resolve names, so that a network matches addresses only and a name names only.
pub fn via(rules: &[Rule], destination: &Destination) -> Via {
    let rule = rules.iter().find(|rule| rule.to.matches(destination));
    rule.map(|rule| rule.via.clone()).unwrap_or_default()
}

/// Destinations: a host (`example.org`), all below a domain (`*.example.org`), an address or a
/// network (`10.0.0.0/8`), or `*`, each with an optional port or range: `example.org:443`,
/// `*:1-1023`, `[2001:db8::/32]:443`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
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

    /// Whether it is `*`, without or with ports.
    pub fn is_any(&self) -> bool {
        self.hosts == Hosts::Any
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.text
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
                .ok_or_else(|| fault("a port or a range from 1 to 65535 (443, 1-1023)"))?,
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
        return (network.addr() == network.network()).then_some(Hosts::Network(network));
    }
    match text.parse().ok()? {
        Host::Ip(address) => Some(Hosts::Network(address.into())),
        Host::Name(name) => Some(Hosts::One(name)),
    }
}

fn parse_ports(text: Option<&str>) -> Option<RangeInclusive<u16>> {
    let Some(text) = text else {
        return Some(0..=u16::MAX);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (1 <= first && first <= last).then_some(first..=last)
}

/// A list of destinations: what `far` may connect to.
///
/// `far` resolves names, and the address decides. An address that is not public (private, loopback,
/// link-local, ..., see [`special`]) is allowed only where the list has the requested name itself,
/// or a network inside this special range: `10.0.0.0/8` allows 10.1.2.3, whereas `*`,
/// `*.example.org` and `0.0.0.0/0` don't.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Destinations(pub Vec<Pattern>);

impl Destinations {
    /// Whether some address of this host may be allowed: whether to resolve the name at all.
    pub fn may_allow(&self, requested: &Destination) -> bool {
        self.0.iter().any(|pattern| {
            let address_decides = matches!(
                (&pattern.hosts, &requested.host),
                (Hosts::Network(_), Host::Name(_))
            );
            pattern.matches(requested) || address_decides && pattern.ports.contains(&requested.port)
        })
    }

    /// Whether the requested host may be connected to at this address, which is its own or the one
    /// that its name was resolved to.
    pub fn allows(&self, requested: &Destination, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let resolved = Destination {
            host: Host::Ip(address),
            port: requested.port,
        };
        self.0.iter().any(|pattern| match &pattern.hosts {
            Hosts::One(_) => pattern.matches(requested),
            Hosts::Any | Hosts::Below(_) => {
                pattern.matches(requested) && special::is_public(address)
            }
            Hosts::Network(network) => {
                pattern.matches(&resolved) && special::network_allows(network, address)
            }
        })
    }
}

#[cfg(test)]
mod tests;
