//! Identity of a client: what its connections, datagrams and queries count for.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv6Net};
use socket2::{Domain, Protocol, Socket, Type};

use crate::config::destination::Special;
use crate::config::services::Service;

/// A client of near.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientId {
    /// A user of this host.
    User(u32),
    /// Programs of this host of which the user is unknown.
    Local,
    /// An address.
    Host(IpAddr),
    /// The 64 bits that an IPv6 host cannot choose, where `clients` is no local network.
    Network(Ipv6Addr),
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientId::User(user) => write!(f, "user {user}"),
            ClientId::Local => f.write_str("this host"),
            ClientId::Host(address) => address.fmt(f),
            ClientId::Network(network) => write!(f, "{network}/64"),
        }
    }
}

/// Shortest prefix of a local IPv6 network, that of unique local addresses (RFC 4193).
const LOCAL: u8 = 7;

/// The client of a service that sends from one address to another, by this protocol.
pub fn identify(
    service: &Service,
    protocol: Protocol,
    from: SocketAddr,
    to: SocketAddr,
) -> ClientId {
    let ip = from.ip().to_canonical();
    if ip.is_loopback() || Special::of_this_host().is_own(ip) {
        return match user(protocol, from, to) {
            Ok(Some(user)) => ClientId::User(user),
            Ok(None) | Err(_) => ClientId::Local,
        };
    }
    let mut networks = service.clients.iter();
    let is_local = |it: &IpNet| it.prefix_len() >= LOCAL && it.contains(&ip);
    match ip {
        IpAddr::V6(address) if !networks.any(is_local) => {
            let network = Ipv6Net::new(address, 64).expect("in range");
            ClientId::Network(network.network())
        }
        _ => ClientId::Host(ip),
    }
}

/// `SOCK_DIAG_BY_FAMILY` (sock_diag(7)).
const BY_FAMILY: u16 = 20;

/// Length of the head of a netlink message, bytes.
const HEAD: usize = 16;

/// Owner of the socket of this host that sends from one address to another; `None` if it is closed.
#[cfg(target_os = "linux")]
fn user(protocol: Protocol, from: SocketAddr, to: SocketAddr) -> io::Result<Option<u32>> {
    let [from, to] = [from, to].map(crate::socket::canonical);
    let to = match to.ip().is_unspecified() {
        true => SocketAddr::new(from.ip(), to.port()),
        false => to,
    };
    // For UDP the kernel takes the two ends the other way round (`udp_dump_one`).
    let ends = match protocol {
        Protocol::UDP => [to, from],
        _ => [from, to],
    };
    let family = Domain::for_address(from);
    let mut request = Vec::new();
    request.extend(72_u32.to_ne_bytes());
    request.extend([BY_FAMILY, 1].map(u16::to_ne_bytes).as_flattened());
    request.resize(HEAD, 0);
    let [family, protocol] = [i32::from(family), i32::from(protocol)];
    request.extend([family, protocol].map(|it| u8::try_from(it).unwrap_or(0)));
    request.extend([0, 0]);
    request.extend(u32::MAX.to_ne_bytes()); // in any state
    ends.iter()
        .for_each(|it| request.extend(it.port().to_be_bytes()));
    for end in ends {
        let mut address = match end.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        address.resize(16, 0);
        request.extend(address);
    }
    request.extend(0_u32.to_ne_bytes()); // by any interface
    request.extend([0xff; 8]); // no cookie
    let (domain, sock_diag) = (Domain::from(libc::AF_NETLINK), Protocol::from(4));
    let mut socket = Socket::new(domain, Type::DGRAM, Some(sock_diag))?;
    socket.set_nonblocking(true)?;
    socket.write_all(&request)?;
    let mut answer = [0; 1024];
    let read = socket.read(&mut answer)?;
    Ok(owner(&answer[..read], from.port()))
}

#[cfg(not(target_os = "linux"))]
fn user(_: Protocol, _: SocketAddr, _: SocketAddr) -> io::Result<Option<u32>> {
    Ok(None)
}

/// Owner in an answer (`struct inet_diag_msg`) about a socket of this port that a process has.
fn owner(answer: &[u8], port: u16) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let is_socket = answer.get(4..6)? == BY_FAMILY.to_ne_bytes();
    let ports = answer.get(HEAD + 4..HEAD + 6)?;
    let (user, inode) = (word(HEAD + 64)?, word(HEAD + 68)?);
    (is_socket && ports == port.to_be_bytes() && inode != 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use anabranch_scenario::Key;

    use super::*;
    use crate::config::services::ServiceKind;

    fn service(clients: &[&str]) -> Service {
        Service {
            key: Key::root("socks"),
            kind: ServiceKind::Socks,
            listen: ([0; 4], 1).into(),
            clients: clients
                .iter()
                .map(|it| it.parse().expect("a network"))
                .collect(),
        }
    }

    #[test]
    fn hosts_of_a_local_network_are_told_apart_and_those_of_the_internet_by_64_bits() {
        let client = |clients: &[&str], from: &str| {
            let from = SocketAddr::new(from.parse().expect("an address"), 1);
            identify(&service(clients), Protocol::TCP, from, from).to_string()
        };
        let lan = ["192.0.2.0/24", "fd09::/64", "2001:db8:1::/48"];
        assert_eq!(client(&lan, "192.0.2.7"), "192.0.2.7");
        assert_eq!(client(&lan, "::ffff:192.0.2.7"), "192.0.2.7");
        for address in ["fd09::2", "fd09::3", "2001:db8:1::9"] {
            assert_eq!(client(&lan, address), address);
        }
        assert_eq!(client(&["::/0"], "2001:db8:1:2:3::9"), "2001:db8:1:2::/64");
        assert_eq!(
            client(&["2000::/3"], "2001:db8:1:2:4::9"),
            "2001:db8:1:2::/64"
        );
    }

    #[test]
    fn a_program_of_this_host_is_its_user() {
        let own = rustix::process::geteuid().as_raw();
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else {
                continue;
            };
            let to = listener.local_addr().expect("bound");
            let stream = TcpStream::connect(to).expect("connected");
            let from = stream.local_addr().expect("bound");
            assert_eq!(user(Protocol::TCP, from, to).expect("asked"), Some(own));
            let server = UdpSocket::bind(listen).expect("a port");
            let to = server.local_addr().expect("bound");
            let socket = UdpSocket::bind(listen).expect("a port");
            let from = socket.local_addr().expect("bound");
            assert_eq!(user(Protocol::UDP, from, to).expect("asked"), Some(own));
            socket.connect(to).expect("connected");
            assert_eq!(user(Protocol::UDP, from, to).expect("asked"), Some(own));
            drop(socket);
            assert!(!matches!(user(Protocol::UDP, from, to), Ok(Some(_))));
            // A program that has left: its socket has no owner any more.
            drop(stream);
            assert!(!matches!(user(Protocol::TCP, from, to), Ok(Some(_))));
        }
    }
}
