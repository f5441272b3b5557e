//! Addresses that are not public: the special-purpose registries of IANA (RFC 6890), multicast, and
//! IPv6 addresses with an IPv4 address inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

/// The special ranges. IPv4-mapped addresses are missing, because they are converted before.
static RANGES: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let ranges = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 \
        192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 \
        203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 \
        ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 \
        5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8";
    let parse = |text: &str| text.parse().expect("a network");
    ranges.split_whitespace().map(parse).collect()
});

/// Whether the address is in none of the special ranges.
pub fn is_public(address: IpAddr) -> bool {
    range_of(address).is_none()
}

/// Whether a list with this network, which contains the address, allows it: it is public, or the
/// network is inside its special range. The IPv4 address inside an IPv6 address must be public.
pub fn network_allows(network: &IpNet, address: IpAddr) -> bool {
    let embedded_is_public = embedded(address).is_none_or(|inner| is_public(inner.into()));
    match range_of(address) {
        None => true,
        Some(range) => range.contains(network) && embedded_is_public,
    }
}

fn range_of(address: IpAddr) -> Option<IpNet> {
    let mut ranges = RANGES.iter();
    ranges.find(|range| range.contains(&address)).copied()
}

/// The IPv4 address to which NAT64 (RFC 6052) or 6to4 (RFC 3056) would translate.
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
