//! Destinations by host, network and port: rules of `near`, the allow-list of `far`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use if_addrs::{Interface, get_if_addrs};
use ipnet::IpNet;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

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

    /// The network, if it is one.
    pub fn addresses(&self) -> Option<IpNet> {
        match self.hosts {
            Hosts::Network(network) => Some(network),
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

    /// Whether the list has this name, at any port.
    pub fn names(&self, name: &Name) -> bool {
        self.0.iter().any(|Allowed { to, .. }| match &to.hosts {
            Hosts::Any => true,
            Hosts::One(one) => one == name,
            Hosts::Below(domain) => name.is_below(domain),
            Hosts::Network(_) => false,
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

/// Special ranges: the special-purpose registries of IANA (RFC 6890), and multicast. IPv4-mapped
/// addresses are missing, because they are converted before.
static RANGES: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let ranges = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 \
        192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 \
        203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 \
        ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 \
        5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8";
    let parse = |text: &str| text.parse().expect("a network");
    ranges.split_whitespace().map(parse).collect()
});

/// Time for which the addresses of the interfaces are remembered.
const REMEMBER: Duration = Duration::from_secs(1);

/// Addresses that are not public on this host: the special ranges and its own addresses.
#[derive(Debug)]
pub struct Special {
    /// Addresses of the interfaces; `None` if they are unknown, and then no address is public.
    own: Option<HashSet<IpAddr>>,
}

impl Special {
    /// Special addresses, with those that the interfaces had at most a second ago.
    pub fn of_this_host() -> Arc<Special> {
        // A network namespace belongs to a thread.
        thread_local! {
            static LAST: RefCell<Option<(Instant, Arc<Special>)>> = const { RefCell::new(None) };
        }
        let fresh = |last: &(Instant, Arc<Special>)| last.0.elapsed() < REMEMBER;
        LAST.with_borrow_mut(|last| {
            if let Some((_, special)) = last.as_ref().filter(|last| fresh(last)) {
                return special.clone();
            }
            let own = get_if_addrs().map(|all| Special::with_own(all.iter().map(Interface::ip)));
            let special = Arc::new(own.unwrap_or(Special::unknown()));
            *last = Some((Instant::now(), special.clone()));
            special
        })
    }

    /// Special addresses of a host with these own ones.
    pub fn with_own(own: impl IntoIterator<Item = IpAddr>) -> Special {
        Special {
            own: Some(own.into_iter().collect()),
        }
    }

    /// Special addresses of a host whose own ones are unknown.
    pub fn unknown() -> Special {
        Special { own: None }
    }

    /// Whether this is an address of an interface, as far as these are known.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.as_ref().is_some_and(|own| own.contains(&address))
    }

    /// Whether the address is in no special range and not an own one.
    pub fn is_public(&self, address: IpAddr) -> bool {
        self.range_of(address).is_none()
    }

    /// Whether a list with this network, which contains the address, allows the address: it is
    /// public, or the network is inside its special range, which for an own address is the address
    /// itself. The IPv4 address inside an IPv6 address must be public.
    pub fn network_allows(&self, network: &IpNet, address: IpAddr) -> bool {
        let embedded_is_public = embedded(address).is_none_or(|it| self.is_public(it.into()));
        match self.range_of(address) {
            None => true,
            Some(range) => range.contains(network) && embedded_is_public,
        }
    }

    /// Special range of an address. Loopback addresses are own ones by their range.
    fn range_of(&self, address: IpAddr) -> Option<IpNet> {
        let own = self.own.as_ref();
        if !address.is_loopback() && own.is_none_or(|own| own.contains(&address)) {
            return Some(address.into());
        }
        let mut ranges = RANGES.iter();
        ranges.find(|range| range.contains(&address)).copied()
    }
}

/// IPv4 address to which NAT64 (RFC 6052) or 6to4 (RFC 3056) would translate.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
    let octets = address.octets();
    let four =
        |at: usize| Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]);
    if octets[..12] == nat64.octets()[..12] {
        Some(four(12))
    } else if octets[..2] == [0x20, 0x02] {
        Some(four(2))
    } else {
        None
    }
}
