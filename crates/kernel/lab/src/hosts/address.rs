//! Addresses of the hosts: 10.a.b.p is path p - 1 of user 256 a + b, and the server is
//! 10.255.255.254. With IPv6 they are fd00::10.a.b.p and fd00::10.255.255.254. They exist only in
//! the lab's own namespaces.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};

/// The server, which every user sends to.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 254);

/// The address that the server listens on.
pub const LISTENER: SocketAddrV4 = SocketAddrV4::new(SERVER, 5001);

/// The largest number of users: 10.255.x.x is reserved for the server.
pub const MAX_USERS: usize = 255 << 8;

/// The largest number of paths of a user: the first, and 8 that the kernel's path manager adds.
pub const MAX_PATHS: usize = 9;

/// The user's address on a path.
pub fn of_path(user: usize, path: usize) -> Ipv4Addr {
    debug_assert!(user < MAX_USERS && path < MAX_PATHS);
    Ipv4Addr::new(10, (user >> 8) as u8, user as u8, path as u8 + 1)
}

/// All IPv6 addresses of hosts.
pub const IPV6_HOSTS: &str = "fd00::/96";

/// The same host's IPv6 address.
pub fn to_ipv6(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low)
}

/// The same host's IPv4 address; `None` if it is no host's address.
pub fn from_ipv6(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = address.octets()[12..].try_into().map(<[u8; 4]>::into);
    low.ok().filter(|&low| to_ipv6(low) == address)
}

/// The user and the path that an address belongs to.
pub fn path_of(address: Ipv4Addr) -> Option<(usize, usize)> {
    match address.octets() {
        [10, high, low, path] if high < 255 && path > 0 => Some((
            usize::from(high) << 8 | usize::from(low),
            usize::from(path) - 1,
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_identifies_its_user_and_path() {
        for user in [0, 1, 255, 256, MAX_USERS - 1] {
            for path in 0..MAX_PATHS {
                let address = of_path(user, path);
                assert_eq!(path_of(address), Some((user, path)));
                assert_eq!(from_ipv6(to_ipv6(address)), Some(address));
            }
        }
        assert_eq!(of_path(258, 1), Ipv4Addr::new(10, 1, 2, 2));
    }

    #[test]
    fn other_addresses_belong_to_no_user() {
        for other in [SERVER, Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::LOCALHOST] {
            assert_eq!(path_of(other), None);
        }
        for other in [Ipv6Addr::LOCALHOST, "ff02::16".parse().unwrap()] {
            assert_eq!(from_ipv6(other), None);
        }
    }
}
