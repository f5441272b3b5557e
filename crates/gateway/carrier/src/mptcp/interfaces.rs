//! Addresses of this host's interfaces.

use std::net::IpAddr;

use if_addrs::get_if_addrs;

/// Interfaces and their addresses.
fn all() -> impl Iterator<Item = (String, IpAddr)> {
    let found = get_if_addrs().into_iter().flatten();
    found.map(|found| {
        let address = found.ip();
        (found.name, address)
    })
}

/// The first address of an interface that can reach the peer's family.
pub fn address_of(interface: &str, ipv4: bool) -> Option<IpAddr> {
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(_) => ipv4,
        IpAddr::V6(v6) => !ipv4 && !v6.is_unicast_link_local(),
    };
    let own = all().filter(|(name, _)| name == interface);
    own.map(|(_, address)| address).find(usable)
}

/// The interface that has this address.
pub fn interface_of(address: IpAddr) -> Option<String> {
    let found = all().find(|(_, other)| *other == address);
    found.map(|(name, _)| name)
}
