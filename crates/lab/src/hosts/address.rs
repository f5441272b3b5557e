//! Addresses of the lab's hosts: 10.a.b.p is path p - 1 of user 256 a + b, and the server is
//! 10.255.255.254. They exist in the lab's own namespaces only.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The host that every user sends to.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 254);

/// Where the server's receivers listen.
pub const LISTENER: SocketAddrV4 = SocketAddrV4::new(SERVER, 5001);

/// Most users of a lab: 10.255.x.x is the server's.
pub const MOST_USERS: usize = 255 << 8;

/// Most paths of a user: the first one and the 8 that the kernel's path manager adds to it.
pub const MOST_PATHS: usize = 9;

/// The address of a path at its user's end.
pub fn of_path(user: usize, path: usize) -> Ipv4Addr {
    debug_assert!(user < MOST_USERS && path < MOST_PATHS);
    Ipv4Addr::new(10, (user >> 8) as u8, user as u8, path as u8 + 1)
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
    fn an_address_names_its_user_and_path() {
        for user in [0, 1, 255, 256, MOST_USERS - 1] {
            for path in 0..MOST_PATHS {
                assert_eq!(path_of(of_path(user, path)), Some((user, path)));
            }
        }
        assert_eq!(of_path(258, 1), Ipv4Addr::new(10, 1, 2, 2));
    }

    #[test]
    fn the_server_and_strangers_are_no_users() {
        for stranger in [SERVER, Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::LOCALHOST] {
            assert_eq!(path_of(stranger), None);
        }
    }
}
