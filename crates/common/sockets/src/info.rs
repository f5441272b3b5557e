//! The kernel's state of a TCP or Multipath TCP socket.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// The level of Multipath TCP's socket options in Linux.
const SOL_MPTCP: libc::c_int = 284;
/// The option that returns the state of a connection and its subflows at once (Linux 6.5).
const MPTCP_FULL_INFO: libc::c_int = 4;
/// The first 248 bytes of `struct tcp_info`, up to `tcpi_total_rto_time` (Linux 6.7).
const TCP_INFO_BYTES: usize = 248;
/// `struct mptcp_subflow_info`: an id, padding, two socket addresses of 128 bytes each.
const SUBFLOW_INFO_BYTES: usize = 264;
/// `struct sockaddr_storage`.
const SOCKET_ADDRESS_BYTES: usize = 128;
/// More than a connection has: the first subflow and at most 8 others.
const MAX_SUBFLOWS: usize = 16;

/// The kernel's state of a subflow, or of a plain TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Subflow {
    /// Number of the subflow in its connection; 0 for plain TCP.
    pub id: u32,
    /// The local address; `None` for plain TCP.
    pub local: Option<SocketAddr>,
    /// The peer's address; `None` for plain TCP.
    pub remote: Option<SocketAddr>,
    /// Whether it can transmit data.
    pub open: bool,
    /// Congestion window, packets.
    pub window: u32,
    /// Smoothed round-trip time, us; 0 before it is measured.
    pub rtt_us: u32,
    /// Smallest round-trip time, us; `u32::MAX` before it is measured.
    pub min_rtt_us: u32,
    /// Packets sent that are neither acknowledged nor declared lost.
    pub in_flight: u32,
    /// Retransmission timeouts since it was established.
    pub timeouts: u16,
    /// Timeouts in a row without an acknowledgement.
    pub backoff: u8,
    /// Time since an acknowledgement was received, ms.
    pub since_ack_ms: u32,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// Largest packet that the route carries, bytes.
    pub path_mtu: u32,
    /// Payload sent, retransmissions included, bytes.
    pub bytes_sent: u64,
    /// Payload received, bytes.
    pub bytes_received: u64,
    /// Segments sent.
    pub segments_sent: u32,
    /// Segments received.
    pub segments_received: u32,
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Data that this subflow has taken and never sent, bytes.
    pub unsent: u32,
}

/// The state of a plain TCP socket.
pub fn tcp_info(socket: &impl AsRawFd) -> io::Result<Subflow> {
    let mut info = [0u8; TCP_INFO_BYTES];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(subflow(&info, 0))
}

/// `struct mptcp_full_info`; this program does not read its last field.
#[repr(C)]
struct FullInfo {
    tcp_info_kernel_bytes: u32,
    tcp_info_bytes: u32,
    subflow_info_kernel_bytes: u32,
    subflow_info_bytes: u32,
    subflows: u32,
    max_subflows: u32,
    subflow_infos: u64,
    tcp_infos: u64,
    /// `struct mptcp_info`, with room to grow.
    mptcp_info: [u64; 16],
}

/// The state of each subflow of a Multipath TCP socket; `None` if it has fallen back to plain TCP:
/// then use [`tcp_info`].
pub fn mptcp_info(socket: &impl AsRawFd) -> io::Result<Option<Vec<Subflow>>> {
    let mut tcp_infos = [[0u8; TCP_INFO_BYTES]; MAX_SUBFLOWS];
    let mut subflow_infos = [[0u8; SUBFLOW_INFO_BYTES]; MAX_SUBFLOWS];
    let mut full = FullInfo {
        tcp_info_kernel_bytes: 0,
        tcp_info_bytes: TCP_INFO_BYTES as u32,
        subflow_info_kernel_bytes: 0,
        subflow_info_bytes: SUBFLOW_INFO_BYTES as u32,
        subflows: 0,
        max_subflows: MAX_SUBFLOWS as u32,
        subflow_infos: subflow_infos.as_mut_ptr() as u64,
        tcp_infos: tcp_infos.as_mut_ptr() as u64,
        mptcp_info: [0; 16],
    };
    let mut length = size_of::<FullInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of `full`, and at most `max_subflows`
    // elements of the sizes given to each array; the arrays have that many of that size and
    // outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_MPTCP,
            MPTCP_FULL_INFO,
            (&raw mut full).cast(),
            &mut length,
        )
    };
    if result < 0 {
        return match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            error => Err(error),
        };
    }
    Ok(Some(subflows(full.subflows, &tcp_infos, &subflow_infos)))
}

/// Reads the arrays of a `struct mptcp_full_info`. The kernel counts all subflows, also those for
/// which there was no room.
fn subflows(
    count: u32,
    tcp_infos: &[[u8; TCP_INFO_BYTES]; MAX_SUBFLOWS],
    subflow_infos: &[[u8; SUBFLOW_INFO_BYTES]; MAX_SUBFLOWS],
) -> Vec<Subflow> {
    let infos = tcp_infos.iter().zip(subflow_infos).take(count as usize);
    let subflows = infos.map(|(info, names)| Subflow {
        local: address(&names[8..]),
        remote: address(&names[8 + SOCKET_ADDRESS_BYTES..]),
        ..subflow(info, word(names, 0))
    });
    subflows.collect()
}

/// Reads a `struct tcp_info` at the offsets of its fields, which are part of the kernel's ABI.
fn subflow(info: &[u8; TCP_INFO_BYTES], id: u32) -> Subflow {
    const ESTABLISHED: u8 = 1;
    const CLOSE_WAIT: u8 = 8;
    const FIN_WAIT_1: u8 = 4;
    const LAST_ACK: u8 = 9;
    let [unacked, sacked, lost, retransmitted] = [24, 28, 32, 36].map(|at| word(info, at));
    Subflow {
        id,
        local: None,
        remote: None,
        open: [ESTABLISHED, CLOSE_WAIT, FIN_WAIT_1, LAST_ACK].contains(&info[0]),
        window: word(info, 80),
        rtt_us: word(info, 68),
        min_rtt_us: word(info, 148),
        in_flight: unacked
            .saturating_add(retransmitted)
            .saturating_sub(sacked.saturating_add(lost)),
        timeouts: u16::from_ne_bytes([info[240], info[241]]),
        backoff: info[4],
        since_ack_ms: word(info, 56),
        mss: word(info, 16),
        path_mtu: word(info, 60),
        bytes_sent: long(info, 200),
        bytes_received: long(info, 128),
        segments_sent: word(info, 136),
        segments_received: word(info, 140),
        retransmitted: word(info, 100),
        unsent: word(info, 144),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(long)
}

/// Reads a `struct sockaddr_in` or `sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let address = match i32::from(family) {
        libc::AF_INET => IpAddr::from(<Ipv4Addr>::from(first::<4>(&bytes[4..]))),
        libc::AF_INET6 => IpAddr::from(<Ipv6Addr>::from(first::<16>(&bytes[8..]))).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    first.copy_from_slice(&bytes[..N]);
    first
}

/// Data that was written to a TCP or Multipath TCP socket and never sent, bytes. Of Multipath TCP
/// only what no subflow has taken: [`Subflow::unsent`] is the rest.
pub fn unsent_bytes(socket: &impl AsRawFd) -> io::Result<u64> {
    /// `SIOCOUTQNSD` of `linux/sockios.h`.
    const NOT_SENT: libc::Ioctl = 0x894B;
    bytes(socket, NOT_SENT)
}

/// Data, and the end, that a TCP or Multipath TCP socket was given and the peer has not
/// acknowledged, bytes.
pub fn unacknowledged_bytes(socket: &impl AsRawFd) -> io::Result<u64> {
    bytes(socket, libc::TIOCOUTQ)
}

/// Data that a TCP or Multipath TCP socket has received and nobody has read, bytes.
pub fn unread_bytes(socket: &impl AsRawFd) -> io::Result<u64> {
    bytes(socket, libc::FIONREAD)
}

/// Asks a socket for a number of bytes.
fn bytes(socket: &impl AsRawFd, request: libc::Ioctl) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the requests above write one `int`, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;

    /// Both ends of a connection over loopback; `None` if the kernel lacks the protocol.
    fn connection(protocol: Protocol) -> Option<(Socket, Socket)> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).ok()?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listener.bind(&any.into()).expect("loopback");
        listener.listen(1).expect("bound");
        let address = listener.local_addr().expect("bound");
        let client = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).ok()?;
        client.connect(&address).expect("listening");
        let (server, _) = listener.accept().expect("connected");
        Some((client, server))
    }

    /// A `struct tcp_info` with these words.
    fn tcp_info_with(words: &[(usize, u32)]) -> [u8; TCP_INFO_BYTES] {
        let mut info = [0; TCP_INFO_BYTES];
        for (at, word) in words {
            info[*at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        info
    }

    /// A `struct mptcp_subflow_info` with this number and these addresses.
    fn names(id: u32, local: &[u8], remote: &[u8]) -> [u8; SUBFLOW_INFO_BYTES] {
        let mut names = [0; SUBFLOW_INFO_BYTES];
        names[..4].copy_from_slice(&id.to_ne_bytes());
        names[8..8 + local.len()].copy_from_slice(local);
        names[136..136 + remote.len()].copy_from_slice(remote);
        names
    }

    /// A `struct sockaddr_in` or `sockaddr_in6` up to the address.
    fn socket_address(family: i32, between: &[u8], ip: &[u8]) -> Vec<u8> {
        let family = (family as u16).to_ne_bytes();
        [&family[..], &443_u16.to_be_bytes(), between, ip].concat()
    }

    #[test]
    fn a_count_of_subflows_that_lies_about_the_arrays_reads_only_what_is_there() {
        let infos = [[0; TCP_INFO_BYTES]; MAX_SUBFLOWS];
        let mut all = [[0; SUBFLOW_INFO_BYTES]; MAX_SUBFLOWS];
        for (id, one) in (0..).zip(&mut all) {
            *one = names(id, &[], &[]);
        }
        for (count, read) in [(0, 0), (1, 1), (16, 16), (17, 16), (u32::MAX, 16)] {
            let ids: Vec<u32> = subflows(count, &infos, &all)
                .iter()
                .map(|it| it.id)
                .collect();
            assert_eq!(ids, Vec::from_iter(0..read), "{count}");
        }
    }

    #[test]
    fn addresses_of_each_family_and_of_none_are_read() {
        let ipv4 = socket_address(libc::AF_INET, &[], &[192, 0, 2, 1]);
        let mapped = [&[0; 10][..], &[255, 255], &[192, 0, 2, 1]].concat();
        let mapped = socket_address(libc::AF_INET6, &[0; 4], &mapped);
        let ipv6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[7]].concat();
        let ipv6 = socket_address(libc::AF_INET6, &[0; 4], &ipv6);
        let unix = socket_address(libc::AF_UNIX, &[], b"/run");
        let read = |bytes: &[u8]| {
            let mut infos = [[0; SUBFLOW_INFO_BYTES]; MAX_SUBFLOWS];
            infos[0] = names(5, bytes, &ipv4);
            let one = subflows(1, &[[255; TCP_INFO_BYTES]; MAX_SUBFLOWS], &infos)[0];
            assert_eq!(one.id, 5);
            assert_eq!(one.remote, "192.0.2.1:443".parse().ok());
            one.local.map(|address| address.to_string())
        };
        assert_eq!(read(&ipv4).as_deref(), Some("192.0.2.1:443"));
        assert_eq!(read(&mapped).as_deref(), Some("192.0.2.1:443"));
        assert_eq!(read(&ipv6).as_deref(), Some("[2001:db8::7]:443"));
        assert_eq!((read(&unix), read(&[])), (None, None));
        assert_eq!(read(&[255; SOCKET_ADDRESS_BYTES]), None);
    }

    /// An older kernel writes less; fields that it does not write are 0.
    #[test]
    fn an_answer_that_is_short_or_absurd_is_read() {
        let short = subflow(&tcp_info_with(&[(0, 1), (16, 1448), (80, 10)]), 0);
        assert!(short.open && short.mss == 1448 && short.window == 10);
        assert_eq!(
            (short.min_rtt_us, short.timeouts, short.bytes_sent),
            (0, 0, 0)
        );
        let absurd = subflow(&[255; TCP_INFO_BYTES], 7);
        assert!(!absurd.open && absurd.id == 7);
        assert_eq!(absurd.bytes_sent, u64::MAX);
        // More is in flight than fits; more has left the network than was in it.
        assert_eq!(absurd.in_flight, 0);
        let many = tcp_info_with(&[(24, u32::MAX), (36, u32::MAX), (28, 1), (32, 1)]);
        assert_eq!(subflow(&many, 0).in_flight, u32::MAX - 2);
        let gone = tcp_info_with(&[(24, 1), (28, u32::MAX), (32, u32::MAX)]);
        assert_eq!(subflow(&gone, 0).in_flight, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a socket")]
    fn the_state_of_plain_tcp() {
        let (client, server) = connection(Protocol::TCP).expect("TCP");
        (&client).write_all(&[0; 1000]).expect("connected");
        (&server).read_exact(&mut [0; 1000]).expect("connected");
        let [sent, received] = [&client, &server].map(|end| tcp_info(end).expect("a state"));
        assert!(sent.open && received.open);
        assert_eq!((sent.bytes_sent, received.bytes_received), (1000, 1000));
        assert_eq!((sent.local, sent.remote), (None, None));
        assert!(sent.window > 0 && sent.min_rtt_us <= 1_000_000, "{sent:?}");
        assert_eq!(unsent_bytes(&client).expect("a count"), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a socket")]
    fn what_was_never_sent_is_counted() {
        let (client, _server) = connection(Protocol::TCP).expect("TCP");
        client.set_nonblocking(true).expect("a socket");
        let mut written = 0;
        while let Ok(bytes) = (&client).write(&[0; 10_000]) {
            written += bytes as u64;
        }
        // Nobody reads: the peer's buffer is full, and part of what was written never left.
        let unsent = unsent_bytes(&client).expect("a count");
        assert!(unsent > 0 && unsent < written, "{unsent} of {written}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "a socket")]
    fn the_state_of_a_multipath_connection_has_addresses() {
        let Some((client, server)) = connection(Protocol::MPTCP) else {
            return println!("skipped: this kernel has no Multipath TCP");
        };
        (&client).write_all(&[0; 1000]).expect("connected");
        (&server).read_exact(&mut [0; 1000]).expect("connected");
        let subflows = mptcp_info(&client).expect("a state").expect("no fallback");
        let [only] = subflows.as_slice() else {
            panic!("{subflows:?}");
        };
        assert_eq!(only.local, client.local_addr().expect("bound").as_socket());
        assert_eq!(
            only.remote,
            client.peer_addr().expect("connected").as_socket()
        );
        assert!(only.open && only.bytes_sent == 1000, "{only:?}");
    }
}
